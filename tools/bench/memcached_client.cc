#include "tools/bench/memcached_client.h"

#include <charconv>

namespace elastripe::bench {

using cli::Result;

Result<std::unique_ptr<MemcachedClient>> MemcachedClient::connect(const std::string& host,
                                                                  uint16_t port) {
  auto socket = BlockingSocket::connect(host, port);
  if (!socket) return std::unexpected(socket.error());
  return std::unique_ptr<MemcachedClient>(new MemcachedClient(std::move(*socket)));
}

Result<> MemcachedClient::put(std::string_view key, std::string_view value) {
  const std::string head = fmt::format("set {} 0 0 {}\r\n", key, value.size());
  if (auto done = socket_.send({head, value, "\r\n"}); !done) return done;
  const auto line = socket_.receive_line();
  if (!line) return std::unexpected(line.error());
  if (*line != "STORED") return cli::fail("set {}: {}", key, *line);
  return {};
}

Result<> MemcachedClient::get(std::string_view key, std::string& value) {
  if (auto done = socket_.send({fmt::format("get {}\r\n", key)}); !done) return done;
  const auto line = socket_.receive_line();
  if (!line) return std::unexpected(line.error());
  if (*line == "END") return cli::fail("get {}: no such object", key);
  size_t bytes = 0;
  const size_t number_at = line->rfind(' ') + 1;
  const auto parsed = std::from_chars(line->data() + number_at, line->data() + line->size(), bytes);
  if (!line->starts_with("VALUE ") || parsed.ec != std::errc()) {
    return cli::fail("get {}: {}", key, *line);
  }
  if (auto done = socket_.receive_block(bytes, value); !done) return done;
  const auto end = socket_.receive_line();
  if (!end) return std::unexpected(end.error());
  if (*end != "END") return cli::fail("get {}: {} after the value", key, *end);
  return {};
}

}  // namespace elastripe::bench
