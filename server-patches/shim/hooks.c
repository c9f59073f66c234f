/* Frames in and out of memcached's connections, and refusal of its own commands. */
#include "memcached.h"

#include <string.h>

#include "proto_bin.h"
#include "server-patches/shim/newcomers.h"
#include "server-patches/shim/node.h"
#include "server-patches/shim/partial_frames.h"
#include "server-patches/shim/replies.h"

static const char kRefusal[] = "SERVER_ERROR elastripe node: clients read and write through the proxy";

/* Replies above this size leave at once: what a connection holds unsent is bounded by about one of
 * them, however many frames the peer pipelines. */
#define FLUSH_BYTES (32 * 1024)

static void close_after_pending_replies(conn *c) {
    if (c->resp_head) {
        c->close_after_write = true;
        conn_set_state(c, conn_mwrite);
    } else {
        conn_set_state(c, conn_closing);
    }
}

static void refuse_frame(conn *c, const char *reason) {
    node_log_closed(c->sfd, reason);
    close_after_pending_replies(c);
}

/* Serves one whole frame and queues its reply. */
static void serve(conn *c, const char *header, const char *body, size_t body_bytes,
                  bool is_control) {
    node_reply *large;

    c->last_cmd_time = current_time;
    newcomer_leaves(c);
    if (!resp_start(c)) {
        refuse_frame(c, "out of memory for a reply");
        return;
    }
    size_t total = node_serve(header, body, body_bytes, c->resp->wbuf, WRITE_BUFFER_SIZE, &large);
    if (total == 0)
        total = reply_in_place(c, c->resp, large, is_control);
    else if (total != NODE_OUT_OF_MEMORY)
        resp_add_iov(c->resp, c->resp->wbuf, total);
    if (total == 0 || total == NODE_OUT_OF_MEMORY) {
        c->resp->skip = true;
        refuse_frame(c, "out of memory for a reply");
        return;
    }
    conn_set_state(c, total > FLUSH_BYTES ? conn_mwrite : conn_new_cmd);
}

/* False: not now, the connection comes back to it. */
static bool serve_with_room(conn *c, const char *header, const char *body, size_t body_bytes,
                            bool is_control) {
    if (!is_control && !replies_have_room(c))
        return false;
    serve(c, header, body, body_bytes, is_control);
    return true;
}

/* A malloc'ed read buffer in which part of a header is left grows up to sixteenfold with each read,
 * past what is counted. What has come to this thread in one goes on in a buffer of the thread. */
static void take_cached_buffer(conn *c) {
    if (!c->rbuf_malloced || c->rbytes > READ_BUFFER_SIZE || !elastripe_is_frame(*c->rcurr))
        return;
    char *cached = do_cache_alloc(c->thread->rbuf_cache);
    if (cached == NULL)
        return;
    memcpy(cached, c->rcurr, c->rbytes);
    free(c->rbuf);
    c->rcurr = c->rbuf = cached;
    c->rsize = READ_BUFFER_SIZE;
    c->rbuf_malloced = false;
}

bool elastripe_leaves(conn *c, bool *stop) {
    if (c->thread != elastripe_control_thread()) {
        take_cached_buffer(c);
        return false;
    }
    if (elastripe_is_frame(*c->rcurr) &&
        (c->rbytes < NODE_HEADER_BYTES || node_is_control(c->rcurr)))
        return false;
    if (c->resp_head) {
        /* Replies are this thread's: they leave first. */
        conn_set_state(c, conn_mwrite);
        return true;
    }
    /* So is the read buffer. */
    if (!c->rbuf_malloced && !rbuf_switch_to_malloc(c)) {
        conn_set_state(c, conn_closing);
        return true;
    }
    /* From here as if a side thread gave it back (conn_worker_readd). */
    event_del(&c->event);
    c->thread = elastripe_next_worker();
    c->ssl_wbuf = c->thread->ssl_wbuf; /* where replies are put together for TLS */
    c->io_queues_submitted = 1;
    conn_set_state(c, conn_io_queue);
    redispatch_conn(c);
    *stop = true;
    return true;
}

