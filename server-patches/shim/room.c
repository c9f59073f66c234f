#include "memcached.h"

#include <sys/socket.h>

#include "server-patches/shim/node.h"
#include "server-patches/shim/room.h"

#define SLOW_SECONDS 10

static bool room_is_full(const room *of) { return of->taken_bytes >= of->limit_bytes; }

/* Whoever is woken keeps its place, ahead of all others, until it has got in, and wakes the next one
 * then: while the first one fits, it is on the way. Waking all would have most of them wait again,
 * for every reply that leaves. */
static void wake_first(room *of) {
    conn *c = of->first_waiting;
    if (c == NULL || c->was_woken || room_is_full(of))
        return;
    c->was_woken = true;
    redispatch_conn(c);
}

static bool is_next(const room *of, const conn *c) {
    return of->first_waiting == NULL || of->first_waiting == c;
}

static void leave_line(room *of, conn *c) {
    if (of->first_waiting != c)
        return;
    of->first_waiting = c->next;
    if (of->first_waiting == NULL)
        of->last_waiting = NULL;
    c->next = NULL;
    c->was_woken = false;
    wake_first(of);
}

static void wait_for_room(room *of, conn *c) {
    if (of->first_waiting == NULL) {
        of->first_waiting = of->last_waiting = c;
    } else if (of->first_waiting != c) {
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
    const bool is_ahead = !may_wait || is_next(from, c);
    const bool fits = is_ahead && bytes <= from->limit_bytes - from->taken_bytes;
    if (fits) {
        hold(from, held, c, bytes);
        leave_line(from, c);
    } else if (may_wait) {
        wait_for_room(from, c);
    } else {
        from->has_refused = true;
    }
    pthread_mutex_unlock(&from->lock);
    return fits;
}

void room_leave(room *of, conn *c) {
    pthread_mutex_lock(&of->lock);
    leave_line(of, c);
    pthread_mutex_unlock(&of->lock);
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

static bool has_plenty(const room *of) { return of->taken_bytes < of->limit_bytes / 2; }

bool room_is_open(room *of) {
    if (has_plenty(of))
        return true;
    pthread_mutex_lock(&of->lock);
    const bool is_open = of->first_waiting == NULL && !room_is_full(of);
    pthread_mutex_unlock(&of->lock);
    return is_open;
}

bool room_enter(room *of, conn *c) {
    if (has_plenty(of) && !c->was_woken)
        return true;
    pthread_mutex_lock(&of->lock);
    const bool enters = !room_is_full(of) && (has_plenty(of) || is_next(of, c));
    if (enters)
        leave_line(of, c);
    else
        wait_for_room(of, c);
    pthread_mutex_unlock(&of->lock);
    return enters;
}

void room_take_anyway(room *from, holding *held, conn *c, size_t bytes) {
    pthread_mutex_lock(&from->lock);
    hold(from, held, c, bytes);
    pthread_mutex_unlock(&from->lock);
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
