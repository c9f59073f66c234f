/* See items.h. Chunked items (values above slab_chunk_max): the chunks hang off a header item in
 * order; the first, inside the header item, holds no data. */
#include "memcached.h"

#include <string.h>

#include "server-patches/shim/items.h"

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

/* Chains data chunks until `bytes` fit. */
static bool allocate_chunks(item *it, size_t bytes) {
    item_chunk *chunk = (item_chunk *)ITEM_schunk(it);
    while (bytes > 0) {
        chunk = do_item_alloc_chunk(chunk, bytes);
        if (chunk == NULL)
            return false;
        chunk->used = bytes < (size_t)chunk->size ? (int)bytes : chunk->size;
        bytes -= chunk->used;
    }
    return true;
}

void *items_allocate(const char *key, size_t key_bytes, size_t value_bytes) {
    const size_t bytes = value_bytes + TAIL_BYTES;
    item *it = do_item_alloc((char *)key, key_bytes, 0, 0, bytes);
    if (it == NULL)
        return NULL;
    if ((it->it_flags & ITEM_CHUNKED) && !allocate_chunks(it, bytes)) {
        item_remove(it);
        return NULL;
    }
    items_write(it, value_bytes, "\r\n", TAIL_BYTES);
    return it;
}

void items_link(void *item_) {
    item *it = item_;
    const uint32_t hv = hash_of(it);
    item_lock(hv);
    item *old = assoc_find(ITEM_key(it), it->nkey, hv);
    if (old != NULL)
        do_item_replace(old, it, hv);
    else
        do_item_link(it, hv);
    item_unlock(hv);
}

bool items_remove(const char *key, size_t key_bytes) {
    const uint32_t hv = hash(key, key_bytes);
    item_lock(hv);
    item *it = assoc_find(key, key_bytes, hv);
    if (it != NULL)
        do_item_unlink(it, hv);
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

uint64_t items_buckets(void) {
    return (uint64_t)1 << hashpower;
}

void items_visit_bucket(uint64_t bucket, void (*add)(void *item, void *context), void *context) {
    item_lock((uint32_t)bucket);
    for (item *it = assoc_bucket(bucket); it != NULL; it = it->h_next) {
        refcount_incr(it);
        add(it, context);
    }
    item_unlock((uint32_t)bucket);
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
    const size_t header_bytes = sizeof(item) + key_bytes + 1;
    const size_t bytes = value_bytes + TAIL_BYTES;
    const size_t chunk_max = settings.slab_chunk_size_max;
    if (header_bytes + bytes <= chunk_max)
        return pages_for(header_bytes + bytes, 1);
    const size_t per_chunk = chunk_max - sizeof(item_chunk);
    const size_t rest = bytes % per_chunk;
    return pages_for(header_bytes + sizeof(item_chunk), 1) + pages_for(chunk_max, bytes / per_chunk) +
           (rest > 0 ? pages_for(rest + sizeof(item_chunk), 1) : 0);
}

bool pages_start_move(int from_class) {
    return slabs_reassign(from_class, SLAB_GLOBAL_PAGE_POOL) == REASSIGN_OK;
}

bool pages_is_moving(void) {
    return slab_rebalance_signal != 0;
}