/* Returns 0 if more bytes are needed, as memcached's own readers do. */
int elastripe_try_read_frame(conn *c) {
    char reason[NODE_REASON_BYTES];

    if (!elastripe_is_frame(*c->rcurr)) {
        refuse_frame(c, "bytes that are no frame");
        return 1;
    }
    if (c->rbytes < NODE_HEADER_BYTES)
        return 0;
    const int64_t body_bytes = node_body_bytes(c->rcurr, reason);
    if (body_bytes < 0) {
        refuse_frame(c, reason);
        return 1;
    }
    const bool is_control = node_is_control(c->rcurr);
    /* It may be long, and have to wait for room, which looks after it from here. */
    if (!is_control)
        newcomer_leaves(c);

    if (c->rbytes >= NODE_HEADER_BYTES + body_bytes) {
        const char *header = c->rcurr;
        if (serve_with_room(c, header, header + NODE_HEADER_BYTES, body_bytes, is_control)) {
            c->rcurr += NODE_HEADER_BYTES + body_bytes;
            c->rbytes -= NODE_HEADER_BYTES + body_bytes;
        }
        return 1;
    }
    if (c->resp_head) {
        /* Replies do not wait for the rest of a later frame. */
        conn_set_state(c, conn_mwrite);
        return 1;
    }
    partial_frame *begun;
    switch (partial_frame_begin(c, NODE_HEADER_BYTES + body_bytes, is_control, &begun)) {
    case PARTIAL_BEGUN:
        break;
    case PARTIAL_WAITS:
        return 1;
    case PARTIAL_NO_MEMORY:
        refuse_frame(c, "out of memory for a frame");
        return 1;
    }
    memcpy(begun->frame, c->rcurr, NODE_HEADER_BYTES);
    c->rcurr += NODE_HEADER_BYTES;
    c->rbytes -= NODE_HEADER_BYTES;
    c->item = begun;
    c->item_malloced = true;
    c->ritem = begun->frame + NODE_HEADER_BYTES;
    c->rlbytes = body_bytes;
    conn_set_state(c, conn_nread);
    return 1;
}

void elastripe_complete_frame(conn *c) {
    partial_frame *whole = c->item;
    const char *body = whole->frame + NODE_HEADER_BYTES;
    /* First: for what it waits from here on, inside the engine too, its peer is not to blame. */
    partial_frame_whole(whole);
    /* The connection had no replies when it began the frame: where there is no room, it waits. */
    if (!serve_with_room(c, whole->frame, body, c->ritem - body, whole->is_control))
        return;
    c->item = NULL;
    c->item_malloced = false;
    partial_frame_end(whole);
}

void elastripe_drop_frame(conn *c) {
    if (c->item == NULL || c->try_read_command != elastripe_try_read_frame)
        return;
    partial_frame_end(c->item);
    c->item = NULL;
    c->item_malloced = false;
}

bool elastripe_goes_on(conn *c) {
    if (elastripe_enabled && c->try_read_command == elastripe_try_read_frame) {
        if (c->item != NULL) {
            conn_set_state(c, conn_nread);
            return true;
        }
        if (c->rbytes > 0)
            return true;
    }
    return elastripe_tls_buffered(c);
}

void elastripe_connected(conn *c) {
    c->was_woken = false;
    if (elastripe_enabled && c->state != conn_listening)
        newcomer_arrives(c);
}

