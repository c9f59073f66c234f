#include "server-patches/node/engine/board.h"

#include <algorithm>

namespace elastripe::node {

bool Board::post(const std::vector<Notice>& notices, uint64_t now_ms) {
  if (notices.empty()) return true;
  if (notices.size() > kMaxNotices) return false;  // before each is looked for
  const std::lock_guard lock(mutex_);
  forget_expired(now_ms);
  size_t count = kept_.size() + notices.size();
  size_t bytes = 0;
  for (const Notice& notice : notices) bytes += notice.text.size();
  for (const Kept& kept : kept_) {
    const bool is_replaced =
        std::ranges::any_of(notices, [&](const Notice& notice) { return is_same(kept, notice); });
    count -= is_replaced;
    bytes += is_replaced ? 0 : kept.text.size();
  }
  if (count > kMaxNotices || bytes > kMaxBytes) return false;
  for (const Notice& notice : notices) {
    std::erase_if(kept_, [&](const Kept& kept) { return is_same(kept, notice); });
    Kept& kept = kept_.emplace_back(notice, std::string(notice.text), ++last_,
                                    now_ms + std::min(notice.life_ms, kMaxNoticeLife_ms));
    kept.notice.text = {};
  }
  return true;
}

Board::Read Board::read(uint64_t reader, uint64_t since, uint64_t now_ms) {
  const std::lock_guard lock(mutex_);
  forget_expired(now_ms);
  Read read{.last = last_, .notices = {}, .texts = {}};
  for (const Kept& kept : kept_) {
    if (kept.place <= since || (kept.notice.to != 0 && kept.notice.to != reader)) continue;
    read.notices.push_back(kept.notice);
    // Another thread may have posted it with a later clock.
    read.notices.back().life_ms =
        static_cast<uint32_t>(std::min<uint64_t>(kept.until_ms - now_ms, kMaxNoticeLife_ms));
    read.texts.push_back(kept.text);
  }
  for (size_t i = 0; i < read.notices.size(); ++i) read.notices[i].text = read.texts[i];
  return read;
}

void Board::forget_expired(uint64_t now_ms) {
  std::erase_if(kept_, [&](const Kept& kept) { return kept.until_ms <= now_ms; });
}

}  // namespace elastripe::node
