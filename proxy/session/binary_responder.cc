#include "proxy/session/binary_responder.h"

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe {

BinaryResponder::BinaryResponder(std::string_view header) {
  CHECK(header.size() == header_.size());
  std::ranges::copy(header, header_.begin());
}

void BinaryResponder::answer(memcache::Output& output, const CommandOutcome&) const {
  output.append(memcache::refuse_binary({header_.data(), header_.size()}));
}

void BinaryResponder::error(memcache::Output& output, const Error&, std::string_view) const {
  answer(output, memcache::Refusal{});
}

}  // namespace elastripe
