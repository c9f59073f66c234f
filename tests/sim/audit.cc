// What World looks at when all is quiet: is everything readable, where are the shards, what is left
// that nothing refers to?
#include <optional>
#include <set>

#include "proxy/base/check.h"
#include "proxy/ops/scrub.h"
#include "proxy/ops/shards.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::seconds;

Operation World::ask(Operation op, SimProxy& proxy) {
  // One that was deposed only now hears of the map again, as it would from its watch.
  run_until(seconds(1), [&] { return proxy.map().current() != nullptr; });
  op.client = kAuditor;
  const size_t index = begin(std::move(op), proxy);
  flows_.spawn(perform(index, &proxy));
  if (!run_until(kHealLimit, [&] { return pending_[index]->is_over; })) {
    violation(Fault::kStuck, "a final operation does not end");
  }
  return history_[index];
}

Operation World::ask(Verb verb, int key, SimProxy& proxy, std::string value) {
  Operation op;
  op.verb = verb;
  op.key = key_name(key);
  op.value = std::move(value);
  return ask(std::move(op), proxy);
}

void World::audit(const char* when) {
  trace_.add("-- read everything {}", when);
  SimProxy* scrubber = nullptr;
  for (size_t i = 0; i < proxies_.size(); ++i) {  // a new decider may join
    SimProxy* const proxy = proxies_[i].get();
    for (int key = 0; key < scenario_.keys && proxy->is_alive() && result_.ok(); ++key) {
      std::string error = ask(Verb::kGet, key, *proxy).error;
      if (!error.empty()) {  // a map may have changed just then
        (void)run_until(kHealLimit, [&] { return is_settled() || !proxy->is_alive(); });
        error = ask(Verb::kGet, key, *proxy).error;
      }
      if (!error.empty() && lost_by_damage_.contains(key_name(key))) {
        const Operation op = ask(Verb::kSet, key, *proxy, unique_value(history_.size(), 20));
        error = op.answer == Answer::kDone ? "" : op.error;
      }
      if (error.empty() && scrubber == nullptr) scrubber = proxy;
      if (error.empty() && scrubber == proxy && scenario_.scrub) scrub(key, *proxy, when);
      if (!error.empty()) error = why_unreadable(key, *proxy);
      if (!error.empty()) {
        violation(Fault::kLost,
                  fmt::format("{} can not be read {}: {}", key_name(key), when, error));
      }
    }
  }
}

namespace {

Task<void> inspect_into(OpsContext& ops, std::string key, TimePoint deadline,
                        std::shared_ptr<std::optional<Result<ObjectReport>>> report) {
  *report = co_await inspect_object(ops, std::move(key), deadline);
}

}  // namespace

Result<ObjectReport> World::inspect(int key, SimProxy& proxy) {
  const auto report = std::make_shared<std::optional<Result<ObjectReport>>>();
  flows_.spawn(inspect_into(proxy.ops(), key_name(key), clock_.now() + kRequestTimeout, report));
  if (!run_until(kHealLimit, [&] { return report->has_value(); })) {
    violation(Fault::kStuck, "the inspection of an object does not end");
    return ObjectReport{};
  }
  return **report;
}

// Empty if more was lost than the object could survive: its partition's homes, or more than m of a
// segment's shards, each of which is accounted for.
std::string World::why_unreadable(int key, SimProxy& proxy) {
  const auto report = inspect(key, proxy);
  if (!report) {
    const bool is_expected = is_beyond_promise() && report.error().code == ErrorCode::kLost;
    return is_expected ? std::string() : to_string(report.error());
  }
  if (report->record == nullptr || !report->record->is_live(clock_.unix_ms())) return {};
  if (is_beyond_promise() && !scenario_.accept_loss) return {};
  for (size_t i = 0; i < report->segments.size(); ++i) {
    check_missing(key_name(key), *report->record, i, report->segments[i].missing);
  }
  for (const SegmentHealth& segment : report->segments) {
    if (segment.missing.size() > report->record->content.scheme.m) return {};
  }
  return "no segment lacks more shards than its scheme survives";
}

void World::note_reshapes(const node::Record& record) {
  for (const node::Segment& segment : record.content.segments) {
    if (segment.generation == 0) continue;
    reshaped_in_.emplace(segment.parity_txid, record.meta.version >> node::kCounterBits);
  }
}

// The epoch of the last commit for which every shard of the segment was confirmed (rule 6a): that
// of the value, or of a transition of the segment since.
uint64_t World::whole_in_epoch(const node::Record& record, const node::Segment& segment) const {
  const uint64_t written = record.meta.value_version >> node::kCounterBits;
  const auto reshaped = reshaped_in_.find(segment.parity_txid);
  return reshaped == reshaped_in_.end() ? written : std::max(written, reshaped->second);
}

// So only a node that was killed since then may lack one.
void World::check_missing(const std::string& key, const node::Record& record, size_t segment,
                          const std::vector<uint8_t>& missing) {
  const node::Segment& table = record.content.segments[segment];
  const uint64_t epoch = whole_in_epoch(record, table);
  for (const uint8_t index : missing) {
    const NodeId holder = table.placement[index];
    if (is_accounted_for(key, epoch, holder)) continue;
    violation(Fault::kLost, fmt::format("a segment that was whole in epoch {} lacks shard {}.{} of "
                                        "node {}, whose memory was not lost since",
                                        epoch, segment, index, holder));
  }
}

