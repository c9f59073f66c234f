#include "memcached.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server-patches/shim/partial_frames.h"

/* Some thirty of the largest data frames, and a few large maps. */
static const size_t kLimitBytes[2] = {256u << 20, 64u << 20};
#define SLOW_SECONDS 10

typedef struct waiter {
    struct waiter *next;
    conn *c;
} waiter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. */
static size_t taken_bytes[2]; /* by data frames, by control frames */
static bool control_lacks_room; /* a control frame was refused since the last cut */
static partial_frame *frames;
static waiter *first_waiter;
static waiter **last_waiter = &first_waiter;

static bool take(bool is_control, size_t bytes) {
    if (bytes > kLimitBytes[is_control] - taken_bytes[is_control])
        return false;
    taken_bytes[is_control] += bytes;
    return true;
}

static void give_back(bool is_control, size_t bytes) {
    taken_bytes[is_control] -= bytes;
    /* All of them: who finds no room waits again. */
    while (first_waiter != NULL) {
        waiter *w = first_waiter;
        first_waiter = w->next;
        redispatch_conn(w->c);
        free(w);
    }
    last_waiter = &first_waiter;
}

static partial_begin wait_for_room(conn *c) {
    waiter *w = malloc(sizeof(*w));
    if (w == NULL)
        return PARTIAL_NO_MEMORY;
    w->next = NULL;
    w->c = c;
    *last_waiter = w;
    last_waiter = &w->next;
    /* Not read meanwhile; conn_worker_readd goes on with it, on this thread. */
    event_del(&c->event);
    conn_set_state(c, conn_watch);
    return PARTIAL_WAITS;
}

partial_begin partial_frame_begin(conn *c, size_t bytes, bool is_control, partial_frame **frame) {
    pthread_mutex_lock(&lock);
    partial_begin result = PARTIAL_BEGUN;
    if (!take(is_control, bytes)) {
        control_lacks_room |= is_control;
        result = is_control ? PARTIAL_NO_MEMORY : wait_for_room(c);
    }
    pthread_mutex_unlock(&lock);
    if (result != PARTIAL_BEGUN)
        return result;

    partial_frame *begun = malloc(sizeof(*begun) + bytes);
    pthread_mutex_lock(&lock);
    if (begun == NULL) {
        give_back(is_control, bytes);
        result = PARTIAL_NO_MEMORY;
    } else {
        begun->prev = NULL;
        begun->next = frames;
        begun->c = c;
        begun->bytes = bytes;
        begun->is_control = is_control;
        begun->since = current_time;
        if (frames != NULL)
            frames->prev = begun;
        frames = begun;
        *frame = begun;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void partial_frame_end(partial_frame *frame) {
    pthread_mutex_lock(&lock);
    if (frame->prev != NULL)
        frame->prev->next = frame->next;
    else
        frames = frame->next;
    if (frame->next != NULL)
        frame->next->prev = frame->prev;
    give_back(frame->is_control, frame->bytes);
    pthread_mutex_unlock(&lock);
    free(frame);
}

void partial_frames_cut_slow(void) {
    pthread_mutex_lock(&lock);
    const bool lacks_room[2] = {first_waiter != NULL, control_lacks_room};
    control_lacks_room = false;
    for (partial_frame *frame = frames; frame != NULL; frame = frame->next) {
        /* Its own thread finds the end and closes it; until then the descriptor is its own. */
        if (lacks_room[frame->is_control] && current_time - frame->since > SLOW_SECONDS)
            shutdown(frame->c->sfd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&lock);
}

partial_frames_use partial_frames_in_use(void) {
    pthread_mutex_lock(&lock);
    partial_frames_use use = {taken_bytes[false], taken_bytes[true], 0};
    for (const waiter *w = first_waiter; w != NULL; w = w->next)
        ++use.waiting;
    pthread_mutex_unlock(&lock);
    return use;
}
