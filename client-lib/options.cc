#include "client-lib/options.h"

#include <algorithm>
#include <charconv>

#include "client-lib/fail.h"

namespace elastripe::client {

Result<Options> parse_address(std::string_view text) {
  Options options;
  if (text.starts_with('/')) {
    options.host = text;
    return options;
  }
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return fail(ErrorKind::kInvalid, "no ] in the address");
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!port.empty() && !port.starts_with(':')) {
      return fail(ErrorKind::kInvalid, "expected [ADDRESS]:PORT");
    }
    if (!port.empty()) port.remove_prefix(1);
  } else if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (host.find(':') != std::string_view::npos) {
      return fail(ErrorKind::kInvalid, "write an IPv6 address as [ADDRESS]:PORT");
    }
  }
  if (!host.empty()) options.host = host;
  if (!port.empty()) {
    unsigned number = 0;
    const auto [end, status] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (status != std::errc() || end != port.data() + port.size() || number == 0 ||
        number > 65535) {
      return fail(ErrorKind::kInvalid, "not a port: " + std::string(port));
    }
    options.port = static_cast<uint16_t>(number);
  }
  return options;
}

std::string address_of(const Options& options) {
  if (is_unix_socket(options)) return options.host;
  const bool is_ipv6 = options.host.contains(':');
  return (is_ipv6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

bool is_unix_socket(const Options& options) { return options.host.starts_with('/'); }

Result<> validate_key(std::string_view key) {
  if (key.empty()) return fail(ErrorKind::kInvalid, "the key is empty");
  if (key.size() > kMaxKeyBytes) {
    return fail(ErrorKind::kInvalid, "the key is longer than 250 bytes");
  }
  const bool printable = std::ranges::all_of(key, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
  if (!printable) return fail(ErrorKind::kInvalid, "the key has white space or control bytes");
  return {};
}

Result<> validate_options(const Options& options) {
  const size_t most = is_unix_socket(options) ? kMaxPathBytes : kMaxHostBytes;
  if (options.host.empty() || options.host.size() > most || options.host.contains('\0')) {
    return fail(ErrorKind::kInvalid, "not a server address: " + options.host);
  }
  if (options.connect_timeout_ms < 1 || options.request_timeout_ms < 1) {
    return fail(ErrorKind::kInvalid, "a timeout is a millisecond at least");
  }
  const std::string said = options.user + options.password;
  const bool has_line_end = said.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos;
  if (options.user.contains(' ') || has_line_end) {
    return fail(ErrorKind::kInvalid,
                "a user has no spaces, and neither user nor password has line ends");
  }
  if (options.user.empty() && !options.password.empty()) {
    return fail(ErrorKind::kInvalid, "there is a password without a user");
  }
  return {};
}

}  // namespace elastripe::client
