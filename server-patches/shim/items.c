/* See items.h. A chain is what memcached calls a chunked item: its first chunk is inside the header
 * item, the others hang off it in the order of the value. */
#include "memcached.h"

#include <string.h>

#include "server-patches/shim/items.h"
#include "server-patches/shim/slab_sizes.h"

#define TAIL_BYTES 2 /* "\r\n" ends every value in memcached */

static uint32_t hash_of(const item *it) {
    return hash(ITEM_key(it), it->nkey);
}

void *items_find(const char *key, size_t key_bytes) {
    const uint32_t hv = hash(key, key_bytes);
    item_lock(hv);
    item *it = assoc_find(key, key_bytes, hv);
    if (it != NULL)
        refcount_incr(it);
    item_unlock(hv);
    return it;
}

/* As memcached's own commands do: ITEM_FETCHED and `time`, under the item lock. */
void *items_find_used(const char *key, size_t key_bytes, bool counts, items_use *before) {
    const uint32_t hv = hash(key, key_bytes);
    item_lock(hv);
    item *it = assoc_find(key, key_bytes, hv);
    if (it != NULL) {
        const rel_time_t now = current_time;
        refcount_incr(it);
        before->was_used = (it->it_flags & ITEM_FETCHED) != 0;
        before->idle_s = now > it->time ? now - it->time : 0;
        if (counts && !before->was_used)
            it->it_flags |= ITEM_FETCHED;
        if (counts && it->time != now)
            it->time = now;
    }
    item_unlock(hv);
    return it;
}

/* How an item is cut (slab_sizes.h). */
#define CHAIN_SIZES 6
struct cut {
    size_t first_bytes;               /* of the first chunk, with the item's header and key */
    size_t first_value_bytes;         /* of the value in it */
    size_t chunk_bytes[CHAIN_SIZES];  /* largest first */
    size_t chunks[CHAIN_SIZES];       /* how many of these follow */
    bool is_chain;
};

static struct cut cut_item(size_t key_bytes, size_t bytes) {
    struct cut cut = {.first_bytes = sizeof(item) + key_bytes + 1, .first_value_bytes = bytes};
    if (cut.first_bytes + bytes > SLAB_SINGLE_MAX) {
        size_t size = SLAB_CHAIN_MAX;
        cut.is_chain = true;
        cut.first_bytes += sizeof(item_chunk);
        for (int i = 0; i < CHAIN_SIZES; i++, size /= 2) {
            const size_t holds = size - sizeof(item_chunk);
            cut.chunk_bytes[i] = size;
            cut.chunks[i] = cut.first_value_bytes / holds;
            cut.first_value_bytes %= holds;
        }
    }
    cut.first_bytes += cut.first_value_bytes;
    return cut;
}

/* As slabs_alloc, and tells the class. */
static void *allocate_chunk(size_t bytes, items_source source, unsigned int *id) {
    *id = slabs_clsid(bytes);
    if (source != ITEMS_ANY_CHUNK)
        return slabs_alloc(bytes, *id, source == ITEMS_ABOVE_LIMIT ? SLABS_ALLOC_ABOVE_LIMIT : 0);
    for (const unsigned int largest = slabs_clsid(SLAB_CHAIN_MAX); *id <= largest; ++*id) {
        void *chunk = slabs_alloc(bytes, *id, SLABS_ALLOC_NO_NEWPAGE);
        if (chunk != NULL)
            return chunk;
    }
    return NULL;
}

static item_chunk *append_chunk(item_chunk *last, size_t bytes, items_source source) {
    unsigned int id;
    item_chunk *chunk = allocate_chunk(bytes, source, &id);
    if (chunk == NULL)
        return NULL;
    slabs_mlock(); /* the page mover looks at flags and links under this lock */
    chunk->head = last->head;
    chunk->prev = last;
    chunk->next = NULL;
    chunk->size = bytes - sizeof(item_chunk);
    chunk->used = chunk->size;
    chunk->slabs_clsid = id;
    chunk->it_flags |= ITEM_CHUNK;
    last->next = chunk;
    slabs_munlock();
    return chunk;
}