void elastripe_disconnects(conn *c) {
    if (elastripe_enabled)
        newcomer_leaves(c);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TELL_TSAN 1
void __tsan_acquire(void *);
void __tsan_release(void *);
#endif
#endif

void elastripe_socket_closes(int sfd) {
#ifdef TELL_TSAN
    __tsan_release(&conns[sfd]);
#endif
}

void elastripe_socket_opened(int sfd) {
#ifdef TELL_TSAN
    __tsan_acquire(&conns[sfd]);
#endif
}

/* Never submitted to: it only owns the replies' memory. */
static void never_queued(io_queue_t *q) {
    abort();
}

void elastripe_add_io_queue(LIBEVENT_THREAD *me) {
    if (elastripe_enabled)
        thread_io_queue_add(me, IO_QUEUE_ELASTRIPE, NULL, never_queued, never_queued, NULL,
                            reply_left);
}

static bool is_one_of(const char *word, const char *const *words) {
    for (; *words; words++) {
        if (strcmp(word, *words) == 0)
            return true;
    }
    return false;
}

bool elastripe_refuse_ascii(conn *c, const char *command, const char *set_size,
                            const char *ms_size) {
    static const char *const allowed[] = {"get", "gets", "mn", "version", "stats", "quit", NULL};
    static const char *const with_value[] = {"set", "add", "replace", "append", "prepend", "cas",
                                             NULL};
    newcomer_leaves(c);
    if (is_one_of(command, allowed))
        return false;

    const char *size = NULL;
    int32_t value_bytes = 0;
    if (is_one_of(command, with_value))
        size = set_size;
    else if (strcmp(command, "ms") == 0)
        size = ms_size;
    out_string(c, kRefusal);
    if (size != NULL) {
        if (safe_strtol(size, &value_bytes) && value_bytes >= 0 && value_bytes < INT_MAX - 2) {
            c->sbytes = value_bytes + 2;
            conn_set_state(c, conn_swallow);
        } else {
            /* Where the next command starts is unknown. */
            close_after_pending_replies(c);
        }
    }
    return true;
}

bool elastripe_refuse_binary(conn *c) {
    newcomer_leaves(c);
    switch (c->cmd) {
    case PROTOCOL_BINARY_CMD_GET:
    case PROTOCOL_BINARY_CMD_GETK:
    case PROTOCOL_BINARY_CMD_NOOP:
    case PROTOCOL_BINARY_CMD_VERSION:
    case PROTOCOL_BINARY_CMD_STAT:
    case PROTOCOL_BINARY_CMD_QUIT:
        return false;
    default:
        break;
    }
    const protocol_binary_request_header *header = &c->binary_header;
    const uint32_t value_bytes =
        header->request.bodylen - header->request.keylen - header->request.extlen;
    c->noreply = false;
    write_bin_error(c, PROTOCOL_BINARY_RESPONSE_UNKNOWN_COMMAND, kRefusal,
                    value_bytes < INT_MAX ? value_bytes : 0);
    if (value_bytes >= INT_MAX)
        c->close_after_write = true;
    return true;
}

struct stats_sink {
    ADD_STAT add_stats;
    void *c;
};

static void add_stat(const char *name, size_t name_bytes, const char *value, size_t value_bytes,
                     void *context) {
    const struct stats_sink *sink = context;
    sink->add_stats(name, name_bytes, value, value_bytes, sink->c);
}

static void add_number(const struct stats_sink *sink, const char *name, size_t value) {
    char digits[24];
    const int length = snprintf(digits, sizeof(digits), "%zu", value);
    sink->add_stats(name, strlen(name), digits, length, sink->c);
}

void elastripe_stats(ADD_STAT add_stats, void *c) {
    struct stats_sink sink = {add_stats, c};
    node_statistics(add_stat, &sink);
    const partial_frames_use use = partial_frames_in_use();
    add_number(&sink, "partial_data_bytes", use.data_bytes);
    add_number(&sink, "partial_control_bytes", use.control_bytes);
    add_number(&sink, "partial_waiting", use.waiting);
    const replies_use replies = replies_in_use();
    add_number(&sink, "reply_data_bytes", replies.data_bytes);
    add_number(&sink, "reply_control_bytes", replies.control_bytes);
    add_number(&sink, "reply_waiting", replies.waiting);
    const newcomers_count newcomers = newcomers_counted();
    add_number(&sink, "newcomers", newcomers.waiting);
    add_number(&sink, "newcomers_cut", newcomers.cut);
    add_number(&sink, "tls_valid_until", elastripe_tls_valid_until());
    add_stats(NULL, 0, NULL, 0, c);
}

static void cut_slow(void) {
    partial_frames_cut_slow();
    replies_cut_slow();
    newcomers_cut_slow();
}

void elastripe_start(void) {
    node_start(cut_slow);
    /* Before the first item. */
    hash = node_hash;
    settings.hash_algorithm = "xxh3 with a secret";
    elastripe_tls_start();
}

void elastripe_stop(void) {
    if (elastripe_enabled)
        node_stop();
}

void elastripe_pause(void) {
    if (elastripe_enabled)
        node_pause();
}

void elastripe_resume(void) {
    if (elastripe_enabled)
        node_resume();
}
