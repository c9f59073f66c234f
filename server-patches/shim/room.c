#include "memcached.h"

#include <sys/socket.h>

#include "server-patches/shim/node.h"
#include "server-patches/shim/room.h"

#define SLOW_SECONDS 10

/* Whoever is woken wakes the next one once it has taken its own, and is the first again if it found
 * no room: so that while the first one fits, somebody is on the way. Waking all would have most of
 * them wait again, for every reply that leaves. */
static void wake_first(room *of) {
    conn *c = of->first_waiting;
    if (c == NULL || room_is_full(of))
        return;
    of->first_waiting = c->next;
    if (of->first_waiting == NULL)
        of->last_waiting = NULL;
    c->next = NULL;
    c->was_woken = true;
    redispatch_conn(c);
}

static void wait_for_room(room *of, conn *c) {
    if (of->first_waiting == NULL || c->was_woken) {
        c->next = of->first_waiting;
        of->first_waiting = c;
        if (of->last_waiting == NULL)
            of->last_waiting = c;
    } else {
        c->next = NULL;
        of->last_waiting->next = c;
        of->last_waiting = c;
    }
    c->was_woken = false;
    /* Not read meanwhile; conn_worker_readd goes on with it, on this thread. */
    event_del(&c->event);
    conn_set_state(c, conn_watch);
}

static void hold(room *from, holding *held, conn *c, size_t bytes) {
    held->prev = NULL;
    held->next = from->holdings;
    held->c = c;
    held->bytes = bytes;
    held->since = current_time;
    held->is_spared = held->is_cut = false;
    if (from->holdings != NULL)
        from->holdings->prev = held;
    from->holdings = held;
    from->taken_bytes += bytes;
}

bool room_take(room *from, holding *held, conn *c, size_t bytes, bool may_wait) {
    pthread_mutex_lock(&from->lock);
    /* Nobody goes ahead of who waits, or a long frame would wait for ever behind short ones. */
    const bool is_ahead = !may_wait || from->first_waiting == NULL || c->was_woken;
    const bool fits = is_ahead && bytes <= from->limit_bytes - from->taken_bytes;
    if (fits) {
        hold(from, held, c, bytes);
        if (c->was_woken)
            wake_first(from);
        c->was_woken = false;
    } else if (may_wait) {
        wait_for_room(from, c);
    } else {
        from->has_refused = true;
    }
    pthread_mutex_unlock(&from->lock);
    return fits;
}

void room_give_back(room *from, holding *held) {
    pthread_mutex_lock(&from->lock);
    if (held->prev != NULL)
        held->prev->next = held->next;
    else
        from->holdings = held->next;
    if (held->next != NULL)
        held->next->prev = held->prev;
    from->taken_bytes -= held->bytes;
    wake_first(from);
    pthread_mutex_unlock(&from->lock);
}

bool room_is_full(const room *of) { return of->taken_bytes >= of->limit_bytes; }

bool room_enter(room *of, conn *c) {
    if (!room_is_full(of))
        return true;
    pthread_mutex_lock(&of->lock);
    const bool waits = room_is_full(of);
    if (waits)
        wait_for_room(of, c);
    pthread_mutex_unlock(&of->lock);
    return !waits;
}

void room_take_anyway(room *from, holding *held, conn *c, size_t bytes) {
    pthread_mutex_lock(&from->lock);
    hold(from, held, c, bytes);
    pthread_mutex_unlock(&from->lock);
}

void room_entered(room *of, conn *c) {
    if (!c->was_woken)
        return;
    c->was_woken = false;
    pthread_mutex_lock(&of->lock);
    wake_first(of);
    pthread_mutex_unlock(&of->lock);
}

void room_spare(room *of, holding *held) {
    pthread_mutex_lock(&of->lock);
    held->is_spared = true;
    pthread_mutex_unlock(&of->lock);
}

void room_cut_slow(room *of) {
    /* They are told of once the lock is given back: a log may be slow. More than a few are not told
     * of anyway. */
    int cut[10];
    size_t cuts = 0;
    pthread_mutex_lock(&of->lock);
    const bool lacks_room = of->first_waiting != NULL || of->has_refused;
    of->has_refused = false;
    for (holding *held = lacks_room ? of->holdings : NULL; held != NULL; held = held->next) {
        if (held->is_spared || held->is_cut || current_time - held->since <= SLOW_SECONDS)
            continue;
        /* Its own thread finds the end and closes it; until then the descriptor is its own. */
        held->is_cut = true;
        shutdown(held->c->sfd, SHUT_RDWR);
        if (cuts < sizeof(cut) / sizeof(cut[0]))
            cut[cuts++] = held->c->sfd;
    }
    pthread_mutex_unlock(&of->lock);
    for (size_t i = 0; i < cuts; i++)
        node_log_closed(cut[i], of->why_cut);
}

size_t room_taken(const room *of) { return of->taken_bytes; }

size_t room_waiting(room *of) {
    pthread_mutex_lock(&of->lock);
    size_t count = 0;
    for (const conn *c = of->first_waiting; c != NULL; c = c->next)
        ++count;
    pthread_mutex_unlock(&of->lock);
    return count;
}
