#include "proxy/ops/records/sync_window.h"

#include <algorithm>

#include "proxy/async/when_all.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/records/sync_steps.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::Partition;
using node::Status;

namespace {

constexpr uint32_t kPageBytes = 256 << 10;
constexpr size_t kKeysAtOnce = 32;   // stores of each source; heartbeats share the channels
constexpr size_t kMarksAtOnce = 64;  // partitions
constexpr size_t kSliceKeys = 1024;  // between which other flows take their turns
constexpr int kTries = 3;            // of a call that gets no answer

}  // namespace

SyncWindow::SyncWindow(Sweep& sweep, std::vector<uint32_t> partitions)
    : sweep_(sweep),
      ops_(sweep.ops),
      map_(sweep.map),
      partitions_(std::move(partitions)),
      lost_(map_->partitions[partitions_.front()].lost) {
  for (const uint32_t p : partitions_) floors_[p] = 0;
}

Task<bool> SyncWindow::run() {
  if (mutant(Mutant::kMarkBeforeStored)) co_await mark();
  co_await scan_all();
  if (too_large_) co_return false;
  const bool brought = co_await bring_all();
  if (brought && !mutant(Mutant::kMarkBeforeStored)) co_await mark();
  co_return true;
}

bool SyncWindow::may_try_again(const Error& error, int tried) const {
  const bool got_no_answer =
      error.code == ErrorCode::kTimeout || error.code == ErrorCode::kDisconnected;
  return got_no_answer && tried < kTries && !sweep_.is_stopped();
}

template <class Request>
Task<Result<Answer<Request>>> SyncWindow::ask_again(NodeId to, Request message) {
  for (int tried = 1;; ++tried) {
    auto answer =
        co_await ask(ops_.nodes, *map_, to, message, ops_.clock.now() + ops_.settings.node_timeout);
    if (answer || !may_try_again(answer.error(), tried)) co_return answer;
  }
}

uint32_t SyncWindow::partition_of(const Entry& entry) const {
  return static_cast<uint32_t>(map_->partition_of(entry.first));
}

uint16_t SyncWindow::home_bit(const Partition& partition, NodeId home) const {
  const auto place = std::ranges::find(partition.homes, home) - partition.homes.begin();
  return static_cast<size_t>(place) < partition.homes.size() ? static_cast<uint16_t>(1u << place)
                                                             : uint16_t{0};
}

void SyncWindow::give_up(NodeId node, const Error& error) {
  for (const uint32_t p : partitions_) {
    const auto holders = holders_of(map_->partitions[p]);
    if (std::ranges::find(holders, node) != holders.end()) failed_.insert(p);
  }
  sweep_.failed(error);
}

Task<void> SyncWindow::scan_all() {
  std::map<NodeId, std::vector<uint8_t>> wanted;  // per node, one bit a partition
  for (const uint32_t p : partitions_) {
    for (const NodeId node : holders_of(map_->partitions[p])) {
      auto& bits = wanted[node];
      bits.resize((map_->partitions.size() + 7) / 8);
      bits[p / 8] = static_cast<uint8_t>(bits[p / 8] | 1u << (p % 8));
    }
  }
  std::vector<Task<Result<void>>> scans;
  scans.reserve(wanted.size());
  for (const auto& [node, bits] : wanted) scans.push_back(scan(node, bits));
  const auto scanned = co_await when_all(std::move(scans));
  size_t next = 0;
  for (const auto& [node, bits] : wanted) {
    if (const auto& done = scanned[next++]; !done) give_up(node, done.error());
  }
}

// Everything that the node holds of the window, page by page.
Task<Result<void>> SyncWindow::scan(NodeId from, std::vector<uint8_t> bits) {
  node::RecordScanRequest message;
  message.max_bytes = kPageBytes;
  message.versions_only = true;
  message.partitions = std::move(bits);
  do {
    if (sweep_.is_stopped()) co_return fail(ErrorCode::kCancelled, "sync was stopped");
    if (too_large_) break;
    auto page = co_await ask_again(from, message);
    if (!page) co_return fail(page.error());
    for (node::ScannedVersion& scanned : page->args.versions) note(from, std::move(scanned));
    for (const auto& [partition, floor] : page->args.floors) {
      const auto known = floors_.find(partition);
      if (known != floors_.end()) known->second = std::max(known->second, floor);
    }
    too_large_ |= keys_.size() > 2 * kWindowKeys && partitions_.size() > 1;
    message.cursor = page->args.cursor;
  } while (message.cursor != 0);
  co_return Result<void>{};
}

void SyncWindow::note(NodeId from, node::ScannedVersion scanned) {
  const Partition& partition = map_->partitions[map_->partition_of(scanned.key)];
  const uint16_t home = home_bit(partition, from);
  Copies& copies = keys_[std::move(scanned.key)];
  if (scanned.forgotten) {
    copies.forgotten_at = static_cast<uint16_t>(copies.forgotten_at | home);
    return;
  }
  copies.alone |= scanned.has_log;
  if (scanned.damaged) {
    copies.alone = true;
    return;
  }
  if (scanned.commit.version > copies.newest.version) {
    copies.newest = scanned.commit;
    copies.holder = from;
    copies.homes = 0;
  }
  if (scanned.commit.version == copies.newest.version) {
    copies.homes = static_cast<uint16_t>(copies.homes | home);
  }
}