// The shard of a missing node was never written: too few were up. How many there were is not always
// noticed.
bool World::is_accounted_for(const std::string& key, uint64_t epoch, NodeId holder) const {
  if (holder == kNoNode) {
    const Pool& pool = pools().pool_of(key);
    const auto up = up_in_epoch_.find(epoch);
    const auto shards = static_cast<size_t>(pool.scheme.shards());
    return pool.degraded_writes && (up == up_in_epoch_.end() || up->second < shards);
  }
  const auto kill = last_kill_.find(holder);
  return kill != last_kill_.end() && kill->second >= epoch;
}

namespace {

Task<void> scrub_into(OpsContext& ops, std::string key, TimePoint deadline,
                      std::shared_ptr<std::optional<Result<ScrubReport>>> report) {
  *report = co_await scrub_object(ops, std::move(key), deadline);
}

}  // namespace

// Whatever is there is what the record says, and what is not has died.
void World::scrub(int key, SimProxy& proxy, const char* when) {
  const auto report = std::make_shared<std::optional<Result<ScrubReport>>>();
  flows_.spawn(scrub_into(proxy.ops(), key_name(key), clock_.now() + kRequestTimeout, report));
  if (!run_until(kHealLimit, [&] { return report->has_value(); })) {
    return violation(Fault::kStuck, "the scrub of an object does not end");
  }
  const auto& scrubbed = **report;
  if (!scrubbed || scrubbed->record == nullptr) return;  // reads tell what is unreadable
  for (size_t i = 0; i < scrubbed->segments.size(); ++i) {
    const SegmentScrub& segment = scrubbed->segments[i];
    if (!segment.wrong.empty() || !segment.data_matches) {
      violation(Fault::kParity,
                fmt::format("{} {}: segment {}: {}", key_name(key), when, i,
                            segment.wrong.empty()
                                ? std::string("the data does not match its checksum")
                                : fmt::format("shard {} is wrong", segment.wrong.front())));
    }
    if (is_beyond_promise() && !scenario_.accept_loss) continue;
    check_missing(key_name(key), *scrubbed->record, i, segment.missing);
  }
}

// Everything that no record refers to is collected in the end.

void World::reclaim() {
  trace_.add("-- wait for reclaim");
  for (int tries = 0; tries < 3; ++tries) {
    run_until(seconds(8), [] { return false; });
    leak_.clear();
    flows_.spawn(look_for_leaks());
    bool done = false;
    run_until(seconds(30), [&] { return done = leaks_checked_; });
    CHECK(done, "the search for leaks does not end");
    if (leak_.empty()) return;
  }
  violation(Fault::kLeak, leak_);
}

// Whatever values in transit have taken is given back when they are gone.
void World::check_memory() {
  const ProxyMemory& whole = scenario_.proxy_memory;
  const ReadBudget unused(whole.read_bytes, whole.read_bytes);
  for (const auto& proxy : proxies_) {
    const OpsContext& ops = proxy->ops();
    const uint64_t staged = whole.staged_bytes - ops.staged_bytes.free();
    const uint64_t early = unused.early.free() - ops.read_bytes.early.free();
    const uint64_t in_turn = unused.in_turn.free() - ops.read_bytes.in_turn.free();
    if (!proxy->is_alive() || staged + early + in_turn == 0) continue;
    violation(Fault::kStuck,
              fmt::format("proxy {} is quiet, and keeps {} staged bytes, {} and {} of reads",
                          proxy->id(), staged, early, in_turn));
  }
}

Task<void> World::look_for_leaks() {
  leaks_checked_ = false;
  SimProxy* proxy = decider();
  std::set<std::pair<node::NodeId, std::string>> wanted;  // (node, encoded shard name)
  for (int key = 0; proxy != nullptr && key < scenario_.keys; ++key) {
    auto report =
        co_await inspect_object(proxy->ops(), key_name(key), clock_.now() + kRequestTimeout);
    if (!report) {
      leak_ = "a record can not be read: " + to_string(report.error());
      leaks_checked_ = true;
      co_return;
    }
    if (report->record == nullptr) continue;
    for (size_t i = 0; i < report->segments.size(); ++i) {
      check_missing(key_name(key), *report->record, i, report->segments[i].missing);
    }
    for (const node::Segment& segment : report->record->content.segments) {
      for (size_t index = 0; index < segment.placement.size(); ++index) {
        if (segment.placement[index] == kNoNode) continue;
        std::string name;
        node::encode(shard_name(segment, report->record->content.scheme, index), name);
        wanted.insert({segment.placement[index], std::move(name)});
      }
    }
  }
  for (size_t id = 0; id < network_.nodes(); ++id) {
    if (!network_.node(id).is_up()) continue;
    node::ArenaStore& store = network_.node(id).store();
    uint64_t cursor = 0;
    do {
      cursor = store.walk(cursor, [&](const node::ItemRef& item) {
        const std::string_view key = store.key(item);
        if (key.empty() || key[0] != '\x02') return true;
        if (!wanted.contains({static_cast<node::NodeId>(id), std::string(key.substr(1))})) {
          node::Reader reader(node::as_view(key.substr(1)));
          const node::ShardName name = node::decode_name(reader);
          leak_ = fmt::format("node {} keeps shard ..{:x}/{}.{} that no record refers to", id,
                              name.txid.lo & 0xffffff, name.segment, name.index);
        }
        return true;
      });
    } while (cursor != 0);
  }
  leaks_checked_ = true;
}

}  // namespace elastripe::sim
