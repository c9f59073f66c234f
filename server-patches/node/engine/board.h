// Board: the notices that proxies leave at this node for each other.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "server-patches/node/format/notice_messages.h"

namespace elastripe::node {

// Bounded, and nothing that lives is dropped: a full board refuses. Times are of one clock, in ms.
// Any thread.
class Board {
 public:
  static constexpr size_t kMaxNotices = 1024;
  static constexpr size_t kMaxBytes = 1u << 20;  // of their texts

  // All of them, or none: false if there is no room.
  bool post(const std::vector<Notice>& notices, uint64_t now_ms);

  struct Read {
    uint64_t last = 0;
    std::vector<Notice> notices;     // their texts lie in...
    std::vector<std::string> texts;  // these
  };
  // What was posted after the first `since`, to the reader or to all, and lives: the oldest first.
  Read read(uint64_t reader, uint64_t since, uint64_t now_ms);

 private:
  struct Kept {
    Notice notice;  // without its text
    std::string text;
    uint64_t place = 0;
    uint64_t until_ms = 0;
  };
  void forget_expired(uint64_t now_ms);
  static bool is_same(const Kept& kept, const Notice& notice) {
    return kept.notice.from == notice.from && kept.notice.number == notice.number;
  }

  std::mutex mutex_;
  std::deque<Kept> kept_;  // by place; guarded by mutex_, as what follows
  uint64_t last_ = 0;
};

}  // namespace elastripe::node
