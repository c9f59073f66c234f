/* Connections on which nothing has been served yet, nor the header of a data frame been read: who
 * has not shown by that, and over TLS by its certificate, that it may come in. They are few and for
 * a short time, so that whoever only connects keeps no proxy out. */
#ifndef ELASTRIPE_SHIM_NEWCOMERS_H
#define ELASTRIPE_SHIM_NEWCOMERS_H

/* Included after memcached.h. The connection's own thread. Above the limit the one that came first
 * loses its connection. */
void newcomer_arrives(conn* c);
/* It has shown that, or the socket is about to be closed. */
void newcomer_leaves(conn* c);

/* Any thread, now and then: whoever came long ago loses its connection. */
void newcomers_cut_slow(void);

/* Any thread. How many there are, and how many have lost their connection. */
typedef struct newcomers_count {
  size_t waiting, cut;
} newcomers_count;
newcomers_count newcomers_counted(void);

#endif
