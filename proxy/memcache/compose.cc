#include "proxy/memcache/compose.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

#include "proxy/base/bytes.h"

namespace elastripe::memcache {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxReasonBytes = 200;

template <class... Args>
void print(Output& output, fmt::format_string<Args...> format, Args&&... args) {
  fmt::basic_memory_buffer<char, 512> text;
  fmt::vformat_to(std::back_inserter(text), format, fmt::make_format_args(args...));
  output.append(std::string_view(text.data(), text.size()));
}

// " 123": of every value, so without a format.
void append_number(fmt::memory_buffer& line, uint64_t number) {
  const fmt::format_int text(number);
  line.push_back(' ');
  line.append(std::string_view(text.data(), text.size()));
}

// As memcached: all but what RFC 3986 reserves for nothing.
std::string uri_encoded(std::string_view key) {
  std::string encoded;
  for (const char c : key) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || std::string_view("-._~").contains(c);
    if (is_plain) {
      encoded += c;
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return encoded;
}

std::string reason_line(std::string_view reason) {
  return one_line(reason.substr(0, kMaxReasonBytes));
}

}  // namespace

void compose_line(Output& output, std::string_view line) {
  output.append(line);
  output.append(kLineEnd);
}

void compose_number(Output& output, uint64_t number) { print(output, "{}\r\n", number); }

void compose_value(Output& output, std::string_view key, uint32_t flags, Buffer value,
                   std::optional<uint64_t> cas_unique) {
  compose_value_header(output, key, flags, value.size(), cas_unique);
  output.append(std::move(value));
  compose_value_trailer(output);
}

void compose_value_header(Output& output, std::string_view key, uint32_t flags,
                          uint64_t value_bytes, std::optional<uint64_t> cas_unique) {
  fmt::memory_buffer line;
  line.append(std::string_view("VALUE "));
  line.append(key);
  append_number(line, flags);
  append_number(line, value_bytes);
  if (cas_unique) append_number(line, *cas_unique);
  line.append(kLineEnd);
  output.append(std::string_view(line.data(), line.size()));
}

void compose_meta_hit(Output& output, std::optional<uint64_t> value_bytes, std::string_view flags) {
  if (value_bytes) {
    print(output, "VA {}{}\r\n", *value_bytes, flags);
  } else {
    print(output, "HD{}\r\n", flags);
  }
}

void compose_meta_miss(Output& output, std::string_view flags) { print(output, "EN{}\r\n", flags); }

void compose_value_trailer(Output& output) { output.append(kLineEnd); }

void compose_client_error(Output& output, std::string_view reason) {
  print(output, "CLIENT_ERROR {}\r\n", reason_line(reason));
}

void compose_server_error(Output& output, std::string_view reason) {
  print(output, "SERVER_ERROR {}\r\n", reason_line(reason));
}

void compose_stat(Output& output, std::string_view name, std::string_view value) {
  print(output, "STAT {} {}\r\n", name, reason_line(value));
}

void compose_metadump(Output& output, std::string_view key, uint32_t exptime, uint64_t cas,
                      uint64_t size) {
  const int64_t until = exptime == 0 ? -1 : int64_t{exptime};
  print(output, "key={} exp={} la=0 cas={} fetch=no cls=1 size={}\n", uri_encoded(key), until, cas,
        size);
}

void compose_cachedump(Output& output, std::string_view key, uint32_t exptime, uint64_t size) {
  print(output, "ITEM {} [{} b; {} s]\r\n", key, size, exptime);
}

void compose_version(Output& output, std::string_view version) {
  print(output, "VERSION {}\r\n", version);
}

}  // namespace elastripe::memcache
