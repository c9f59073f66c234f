#include "memcached.h"

#include <stdlib.h>

#include "server-patches/shim/partial_frames.h"

static const char kWhyCut[] = "others wait for the memory of its frame, which does not go on";

/* Some thirty of the largest data frames, and a few large maps. */
static room data_room = ROOM(256u << 20, kWhyCut);
static room control_room = ROOM(64u << 20, kWhyCut);

static room *room_of(bool is_control) { return is_control ? &control_room : &data_room; }

partial_begin partial_frame_begin(conn *c, size_t bytes, bool is_control, partial_frame **frame) {
    room *from = room_of(is_control);
    partial_frame *begun = malloc(sizeof(*begun));
    if (begun == NULL) {
        room_leave(from, c);
        return PARTIAL_NO_MEMORY;
    }
    if (!room_take(from, &begun->held, c, bytes, !is_control)) {
        free(begun);
        return is_control ? PARTIAL_NO_MEMORY : PARTIAL_WAITS;
    }
    begun->is_control = is_control;
    begun->frame = malloc(bytes); /* none of it is touched yet */
    if (begun->frame == NULL) {
        partial_frame_end(begun);
        return PARTIAL_NO_MEMORY;
    }
    *frame = begun;
    return PARTIAL_BEGUN;
}

void partial_frame_whole(partial_frame *frame) {
    room_spare(room_of(frame->is_control), &frame->held);
}

void partial_frame_end(partial_frame *frame) {
    room_give_back(room_of(frame->is_control), &frame->held);
    free(frame->frame);
    free(frame);
}

void partial_frames_cut_slow(void) {
    room_cut_slow(&data_room);
    room_cut_slow(&control_room);
}

partial_frames_use partial_frames_in_use(void) {
    return (partial_frames_use){room_taken(&data_room), room_taken(&control_room),
                                room_waiting(&data_room)};
}
