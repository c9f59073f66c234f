#include "proxy/base/names.h"

#include <arpa/inet.h>

#include <algorithm>

namespace elastripe {

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_host(const std::string& host) {
  in6_addr address{};
  const bool is_ipv6 = !host.contains('\0') && inet_pton(AF_INET6, host.c_str(), &address) == 1;
  return is_name(host) || is_ipv6;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) {
    return (ntohl(address.s_addr) >> 24) == 127;
  }
  in6_addr address6{};
  return inet_pton(AF_INET6, host.c_str(), &address6) == 1 && IN6_IS_ADDR_LOOPBACK(&address6);
}

}  // namespace elastripe
