// The engine under frames of any content that pass its gate. The input is a list of frames: opcode
// (1 byte), lengths of args and payload (2 bytes each, little-endian), args, payload, in which
// contents, records and maps are without checksums, and those of extents are made right. Every
// frame must be answered once, with sizes that fit, and memory must stay bounded.
#include <algorithm>
#include <set>

#include "proxy/base/check.h"
#include "server-patches/node/engine/arena_store.h"
#include "server-patches/node/engine/engine.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/node_samples.h"

using namespace elastripe::node;

namespace {

constexpr size_t kLimitBytes = 64u << 10;
constexpr uint64_t kNow_ms = 1000;

struct FixedClock : NodeClock {
  uint64_t boottime_ms() const override { return kNow_ms; }
};

const HeartbeatRequest kLease = {.lease_stamp_ms = kNow_ms, .lease_ms = 1000};

// Node 0 of the sample map, with a lease.
class Driver {
 public:
  Driver()
      : store_({.limit_bytes = kLimitBytes, .reserve_bytes = kLimitBytes / 8, .buckets = 16}),
        engine_({.incarnation = incarnation_,
                 .latches = 4,
                 .log_unit_bytes = kLimitBytes / 16,
                 .log_units = 4},
                store_, clock_) {
    const std::string bytes = encoded(sample_map());
    CHECK(send(Opcode::kInstallMap, {}, as_view(bytes)) == Status::kOk);
    const std::string lease = encoded(kLease);
    CHECK(send(Opcode::kHeartbeat, as_view(lease), {}) == Status::kOk);
  }

  Status send(Opcode opcode, ByteView args, ByteView payload) {
    Frame frame;
    frame.header.opcode = opcode;
    frame.header.args_bytes = static_cast<uint32_t>(args.size());
    frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
    frame.header.cluster_id = sample_map().cluster_id;
    frame.header.epoch = epoch_;
    frame.header.incarnation = is_control(opcode) ? 0 : incarnation_;
    frame.header.now_ms = 1'700'000'000'000;
    frame.args = args;
    frame.payload = payload;
    const Reply reply = engine_.serve(frame);
    CHECK(reply.header.args_bytes == reply.args.size());
    CHECK(reply.header.payload_bytes() == reply.payload.size());
    CHECK(reply.header.body_bytes <= kMaxBodyBytes);
    CHECK(store_.memory().used_bytes <= kLimitBytes);
    epoch_ = reply.header.epoch;
    return reply.header.status;
  }

  uint64_t map_hash() const { return epoch_.map_hash; }

  void tick() {
    engine_.tick();
    CHECK(!engine_.statistics().empty());
  }

