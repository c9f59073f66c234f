/* Into which chunks the node's memory is cut. Read by memcached's options (main.cc) and by the
 * allocation of items (items.c).
 *
 * An item of up to SLAB_SINGLE_MAX bytes is one chunk of the next larger size. A larger one is a
 * chain: its first chunk has the headers, the key and what is left over of the value, the others
 * are powers of two from SLAB_CHAIN_MIN to SLAB_CHAIN_MAX, filled to the last byte. So only one
 * chunk of an item is rounded up, and shards of all lengths share six sizes. */
#ifndef ELASTRIPE_SHIM_SLAB_SIZES_H
#define ELASTRIPE_SHIM_SLAB_SIZES_H

#define SLAB_CHAIN_MIN 2048
#define SLAB_CHAIN_MAX 65536
/* At least the longest headers and key (348 bytes) and a value that just misses SLAB_CHAIN_MIN. */
#define SLAB_SINGLE_MAX 2424

#ifdef __cplusplus
#include <string>

namespace elastripe::node {

// The bytes of a page: all its chunks have one size. A 1024th of the memory, from 64 KiB to 1 MiB,
// since every size in use has a page that is not full.
unsigned slab_page_bytes(int memory_mb);

// The chunk sizes but the largest, as memcached's option slab_sizes wants them: "96-112-...".
std::string slab_sizes();

}  // namespace elastripe::node
#endif
#endif
