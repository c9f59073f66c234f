/* Memcached's items, hash table and slab pages for the C++ side of the shim: a few functions over
 * opaque pointers. Any thread, no lock held; each takes the item lock of its key, and only that. */
#ifndef ELASTRIPE_SHIM_ITEMS_H
#define ELASTRIPE_SHIM_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reference is counted for the caller by items_find, items_allocate and items_of_bucket. */
void* items_find(const char* key, size_t key_bytes);
/* The same; tells of the uses before, and notes this one if it counts. */
typedef struct {
  bool was_used;
  uint32_t idle_s;
} items_use;
void* items_find_used(const char* key, size_t key_bytes, bool counts, items_use* before);
typedef enum {
  ITEMS_FROM_PAGES,  /* chunks of the right sizes, from new pages within the limit if need be */
  ITEMS_ANY_CHUNK,   /* whatever free chunk is large enough, of pages that are in use */
  ITEMS_ABOVE_LIMIT, /* as ITEMS_FROM_PAGES, beyond the limit if need be */
} items_source;
/* With all its chunks; NULL if there is no room. Nothing is evicted. */
void* items_allocate(const char* key, size_t key_bytes, size_t value_bytes, items_source source);
/* In place of the linked item of the same key, if there is one, and with its uses if it stays. */
void items_link(void* item, bool stays);
bool items_remove(const char* key, size_t key_bytes);
void items_release(void* item);

const char* items_key(const void* item, size_t* key_bytes);
size_t items_value_bytes(const void* item);
void items_read(const void* item, size_t offset, void* out, size_t bytes);
/* Where the value lies; NULL if it is in several chunks. */
const char* items_value(const void* item);
void items_write(void* item, size_t offset, const void* in, size_t bytes);
/* Whether only the caller refers to the item, and it is linked. */
bool items_is_unshared(const void* item);

uint64_t items_buckets(void);
/* Buckets lie in stretches of so many. Whether none of a bucket's stretch has an item, without any
 * lock: so a walk passes over what is empty. */
#define ITEMS_STRETCH 64
bool items_stretch_is_empty(uint64_t bucket);
/* How many items the bucket has. If `items` has room for so many, they are there, each with a
 * reference; if not, none is. */
size_t items_of_bucket(uint64_t bucket, void** items, size_t room);

/* Slab pages. */
typedef struct {
  uint64_t pages;
  uint64_t free_chunks;
  uint64_t chunks_per_page; /* 0: the class is not in use */
} pages_class;
#define PAGES_CLASSES 64
/* Class 0 is the pool of pages that belong to no class. */
void pages_classes(pages_class classes[PAGES_CLASSES]);
uint64_t pages_bytes_each(void);
uint64_t pages_limit_bytes(void);
/* How many pages the slab classes would have to grow by to take such an item. */
size_t pages_needed(size_t key_bytes, size_t value_bytes);
typedef enum { PAGES_MOVE_STARTED, PAGES_MOVER_BUSY, PAGES_NOTHING_TO_MOVE } pages_move;
/* Starts to move one page of the class into the pool. */
pages_move pages_start_move(int from_class);
bool pages_is_moving(void);
/* How many have reached the pool since the start. */
uint64_t pages_moved(void);

#ifdef __cplusplus
}
#endif
#endif