 private:
  const uint64_t incarnation_ = sample_map().nodes[0].incarnation;
  FixedClock clock_;
  ArenaStore store_;
  Engine engine_;
  Epoch epoch_;  // of the map that it has
};

// As a node that has a map of that hash would get it.
std::string sealed(Opcode opcode, ByteView args, ByteView bare, uint64_t map_hash) {
  if (bare.empty()) return {};
  if (opcode == Opcode::kRecordApply) return sealed_content(bare);
  if (opcode == Opcode::kRecordStore) return sealed_record(bare);
  if (opcode == Opcode::kInstallMap) {
    const auto request = decode<InstallMapRequest>(args);
    return request && request->is_changes ? sealed_changes(map_hash, bare) : sealed_map(bare);
  }
  return std::string(as_text(bare));
}

// With the checksums of these parts of the payload.
template <class Extents>
void seal_extents(Extents& extents, ByteView payload) {
  for (auto& extent : extents) {
    const ByteView part = payload.first(std::min<size_t>(extent.length, payload.size()));
    extent.crc32c = crc32c(part);
    payload = payload.subspan(part.size());
  }
}

template <class Request, class Seal>
std::string sealed_as(ByteView bare, Seal seal) {
  auto request = decode<Request>(bare);
  if (!request) return std::string(as_text(bare));
  seal(*request);
  return encoded(*request);
}

std::string sealed_args(Opcode opcode, ByteView bare, ByteView payload) {
  switch (opcode) {
    case Opcode::kShardPatch:
      return sealed_as<ShardPatchRequest>(
          bare, [&](ShardPatchRequest& patch) { seal_extents(patch.extents, payload); });
    case Opcode::kShardUpdate:
      return sealed_as<ShardUpdateRequest>(
          bare, [&](ShardUpdateRequest& update) { seal_extents(update.extents, payload); });
    case Opcode::kLogAppend:
      return sealed_as<LogAppendRequest>(
          bare, [&](LogAppendRequest& append) { append.crc32c = crc32c(payload); });
    case Opcode::kLogStore:
      return sealed_as<LogStoreRequest>(
          bare, [&](LogStoreRequest& store) { seal_extents(store.entries, payload); });
    default:
      return std::string(as_text(bare));
  }
}

// A list of frames that are all answered with kOk.
class Frames {
 public:
  template <class Message>
  Frames& add(Opcode opcode, const Message& message, std::string_view payload = {}) {
    return add_bytes(opcode, encoded(message), payload);
  }
  Frames& add_bytes(Opcode opcode, std::string_view args, std::string_view payload) {
    opcodes_.insert(static_cast<uint8_t>(opcode));
    Writer out(bytes_);
    out.u8(static_cast<uint8_t>(opcode));
    out.u16(static_cast<uint16_t>(args.size()));
    out.u16(static_cast<uint16_t>(payload.size()));
    out.raw(args);
    out.raw(payload);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  const std::set<uint8_t>& opcodes() const { return opcodes_; }

 private:
  std::string bytes_;
  std::set<uint8_t> opcodes_;
};

std::string key_in(size_t partition) {
  for (int i = 0;; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (sample_map().partition_of(key) == partition) return key;
  }
}

Frames record_frames() {
  const std::string decided = key_in(1);
  RecordApplyRequest set = {.m = 2,
                            .attempt_id = {1, 1},
                            .base_version = UINT64_MAX,
                            .inline_max_bytes = 100,
                            .key = decided};
  RecordApplyRequest increment = set;
  increment.attempt_id = {1, 2};
  increment.mutation = Mutation::kIncrement;
  increment.delta = 3;
  const std::string stored = key_in(0);
  const uint64_t version = sample_map().version_floor + 1;
  const Record record = inline_record(version, "5");
  Frames frames;
  frames.add_bytes(Opcode::kHello, "", "")
      .add(Opcode::kRecordApply, set, bare_content(record.content))
      .add(Opcode::kRecordApply, increment)
      .add(Opcode::kRecordStore, RecordStoreRequest{.m = 2, .key = stored}, bare_record(record))
      .add(Opcode::kRecordRead, RecordReadRequest{.m = 2, .key = stored})
      .add(Opcode::kRecordFetch, RecordFetchRequest{1000, {stored, decided}})
      .add(Opcode::kRecordConfirm, RecordConfirmRequest{{{stored, {version, {2, version}}}}})
      .add(Opcode::kRecordScan, RecordScanRequest{.max_bytes = 1000, .partitions = {15}})
      .add(Opcode::kMarkSynced, MarkSyncedRequest{.partition = 2, .key = "", .floor = version})
      .add(Opcode::kRaiseFloor, RaiseFloorRequest{.partition = 0, .floor = version})
      .add(Opcode::kDropTombstones, DropTombstonesRequest{0, {{stored, version}}});
  return frames;
}

// At the tail, at another copy, and by sync.
Frames log_frames() {
  const std::string appended = key_in(0);
  const std::string stored = key_in(1);
  const std::string synced = key_in(2);
  const uint64_t version = next_block(sample_map().version_floor);
  Record record = striped_record(version);
  record.content.segments[0].folded_lsn = 0;
  const LogAppendRequest append = {
      .m = 2, .id = {5, 1}, .value = version, .known = version, .offset = 10, .key = appended};
  const LogStoreRequest store = {
      .m = 2,
      .value = version,
      .settled_to = version + 1,
      .entries = {{{{5, 2}, version + 2}, 20, 3, 0}, {{{5, 3}, version + 3}, 21, 4, 0}},
      .unsettled = {{{5, 2}, version + 2}},
      .key = stored};
  const std::string image = encoded(sample_log(version));
  RecordApplyRequest fold = {.m = 2,
                             .attempt_id = {5, 4},
                             .base_version = UINT64_MAX,
                             .condition = Condition::kIfVersion,
                             .condition_argument = version,
                             .mutation = Mutation::kFold,
                             .key = stored,
                             .made_of_cas = version + 3};
  RecordContent folded = record.content;
  folded.segments[0].folded_lsn = version + 2;
  Frames frames;
  for (const std::string& key : {appended, stored, synced}) {
    frames.add(Opcode::kRecordStore, RecordStoreRequest{.m = 2, .sync = key == synced, .key = key},
               bare_record(record));
  }
  frames.add(Opcode::kLogAppend, append, "update")
      .add(Opcode::kRecordRead,
           RecordReadRequest{.m = 2, .key = appended, .log = LogWanted::kView, .log_length = 50})
      .add(Opcode::kRecordRead,
           RecordReadRequest{.m = 2, .key = appended, .log = LogWanted::kUnsettled})
      .add(Opcode::kLogSettle, LogSettleRequest{{{appended, version, version + 1, {}},
                                                 {stored, version, 0, {{{3, 4}, version + 4}}}}})
      .add(Opcode::kLogCancel, LogCancelRequest{2, version, version, stored, {{3, 4}}})
      .add(Opcode::kLogScan, LogScanRequest{.max_entries = 9})
      .add(Opcode::kLogStore, store, "oneover")
      .add(Opcode::kRecordApply, fold, bare_content(folded))
      .add(Opcode::kRecordStore,
           RecordStoreRequest{.m = 2, .sync = true, .key = synced, .log = image},
           bare_record(record))
      .add(Opcode::kRecordRead,
           RecordReadRequest{.role = Role::kAny, .key = synced, .log = LogWanted::kImage})
      .add(Opcode::kRecordScan,
           RecordScanRequest{.max_bytes = 1000, .versions_only = true, .partitions = {7}});
  return frames;
}

Frames shard_frames() {
  const ShardHeader old = sample_shard();
  const std::string block(old.payload_bytes, 'b');
  ShardHeader built = old;
  ++built.name.generation;
  const ShardBuildRequest build = {old.name, built, old.payload_bytes, {{{0}, {0}}}};
  ShardHeader patched = built;
  ++patched.name.generation;
  const ShardPatchRequest patch = {
      built.name, patched, ShardPatchMode::kWrite, {{3, 2, 0}, {old.payload_bytes - 4, 4, 0}}};
  const auto update = [&](ShardUpdateMode mode, uint32_t log_bytes) {
    return ShardUpdateRequest{built.name, mode, log_bytes, {{3, 2, 0}, {7, 1, 0}}, ""};
  };
  ShardUpdateRequest collect = update(ShardUpdateMode::kCollect, 100);
  collect.coefficients = "abcd";
  ShardUpdateRequest speculate = update(ShardUpdateMode::kSpeculate, 0);
  speculate.epoch = speculate.serial = speculate.originals = 1;
  speculate.coefficient = 7;
  ShardUpdateRequest settle{built.name, ShardUpdateMode::kSettle, 0, {}, "", 0, 1, 1};
  Frames frames;
  frames.add(Opcode::kShardWrite, ShardWriteRequest{old}, block)
      .add(Opcode::kShardBuild, build, block)
      .add(Opcode::kShardPatch, patch, "update")
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kSwap, 0), "new")
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kLog, 0), "add")
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kLog, 4), "add")
      .add(Opcode::kShardUpdate, collect, "add")
      .add(Opcode::kShardUpdate, ShardUpdateRequest{built.name, ShardUpdateMode::kTake, 0, {}, ""})
      .add(Opcode::kShardUpdate, ShardUpdateRequest{built.name, ShardUpdateMode::kFold, 0, {}, ""})
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kKeep, kPageBytes), "new")
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kHold, 0), "new")
      .add(Opcode::kShardUpdate, ShardUpdateRequest{built.name, ShardUpdateMode::kFlush, 0, {}, ""})
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kDrop, 0))
      .add(Opcode::kShardUpdate, ShardUpdateRequest{built.name, ShardUpdateMode::kDrop, 0, {}, ""})
      .add(Opcode::kShardUpdate, update(ShardUpdateMode::kTouch, kPageBytes), "new")
      .add(Opcode::kShardUpdate, speculate, "new")
      .add(Opcode::kShardUpdate, settle)
      .add(Opcode::kShardRead, ShardReadRequest{.name = built.name, .offset = 1, .length = 9})
      .add(Opcode::kShardConfirm, ShardConfirmRequest{{old.name, built.name}})
      .add(Opcode::kShardFingerprint,
           ShardFingerprintRequest{{1, 2}, {{old.name, old.payload_bytes}, {built.name, 1}}})
      .add(Opcode::kShardScan, ShardScanRequest{.max_entries = 9})
      .add(Opcode::kShardDelete, ShardDeleteRequest{{old.name}, 1000});
  return frames;
}

