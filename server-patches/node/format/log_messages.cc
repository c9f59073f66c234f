#include "server-patches/node/format/log_messages.h"

#include <algorithm>
#include <functional>

#include "server-patches/node/format/message_parts.h"

namespace elastripe::node {
namespace {

constexpr size_t kImageHeadBytes = 5 * sizeof(uint64_t) + 4 * sizeof(uint32_t);
constexpr size_t kEntryBytes = kUpdateNameBytes + 16;
constexpr size_t kSettledBytes = kKeyBytes + 16;
constexpr size_t kScannedLogBytes = kKeyBytes + 12;

void write_name(Writer& w, const UpdateName& name) {
  w.id(name.id);
  w.u64(name.lsn);
}

UpdateName read_name(Reader& in) {
  const Id128 id = in.id();
  return {id, in.u64()};
}

void write_names(Writer& w, const std::vector<UpdateName>& names) {
  w.u32(static_cast<uint32_t>(names.size()));
  for (const UpdateName& name : names) write_name(w, name);
}

// Ascending by LSN, at most `limit`.
std::vector<UpdateName> read_names(Reader& in, size_t limit) {
  auto names =
      read_list<UpdateName>(in, kUpdateNameBytes, [&](UpdateName& name) { name = read_name(in); });
  if (names.size() > limit ||
      !std::ranges::is_sorted(names, std::less_equal<>(), &UpdateName::lsn)) {
    in.fail();
  }
  return names;
}

void write_extents(Writer& w, const std::vector<LogExtent>& extents) {
  w.u32(static_cast<uint32_t>(extents.size()));
  for (const LogExtent& extent : extents) {
    w.id(extent.id);
    w.u64(extent.lsn);
    w.u64(extent.offset);
    w.u32(extent.crc32c);
    w.long_string(extent.bytes);
  }
}

std::vector<LogExtent> read_extents(Reader& in) {
  return read_list<LogExtent>(in, kExtentBytes, [&](LogExtent& extent) {
    extent.id = in.id();
    extent.lsn = in.u64();
    extent.offset = in.u64();
    extent.crc32c = in.u32();
    extent.bytes = in.long_string();
    if (extent.bytes.empty() || extent.bytes.size() > kMaxLoggedBytes ||
        extent.offset > UINT64_MAX - kMaxLoggedBytes) {
      in.fail();
    }
  });
}

bool is_disjoint(const std::vector<LogExtent>& extents) {
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].offset < extents[i - 1].end()) return false;
  }
  return true;
}

size_t bytes_of(const std::vector<LogExtent>& extents) {
  size_t bytes = 0;
  for (const LogExtent& extent : extents) bytes += extent.bytes.size();
  return bytes;
}

size_t bytes_of(const LogImage& image) {
  return bytes_of(image.settled) + bytes_of(image.unsettled) + bytes_of(image.unnumbered);
}

void write_ids(Writer& w, const std::vector<Id128>& ids) {
  w.u32(static_cast<uint32_t>(ids.size()));
  for (const Id128& id : ids) w.id(id);
}

std::vector<Id128> read_ids(Reader& in) {
  return read_list<Id128>(in, sizeof(Id128), [&](Id128& id) { id = in.id(); });
}

}  // namespace

void encode(const LogImage& image, std::string& out) {
  const size_t extents = image.settled.size() + image.unsettled.size() + image.unnumbered.size();
  out.reserve(out.size() + kImageHeadBytes + image.recent.size() * kUpdateNameBytes +
              extents * kExtentBytes + bytes_of(image));
  Writer w(out);
  w.u64(image.value);
  w.u64(image.last);
  w.u64(image.rank);
  w.u64(image.settled_to);
  w.u64(image.reach);
  write_names(w, image.recent);
  write_extents(w, image.settled);
  write_extents(w, image.unsettled);
  write_extents(w, image.unnumbered);
}