// What some home lacks is brought there, a slice of the keys at a time. False if that ended early:
// then nobody knows what is where.
Task<bool> SyncWindow::bring_all() {
  auto next = keys_.begin();
  while (next != keys_.end() && !sweep_.is_stopped()) {
    Slice slice;
    for (size_t n = 0; n < kSliceKeys && next != keys_.end(); ++n, ++next) {
      const Copies& copies = next->second;
      if (copies.newest.version != 0 || copies.alone) slice.push_back(&*next);
    }
    co_await bring(std::move(slice));
    if (!co_await ops_.clock.next_turn()) co_return false;
  }
  co_return !sweep_.is_stopped();
}

std::vector<NodeId> SyncWindow::homes_lacking(const Entry& entry) {
  const uint32_t number = partition_of(entry);
  const Partition& partition = map_->partitions[number];
  std::vector<NodeId> homes;
  if (failed_.contains(number)) return homes;
  for (const NodeId home : partition.homes) {
    if ((entry.second.homes & home_bit(partition, home)) != 0) continue;
    if (sweep_.full.contains(home)) {
      sweep_.refused.insert(number);
    } else {
      homes.push_back(home);
    }
  }
  return homes;
}

// Those of the slice that can be brought to a home which lacks them.
SyncWindow::Slice SyncWindow::lacking(const Slice& slice) {
  Slice lacking;
  std::ranges::copy_if(slice, std::back_inserter(lacking),
                       [&](Entry* entry) { return !homes_lacking(*entry).empty(); });
  return lacking;
}

template <class Make>
Task<void> SyncWindow::at_each(std::map<NodeId, Slice> slices, Make make) {
  std::vector<Task<Result<void>>> tasks;
  tasks.reserve(slices.size());
  for (const auto& [node, slice] : slices) tasks.push_back(make(node, slice));
  const auto results = co_await when_all(std::move(tasks));
  size_t next = 0;
  for (const auto& [node, slice] : slices) {
    if (const auto& done = results[next++]; !done) give_up(node, done.error());
  }
}

Task<void> SyncWindow::bring(Slice slice) {
  // In a LOST partition the keys are synced, and nothing else.
  Slice alone;
  std::ranges::copy_if(slice, std::back_inserter(alone), [&](Entry* entry) {
    return (lost_ || entry->second.alone) && !failed_.contains(partition_of(*entry));
  });
  (void)co_await in_batches(
      alone.size(), kKeysAtOnce, [&](size_t i) { return sync_alone(alone[i]); },
      [](size_t, Result<void>) { return Result<void>{}; });
  std::erase_if(slice, [&](Entry* entry) { return lost_ || entry->second.alone; });
  slice = lacking(slice);
  std::map<NodeId, Slice> asked;
  for (Entry* entry : slice) {
    const Partition& partition = map_->partitions[partition_of(*entry)];
    for (const NodeId home : homes_lacking(*entry)) {
      const bool may_have = (entry->second.forgotten_at & home_bit(partition, home)) != 0;
      if (may_have) asked[home].push_back(entry);
    }
  }
  co_await at_each(std::move(asked),
                   [&](NodeId home, Slice part) { return confirm_at(home, std::move(part)); });
  std::map<NodeId, Slice> wanted;
  for (Entry* entry : lacking(slice)) wanted[entry->second.holder].push_back(entry);
  co_await at_each(std::move(wanted),
                   [&](NodeId holder, Slice part) { return send_from(holder, std::move(part)); });
}

// What the home had before it was away, and is still the newest.
Task<Result<void>> SyncWindow::confirm_at(NodeId home, Slice slice) {
  node::RecordConfirmRequest message;
  for (const Entry* entry : slice) message.records.push_back({entry->first, entry->second.newest});
  const auto confirmed = co_await ask_again(home, std::move(message));
  if (!confirmed) co_return fail(confirmed.error());
  for (size_t i = 0; i < slice.size(); ++i) {
    if (!has_bit(confirmed->args.held, i)) continue;
    Copies& copies = slice[i]->second;
    const Partition& partition = map_->partitions[partition_of(*slice[i])];
    copies.homes = static_cast<uint16_t>(copies.homes | home_bit(partition, home));
  }
  co_return Result<void>{};
}

