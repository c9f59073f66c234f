/* Memory beside --memory-mb that is bounded over all connections. Where there is no room, a
 * connection is not read until somebody has given back what it held. */
#ifndef ELASTRIPE_SHIM_ROOM_H
#define ELASTRIPE_SHIM_ROOM_H

/* Included after memcached.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* Part of what holds the memory. Only room.c looks inside. */
typedef struct holding {
  struct holding *prev, *next;
  conn* c;
  size_t bytes;
  rel_time_t since;
  bool is_spared, is_cut;
} holding;

typedef struct room {
  const size_t limit_bytes;
  const char* const why_cut; /* for the log */
  pthread_mutex_t lock;
  atomic_size_t taken_bytes; /* changed under the lock */
  /* Guarded by the lock. */
  bool has_refused; /* since the last cut */
  holding* holdings;
  /* In the order in which they came; the first one may have been woken. Linked by `next`, which
   * memcached has for listeners. */
  conn *first_waiting, *last_waiting;
} room;

#define ROOM(limit, why) \
  {.limit_bytes = limit, .why_cut = why, .lock = PTHREAD_MUTEX_INITIALIZER}

/* Worker threads: the connection's own. Waiting: there is no event for the connection any more, its
 * state is conn_watch, and it is redispatched when there may be room: elastripe_goes_on. It then
 * has to try again, with the same room, or to leave the line. A connection that waits holds nothing
 * of that room, and of another one only if none that waits there holds anything of this one. */

/* Takes so much, for `held`, until room_give_back. False: there is no room, and the connection
 * waits, or does not if it may not. */
bool room_take(room* from, holding* held, conn* c, size_t bytes, bool may_wait);
void room_give_back(room* from, holding* held);
/* For a connection that may have waited, and will not try again. */
void room_leave(room* of, conn* c);

/* Where it is not known how much it will be: one may enter while the room is not full, and take
 * what it turns out to be, even beyond the limit. False: the connection waits. Who waits enters
 * first. But while half of the room is free nobody else waits behind it: those who wait go on one
 * by one, and where many ask, there would always be some. */
bool room_enter(room* of, conn* c);
void room_take_anyway(room* from, holding* held, conn* c, size_t bytes);
/* Whether one may enter who does not wait for it. */
bool room_is_open(room* of);

/* It is the node that keeps the connection from giving this back, not the peer: room_cut_slow
 * passes it over. */
void room_spare(room* of, holding* held);

/* Any thread, now and then: while others wait for room, or have been refused it, whoever has held
 * some for long loses its connection. */
void room_cut_slow(room* of);

/* Any thread. What is taken, and how many connections wait. */
size_t room_taken(const room* of);
size_t room_waiting(room* of);

#endif
