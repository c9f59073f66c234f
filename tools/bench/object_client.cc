#include "tools/bench/object_client.h"

#include <charconv>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;

// The number that a line ends with, or `none`.
int64_t last_number(std::string_view line, int64_t none) {
  const char* end = line.data() + line.size();
  int64_t number = none;
  const auto parsed = std::from_chars(line.data() + line.find_last_of(" $") + 1, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : none;
}

Result<> expect_line(BlockingSocket& socket, std::string_view expected, std::string_view what) {
  const auto line = TRY(socket.receive_line());
  if (line != expected) return cli::fail("{}: {}", what, line);
  return {};
}

}  // namespace

Result<std::unique_ptr<MemcachedClient>> MemcachedClient::connect(const std::string& host,
                                                                  uint16_t port) {
  auto socket = TRY(BlockingSocket::connect(host, port));
  return std::unique_ptr<MemcachedClient>(new MemcachedClient(std::move(socket)));
}

Result<> MemcachedClient::put(std::string_view key, std::string_view value) {
  const std::string head = fmt::format("set {} 0 0 {}\r\n", key, value.size());
  TRY(socket().send({head, value, "\r\n"}));
  return expect_line(socket(), "STORED", fmt::format("set {}", key));
}

Result<> MemcachedClient::get(std::string_view key, std::string& value) {
  if (auto done = socket().send({fmt::format("get {}\r\n", key)}); !done) return done;
  const auto line = TRY(socket().receive_line());
  if (line == "END") return cli::fail("get {}: no such object", key);
  const int64_t bytes = last_number(line, -1);
  if (!line.starts_with("VALUE ") || bytes < 0) return cli::fail("get {}: {}", key, line);
  TRY(socket().receive_block(static_cast<size_t>(bytes), value));
  return expect_line(socket(), "END", fmt::format("get {}, after the value", key));
}

Result<std::map<std::string, uint64_t>> MemcachedClient::stats(std::string_view what) {
  if (auto done = socket().send({fmt::format("stats {}\r\n", what)}); !done) {
    return std::unexpected(done.error());
  }
  std::map<std::string, uint64_t> numbers;
  while (true) {
    const auto line = TRY(socket().receive_line());
    if (line == "END") return numbers;
    if (!line.starts_with("STAT ")) return cli::fail("stats {}: {}", what, line);
    const std::string name = line.substr(5, line.rfind(' ') - 5);
    numbers[name] = static_cast<uint64_t>(last_number(line, 0));
  }
}

Result<std::unique_ptr<RedisClient>> RedisClient::connect(const std::string& host, uint16_t port) {
  auto socket = TRY(BlockingSocket::connect(host, port));
  return std::unique_ptr<RedisClient>(new RedisClient(std::move(socket)));
}

Result<> RedisClient::put(std::string_view key, std::string_view value) {
  const std::string head =
      fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, value.size());
  auto done = socket().send({head, value, "\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$5\r\n30000\r\n"});
  if (done) done = expect_line(socket(), "+OK", "Redis");
  if (done) done = expect_line(socket(), ":1", "Redis: the replica did not acknowledge");
  return done;
}

Result<> RedisClient::get(std::string_view key, std::string& value) {
  const std::string request = fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key);
  TRY(socket().send({request}));
  const auto line = TRY(socket().receive_line());  // $<bytes>, then the value
  const int64_t bytes = line.starts_with('$') ? last_number(line, -1) : -1;
  if (bytes < 0) return cli::fail("Redis: {}", line);
  return socket().receive_block(static_cast<size_t>(bytes), value);
}

}  // namespace elastripe::bench
