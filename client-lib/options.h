// Which server a client asks, and how; and what is never sent to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "error.h"

namespace elastripe::client {

inline constexpr size_t kMaxHostBytes = 255;
inline constexpr size_t kMaxPathBytes = 107;  // of a Unix socket
inline constexpr size_t kMaxKeyBytes = 250;
inline constexpr size_t kMaxObjectBytes = size_t{1} << 30;

struct Options {
  std::string host = "127.0.0.1";  // or the path of a Unix socket, which begins with '/'
  uint16_t port = 11311;
  int connect_timeout_ms = 2000;
  int request_timeout_ms = 30000;  // longest wait for progress on the connection

  // libmemcached does not tell that a server has closed an idle connection, and a read that is sent
  // on it then fails. So a connection for such reads is made anew after so long. Writes need it
  // not: theirs is looked at before each.
  int idle_ms = 1000;

  // What each connection logs in with, by memcached's ASCII authentication; nobody if `user` is
  // empty. They are told only to a server that asks for them. They travel as they are, since
  // libmemcached speaks no TLS: over an untrusted network let a tunnel carry them.
  std::string user = {};
  std::string password = {};
};

// Reads `HOST:PORT`, `[IPV6]:PORT`, `HOST`, `:PORT` or `/PATH`; what is left out keeps its default.
Result<Options> parse_address(std::string_view text);

// The address as parse_address() reads it.
std::string address_of(const Options& options);

// Whether the server is asked by a Unix socket.
bool is_unix_socket(const Options& options);

// Checks the bounds of memcached's keys: 1 to 250 bytes, none of them white space or control.
Result<> validate_key(std::string_view key);

// Checks that there may be such a server, that user and password can be told to it, and that each
// timeout is a millisecond at least.
Result<> validate_options(const Options& options);

}  // namespace elastripe::client
