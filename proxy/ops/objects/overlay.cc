#include "proxy/ops/objects/overlay.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "proxy/base/crc32c.h"

namespace elastripe::objects {

namespace {

bool overlaps(const node::LogExtent& extent, uint64_t offset, uint64_t length) {
  return extent.offset < offset + length && extent.end() > offset;
}

}  // namespace

namespace {

// What covers each place, by where it begins.
using Pieces = std::map<uint64_t, ByteView>;

// Puts bytes on top of what is there.
void put_on_top(Pieces& pieces, uint64_t begin, ByteView bytes) {
  const uint64_t end = begin + bytes.size();
  auto at = pieces.upper_bound(begin);
  if (at != pieces.begin() && std::prev(at)->first + std::prev(at)->second.size() > begin) --at;
  while (at != pieces.end() && at->first < end) {
    const auto [from, old] = *at;
    at = pieces.erase(at);
    const uint64_t to = from + old.size();
    if (from < begin) pieces.emplace(from, old.first(begin - from));
    if (to > end) at = pieces.emplace(end, old.last(to - end)).first;
  }
  pieces.emplace(begin, bytes);
}

}  // namespace

Result<std::vector<Overlaid>> overlaid(uint64_t offset, uint64_t length, uint64_t folded_lsn,
                                       const LogView& log) {
  Pieces pieces;
  for (const auto* extents : {&log.image.settled, &log.image.unsettled}) {
    for (const node::LogExtent& extent : *extents) {
      if (extent.lsn <= folded_lsn || !overlaps(extent, offset, length)) continue;
      const ByteView update = as_bytes(extent.bytes);
      if (crc32c(update) != extent.crc32c) {
        return fail(ErrorCode::kLost, "an update of the object was damaged in memory");
      }
      const uint64_t begin = std::max(extent.offset, offset);
      const uint64_t end = std::min(extent.end(), offset + length);
      put_on_top(pieces, begin, update.subspan(begin - extent.offset, end - begin));
    }
  }
  std::vector<Overlaid> result;
  result.reserve(pieces.size());
  for (const auto& [begin, bytes] : pieces) result.push_back({begin, bytes});
  return result;
}

Result<void> lay_over(MutableByteView bytes, uint64_t offset, uint64_t folded_lsn,
                      const LogView* log) {
  if (log == nullptr) return {};
  const auto pieces = overlaid(offset, bytes.size(), folded_lsn, *log);
  if (!pieces) return fail(pieces.error());
  for (const Overlaid& piece : *pieces) {
    std::ranges::copy(piece.bytes, bytes.begin() + static_cast<ptrdiff_t>(piece.offset - offset));
  }
  return {};
}

uint64_t bytes_over(const LogView* log, uint64_t offset, uint64_t length, uint64_t folded_lsn) {
  if (log == nullptr) return 0;
  uint64_t bytes = 0;
  for (const auto* extents : {&log->image.settled, &log->image.unsettled}) {
    for (const node::LogExtent& extent : *extents) {
      if (extent.lsn <= folded_lsn || !overlaps(extent, offset, length)) continue;
      const uint64_t end = std::min(extent.end(), offset + length);
      bytes += end - std::max<uint64_t>(extent.offset, offset);
    }
  }
  return bytes;
}

}  // namespace elastripe::objects