/* What do_item_alloc makes, but for a first chunk that holds a part of the value, and without a try
 * to evict. */
void *items_allocate(const char *key, size_t key_bytes, size_t value_bytes, items_source source) {
    const size_t bytes = value_bytes + TAIL_BYTES;
    const struct cut cut = cut_item(key_bytes, bytes);
    unsigned int id;
    item *it = allocate_chunk(cut.first_bytes, source, &id);
    if (it == NULL)
        return NULL;
    it->next = it->prev = it->h_next = NULL;
    it->slabs_clsid = id | COLD_LRU;
    it->nkey = key_bytes;
    it->nbytes = bytes;
    it->exptime = 0;
    memcpy(ITEM_key(it), key, key_bytes);
    if (cut.is_chain) {
        it->it_flags |= ITEM_CHUNKED;
        item_chunk *last = (item_chunk *)ITEM_schunk(it);
        last->head = it;
        last->prev = last->next = NULL;
        last->size = last->used = cut.first_value_bytes;
        last->orig_clsid = id;
        for (int i = 0; i < CHAIN_SIZES; i++) {
            for (size_t n = 0; n < cut.chunks[i]; n++) {
                last = append_chunk(last, cut.chunk_bytes[i], source);
                if (last == NULL) {
                    item_remove(it);
                    return NULL;
                }
            }
        }
    }
    items_write(it, value_bytes, "\r\n", TAIL_BYTES);
    return it;
}

/* Linked items of each stretch: never fewer than there are, so counted before the link and after the
 * unlink. For the largest table that a node has; of a smaller one the rest is never touched. */
#define STRETCHES ((1u << 27) / ITEMS_STRETCH)
static uint32_t stretch_items[STRETCHES];

static uint32_t *items_beside(uint64_t bucket) {
    return &stretch_items[(bucket & (items_buckets() - 1)) / ITEMS_STRETCH % STRETCHES];
}

bool items_stretch_is_empty(uint64_t bucket) {
    return __atomic_load_n(items_beside(bucket), __ATOMIC_SEQ_CST) == 0;
}

void items_link(void *item_, bool stays) {
    item *it = item_;
    const uint32_t hv = hash_of(it);
    item_lock(hv);
    item *old = assoc_find(ITEM_key(it), it->nkey, hv);
    if (old != NULL) {
        const rel_time_t used = old->time;
        const int was_used = old->it_flags & ITEM_FETCHED;
        do_item_replace(old, it, hv);
        if (stays) {
            it->time = used;
            it->it_flags |= was_used;
        }
    } else {
        __atomic_add_fetch(items_beside(hv), 1, __ATOMIC_SEQ_CST);
        do_item_link(it, hv);
    }
    item_unlock(hv);
}

bool items_remove(const char *key, size_t key_bytes) {
    const uint32_t hv = hash(key, key_bytes);
    item_lock(hv);
    item *it = assoc_find(key, key_bytes, hv);
    if (it != NULL) {
        do_item_unlink(it, hv);
        __atomic_sub_fetch(items_beside(hv), 1, __ATOMIC_SEQ_CST);
    }
    item_unlock(hv);
    return it != NULL;
}

void items_release(void *it) {
    item_remove(it);
}

const char *items_key(const void *item_, size_t *key_bytes) {
    const item *it = item_;
    *key_bytes = it->nkey;
    return ITEM_key(it);
}

size_t items_value_bytes(const void *it) {
    return ((const item *)it)->nbytes - TAIL_BYTES;
}

/* Copies between `flat` and the item's bytes from `offset` on. */
static void copy(item *it, size_t offset, char *flat, size_t bytes, bool into_item) {
    if (bytes == 0) return; /* `flat` may be null then */
    if ((it->it_flags & ITEM_CHUNKED) == 0) {
        char *data = ITEM_data(it) + offset;
        memcpy(into_item ? data : flat, into_item ? flat : data, bytes);
        return;
    }
    for (item_chunk *chunk = (item_chunk *)ITEM_schunk(it); bytes > 0; chunk = chunk->next) {
        const size_t used = chunk->used;
        if (offset >= used) {
            offset -= used;
            continue;
        }
        const size_t part = bytes < used - offset ? bytes : used - offset;
        char *data = chunk->data + offset;
        memcpy(into_item ? data : flat, into_item ? flat : data, part);
        flat += part;
        bytes -= part;
        offset = 0;
    }
}