Frames map_frames() {
  ClusterMap next = sample_map();
  ++next.epoch.number;
  next.version_floor <<= 1;
  next.flush_floor = next.version_floor - 1;
  Frames frames;
  const NoticesRequest notices = {7, 0, {{1, 7, 3, 1000, "text"}, {1, 0, 3, 1000, "again"}}};
  frames.add_bytes(Opcode::kInstallMap, "", bare_map(next))
      .add(Opcode::kHeartbeat, kLease)
      .add(Opcode::kNotices, notices)
      .add(Opcode::kNotices, NoticesRequest{.reader = 7, .since = 1, .posted = {}});
  return frames;
}

// The sample map is what changes, and what who asks then knows.
Frames changes_frames() {
  const HelloRequest hello = {.known_map = sample_map().epoch.map_hash, .takes_changes = true};
  Frames frames;
  frames
      .add(Opcode::kInstallMap, InstallMapRequest{.is_changes = true},
           bare_changes(sample_map(), next_sample_map()))
      .add(Opcode::kHello, hello)
      .add(Opcode::kHeartbeat, kLease);
  return frames;
}

}  // namespace

bool elastripe::fuzz::accepts(std::string_view input) {
  Driver driver;
  Reader in(as_view(input));
  bool all_done = true;
  while (!in.at_end()) {
    const uint8_t opcode = in.u8();
    const size_t args_bytes = in.u16();
    const size_t payload_bytes = in.u16();
    const std::string_view bare_args = in.raw(args_bytes);
    const std::string_view bare = in.raw(payload_bytes);
    if (!in.ok()) return false;
    if (!is_known(opcode)) continue;
    const std::string payload =
        sealed(static_cast<Opcode>(opcode), as_view(bare_args), as_view(bare), driver.map_hash());
    const std::string args =
        sealed_args(static_cast<Opcode>(opcode), as_view(bare_args), as_view(payload));
    all_done &=
        driver.send(static_cast<Opcode>(opcode), as_view(args), as_view(payload)) == Status::kOk;
  }
  driver.tick();
  return all_done;
}

std::vector<std::string> elastripe::fuzz::seeds() {
  std::vector<std::string> seeds;
  std::set<uint8_t> opcodes;
  for (const Frames& frames :
       {record_frames(), log_frames(), shard_frames(), map_frames(), changes_frames()}) {
    seeds.push_back(frames.bytes());
    opcodes.insert(frames.opcodes().begin(), frames.opcodes().end());
  }
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto known = static_cast<uint8_t>(opcode);
    CHECK(!is_known(known) || opcodes.contains(known), "no seed has a frame {}",
          name(static_cast<Opcode>(known)));
  }
  return seeds;
}
