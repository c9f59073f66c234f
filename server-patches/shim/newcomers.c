#include "memcached.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "server-patches/shim/newcomers.h"

/* An eighth of all connections. A handshake takes milliseconds. */
#define LIMIT 512
#define SLOW_SECONDS 10

typedef struct newcomer {
    conn *c;
    rel_time_t since;
} newcomer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. */
static newcomer newcomers[LIMIT]; /* by their arrival */
static size_t count;
static size_t cut_count;

static void forget(size_t i) {
    --count;
    memmove(newcomers + i, newcomers + i + 1, (count - i) * sizeof(newcomers[0]));
}

/* Its own thread finds the end and closes it; until newcomer_leaves the descriptor is its own. */
static void cut_first(void) {
    shutdown(newcomers[0].c->sfd, SHUT_RDWR);
    forget(0);
    ++cut_count;
}

void newcomer_arrives(conn *c) {
    c->is_newcomer = true;
    pthread_mutex_lock(&lock);
    if (count == LIMIT)
        cut_first();
    newcomers[count].c = c;
    newcomers[count].since = current_time;
    ++count;
    pthread_mutex_unlock(&lock);
}

void newcomer_leaves(conn *c) {
    if (!c->is_newcomer)
        return;
    c->is_newcomer = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        if (newcomers[i].c == c) {
            forget(i);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

void newcomers_cut_slow(void) {
    pthread_mutex_lock(&lock);
    while (count > 0 && current_time - newcomers[0].since > SLOW_SECONDS)
        cut_first();
    pthread_mutex_unlock(&lock);
}

newcomers_count newcomers_counted(void) {
    pthread_mutex_lock(&lock);
    newcomers_count counted = {count, cut_count};
    pthread_mutex_unlock(&lock);
    return counted;
}
