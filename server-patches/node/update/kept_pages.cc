#include "server-patches/node/update/kept_pages.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace elastripe::node {

void KeptPages::note_write(size_t page, size_t begin, size_t end) {
  Page& kept = pages_.at(page);
  const size_t first = begin / kLineBytes;
  const size_t last = (end - 1) / kLineBytes;
  const uint64_t lines = (~uint64_t{0} >> (63 - (last - first))) << first;
  kept.before.count_merged(static_cast<size_t>(std::popcount(kept.lines & lines)) * kLineBytes);
  kept.lines |= lines;
  kept.written = ++writes_;
}

std::vector<size_t> KeptPages::oldest(size_t left_bytes) const {
  std::vector<std::pair<uint64_t, size_t>> by_age;
  by_age.reserve(pages_.size());
  for (const auto& [page, kept] : pages_) by_age.emplace_back(kept.written, page);
  const size_t left = std::min(left_bytes / kPageBytes, by_age.size());
  const auto newer = by_age.end() - static_cast<std::ptrdiff_t>(left);
  std::ranges::nth_element(by_age, newer);
  std::vector<size_t> pages;
  pages.reserve(by_age.size() - left);
  for (auto at = by_age.begin(); at != newer; ++at) pages.push_back(at->second);
  std::ranges::sort(pages);
  return pages;
}

void HeldBytes::hold(uint32_t offset, LogBytes bytes) {
  bytes.count_merged(drop(offset, uint64_t{offset} + bytes.size()));
  pieces_.emplace(offset, std::move(bytes));
}

size_t HeldBytes::drop(uint64_t begin, uint64_t end) {
  size_t dropped = 0;
  auto at = pieces_.upper_bound(begin);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const uint64_t from = at->first;
    const uint64_t to = from + at->second.size();
    if (to <= begin) {
      ++at;
      continue;
    }
    const LogBytes old = std::move(at->second);
    at = pieces_.erase(at);
    if (from < begin) pieces_.emplace(from, old.part(0, begin - from));
    if (to > end) at = pieces_.emplace(end, old.part(end - from, to - end)).first;
    dropped += std::min(to, end) - std::max(from, begin);
  }
  return dropped;
}

}  // namespace elastripe::node
