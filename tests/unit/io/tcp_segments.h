// How many segments of TCP a socket has received.
#pragma once

#include <cstdint>

namespace elastripe {

// Segments with data that have come in at a TCP socket. Over loopback a write that is not too large
// is one segment.
uint32_t data_segments_received(int socket);

}  // namespace elastripe
