#include "tools/bench/redis_client.h"

#include <charconv>

namespace elastripe::bench {

using cli::Result;

Result<std::unique_ptr<RedisClient>> RedisClient::connect(const std::string& host, uint16_t port) {
  auto socket = BlockingSocket::connect(host, port);
  if (!socket) return std::unexpected(socket.error());
  return std::unique_ptr<RedisClient>(new RedisClient(std::move(*socket)));
}

Result<> RedisClient::put(std::string_view key, std::string_view value) {
  const std::string head =
      fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, value.size());
  auto done = socket_.send({head, value, "\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$5\r\n30000\r\n"});
  if (!done) return done;
  const auto stored = socket_.receive_line();
  if (!stored) return std::unexpected(stored.error());
  if (*stored != "+OK") return cli::fail("Redis: {}", *stored);
  const auto copies = socket_.receive_line();
  if (!copies) return std::unexpected(copies.error());
  if (*copies != ":1") return cli::fail("Redis: the replica did not acknowledge: {}", *copies);
  return {};
}

Result<> RedisClient::get(std::string_view key, std::string& value) {
  const std::string request = fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key);
  if (auto done = socket_.send({request}); !done) return done;
  return receive_bulk(value);
}

Result<std::string> RedisClient::info(std::string_view section) {
  const std::string request = fmt::format("INFO {}\r\n", section);
  if (auto done = socket_.send({request}); !done) return std::unexpected(done.error());
  std::string text;
  if (auto done = receive_bulk(text); !done) return std::unexpected(done.error());
  return text;
}

Result<> RedisClient::receive_bulk(std::string& value) {
  const auto line = socket_.receive_line();
  if (!line) return std::unexpected(line.error());
  int64_t bytes = -1;
  if (line->starts_with('$')) {
    std::from_chars(line->data() + 1, line->data() + line->size(), bytes);
  }
  if (bytes < 0) return cli::fail("Redis: {}", *line);
  return socket_.receive_block(static_cast<size_t>(bytes), value);
}

}  // namespace elastripe::bench
