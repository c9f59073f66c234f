#include "server-patches/node/format/shard_update_messages.h"

#include "coding/scheme.h"
#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {
namespace {

// What an element of a list takes on the wire.
constexpr size_t kExtentBytes = 12;
constexpr size_t kRangeBytes = 8;

bool has_epoch(ShardUpdateMode mode) {
  return mode == ShardUpdateMode::kSpeculate || mode == ShardUpdateMode::kSettle;
}

}  // namespace

void encode(const ShardUpdateRequest& m, std::string& out) {
  encode(m.name, out);
  Writer w(out);
  w.u8(static_cast<uint8_t>(m.mode));
  w.u32(m.log_bytes);
  w.u32(static_cast<uint32_t>(m.extents.size()));
  for (const auto& extent : m.extents) {
    w.u32(extent.offset);
    w.u32(extent.length);
    w.u32(extent.crc32c);
  }
  w.u32(static_cast<uint32_t>(m.coefficients.size()));
  for (const char coefficient : m.coefficients) w.u8(static_cast<uint8_t>(coefficient));
  if (!has_epoch(m.mode)) return;
  w.u8(m.source);
  w.u64(m.epoch);
  w.u64(m.serial);
  w.u32(m.originals);
  w.u8(m.coefficient);
}

template <>
Decoded<ShardUpdateRequest> decode<ShardUpdateRequest>(ByteView bytes) {
  Reader in(bytes);
  ShardUpdateRequest m;
  m.name = decode_name(in);
  m.mode = read_enum(in, ShardUpdateMode::kSettle);
  m.log_bytes = in.u32();
  const bool is_collected = m.mode == ShardUpdateMode::kCollect;
  const bool may_overlap = is_collected || m.mode == ShardUpdateMode::kSpeculate;
  using Extent = ShardUpdateRequest::Extent;
  uint64_t end = 0;  // of the one before
  m.extents = read_list<Extent>(in, kExtentBytes, [&](Extent& extent) {
    extent.offset = in.u32();
    extent.length = in.u32();
    extent.crc32c = in.u32();
    if (extent.length == 0 || (!may_overlap && extent.offset < end)) in.fail();
    end = uint64_t{extent.offset} + extent.length;
  });
  m.coefficients.resize(in.count<uint32_t>(1));
  for (char& coefficient : m.coefficients) coefficient = static_cast<char>(in.u8());
  const size_t parities = m.extents.empty() ? 0 : m.coefficients.size() / m.extents.size();
  const bool fits = is_collected ? parities > 0 && parities <= coding::kMaxParities &&
                                       m.coefficients.size() == parities * m.extents.size()
                                 : m.coefficients.empty();
  if (!fits) in.fail();
  if (has_epoch(m.mode)) {
    m.source = in.u8();
    m.epoch = in.u64();
    m.serial = in.u64();
    m.originals = in.u32();
    m.coefficient = in.u8();
    if (m.epoch == 0 || m.serial == 0 || m.originals > m.extents.size()) in.fail();
  }
  return finish(in, std::move(m), "SHARD_UPDATE");
}

void encode(const ShardUpdateReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.ranges.size()));
  for (const auto& range : m.ranges) {
    w.u32(range.offset);
    w.u32(range.length);
  }
  if (m.epoch == 0 && m.serial == 0) return;
  w.u64(m.epoch);
  w.u64(m.serial);
}

template <>
Decoded<ShardUpdateReply> decode<ShardUpdateReply>(ByteView bytes) {
  Reader in(bytes);
  ShardUpdateReply m;
  using Range = ShardUpdateReply::Range;
  uint64_t end = 0;
  m.ranges = read_list<Range>(in, kRangeBytes, [&](Range& range) {
    range.offset = in.u32();
    range.length = in.u32();
    if (range.length == 0 || range.offset < end) in.fail();
    end = uint64_t{range.offset} + range.length;
  });
  if (!in.at_end()) {
    m.epoch = in.u64();
    m.serial = in.u64();
  }
  return finish(in, std::move(m), "SHARD_UPDATE reply");
}

}  // namespace elastripe::node
