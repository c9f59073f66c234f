// Every decoder of the node protocol. The first byte chooses the decoder. What decodes must encode
// to the bytes that it came from: two spellings of one message would be two records of one version.
// Only at the end there may be more, which nobody knows yet, or, of the formats that have grown,
// less.
#include <array>
#include <type_traits>

#include "proxy/base/check.h"
#include "server-patches/node/format/messages.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/node_samples.h"

using namespace elastripe::node;

namespace {

// What encodes as `bytes` did.
template <class Message>
bool comes_back(const Message& message, ByteView bytes) {
  const std::string again = encoded(message);
  const std::string_view before = as_text(bytes);
  constexpr bool has_grown =
      std::is_same_v<Message, HelloRequest> || std::is_same_v<Message, HeartbeatRequest> ||
      std::is_same_v<Message, HelloReply> || std::is_same_v<Message, RecordReadReply> ||
      std::is_same_v<Message, RecordApplyReply> || std::is_same_v<Message, LogImage> ||
      std::is_same_v<Message, LogStoreReply> || std::is_same_v<Message, LogSettleReply> ||
      std::is_same_v<Message, LogScanReply> || std::is_same_v<Message, ClusterMap>;
  const size_t common = has_grown ? std::min(again.size(), before.size()) : again.size();
  CHECK(again.substr(0, common) == before.substr(0, common));
  return true;
}

// A decoder, and messages that it takes.
struct Format {
  bool (*accepts)(ByteView in);
  std::vector<std::string> samples;
};

template <class Message>
Format message(const std::vector<Message>& samples) {
  Format format;
  format.accepts = [](ByteView in) {
    const auto message = decode<Message>(in);
    return message && comes_back(*message, in);
  };
  for (const Message& sample : samples) format.samples.push_back(encoded(sample));
  return format;
}

// The input is the record without its checksums. Tails that are not known do not come back; all
// that is known does, from the very same bytes.
bool accepts_record(ByteView bare) {
  const auto record = decode_record(as_view(sealed_record(bare)));
  if (!record) return false;
  const std::string known = bare_record(*record);
  CHECK(decode_record(as_view(sealed_record(as_view(known)))) == *record);
  const size_t tail_at = meta_tail_at(as_view(known));
  CHECK(as_text(bare).starts_with(known.substr(0, tail_at)));
  const size_t content_at = bare_meta_bytes(bare);
  CHECK(as_text(bare).substr(content_at).starts_with(bare_content(record->content)));
  return true;
}

bool accepts_log(ByteView in) {
  const auto log = decode_log(in);
  return log && comes_back(*log, in);
}

// The input is the map without its hash.
bool accepts_map(ByteView bare) {
  const std::string bytes = sealed_map(bare);
  const auto map = decode_map(as_view(bytes));
  return map && comes_back(*map, as_view(bytes));
}

// The input is changes of the sample map, without its hash.
bool accepts_changes(ByteView bare) {
  const ClusterMap base = sample_map();
  const std::string bytes = sealed_changes(base.epoch.map_hash, bare);
  const auto changed = apply_changes(base, as_view(bytes));
  if (!changed) return false;
  CHECK(changed->encoded == encoded(changed->map));
  CHECK(decode_changes_head(as_view(bytes))->epoch == changed->map.epoch);
  const auto again = apply_changes(base, as_view(changes_between(base, changed->map).value()));
  CHECK(again && again->map == changed->map);
  return true;
}

template <class Header, auto decode_header>
Format header(const Header& sample) {
  Format format;
  format.accepts = [](ByteView in) {
    if (in.size() != kHeaderBytes) return false;
    const Decoded<Header> header = decode_header(in.first<kHeaderBytes>());
    if (!header) return false;
    const std::string again = encoded_header(*header);
    CHECK(encoded_header(*decode_header(as_view(again).first<kHeaderBytes>())) == again);
    return true;
  };
  format.samples = {encoded_header(sample)};
  return format;
}

// Requests have views of it.
const std::string& sample_log_bytes() {
  static const std::string bytes = encoded(sample_log(7));
  return bytes;
}

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {accepts_record,
       {bare_record(inline_record(7, "value")), bare_record(striped_record(7)),
        bare_record(tombstone(7)), grown_record(inline_record(7, "value")),
        grown_record(striped_record(7)), grown_record(tombstone(7))}},
      {accepts_map, {bare_map(sample_map())}},
      {accepts_changes, {bare_changes(sample_map(), next_sample_map())}},
      {accepts_log, {encoded(sample_log(7)), encoded(LogImage{})}},
      header<RequestHeader, decode_request_header>(
          {.opcode = Opcode::kShardBuild, .args_bytes = 3, .body_bytes = 9, .epoch = {1, 2, 3}}),
      header<ReplyHeader, decode_reply_header>(
          {.status = Status::kBadPage, .body_bytes = 9, .opaque = 5, .epoch = {1, 2, 3}}),
      message<HelloRequest>({{7, DeciderSign::kHere, true}}),
      message<InstallMapRequest>({{}, {.is_changes = true}}),
      message<HelloReply>({{.clock_ms = 1,
                            .max_version = 2,
                            .has_lease = true,
                            .synced = {3},
                            .statistics = {},
                            .capabilities = CapabilitySet(5),
                            .version = "1.2",
                            .decider_age_ms = 30,
                            .is_changes = true}}),
      message<HeartbeatRequest>({{1000, 3000, DeciderSign::kHere, 7}}),
      message<NoticesRequest>({{7, 8, {{1, 2, 3, 4, "text"}, {1, 0, 4, 5, ""}}}}),
      message<NoticesReply>({{9, {{1, 2, 3, 4, "text"}}}}),
      message<RecordReadRequest>(
          {{.role = Role::kHead, .if_version = 4, .key = "key"},
           {.key = "key", .log = LogWanted::kView, .log_offset = 5, .log_length = 6},
           {.key = "key", .log = LogWanted::kUnsettled}}),
      message<RecordReadReply>({{5, 6}, {5, 6, encoded(sample_log(7)), 8}}),
      message<RecordApplyRequest>({{.attempt_id = {1, 2},
                                    .condition = Condition::kIfVersion,
                                    .mutation = Mutation::kReshape,
                                    .key = "key"},
                                   {.attempt_id = {1, 2},
                                    .condition = Condition::kIfVersion,
                                    .mutation = Mutation::kFold,
                                    .key = "key",
                                    .made_of_cas = 5}}),
      message<RecordApplyReply>({{5, true, ""}, {5, false, encoded(striped_record(7).content)}}),
      message<RecordStoreRequest>({{.sync = true, .lost_version = 3, .key = "key"},
                                   {.sync = true, .key = "key", .log = sample_log_bytes()}}),
      message<RecordStoreReply>({{5}}),
      message<RecordScanRequest>({{.striped_only = true, .prefix = "pre", .partitions = {3}}}),
      message<RecordScanReply>({{.cursor = 9,
                                 .records = {{"key", "record"}, {"other", ""}},
                                 .floors = {{1, 2}},
                                 .unsynced = {3},
                                 .versions = {{"key", {5, {6, 7}}, true, false}}},
                                {.records = {},
                                 .floors = {},
                                 .versions = {{"key", {5, {6, 7}}, false, false, true},
                                              {"other", {5, {6, 8}}, false, false, false}}}}),
      message<MarkSyncedRequest>({{1, "key", 2}, {1, "", 2}}),
      message<RaiseFloorRequest>({{1, 2}}),
      message<DropTombstonesRequest>({{1, {{"key", 2}, {"other", 3}}}}),
      message<RecordConfirmRequest>({{{{"key", {5, {6, 7}}}}}}),
      message<RecordConfirmReply>({{{3}}}),
      message<RecordFetchRequest>({{100, {"key", "other"}}}),
      message<RecordFetchReply>({{{0, 50}}}),
      message<ShardWriteRequest>({{sample_shard()}}),
      message<ShardWriteReply>({{5}}),
      message<ShardBuildRequest>(
          {{sample_shard().name, sample_shard(), 64, {{{0}, {1, 2}}, {{}, {0}}}}}),
      message<ShardPatchRequest>(
          {{sample_shard().name, sample_shard(), ShardPatchMode::kAdd, {{0, 2, 3}, {9, 1, 4}}}}),
      message<ShardUpdateRequest>(
          {{sample_shard().name, ShardUpdateMode::kSwap, 0, {{0, 2, 3}, {9, 1, 4}}, ""},
           {sample_shard().name, ShardUpdateMode::kCollect, 5, {{9, 2, 3}, {0, 1, 4}}, "abcd"},
           {sample_shard().name, ShardUpdateMode::kKeep, 65536, {{0, 2, 3}, {9, 1, 4}}, ""},
           {sample_shard().name, ShardUpdateMode::kFlush, 4096, {}, ""},
           {sample_shard().name, ShardUpdateMode::kHold, 0, {{0, 2, 3}}, ""},
           {sample_shard().name, ShardUpdateMode::kDrop, 0, {{0, 2, 0}}, ""},
           {sample_shard().name, ShardUpdateMode::kTouch, 65536, {{0, 2, 3}, {9, 1, 4}}, ""},
           {sample_shard().name,
            ShardUpdateMode::kSpeculate,
            0,
            {{9, 2, 3}, {0, 1, 4}},
            "",
            1,
            2,
            3,
            1,
            5},
           {sample_shard().name, ShardUpdateMode::kSettle, 0, {}, "", 1, 2, 3}}),
      message<ShardUpdateReply>({{{{1, 2}, {3, 4}}, 5, 6}}),
      message<ShardReadRequest>({{sample_shard().name, 1, 2}}),
      message<ShardConfirmRequest>({{{sample_shard().name}, false}}),
      message<ShardConfirmReply>({{{{true, 1, 2}, {}}}}),
      message<ShardFingerprintRequest>({{{1, 2}, {{sample_shard().name, 64}}}}),
      message<ShardFingerprintReply>({{{{ShardHealth::kIntact, 1}, {}}, {{1, {2, 3}}}}}),
      message<ShardDeleteRequest>({{{sample_shard().name}, 1000}}),
      message<ShardDeleteReply>({{5}}),
      message<ShardScanRequest>({{.cursor = 1, .max_entries = 2, .partitions = {3}}}),
      message<ShardScanReply>({{9, {{sample_shard().name, "key", 5, 6}}}}),
      message<LogAppendRequest>(
          {{.id = {1, 2}, .value = 3, .known = 4, .offset = 5, .key = "key", .settled_to = 6}}),
      message<LogAppendReply>({{9, 7, 9, {{{1, 2}, 8}}}}),
      message<LogStoreRequest>({{.value = 3,
                                 .settled_to = 4,
                                 .entries = {{{{1, 2}, 6}, 5, 6, 7}, {{{1, 3}, 7}, 5, 6, 7}},
                                 .unsettled = {{{1, 1}, 5}},
                                 .key = "key"},
                                {.value = 3,
                                 .entries = {{{{1, 2}, 0}, 5, 6, 7}},
                                 .unsettled = {{{1, 1}, 5}},
                                 .key = "key",
                                 .known = 4}}),
      message<LogStoreReply>({{{{1, 2}, {3, 4}}, {}}, {{}, {{1, 2}}}}),
      message<LogSettleRequest>(
          {{{{"key", 3, 4, {}}, {"other", 5, 0, {{{1, 2}, 6}, {{3, 4}, 7}}}}}}),
      message<LogSettleReply>({{{1, 2}}}),
      message<LogCancelRequest>({{2, 3, 4, "key", {{1, 2}, {3, 4}}}}),
      message<LogCancelReply>({{{0, 5}}}),
      message<LogScanRequest>({{1, 2, 3}}),
      message<LogScanReply>({{9, {{"key", 5, 6}, {"other", 7, 8}}, {}}, {0, {}, {"key"}}}),
  };
  return all;
}

}  // namespace

bool elastripe::fuzz::accepts(std::string_view input) {
  if (input.empty()) return false;
  const size_t chosen = static_cast<unsigned char>(input.front()) % formats().size();
  return formats()[chosen].accepts(as_view(input.substr(1)));
}

std::vector<std::string> elastripe::fuzz::seeds() {
  std::vector<std::string> all;
  for (size_t i = 0; i < formats().size(); ++i) {
    for (const std::string& sample : formats()[i].samples) {
      all.push_back(static_cast<char>(i) + sample);
    }
  }
  return all;
}
