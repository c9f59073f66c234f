/* The process-wide node: the engine over memcached's items, its threads, and the frames that it
 * serves. The C side of the shim (hooks.c) sees the engine only through this header, and the C++
 * side sees nothing of memcached. */
#ifndef ELASTRIPE_SHIM_NODE_H
#define ELASTRIPE_SHIM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NODE_HEADER_BYTES 64
#define NODE_REASON_BYTES 200
#define NODE_REPLY_PARTS 3

/* How many units update logs have for new updates; 0: by the node's memory. Set before node_start. */
extern unsigned elastripe_log_units;

/* Of a key, for the hash table: under a secret of this process, so that nobody can choose keys that
 * share a bucket. After node_start. */
uint32_t node_hash(const void* key, size_t bytes);

/* Main thread, once each, in this order; frames are served in between. `on_tick` is called every
 * 100 ms, by the tick thread. */
void node_start(void (*on_tick)(void));
void node_stop(void);
/* The tick thread rests in between. Not nested. */
void node_pause(void);
void node_resume(void);

/* The size of the body that follows this header, or -1 with a one-line reason if the header is not
 * to be trusted: the connection has to be closed. */
int64_t node_body_bytes(const char* header, char reason[NODE_REASON_BYTES]);

/* Tells that the connection is closed, and why, but not more than ten times a minute: whoever
 * reaches the port decides how often that is. Any thread. */
void node_log_closed(int connection, const char* reason);

/* Whether a whole header is of a control frame. */
bool node_is_control(const char* header);

/* Worker threads: serves a frame whose header node_body_bytes accepted. A reply that fits into
 * `small` is written there and its size returned; any other is left in *large, to be freed, and 0
 * returned. NODE_OUT_OF_MEMORY: there is no reply, and whether the frame took effect is open. */
typedef struct node_reply node_reply;
#define NODE_OUT_OF_MEMORY ((size_t)-1)
size_t node_serve(const char* header, const char* body, size_t body_bytes, char* small,
                  size_t small_bytes, node_reply** large);

/* The bytes of a reply, in order; returns how many parts there are. They live as long as it. */
typedef struct {
  const void* data;
  size_t bytes;
} node_part;
size_t node_reply_parts(const node_reply* reply, node_part parts[NODE_REPLY_PARTS]);
/* What it takes of the heap. Nothing of it is the store's: it is a copy. */
size_t node_reply_bytes(const node_reply* reply);
void node_free_reply(node_reply* reply);

typedef void (*node_add_stat)(const char* name, size_t name_bytes, const char* value,
                              size_t value_bytes, void* context);
void node_statistics(node_add_stat add, void* context);

#ifdef __cplusplus
}
#endif
#endif
