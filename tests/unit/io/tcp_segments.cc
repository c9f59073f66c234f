#include "tests/unit/io/tcp_segments.h"

// This tcp_info has more than that of <netinet/tcp.h>; no file can include both.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

namespace elastripe {

uint32_t data_segments_received(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  REQUIRE(getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
  return info.tcpi_data_segs_in;
}

}  // namespace elastripe
