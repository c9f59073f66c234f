#include "server-patches/node/format/messages.h"

#include <algorithm>
#include <ranges>

#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {

void encode(const NoArgs&, std::string&) {}

template <>
Decoded<NoArgs> decode<NoArgs>(ByteView bytes) {
  return finish(Reader(bytes), NoArgs{}, "args");
}

void encode(const HelloRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.known_map);
  w.u8(static_cast<uint8_t>(m.sign));
  w.u8(m.takes_changes);
}

// That of an older build has no args.
template <>
Decoded<HelloRequest> decode<HelloRequest>(ByteView bytes) {
  Reader in(bytes);
  HelloRequest m;
  if (!in.at_end()) m.known_map = in.u64();
  if (!in.at_end()) m.sign = read_enum<DeciderSign>(in, DeciderSign::kLeaves);
  if (!in.at_end()) m.takes_changes = read_flag(in);
  return finish(in, m, "HELLO");
}

namespace {
constexpr uint64_t kNoDecider = UINT64_MAX;
}  // namespace

void encode(const HelloReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.clock_ms);
  w.u64(m.max_version);
  w.u8(m.has_lease);
  write_bits(w, m.synced);
  const auto add = [&](const NodeStatistic& statistic) { w.u64(m.statistics.*statistic.second); };
  std::ranges::for_each(kNodeStatistics | std::views::take(kFirstNodeStatistics), add);
  w.u64(m.capabilities.bits());
  w.short_string(m.version);
  std::ranges::for_each(kNodeStatistics | std::views::drop(kFirstNodeStatistics), add);
  w.u64(m.decider_age_ms.value_or(kNoDecider));
  if (m.is_changes) w.u8(m.is_changes);
}

template <>
Decoded<HelloReply> decode<HelloReply>(ByteView bytes) {
  Reader in(bytes);
  HelloReply m;
  m.clock_ms = in.u64();
  m.max_version = in.u64();
  m.has_lease = read_flag(in);
  m.synced = read_bits(in);
  for (const auto& [name, number] : kNodeStatistics | std::views::take(kFirstNodeStatistics)) {
    m.statistics.*number = in.u64();
  }
  if (!in.at_end()) m.capabilities = CapabilitySet(in.u64());
  if (!in.at_end()) m.version = in.short_string();
  for (const auto& [name, number] : kNodeStatistics | std::views::drop(kFirstNodeStatistics)) {
    if (!in.at_end()) m.statistics.*number = in.u64();
  }
  // Where a node of an older build has a lease, there is somebody who grants it.
  const uint64_t unknown = m.has_lease ? 0 : kNoDecider;
  const uint64_t decider_age_ms = in.at_end() ? unknown : in.u64();
  if (decider_age_ms != kNoDecider) m.decider_age_ms = decider_age_ms;
  if (!in.at_end()) m.is_changes = read_flag(in);
  return finish(in, std::move(m), "HELLO reply");
}

void encode(const HeartbeatRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.lease_stamp_ms);
  w.u32(m.lease_ms);
  w.u8(static_cast<uint8_t>(m.sign));
  w.u32(m.known_synced);
}

template <>
Decoded<HeartbeatRequest> decode<HeartbeatRequest>(ByteView bytes) {
  Reader in(bytes);
  HeartbeatRequest m;
  m.lease_stamp_ms = in.u64();
  m.lease_ms = in.u32();
  if (!in.at_end()) m.sign = read_enum<DeciderSign>(in, DeciderSign::kLeaves);
  if (!in.at_end()) m.known_synced = in.u32();
  return finish(in, m, "HEARTBEAT");
}

void encode(const InstallMapRequest& m, std::string& out) {
  if (m.is_changes) Writer(out).u8(m.is_changes);
}

template <>
Decoded<InstallMapRequest> decode<InstallMapRequest>(ByteView bytes) {
  Reader in(bytes);
  InstallMapRequest m;
  if (!in.at_end()) m.is_changes = read_flag(in);
  return finish(in, m, "INSTALL_MAP");
}

namespace {
constexpr uint8_t kIsUse = 1;
constexpr uint8_t kTellsUse = 2;
}  // namespace

void encode(const RecordReadRequest& m, std::string& out) {
  Writer w(out);
  w.u8(static_cast<uint8_t>(m.role));
  w.u8(m.m);
  w.u64(m.if_version);
  w.short_string(m.key);
  const auto use = static_cast<uint8_t>((m.is_use ? kIsUse : 0) | (m.tells_use ? kTellsUse : 0));
  if (m.log == LogWanted::kNone && use == 0) return;
  w.u8(static_cast<uint8_t>(m.log));
  w.u64(m.log_offset);
  w.u64(m.log_length);
  if (use != 0) w.u8(use);
}

