#include "tools/bench/dialect.h"

#include <fmt/format.h>

#include <charconv>

namespace elastripe::bench {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kHeaderBytes = 24;  // of a binary message
constexpr size_t kSetExtraBytes = 8;
constexpr unsigned char kGet = 0x00;
constexpr unsigned char kSet = 0x01;
constexpr unsigned char kDelete = 0x04;
constexpr uint64_t kNotFound = 1;

void append_number(std::string& out, uint64_t number, size_t bytes) {
  for (size_t i = bytes; i > 0; --i) out += static_cast<char>(number >> (8 * (i - 1)) & 0xff);
}

uint64_t number_at(std::string_view text, size_t at, size_t bytes) {
  uint64_t number = 0;
  for (const char byte : text.substr(at, bytes)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

void append_header(std::string& out, unsigned char opcode, std::string_view key, size_t extra_bytes,
                   size_t value_bytes) {
  out += '\x80';
  out += static_cast<char>(opcode);
  append_number(out, key.size(), 2);
  append_number(out, extra_bytes << 24, 4);  // data type and bucket are 0
  append_number(out, extra_bytes + key.size() + value_bytes, 4);
  out.append(12, '\0');  // opaque, cas
}

cli::Result<Answer> take_binary(std::string_view text) {
  if (text.size() < kHeaderBytes) return Answer{};
  const size_t bytes = kHeaderBytes + number_at(text, 8, 4);
  if (text.size() < bytes) return Answer{};
  const uint64_t status = number_at(text, 6, 2);
  const size_t before = kHeaderBytes + number_at(text, 4, 1) + number_at(text, 2, 2);
  const std::string_view value = text.substr(before, bytes - before);
  if (text[0] != '\x81') return cli::fail("no binary answer");
  if (status > kNotFound) return cli::fail("status {:#x}: {}", status, value);
  return Answer{bytes, status == kNotFound, value};
}

// The value behind a line, and what ends it.
cli::Result<Answer> take_value(std::string_view text, size_t line_bytes, std::string_view number,
                               std::string_view end) {
  size_t value_bytes = 0;
  const auto [stop, error] =
      std::from_chars(number.data(), number.data() + number.size(), value_bytes);
  if (error != std::errc{}) return cli::fail("no number of bytes: {}", text.substr(0, line_bytes));
  const size_t whole = line_bytes + value_bytes + end.size();
  if (text.size() < whole) return Answer{};
  if (text.substr(whole - end.size(), end.size()) != end) return cli::fail("a value without end");
  return Answer{whole, false, text.substr(line_bytes, value_bytes)};
}

}  // namespace

const char* name_of(Dialect dialect) {
  constexpr std::array kNames{"text", "meta", "binary"};
  static_assert(kNames.size() == kDialects.size());
  return kNames[static_cast<size_t>(dialect)];
}

void append_get(std::string& out, Dialect dialect, std::string_view key) {
  switch (dialect) {
    case Dialect::kText:
      out.append("get ").append(key).append(kLineEnd);
      return;
    case Dialect::kMeta:
      out.append("mg ").append(key).append(" v\r\n");
      return;
    case Dialect::kBinary:
      append_header(out, kGet, key, 0, 0);
      out += key;
  }
}

void append_set(std::string& out, Dialect dialect, std::string_view key, size_t value_bytes,
                int exptime_s) {
  switch (dialect) {
    case Dialect::kText:
      out += fmt::format("set {} 0 {} {}\r\n", key, exptime_s, value_bytes);
      return;
    case Dialect::kMeta:
      out += fmt::format("ms {} {} T{}\r\n", key, value_bytes, exptime_s);
      return;
    case Dialect::kBinary:
      append_header(out, kSet, key, kSetExtraBytes, value_bytes);
      append_number(out, 0, 4);  // flags
      append_number(out, static_cast<uint64_t>(exptime_s), 4);
      out += key;
  }
}

void append_delete(std::string& out, Dialect dialect, std::string_view key) {
  switch (dialect) {
    case Dialect::kText:
      out.append("delete ").append(key).append(kLineEnd);
      return;
    case Dialect::kMeta:
      out.append("md ").append(key).append(kLineEnd);
      return;
    case Dialect::kBinary:
      append_header(out, kDelete, key, 0, 0);
      out += key;
  }
}

void end_value(std::string& out, Dialect dialect) {
  if (dialect != Dialect::kBinary) out += kLineEnd;
}

cli::Result<Answer> take_answer(Dialect dialect, Asked asked, std::string_view key,
                                std::string_view text) {
  if (dialect == Dialect::kBinary) return take_binary(text);
  const size_t end = text.find(kLineEnd);
  if (end == std::string_view::npos) return Answer{};
  const std::string_view line = text.substr(0, end);
  const size_t line_bytes = end + kLineEnd.size();
  if (asked == Asked::kGet) {
    if (line == "END" || line == "EN") return Answer{line_bytes, true, {}};
    if (line.starts_with("VA ")) return take_value(text, line_bytes, line.substr(3), kLineEnd);
    const std::string expected = fmt::format("VALUE {} ", key);
    if (!line.starts_with(expected)) return cli::fail("{}", line);
    return take_value(text, line_bytes, line.substr(line.rfind(' ') + 1), "\r\nEND\r\n");
  }
  if (line == "NOT_FOUND" || line == "NF") return Answer{line_bytes, true, {}};
  const bool is_done = line == "HD" || line == (asked == Asked::kSet ? "STORED" : "DELETED");
  if (!is_done) return cli::fail("{}", line);
  return Answer{line_bytes, false, {}};
}

}  // namespace elastripe::bench
