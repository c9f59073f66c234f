#include "proxy/ops/jobs/orphans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "proxy/async/when_all.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/record_scan.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

using node::Mutation;
using node::Status;

namespace {

constexpr uint32_t kScanEntries = 2048;
constexpr uint32_t kScanBytes = 256 << 10;
constexpr size_t kFirstWidth = 64;
// Windows are made so wide that about so many shards are looked at in each; some 40 bytes of memory
// for each that a record refers to.
constexpr size_t kShardsPerWindow = 1 << 18;
// Names of orphans in memory; those beyond it are left for the next time round.
constexpr size_t kMaxSuspects = 1 << 16;

struct IdHash {
  size_t operator()(const node::Id128& id) const { return id.hi ^ id.lo * 0x9e3779b97f4a7c15; }
};

// One that differs from window to window, so that no orphan is mistaken again and again.
uint64_t fingerprint(uint64_t seed, const node::ShardName& name, NodeId on) {
  uint64_t hash = seed;
  for (const uint64_t part :
       {name.txid.hi, name.txid.lo, uint64_t{name.segment} << 32 | name.generation,
        uint64_t{name.index} << 16 | on}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

template <class Take>
void for_each_shard(const node::RecordContent& content, Take take) {
  for (const node::Segment& segment : content.segments) {
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      if (segment.placement[i] == kNoNode) continue;
      take(segment.placement[i], shard_name(segment, content.scheme, i));
    }
  }
}

// Whether the record refers to that shard on that node.
bool refers_to(const node::Record& record, NodeId on, const node::ShardName& name) {
  bool found = false;
  for_each_shard(record.content, [&](NodeId node, const node::ShardName& shard) {
    found = found || (node == on && shard == name);
  });
  return found;
}

bool deletes_by_timer() { return mutant(Mutant::kReclaimByTimer) || mutant(Mutant::kDropStaged); }

// The work on one window; its flows share it.
class Window {
 public:
  Window(OpsContext& ops, MapPtr map, std::vector<bool> chosen)
      : ops_(ops), map_(std::move(map)), chosen_(std::move(chosen)), seed_(ops.random.next()) {
    const auto abandoned = kAbandonedAfter * ops.settings.upload_idle;
    abandoned_ms_ = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(abandoned).count());
    if (deletes_by_timer()) abandoned_ms_ = 0;
    for (size_t p = 0; p < chosen_.size(); ++p) {
      if (map_->partitions[p].homes.empty()) chosen_[p] = false;
    }
  }

  Task<Result<void>> run(ReclaimReport& report);
  size_t shards_seen() const { return seen_; }

 private:
  struct Suspect {
    NodeId node = 0;
    node::ShardName name;
  };
  using Suspects = std::unordered_map<std::string, std::vector<Suspect>>;  // by key

  Task<Result<void>> read_records();
  Task<Result<void>> read_records_at(NodeId tail, std::vector<uint8_t> partitions);
  Task<Result<bool>> note_records(node::RecordScanReply& page);
  Task<Result<void>> note_record(node::ScannedRecord scanned);
  Task<Result<void>> list_shards();
  Task<Result<void>> list_shards_on(NodeId on, std::vector<uint8_t> partitions);
  Task<Result<bool>> note_shards(NodeId on, node::ShardScanReply& page);
  void note_shard(NodeId on, node::ScannedShard shard);
  void acquit();
  Task<Result<records::CommitResult>> fence(std::string key);
  Task<Result<void>> fence_and_delete(ReclaimReport& report);

  OpsContext& ops_;
  const MapPtr map_;
  std::vector<bool> chosen_;  // partitions; those whose tail does not answer leave
  const uint64_t seed_;
  uint64_t abandoned_ms_;
  size_t seen_ = 0;
  std::unordered_set<uint64_t> wanted_;               // fingerprints of what records refer to
  std::unordered_set<node::Id128, IdHash> going_on_;  // transactions with young shards
  // Keys of which no record is intact: nobody knows which shards it refers to.
  std::unordered_set<std::string> unknown_;
  Suspects suspects_;
  size_t suspect_names_ = 0;
  int silent_ = 0;  // nodes that have not listed all of their shards
};

Task<Result<void>> Window::run(ReclaimReport& report) {
  auto done = co_await read_records();
  if (done) done = co_await list_shards();
  if (!done) co_return done;
  acquit();
  co_return co_await fence_and_delete(report);
}

Task<Result<void>> Window::read_records() {
  std::vector<Task<Result<void>>> reads;
  for (auto& [tail, bits] : records::partitions_by_tail(*map_, chosen_)) {
    reads.push_back(read_records_at(tail, std::move(bits)));
  }
  Result<void> result;
  for (auto& done : co_await when_all(std::move(reads))) {
    if (!done) result = done;
  }
  co_return result;
}

Task<Result<void>> Window::read_records_at(NodeId tail, std::vector<uint8_t> partitions) {
  node::RecordScanRequest message;
  message.max_bytes = kScanBytes;
  message.striped_only = true;
  message.partitions = partitions;
  const auto read =
      co_await for_each_page(ops_, map_, tail, std::move(message),
                             [this](node::RecordScanReply& page) { return note_records(page); });
  if (read) co_return Result<void>{};
  for (size_t p = 0; p < chosen_.size(); ++p) {
    if (has_bit(partitions, p)) chosen_[p] = false;
  }
  co_return end_or_go_on(read.error());
}

Task<Result<bool>> Window::note_records(node::RecordScanReply& page) {
  // What lacks records says nothing about shards.
  for (const uint32_t partition : page.unsynced) chosen_[partition] = false;
  for (node::ScannedRecord& scanned : page.records) {
    auto noted = co_await note_record(std::move(scanned));
    if (!noted) co_return fail(noted.error());
  }
  co_return true;
}

Task<Result<void>> Window::note_record(node::ScannedRecord scanned) {
  RecordPtr record;
  if (scanned.record.empty()) {  // it did not fit in the page
    auto read = co_await records::try_read_tail(ops_, map_, scanned.key, /*if_version=*/0,
                                                fresh_deadline(ops_));
    if (!read && read.error().code == ErrorCode::kLost) {
      unknown_.insert(std::move(scanned.key));
      co_return Result<void>{};
    }
    if (!read) co_return fail(read.error());
    record = read->record;
  } else {
    auto decoded = node::decode_record(as_bytes(scanned.record));
    if (!decoded) co_return fail(ErrorCode::kInvalid, "{}", decoded.error());
    record = std::make_shared<const node::Record>(std::move(*decoded));
  }
  if (record == nullptr) co_return Result<void>{};
  for_each_shard(record->content, [&](NodeId on, const node::ShardName& name) {
    wanted_.insert(fingerprint(seed_, name, on));
  });
  co_return Result<void>{};
}

Task<Result<void>> Window::list_shards() {
  std::vector<Task<Result<void>>> lists;
  const std::vector<uint8_t> bits = records::partition_bits(chosen_);
  for (const node::NodeInfo& info : map_->nodes) {
    if (info.state == node::NodeState::kUp) lists.push_back(list_shards_on(info.id, bits));
    if (info.state == node::NodeState::kSuspect || info.state == node::NodeState::kAway) ++silent_;
  }
  Result<void> result;
  for (auto& done : co_await when_all(std::move(lists))) {
    if (done) continue;
    ++silent_;
    if (ends_round(done.error())) result = done;
  }
  co_return result;
}

Task<Result<void>> Window::list_shards_on(NodeId on, std::vector<uint8_t> partitions) {
  node::ShardScanRequest message;
  message.max_entries = kScanEntries;
  message.partitions = std::move(partitions);
  const auto listed = co_await for_each_page(
      ops_, map_, on, std::move(message),
      [this, on](node::ShardScanReply& page) { return note_shards(on, page); });
  if (!listed) co_return fail(listed.error());
  co_return Result<void>{};
}

Task<Result<bool>> Window::note_shards(NodeId on, node::ShardScanReply& page) {
  for (node::ScannedShard& shard : page.shards) note_shard(on, std::move(shard));
  co_return true;
}

void Window::note_shard(NodeId on, node::ScannedShard shard) {
  ++seen_;
  if (!chosen_[map_->partition_of(shard.key)]) return;
  const bool is_young = shard.age_ms < abandoned_ms_;
  if (mutant(Mutant::kReclaimQuietKeys) && is_young) unknown_.insert(shard.key);
  if (wanted_.contains(fingerprint(seed_, shard.name, on))) return;
  if (is_young) {
    going_on_.insert(shard.name.txid);
    return;
  }
  if (mutant(Mutant::kDropStaged) && shard.name.generation == 0) return;
  if (suspect_names_ == kMaxSuspects) return;
  ++suspect_names_;
  suspects_[std::move(shard.key)].push_back({on, shard.name});
}

// Leaves what has to go. A young shard may belong to an upload that is going on, whose older shards
// wait for its commit. Shards of one segment are sent together, to k' + m nodes: while no more than
// m nodes are silent, others have one of the same age. A repair sends fewer; if it is taken for
// abandoned, the fence makes it start again.
void Window::acquit() {
  for (auto& [key, shards] : suspects_) {
    const bool too_many_silent = silent_ > ops_.pools.pool_of(key).scheme.m;
    const bool stays = too_many_silent || unknown_.contains(key);
    std::erase_if(shards, [&](const Suspect& suspect) {
      return stays || going_on_.contains(suspect.name.txid);
    });
  }
  std::erase_if(suspects_, [](const auto& entry) { return entry.second.empty(); });
}

// No transaction that could refer to the key's orphans can commit any more afterwards.
Task<Result<records::CommitResult>> Window::fence(std::string key) {
  auto tail =
      co_await records::try_read_tail(ops_, map_, key, /*if_version=*/0, fresh_deadline(ops_));
  if (!tail) co_return fail(tail.error());
  if (mutant(Mutant::kReclaimWithoutFence) || deletes_by_timer()) {
    records::CommitResult result;
    result.record = tail->record;
    if (result.record == nullptr) result.record = std::make_shared<const node::Record>();
    co_return result;
  }
  const uint64_t version = tail->record != nullptr ? tail->record->meta.version : tail->floor;
  node::RecordContent content;
  if (mutant(Mutant::kAttemptIsTxid) && tail->record != nullptr) content = tail->record->content;
  auto fenced = co_await commit_at_version(ops_, map_, key, Mutation::kFence, version, content);
  if (!fenced || fenced->status != records::CommitStatus::kConditionFailed) co_return fenced;
  // A RAISE_FLOOR, which begins at the head, did not reach the tail. A missing record counts as the
  // head's. (A floor below the tail's would make a tombstone that the tail must refuse.)
  const bool is_behind = fenced->record == nullptr && fenced->floor > version;
  if (!is_behind) co_return fenced;
  co_return co_await commit_at_version(ops_, map_, key, Mutation::kFence, fenced->floor);
}

Task<Result<void>> Window::fence_and_delete(ReclaimReport& report) {
  std::vector<std::string> keys;
  for (const auto& [key, _] : suspects_) keys.push_back(key);
  std::ranges::sort(keys);
  std::map<NodeId, ShardsOnNode> doomed;
  std::vector<ShardsOnNode> frames;
  const auto doom = [&](const Suspect& suspect) {
    ShardsOnNode& shards = doomed[suspect.node];
    shards.node = suspect.node;
    shards.names.push_back(suspect.name);
    if (shards.names.size() < kShardsPerFrame) return;
    frames.push_back(std::exchange(shards, {shards.node, {}}));
  };
  auto fenced = co_await in_batches(
      keys.size(), kReclaimedAtOnce, [&](size_t i) { return fence(keys[i]); },
      [&](size_t i, const Result<records::CommitResult>& fence) {
        if (!fence) return end_or_go_on(fence.error());
        report.chains_completed += has_completed_other(*fence);
        if (fence->status != records::CommitStatus::kCommitted) return Result<void>{};
        ++report.keys_fenced;
        for (const Suspect& suspect : suspects_[keys[i]]) {
          if (!refers_to(*fence->record, suspect.node, suspect.name)) doom(suspect);
        }
        return Result<void>{};
      });
  for (auto& [_, shards] : doomed) {
    if (!shards.names.empty()) frames.push_back(std::move(shards));
  }
  // Readers of a record that was superseded a moment ago may still want them (rule 8).
  report.shards_deleted +=
      co_await delete_shards_later(ops_, std::move(frames), ops_.settings.read_grace, soon(ops_));
  co_return fenced;
}

}  // namespace

OrphanSweep::OrphanSweep(OpsContext& ops)
    : ops_(ops), next_(ops.random.next() >> 1), width_(kFirstWidth) {}

Task<Result<void>> OrphanSweep::run(MapPtr map, const std::vector<bool>& synced, TimePoint until,
                                    ReclaimReport& report) {
  const size_t count = map->partitions.size();
  for (size_t visited = 0; visited < count && ops_.clock.now() < until;) {
    const size_t width = std::min(width_, count - visited);
    std::vector<bool> chosen(count);
    for (size_t i = 0; i < width; ++i) chosen[(next_ + i) % count] = synced[(next_ + i) % count];
    if (std::ranges::find(chosen, true) != chosen.end()) {
      Window window(ops_, map, std::move(chosen));
      auto done = co_await window.run(report);
      if (!done) co_return done;
      const size_t fit = width * kShardsPerWindow / std::max<size_t>(window.shards_seen(), 1);
      width_ = std::clamp<size_t>(fit, 1, std::min(2 * width_, count));
    }
    next_ += width;
    visited += width;
  }
  co_return Result<void>{};
}

}  // namespace elastripe::jobs