template <>
Decoded<RecordReadRequest> decode<RecordReadRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordReadRequest m;
  m.role = read_enum(in, Role::kAny);
  m.m = in.u8();
  m.if_version = in.u64();
  m.key = read_key(in);
  if (!in.at_end()) {
    m.log = read_enum(in, LogWanted::kUnsettled);
    m.log_offset = in.u64();
    m.log_length = in.u64();
  }
  if (!in.at_end()) {
    const uint8_t use = in.u8();
    if (use > (kIsUse | kTellsUse)) in.fail();
    m.is_use = (use & kIsUse) != 0;
    m.tells_use = (use & kTellsUse) != 0;
  }
  return finish(in, m, "RECORD_READ");
}

void encode(const RecordReadReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.floor);
  w.u64(m.damaged_version);
  if (m.log.empty() && m.synced_in == 0 && !m.use) return;
  out.reserve(out.size() + m.log.size() + 3 * sizeof(uint64_t));
  w.long_string(m.log);
  w.u64(m.log_age_ms);
  if (m.synced_in != 0 || m.use) w.u32(m.synced_in);
  if (!m.use) return;
  w.u8(m.use->was_used);
  w.u32(m.use->idle_s);
}

template <>
Decoded<RecordReadReply> decode<RecordReadReply>(ByteView bytes) {
  Reader in(bytes);
  RecordReadReply m;
  m.floor = in.u64();
  m.damaged_version = in.u64();
  if (!in.at_end()) m.log = in.long_string();
  if (!in.at_end()) m.log_age_ms = in.u64();
  if (!in.at_end()) m.synced_in = in.u32();
  if (!in.at_end()) m.use = {.was_used = read_flag(in), .idle_s = in.u32()};
  return finish(in, std::move(m), "RECORD_READ reply");
}

void encode(const RecordApplyRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.id(m.attempt_id);
  w.u64(m.base_version);
  w.u8(static_cast<uint8_t>(m.condition));
  w.u64(m.condition_argument);
  w.u8(static_cast<uint8_t>(m.mutation));
  w.u64(m.delta);
  w.u32(m.inline_max_bytes);
  w.u8(m.blind);
  w.short_string(m.key);
  if (m.made_of_cas != 0) w.u64(m.made_of_cas);
}

template <>
Decoded<RecordApplyRequest> decode<RecordApplyRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordApplyRequest m;
  m.m = in.u8();
  m.attempt_id = in.id();
  m.base_version = in.u64();
  m.condition = read_enum(in, Condition::kIfValueVersion);
  m.condition_argument = in.u64();
  m.mutation = read_enum(in, Mutation::kMark);
  m.delta = in.u64();
  m.inline_max_bytes = in.u32();
  m.blind = read_flag(in);
  m.key = read_key(in);
  if (!in.at_end()) m.made_of_cas = in.u64();
  return finish(in, m, "RECORD_APPLY");
}

void encode(const RecordApplyReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.floor);
  w.u8(m.whole_record);
  w.long_string(m.superseded);
  w.u8(m.has_unnumbered);
}

template <>
Decoded<RecordApplyReply> decode<RecordApplyReply>(ByteView bytes) {
  Reader in(bytes);
  RecordApplyReply m;
  m.floor = in.u64();
  m.whole_record = read_flag(in);
  m.superseded = in.long_string();
  if (!in.at_end()) m.has_unnumbered = read_flag(in);
  return finish(in, m, "RECORD_APPLY reply");
}

void encode(const RecordStoreRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.u8(m.sync);
  w.u8(m.revive);
  w.u64(m.lost_version);
  w.short_string(m.key);
  if (!m.log.empty()) w.long_string(m.log);
}

template <>
Decoded<RecordStoreRequest> decode<RecordStoreRequest>(ByteView bytes) {
  Reader in(bytes);
  RecordStoreRequest m;
  m.m = in.u8();
  m.sync = read_flag(in);
  m.revive = read_flag(in);
  m.lost_version = in.u64();
  m.key = read_key(in);
  if (!in.at_end()) m.log = in.long_string();
  return finish(in, m, "RECORD_STORE");
}

void encode(const RecordStoreReply& m, std::string& out) { Writer(out).u64(m.version); }

template <>
Decoded<RecordStoreReply> decode<RecordStoreReply>(ByteView bytes) {
  Reader in(bytes);
  const RecordStoreReply m{in.u64()};
  return finish(in, m, "RECORD_STORE reply");
}

}  // namespace elastripe::node
