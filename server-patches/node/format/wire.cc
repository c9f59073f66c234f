#include "server-patches/node/format/wire.h"

namespace elastripe::node {

std::string to_string(const Id128& id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (size_t i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[id.hi >> (4 * i) & 0xf];
    text[31 - i] = kDigits[id.lo >> (4 * i) & 0xf];
  }
  return text;
}

}  // namespace elastripe::node