// Reads the records at one who has them, and stores them where they are missing, a page at a time.
Task<Result<void>> SyncWindow::send_from(NodeId holder, Slice slice) {
  for (size_t first = 0; first < slice.size() && !sweep_.is_stopped();) {
    node::RecordFetchRequest message;
    message.max_bytes = kPageBytes;
    for (size_t i = first; i < slice.size(); ++i) message.keys.push_back(slice[i]->first);
    const auto page = co_await ask_again(holder, std::move(message));
    if (!page) co_return fail(page.error());
    const NodeReply& reply = page->reply;
    std::vector<Buffer> records;
    size_t at = reply.header.args_bytes;
    for (const uint32_t size : page->args.sizes) {
      if (records.size() == slice.size() - first || size > reply.body.size() - at) break;
      records.push_back(reply.body.slice(at, size));
      at += size;
    }
    if (records.empty()) co_return fail(malformed(*map_, holder, "an empty page"));
    auto sent = co_await in_batches(
        records.size(), kKeysAtOnce,
        [&](size_t i) { return send(slice[first + i], std::move(records[i])); },
        [&](size_t, Result<void>) {
          return sweep_.is_stopped() ? Result<void>(fail(ErrorCode::kCancelled, "sync was stopped"))
                                     : Result<void>{};
        });
    if (!sent) break;
    first += records.size();
  }
  co_return Result<void>{};
}

Task<Result<void>> SyncWindow::send(Entry* entry, Buffer record) {
  // It is gone from there, or damaged: all copies have to be looked at.
  if (record.empty()) co_return co_await sync_alone(entry);
  const NodeId tail = chain_of(*map_, entry->first).tail();
  std::vector<Task<Result<void>>> stores;
  const std::vector<NodeId> lacking = homes_lacking(*entry);
  for (const NodeId home : lacking) {
    if (home != tail) stores.push_back(store(entry, home, record));
  }
  const auto stored = co_await when_all(std::move(stores));
  // At the tail last: one that stays synced serves what it gets at once, so all others must have
  // it. Those without room keep it from nobody: the more have it, the safer it is.
  const bool have_it = std::ranges::all_of(
      stored, [](const Result<void>& at) { return at || at.error().code == ErrorCode::kNoSpace; });
  if (have_it && std::ranges::find(lacking, tail) != lacking.end()) {
    co_await store(entry, tail, record);
  }
  co_return Result<void>{};
}

Task<Result<void>> SyncWindow::store(Entry* entry, NodeId home, Buffer record) {
  for (int tried = 1;; ++tried) {
    auto stored = co_await store_synced(ops_, map_, home, entry->first, {{record}},
                                        ops_.clock.now() + ops_.settings.node_timeout);
    if (stored) co_return stored;
    if (may_try_again(stored.error(), tried)) continue;
    if (stored.error().code == ErrorCode::kNoSpace) {
      sweep_.full.insert(home);
      sweep_.refused.insert(partition_of(*entry));
    } else {
      give_up(home, stored.error());
    }
    co_return stored;
  }
}

Task<Result<void>> SyncWindow::sync_alone(Entry* entry) {
  const uint32_t number = partition_of(*entry);
  for (int tried = 1;; ++tried) {
    auto synced =
        co_await sync_one(ops_, map_, entry->first, ops_.clock.now() + ops_.settings.node_timeout);
    if (synced) co_return synced;
    if (may_try_again(synced.error(), tried)) continue;
    if (synced.error().code == ErrorCode::kNoSpace) {
      sweep_.refused.insert(number);
    } else if (synced.error().code != ErrorCode::kLost) {  // that every home knows by now
      failed_.insert(number);
      sweep_.failed(synced.error());
    }
    co_return synced;
  }
}

Task<void> SyncWindow::mark() {
  if (lost_) co_return;
  std::vector<uint32_t> whole;
  for (const uint32_t p : partitions_) {
    if (!sweep_.refused.contains(p) && !failed_.contains(p)) whole.push_back(p);
  }
  (void)co_await in_batches(
      whole.size(), kMarksAtOnce, [&](size_t i) { return mark_partition(whole[i]); },
      [&](size_t, Result<void> marked) {
        if (!marked) sweep_.failed(marked.error());
        return sweep_.is_stopped() ? Result<void>(fail(ErrorCode::kCancelled, "sync was stopped"))
                                   : Result<void>{};
      });
}

// Every home holds all of the partition: says so to all homes, and when they know, to the sources
// that are no homes, which then forget it.
Task<Result<void>> SyncWindow::mark_partition(uint32_t number) {
  const Partition& partition = map_->partitions[number];
  const node::MarkSyncedRequest message{number, {}, floors_[number]};
  TimePoint deadline;
  for (int tried = 1;; ++tried) {
    if (sweep_.is_stopped()) co_return fail(ErrorCode::kCancelled, "sync was stopped");
    deadline = ops_.clock.now() + ops_.settings.node_timeout;
    auto marked = co_await mark_all(ops_.nodes, map_, partition.homes, message, deadline);
    if (marked) break;
    if (!may_try_again(marked.error(), tried)) co_return marked;
  }
  ++ops_.counters.partition_syncs;
  std::vector<NodeId> others = sources_of(partition);
  std::erase_if(others, [&](NodeId id) { return home_bit(partition, id) != 0; });
  // Memory only: the next map has them forget it too.
  (void)co_await mark_all(ops_.nodes, map_, std::move(others), message, deadline);
  co_return Result<void>{};
}

}  // namespace elastripe::records
