/* Replies that do not fit into memcached's own write buffers. Each is in memory of its own, beside
 * --memory-mb, until the peer has taken all of it. That memory is bounded over all connections:
 * while much of it is held, data frames are not served. */
#ifndef ELASTRIPE_SHIM_REPLIES_H
#define ELASTRIPE_SHIM_REPLIES_H

/* Included after memcached.h. */
#include "server-patches/shim/node.h"
#include "server-patches/shim/room.h"

/* Worker threads. Whether the next data frame of this connection may be served. False: the
 * connection has been told what to do first, and comes back to this frame: its own replies have to
 * leave, so that whoever waits holds none, or it waits for those of others. */
bool replies_have_room(conn* c);

/* Makes `reply` that of `resp`, to be freed when memcached is through with it, and returns its size
 * on the wire. 0: there is no memory for it, and it has been freed. Replies to control frames have
 * room of their own and do not wait. */
size_t reply_in_place(conn* c, mc_resp* resp, node_reply* reply, bool is_control);
/* For the io queue. */
void reply_left(io_pending_t* io);

/* Any thread, now and then: while others wait for room, or have been refused it, whoever has not
 * taken a reply of that kind for long loses its connection. */
void replies_cut_slow(void);

/* Any thread. What the replies take, and how many connections wait for room. */
typedef struct replies_use {
  size_t data_bytes, control_bytes, waiting;
} replies_use;
replies_use replies_in_use(void);

#endif
