#include "server-patches/node/update/speculation.h"

#include <algorithm>
#include <span>

#include "coding/gf.h"

namespace elastripe::node {

void TouchedLines::touch(size_t offset, size_t size, size_t shard_bytes,
                         std::vector<ShardUpdateReply::Range>& fresh) {
  constexpr size_t kLines = kPageBytes / kLineBytes;
  const size_t end = (offset + size + kLineBytes - 1) / kLineBytes;
  for (size_t line = offset / kLineBytes; line < end; ++line) {
    uint64_t& lines = lines_[line / kLines];
    const uint64_t bit = uint64_t{1} << (line % kLines);
    if ((lines & bit) != 0) continue;
    lines |= bit;
    const size_t at = line * kLineBytes;
    const auto length = static_cast<uint32_t>(std::min<size_t>(kLineBytes, shard_bytes - at));
    if (!fresh.empty() && fresh.back().offset + fresh.back().length == at) {
      fresh.back().length += length;
    } else {
      fresh.push_back({static_cast<uint32_t>(at), length});
    }
  }
}

std::vector<ParityChange> changes_of(const SpeculativeLog::Epoch& epoch) {
  std::vector<const SpeculativeLog::Piece*> pieces;
  pieces.reserve(epoch.pieces.size());
  for (const auto& piece : epoch.pieces) pieces.push_back(&piece);
  std::ranges::sort(pieces, {}, [](const auto* piece) { return piece->offset; });
  std::vector<ParityChange> changes;
  for (const auto* piece : pieces) {
    const size_t end = piece->offset + piece->bytes.size();
    if (changes.empty() || piece->offset > changes.back().offset + changes.back().bytes.size()) {
      changes.push_back({piece->offset, {}});
    }
    auto& bytes = changes.back().bytes;
    bytes.resize(std::max(bytes.size(), end - changes.back().offset));
  }
  // First what was there before, then what came after each other.
  std::vector<ParityChange> before;
  std::ranges::sort(pieces, {}, [](const auto* piece) { return piece->serial; });
  bool has_before = false;
  for (const auto* piece : pieces) {
    if (piece->serial != 0 && !has_before) {
      before = changes;
      has_before = true;
    }
    auto behind = std::ranges::upper_bound(changes, piece->offset, {}, &ParityChange::offset);
    ParityChange& change = *std::prev(behind);
    piece->bytes.read(
        std::span(change.bytes).subspan(piece->offset - change.offset, piece->bytes.size()));
  }
  if (!has_before) return {};
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<std::byte>& bytes = changes[i].bytes;
    for (size_t b = 0; b < bytes.size(); ++b) bytes[b] ^= before[i].bytes[b];
    std::vector<std::byte> times(bytes.size());
    coding::multiply_add(epoch.coefficient, bytes, times);
    bytes = std::move(times);
  }
  return changes;
}

}  // namespace elastripe::node