Decoded<LogImage> decode_log(ByteView bytes) {
  Reader in(bytes);
  LogImage image;
  image.value = in.u64();
  image.last = in.u64();
  image.rank = in.u64();
  image.settled_to = in.u64();
  image.reach = in.u64();
  image.recent = read_names(in, kRecentUpdates);
  image.settled = read_extents(in);
  image.unsettled = read_extents(in);
  if (!in.at_end()) image.unnumbered = read_extents(in);
  const auto has_id = [](const LogExtent& extent) { return !extent.id.is_zero(); };
  const bool fits = image.last <= image.rank && is_disjoint(image.settled) &&
                    image.unsettled.size() <= 2 * kMaxUnsettled &&
                    std::ranges::is_sorted(image.unsettled, std::less_equal<>(), &LogExtent::lsn) &&
                    image.unnumbered.size() <= kMaxUnnumbered &&
                    std::ranges::all_of(image.unnumbered, has_id) &&
                    bytes_of(image) <= 3 * kMaxLogBytes;
  if (!fits) in.fail();
  return finish(in, std::move(image), "update log");
}

void encode(const LogAppendRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.id(m.id);
  w.u64(m.value);
  w.u64(m.known);
  w.u64(m.cas);
  w.u64(m.offset);
  w.u32(m.crc32c);
  w.short_string(m.key);
  if (m.settled_to != 0) w.u64(m.settled_to);
}

template <>
Decoded<LogAppendRequest> decode<LogAppendRequest>(ByteView bytes) {
  Reader in(bytes);
  LogAppendRequest m;
  m.m = in.u8();
  m.id = in.id();
  m.value = in.u64();
  m.known = in.u64();
  m.cas = in.u64();
  m.offset = in.u64();
  m.crc32c = in.u32();
  m.key = read_key(in);
  if (!in.at_end()) m.settled_to = in.u64();
  if (m.id.is_zero()) in.fail();
  return finish(in, m, "LOG_APPEND");
}

void encode(const LogAppendReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.lsn);
  w.u64(m.settled_to);
  w.u64(m.last);
  write_names(w, m.unsettled);
  w.u32(m.cost);
}

template <>
Decoded<LogAppendReply> decode<LogAppendReply>(ByteView bytes) {
  Reader in(bytes);
  LogAppendReply m;
  m.lsn = in.u64();
  m.settled_to = in.u64();
  m.last = in.u64();
  m.unsettled = read_names(in, kMaxNames);
  m.cost = in.u32();
  return finish(in, std::move(m), "LOG_APPEND reply");
}

void encode(const LogStoreRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.u64(m.value);
  w.u64(m.settled_to);
  w.u32(static_cast<uint32_t>(m.entries.size()));
  for (const auto& entry : m.entries) {
    write_name(w, entry.name);
    w.u64(entry.offset);
    w.u32(entry.length);
    w.u32(entry.crc32c);
  }
  write_names(w, m.unsettled);
  w.short_string(m.key);
  if (m.has_unnumbered()) w.u64(m.known);
}

template <>
Decoded<LogStoreRequest> decode<LogStoreRequest>(ByteView bytes) {
  Reader in(bytes);
  LogStoreRequest m;
  m.m = in.u8();
  m.value = in.u64();
  m.settled_to = in.u64();
  using Entry = LogStoreRequest::Entry;
  m.entries = read_list<Entry>(in, kEntryBytes, [&](Entry& entry) {
    entry.name = read_name(in);
    entry.offset = in.u64();
    entry.length = in.u32();
    entry.crc32c = in.u32();
    if (entry.name.id.is_zero() || entry.length == 0 || entry.length > kMaxLoggedBytes ||
        entry.offset > UINT64_MAX - kMaxLoggedBytes) {
      in.fail();
    }
  });
  const auto lsn_of = [](const Entry& entry) { return entry.name.lsn; };
  if (m.entries.size() > kMaxNames ||
      !std::ranges::is_sorted(m.entries, std::less_equal<>(), lsn_of)) {
    in.fail();
  }
  m.unsettled = read_names(in, kMaxNames);
  m.key = read_key(in);
  if (m.has_unnumbered()) m.known = in.u64();
  return finish(in, std::move(m), "LOG_STORE");
}

void encode(const LogStoreReply& m, std::string& out) {
  Writer w(out);
  write_ids(w, m.missing);
  write_ids(w, m.ahead);
}

template <>
Decoded<LogStoreReply> decode<LogStoreReply>(ByteView bytes) {
  Reader in(bytes);
  LogStoreReply m;
  m.missing = read_ids(in);
  if (!in.at_end()) m.ahead = read_ids(in);
  return finish(in, std::move(m), "LOG_STORE reply");
}

