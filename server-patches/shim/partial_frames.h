/* Frames that are being read. What they take, beside --memory-mb, is bounded over all connections:
 * where there is no room, a connection is not read until there is. */
#ifndef ELASTRIPE_SHIM_PARTIAL_FRAMES_H
#define ELASTRIPE_SHIM_PARTIAL_FRAMES_H

/* Included after memcached.h. */
#include "server-patches/shim/room.h"

typedef struct partial_frame {
  holding held;
  bool is_control;
  char* frame;
} partial_frame;

typedef enum { PARTIAL_BEGUN, PARTIAL_WAITS, PARTIAL_NO_MEMORY } partial_begin;

/* Worker threads. Begins a frame of that size, which *frame then is until partial_frame_end frees
 * it. PARTIAL_WAITS: the connection waits for room, and has to try again. Control frames have room
 * of their own and do not wait. */
partial_begin partial_frame_begin(conn* c, size_t bytes, bool is_control, partial_frame** frame);
/* All of it is there; that it is not served yet is not the peer's fault. */
void partial_frame_whole(partial_frame* frame);
void partial_frame_end(partial_frame* frame);

/* Any thread, now and then: while others wait for room, or have been refused it, whoever has begun
 * a frame of that kind and not sent the rest for long loses its connection. */
void partial_frames_cut_slow(void);

/* Any thread. What the frames take that are being read, and how many connections wait for room. */
typedef struct partial_frames_use {
  size_t data_bytes, control_bytes, waiting;
} partial_frames_use;
partial_frames_use partial_frames_in_use(void);

#endif
