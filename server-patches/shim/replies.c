#include "memcached.h"

#include <string.h>

#include "server-patches/shim/replies.h"

static const char kWhyCut[] = "others wait for the memory of its replies, which it does not take";

/* How large a reply will be is known once it is there. So those of data frames may take more, by
 * one reply for each worker thread. */
static room data_room = ROOM(256u << 20, kWhyCut);
static room control_room = ROOM(64u << 20, kWhyCut);

/* In io->data. */
typedef struct held_reply {
    node_reply *reply;
    room *from;
    holding held;
} held_reply;

static held_reply *of_io(io_pending_t *io) {
    _Static_assert(sizeof(held_reply) <= sizeof(io->data), "memcached gives that much");
    _Static_assert(offsetof(io_pending_t, data) % _Alignof(held_reply) == 0, "it is not aligned");
    return (held_reply *)io->data;
}

bool replies_have_room(conn *c) {
    if (c->resp_head == NULL)
        return room_enter(&data_room, c);
    if (room_is_open(&data_room))
        return true;
    conn_set_state(c, conn_mwrite);
    return false;
}

static bool take(room *from, held_reply *held, conn *c, size_t bytes) {
    if (from == &control_room)
        return room_take(from, &held->held, c, bytes, false);
    room_take_anyway(from, &held->held, c, bytes);
    return true;
}

size_t reply_in_place(conn *c, mc_resp *resp, node_reply *reply, bool is_control) {
    io_pending_t *io = do_cache_alloc(c->thread->io_cache);
    if (io == NULL) {
        node_free_reply(reply);
        return 0;
    }
    held_reply *held = of_io(io);
    held->reply = reply;
    held->from = is_control ? &control_room : &data_room;
    if (!take(held->from, held, c, node_reply_bytes(reply))) {
        do_cache_free(c->thread->io_cache, io);
        node_free_reply(reply);
        return 0;
    }
    io->io_queue_type = IO_QUEUE_ELASTRIPE;
    io->thread = c->thread;
    io->c = c;
    io->resp = resp;
    resp->io_pending = io;

    node_part parts[NODE_REPLY_PARTS];
    const size_t count = node_reply_parts(reply, parts);
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        resp_add_iov(resp, parts[i].data, parts[i].bytes);
        total += parts[i].bytes;
    }
    return total;
}

void reply_left(io_pending_t *io) {
    held_reply *held = of_io(io);
    node_free_reply(held->reply);
    room_give_back(held->from, &held->held);
}

void replies_cut_slow(void) {
    room_cut_slow(&data_room);
    room_cut_slow(&control_room);
}

replies_use replies_in_use(void) {
    return (replies_use){room_taken(&data_room), room_taken(&control_room),
                         room_waiting(&data_room)};
}
