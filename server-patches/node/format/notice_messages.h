// NOTICES: what proxies leave at the nodes for each other (docs/node-protocol.md).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server-patches/node/format/message.h"

namespace elastripe::node {

inline constexpr size_t kMaxNoticeBytes = 16u << 10;
inline constexpr uint32_t kMaxNoticeLife_ms = 60'000;

struct Notice {
  uint64_t from = 0;
  uint64_t to = 0;       // 0: to all
  uint64_t number = 0;   // the sender's: a notice takes the place of the one before with its number
  uint32_t life_ms = 0;  // what is left of it, at most kMaxNoticeLife_ms
  std::string_view text;

  friend bool operator==(const Notice&, const Notice&) = default;
};

struct NoticesReply {
  uint64_t last = 0;  // the node has given out so many numbers: `since` of the next request
  std::vector<Notice> notices;
};
// Posts, then reads. All are posted, or none is. Answered in any state, to proxies of the node's
// cluster: kJoining without a map, kStaleEpoch of another cluster, whatever the epoch. kNoSpace:
// the board is full.
struct NoticesRequest {
  static constexpr Opcode kOpcode = Opcode::kNotices;
  using Reply = NoticesReply;
  uint64_t reader = 0;
  uint64_t since = 0;  // 0: all that there are for the reader
  std::vector<Notice> posted;
};

ELASTRIPE_MESSAGE(NoticesReply);
ELASTRIPE_MESSAGE(NoticesRequest);

}  // namespace elastripe::node