void encode(const LogSettleRequest& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.entries.size()));
  for (const auto& entry : m.entries) {
    w.short_string(entry.key);
    w.u64(entry.value);
    w.u64(entry.settled_to);
  }
  const auto has_numbers = [](const auto& entry) { return !entry.numbers.empty(); };
  if (std::ranges::none_of(m.entries, has_numbers)) return;
  for (const auto& entry : m.entries) write_names(w, entry.numbers);
}

template <>
Decoded<LogSettleRequest> decode<LogSettleRequest>(ByteView bytes) {
  Reader in(bytes);
  LogSettleRequest m;
  using Entry = LogSettleRequest::Entry;
  m.entries = read_list<Entry>(in, kSettledBytes, [&](Entry& entry) {
    entry.key = read_key(in);
    entry.value = in.u64();
    entry.settled_to = in.u64();
  });
  if (!in.at_end()) {
    for (Entry& entry : m.entries) entry.numbers = read_names(in, kMaxNames);
  }
  return finish(in, std::move(m), "LOG_SETTLE");
}

void encode(const LogSettleReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.lacking.size()));
  for (const uint32_t place : m.lacking) w.u32(place);
}

template <>
Decoded<LogSettleReply> decode<LogSettleReply>(ByteView bytes) {
  Reader in(bytes);
  LogSettleReply m;
  if (!in.at_end()) {
    m.lacking = read_list<uint32_t>(in, sizeof(uint32_t), [&](uint32_t& at) { at = in.u32(); });
  }
  return finish(in, std::move(m), "LOG_SETTLE reply");
}

void encode(const LogCancelRequest& m, std::string& out) {
  Writer w(out);
  w.u8(m.m);
  w.u64(m.value);
  w.u64(m.known);
  w.short_string(m.key);
  write_ids(w, m.ids);
}

template <>
Decoded<LogCancelRequest> decode<LogCancelRequest>(ByteView bytes) {
  Reader in(bytes);
  LogCancelRequest m;
  m.m = in.u8();
  m.value = in.u64();
  m.known = in.u64();
  m.key = read_key(in);
  m.ids = read_ids(in);
  if (m.ids.size() > kMaxUnnumbered) in.fail();
  return finish(in, std::move(m), "LOG_CANCEL");
}

void encode(const LogCancelReply& m, std::string& out) {
  Writer w(out);
  w.u32(static_cast<uint32_t>(m.lsns.size()));
  for (const uint64_t lsn : m.lsns) w.u64(lsn);
}

template <>
Decoded<LogCancelReply> decode<LogCancelReply>(ByteView bytes) {
  Reader in(bytes);
  LogCancelReply m;
  m.lsns = read_list<uint64_t>(in, sizeof(uint64_t), [&](uint64_t& lsn) { lsn = in.u64(); });
  return finish(in, std::move(m), "LOG_CANCEL reply");
}

void encode(const LogScanRequest& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(m.max_entries);
  w.u32(m.min_age_ms);
}

template <>
Decoded<LogScanRequest> decode<LogScanRequest>(ByteView bytes) {
  Reader in(bytes);
  LogScanRequest m;
  m.cursor = in.u64();
  m.max_entries = in.u32();
  m.min_age_ms = in.u32();
  return finish(in, m, "LOG_SCAN");
}

void encode(const LogScanReply& m, std::string& out) {
  Writer w(out);
  w.u64(m.cursor);
  w.u32(static_cast<uint32_t>(m.logs.size()));
  for (const ScannedLog& log : m.logs) {
    w.short_string(log.key);
    w.u32(log.bytes);
    w.u32(log.age_ms);
    w.u32(log.idle_ms);
  }
  w.u32(static_cast<uint32_t>(m.unnumbered.size()));
  for (const std::string& key : m.unnumbered) w.short_string(key);
}

template <>
Decoded<LogScanReply> decode<LogScanReply>(ByteView bytes) {
  Reader in(bytes);
  LogScanReply m;
  m.cursor = in.u64();
  m.logs = read_list<ScannedLog>(in, kScannedLogBytes, [&](ScannedLog& log) {
    log.key = read_key(in);
    log.bytes = in.u32();
    log.age_ms = in.u32();
    log.idle_ms = in.u32();
  });
  if (!in.at_end()) {
    m.unnumbered =
        read_list<std::string>(in, kKeyBytes, [&](std::string& key) { key = read_key(in); });
  }
  return finish(in, std::move(m), "LOG_SCAN reply");
}

}  // namespace elastripe::node