void items_read(const void *it, size_t offset, void *out, size_t bytes) {
    copy((item *)it, offset, out, bytes, false);
}

const char *items_value(const void *item_) {
    const item *it = item_;
    return (it->it_flags & ITEM_CHUNKED) == 0 ? ITEM_data(it) : NULL;
}

void items_write(void *it, size_t offset, const void *in, size_t bytes) {
    copy(it, offset, (char *)in, bytes, true);
}

bool items_is_unshared(const void *item_) {
    const item *it = item_;
    const uint32_t hv = hash_of(it);
    item_lock(hv);
    const bool unshared = it->refcount == 2 && (it->it_flags & ITEM_LINKED) != 0;
    item_unlock(hv);
    return unshared;
}

uint64_t items_buckets(void) {
    return (uint64_t)1 << hashpower;
}

size_t items_of_bucket(uint64_t bucket, void **items, size_t room) {
    size_t count = 0;
    item_lock((uint32_t)bucket);
    for (item *it = assoc_bucket(bucket); it != NULL; it = it->h_next)
        count++;
    if (count <= room) {
        for (item *it = assoc_bucket(bucket); it != NULL; it = it->h_next) {
            refcount_incr(it);
            *items++ = it;
        }
    }
    item_unlock((uint32_t)bucket);
    return count;
}

void pages_classes(pages_class classes[PAGES_CLASSES]) {
    slab_stats_automove stats[MAX_NUMBER_OF_SLAB_CLASSES];
    fill_slab_stats_automove(stats);
    for (int i = 0; i < PAGES_CLASSES; i++) {
        pages_class none = {0, 0, 0};
        classes[i] = none;
        if (i < MAX_NUMBER_OF_SLAB_CLASSES) {
            classes[i].pages = stats[i].total_pages;
            classes[i].free_chunks = stats[i].free_chunks;
            classes[i].chunks_per_page = stats[i].chunks_per_page;
        }
    }
}

uint64_t pages_bytes_each(void) {
    return settings.slab_page_size;
}

uint64_t pages_limit_bytes(void) {
    return settings.maxbytes;
}

static size_t pages_for(size_t item_bytes, size_t count) {
    unsigned int per_page = 1;
    const unsigned int id = slabs_clsid(item_bytes);
    const size_t free_chunks = slabs_available_chunks(id, NULL, &per_page);
    return count <= free_chunks ? 0 : (count - free_chunks + per_page - 1) / per_page;
}

size_t pages_needed(size_t key_bytes, size_t value_bytes) {
    const struct cut cut = cut_item(key_bytes, value_bytes + TAIL_BYTES);
    size_t pages = pages_for(cut.first_bytes, 1);
    for (int i = 0; i < CHAIN_SIZES; i++) {
        if (cut.chunks[i] > 0)
            pages += pages_for(cut.chunk_bytes[i], cut.chunks[i]);
    }
    return pages;
}

pages_move pages_start_move(int from_class) {
    switch (slabs_reassign(from_class, SLAB_GLOBAL_PAGE_POOL)) {
    case REASSIGN_OK:
        return PAGES_MOVE_STARTED;
    case REASSIGN_RUNNING:
        return PAGES_MOVER_BUSY;
    default:
        return PAGES_NOTHING_TO_MOVE;
    }
}

bool pages_is_moving(void) {
    slabs_mlock(); /* under which the mover begins and ends */
    const bool signalled = slab_rebalance_signal != 0;
    slabs_munlock();
    if (signalled)
        return true;
    STATS_LOCK(); /* under which the mover's last step counts the page */
    const bool running = stats_state.slab_reassign_running;
    STATS_UNLOCK();
    return running;
}

uint64_t pages_moved(void) {
    STATS_LOCK();
    const uint64_t moved = stats.slabs_moved;
    STATS_UNLOCK();
    return moved;
}
