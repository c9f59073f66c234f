// What World looks at when all is quiet: is everything readable, where are the shards, what is left
// that nothing refers to?
#include <optional>
#include <set>

#include "proxy/base/check.h"
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
  for (size_t i = 0; i < proxies_.size(); ++i) {  // a new decider may join
    SimProxy* const proxy = proxies_[i].get();
    for (int key = 0; key < scenario_.keys && proxy->is_alive() && result_.ok(); ++key) {
      std::string error;
      for (int tries = 0; tries < 2; ++tries) {  // a map may have changed just then
        error = ask(Verb::kGet, key, *proxy).error;
        if (error.empty()) break;
      }
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
  check_shards(key_name(key), *report);
  for (const SegmentHealth& segment : report->segments) {
    if (segment.missing.size() > report->record->content.scheme.m) return {};
  }
  return "no segment lacks more shards than its scheme survives";
}

// Every shard was confirmed in the epoch of its commit (rule 6a), so only a node that was killed
// since then may lack one.
void World::check_shards(const std::string& key, const ObjectReport& report) {
  for (size_t i = 0; i < report.segments.size(); ++i) {
    for (const uint8_t index : report.segments[i].missing) {
      const NodeId holder = report.record->content.segments[i].placement[index];
      if (is_accounted_for(key, *report.record, holder)) continue;
      violation(Fault::kLost, fmt::format("an object of epoch {} lacks shard {}.{} of node {}, "
                                          "whose memory was not lost since",
                                          report.record->meta.value_version >> node::kCounterBits,
                                          i, index, holder));
    }
  }
}

// The shard of a missing node was never written: too few were up. How many there were is not always
// noticed.
bool World::is_accounted_for(const std::string& key, const node::Record& record,
                             NodeId holder) const {
  const uint64_t epoch = record.meta.value_version >> node::kCounterBits;
  if (holder == kNoNode) {
    const auto up = up_in_epoch_.find(epoch);
    const auto shards = static_cast<size_t>(record.content.scheme.shards());
    return pools_.pool_of(key).degraded_writes && (up == up_in_epoch_.end() || up->second < shards);
  }
  const auto kill = last_kill_.find(holder);
  return kill != last_kill_.end() && kill->second >= epoch;
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
    check_shards(key_name(key), *report);
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
