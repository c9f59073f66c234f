// Random histories of a cluster against the rules that make maps: nodes crash, restart, fall silent
// and return; they lack room and have it again; maps are installed on some nodes, or all; deciders
// are replaced; keys are written and partitions synced, completely or half-way. A model of what
// each node holds tells whether an acknowledged record was forgotten.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "proxy/cluster/takeover.h"
#include "server-patches/node/format/map_changes.h"

using namespace elastripe;
using node::ClusterMap;
using node::MapPtr;
using node::NodeId;
using node::NodeState;
using node::Partition;

namespace {

constexpr uint32_t kPartitions = 6;
constexpr int kKeysPerPartition = 2;
constexpr size_t kMostNodes = 8;

bool contains(const std::vector<NodeId>& nodes, NodeId id) {
  return std::ranges::find(nodes, id) != nodes.end();
}
std::set<NodeId> sources_of(const Partition& partition) {
  std::set<NodeId> all;
  for (const auto& group : partition.sources) all.insert(group.begin(), group.end());
  return all;
}

// One process: what it holds of each partition, key by key.
struct Process {
  uint64_t incarnation = 0;
  MapPtr installed;
  struct Held {
    std::map<int, uint64_t> versions;
    bool synced = false;
    std::set<int> synced_keys;
  };
  std::vector<Held> held{kPartitions};

  bool keeps(const ClusterMap& map, NodeId self, size_t p) const {
    const Partition& partition = map.partitions[p];
    return (partition.synced && contains(partition.homes, self)) ||
           sources_of(partition).contains(self);
  }
  void install(MapPtr map, NodeId self) {
    if (installed && (installed->epoch.number >= map->epoch.number)) return;
    for (size_t p = 0; p < held.size(); ++p) {
      if (!keeps(*map, self, p)) held[p].versions.clear();
      held[p].synced = map->partitions[p].synced;
      held[p].synced_keys.clear();
    }
    installed = std::move(map);
  }
};

class History {
 public:
  // In a third of the histories nodes that died stay dead, in another the configuration grows.
  History(uint64_t seed, size_t nodes, uint8_t max_parities)
      : random_(seed),
        silent_(nodes),
        rooms_(nodes),
        ring_(names(nodes), kPartitions),
        stay_dead_(seed / 3 % 3 == 1),
        grows_(seed / 3 % 3 == 2) {
    settings_.partitions = kPartitions;
    settings_.max_parities = max_parities;
    for (const std::string& name : names(nodes)) {
      node::NodeInfo info;
      info.id = static_cast<node::NodeId>(settings_.nodes.size());
      info.name = info.domain = info.host = name;
      settings_.nodes.push_back(info);
      processes_.push_back(new_process());
    }
    last_ = std::make_shared<const ClusterMap>(first_map(settings_, ring_, request(), 1).value());
    install_all();
  }

  void step() {
    switch (below(15)) {
      case 0:
        if (below(3) == 0) crash(pick());
        break;
      case 1:
      case 2:
        if (stay_dead_) break;
        if (auto& process = processes_[pick()]; !process) process = new_process();
        break;
      case 3:
        if (below(3) == 0) silent_[pick()] = true;
        break;
      case 4:
        silent_[pick()] = false;
        break;
      case 5:
        make_map();
        break;
      case 6:
        install_some();
        break;
      case 7:
        install_all();
        break;
      case 8:
        if (below(4) == 0) take_over();
        if (grows_ && below(8) == 0) grow();
        if (grows_) change_members();
        break;
      case 9:
        change_room(pick());
        break;
      case 10:
      case 11:
      case 12:
        write(below(kPartitions), static_cast<int>(below(kKeysPerPartition)));
        break;
      default:
        if (below(3) == 0) {
          for (size_t p = 0; p < kPartitions; ++p) sync(p, true);
        } else {
          sync(below(kPartitions), false);
        }
    }
    check();
  }

  size_t acknowledged() const { return writes_; }
  size_t losses() const { return losses_; }
  size_t doubts() const { return doubts_; }
  size_t outdated() const { return outdated_; }
  size_t maps() const { return maps_; }
  size_t moves() const { return moves_; }
  size_t removals() const { return removals_; }

 private:
  static std::vector<std::string> names(size_t count) {
    std::vector<std::string> result;
    for (size_t i = 0; i < count; ++i) result.push_back("n" + std::to_string(i));
    return result;
  }
  uint64_t below(uint64_t bound) { return random_() % bound; }
  NodeId pick() { return static_cast<NodeId>(below(processes_.size())); }
  std::unique_ptr<Process> new_process() {
    auto process = std::make_unique<Process>();
    process->incarnation = ++incarnations_;
    return process;
  }
  void crash(NodeId id) {
    const auto alive =
        std::ranges::count_if(processes_, [](const auto& p) { return p != nullptr; });
    if (!processes_[id] || (stay_dead_ && alive == 1)) return;
    processes_[id] = nullptr;
    ++failures_;
  }
  void change_room(NodeId id) {
    rooms_[id] = std::array{Room::kForMore, Room::kForOwn, Room::kForOwn, Room::kNone}[below(4)];
    // Not to have room for what it has missed costs a node its records, as a crash does.
    failures_ += rooms_[id] == Room::kNone;
  }
  bool reachable(NodeId id) const { return processes_[id] && !silent_[id]; }
  // The process that the map names as up.
  bool is_member(const ClusterMap& map, NodeId id) const {
    return map.is_up(id) && processes_[id] &&
           processes_[id]->incarnation == map.nodes[id].incarnation;
  }

  MapRequest request() {
    MapRequest request;
    request.decider = decider_;
    for (NodeId id = 0; id < processes_.size(); ++id) {
      NodeReport report;
      report.room = rooms_[id];
      report.verdict = silent_[id]      ? Verdict::kSilent
                       : processes_[id] ? Verdict::kAnswers
                                        : Verdict::kRefuses;
      report.is_removed = settings_.nodes[id].is_removed();
      if (report.is_removed) {
        report.verdict = Verdict::kRefuses;
      } else if (reachable(id)) {
        const Process& process = *processes_[id];
        report.incarnation = process.incarnation;
        if (process.installed) {
          report.epoch = process.installed->epoch;
          report.synced.assign(1, 0);
          for (size_t p = 0; p < kPartitions; ++p) {
            if (process.held[p].synced && contains(process.installed->partitions[p].homes, id)) {
              report.synced[0] = static_cast<uint8_t>(report.synced[0] | 1u << p);
            }
          }
        }
      }
      request.above_number = std::max(request.above_number, report.epoch.number);
      request.reports.push_back(report);
    }
    return request;
  }
  bool has_quorum(const MapRequest& request) const {
    size_t refusing = 0, answering = 0;
    for (const auto& report : request.reports) {
      refusing += report.verdict == Verdict::kRefuses;
      answering += report.verdict == Verdict::kAnswers;
    }
    return is_quorum(processes_.size(), refusing, answering);
  }

  void make_map() {
    const MapRequest known = request();
    if (!has_quorum(known)) return;
    if (needs_map(*last_, settings_, known)) return adopt(*last_, known);
    if (!needs_homes(*last_, ring_, known) && !needs_moves(*last_, ring_, known)) return;
    const auto before = last_;
    adopt(*last_, known);
    CHECK(last_ != before);
    ++moves_;
  }
  // A new decider knows what the nodes tell and, if it has followed, the map that was served last.
  void take_over() {
    ++decider_;
    const bool has_followed = newest_served_ != nullptr && below(2) == 0;
    const MapPtr own = has_followed ? newest_served_ : nullptr;
    MapRequest known = request();
    for (NodeId id = 0; id < processes_.size(); ++id) {
      known.maps.push_back(reachable(id) ? processes_[id]->installed : nullptr);
    }
    if (!has_quorum(known)) return;
    auto base = choose_base(known.reports, known.maps, own);
    if (!base && base.error().code == ErrorCode::kLost) {
      // The operator is asked, and sometimes says that the survivors have nothing new.
      INFO(base.error().message << ", failures " << failures_);
      CHECK(failures_ > settings_.max_parities);
      ++doubts_;
      if (below(3) != 0) return;
      base = choose_base(known.reports, known.maps, own, /*accept_loss=*/true);
    }
    if (!base || *base == nullptr) return;
    if (newest_served_ != nullptr && (*base)->epoch.number < newest_served_->epoch.number) {
      // Some that were left out, and M that have crashed, look like M that have crashed, to those
      // who were not there.
      INFO("base " << (*base)->epoch.number << ", failures " << failures_);
      CHECK_FALSE(has_followed);
      CHECK(failures_ > settings_.max_parities);
      acknowledged_.clear();
      newest_served_ = nullptr;
      ++outdated_;
    }
    // Who the members are is what that map says.
    set_members(merged_members((*base)->nodes, settings_.nodes));
    for (NodeId id = 0; id < processes_.size(); ++id) {
      known.reports[id].is_removed = settings_.nodes[id].is_removed();
      if (known.reports[id].is_removed) known.reports[id].verdict = Verdict::kRefuses;
    }
    adopt(**base, known);
  }
  void set_members(std::vector<node::NodeInfo> nodes) {
    settings_.nodes = std::move(nodes);
    ring_ = Members(settings_.nodes, kPartitions).even;
  }
  // As the decider lets an operator: from a map that is served, a node at a time.
  void change_members() {
    const MapRequest known = request();
    if (served_ != last_ || !has_quorum(known) || needs_map(*last_, settings_, known)) return;
    const auto before = settings_.nodes;
    auto nodes = before;
    node::NodeInfo& node = nodes[pick()];
    if (node.role == node::NodeRole::kMember) {
      node.role = node::NodeRole::kDraining;
    } else if (node.is_removed()) {
      node.role = node::NodeRole::kMember;
    } else if (is_needed(node.id)) {
      node.role = node::NodeRole::kMember;
    } else {
      node.role = node::NodeRole::kRemoved;
      ++removals_;
    }
    set_members(std::move(nodes));
    const auto map_before = last_;
    make_map();
    if (last_ == map_before) set_members(before);
  }
  bool is_needed(NodeId id) const {
    for (size_t p = 0; p < kPartitions; ++p) {
      const Partition& partition = last_->partitions[p];
      if (contains(partition.homes, id)) return true;
      const bool is_synced = std::ranges::all_of(partition.homes, [&](NodeId home) {
        return reachable(home) && is_member(*last_, home) && processes_[home]->held[p].synced;
      });
      if (sources_of(partition).contains(id) && !partition.synced && !is_synced) return true;
    }
    return !last_->is_up(id) && last_->nodes[id].state != NodeState::kLost;
  }
  // The next decider's configuration has one more node, which is empty.
  void grow() {
    if (processes_.size() >= kMostNodes) return;
    processes_.push_back(new_process());
    silent_.push_back(false);
    rooms_.push_back(Room::kForMore);
    node::NodeInfo info;
    info.id = static_cast<node::NodeId>(settings_.nodes.size());
    info.name = info.domain = info.host = names(processes_.size()).back();
    settings_.nodes.push_back(info);
    ring_ = Members(settings_.nodes, kPartitions).even;
    take_over();
  }
  void adopt(const ClusterMap& base, const MapRequest& known) {
    auto next = next_map(base, settings_, ring_, known);
    if (!next) return;
    CHECK(next->epoch.number > base.epoch.number);
    size_t suspects = 0;
    for (const auto& info : next->nodes) {
      suspects += info.state == NodeState::kSuspect;
      // Being excluded costs a node its records, as a crash does.
      failures_ += info.state == NodeState::kSuspect && base.is_up(info.id);
    }
    CHECK(suspects <= settings_.max_parities);
    for (size_t p = 0; p < kPartitions; ++p) {
      if (!next->partitions[p].lost) continue;
      // Compared with the last map that was made, whatever this one is built upon.
      if (!last_->partitions[p].lost) {
        ++losses_;
        INFO("partition " << p << ", failures " << failures_);
        CHECK(failures_ > settings_.max_parities);
      }
      for (int key = 0; key < kKeysPerPartition; ++key) acknowledged_.erase({p, key});
    }
    for (const Partition& partition : next->partitions) CHECK(!partition.homes.empty());
    CHECK(!needs_homes(*next, ring_, known));  // it is what the reports ask for
    check_changes(base, *next);
    last_ = std::make_shared<const ClusterMap>(std::move(*next));
    served_ = nullptr;
    ++maps_;
  }

  // Whoever has the map before, or the last that was made, gets the next one of its changes.
  void check_changes(const ClusterMap& base, const ClusterMap& next) const {
    std::string whole;
    node::encode(next, whole);
    for (const ClusterMap* const before : {&base, last_.get()}) {
      const auto changes = node::changes_between(*before, next);
      REQUIRE(changes.has_value());
      const auto changed = node::apply_changes(*before, node::as_view(*changes));
      REQUIRE(changed.has_value());
      CHECK(changed->encoded == whole);
    }
  }

  void install_some() {
    for (NodeId id = 0; id < processes_.size(); ++id) {
      if (reachable(id) && is_member(*last_, id) && below(2) == 0) {
        processes_[id]->install(last_, id);
      }
    }
  }
  // Rule 2: served once every survivor has it.
  void install_all() {
    bool all = true;
    for (NodeId id = 0; id < processes_.size(); ++id) {
      if (!last_->is_up(id)) continue;
      if (reachable(id) && is_member(*last_, id)) processes_[id]->install(last_, id);
      all &= reachable(id) && is_member(*last_, id) && processes_[id]->installed == last_;
    }
    if (all) served_ = newest_served_ = last_;
  }

  bool all_serve(const std::vector<NodeId>& nodes) const {
    return std::ranges::all_of(nodes, [&](NodeId id) {
      return reachable(id) && is_member(*served_, id) && processes_[id]->installed == served_;
    });
  }
  std::vector<NodeId> read_set(const Partition& partition) const {
    std::set<NodeId> nodes = sources_of(partition);
    nodes.insert(partition.homes.begin(), partition.homes.end());
    return {nodes.begin(), nodes.end()};
  }
  uint64_t newest(const std::vector<NodeId>& nodes, size_t p, int key) const {
    uint64_t version = 0;
    for (const NodeId id : nodes) {
      if (!processes_[id]) continue;
      const auto& versions = processes_[id]->held[p].versions;
      const auto found = versions.find(key);
      if (found != versions.end()) version = std::max(version, found->second);
    }
    return version;
  }
  void store(NodeId id, size_t p, int key, uint64_t version) {
    uint64_t& held = processes_[id]->held[p].versions[key];
    held = std::max(held, version);
  }

  // Syncs the key if it has to, then commits down the chain, which may break anywhere.
  void write(size_t p, int key) {
    if (!served_ || served_->partitions[p].lost) return;
    const Partition& partition = served_->partitions[p];
    if (!all_serve(partition.homes)) return;
    const bool knows = std::ranges::all_of(partition.homes, [&](NodeId id) {
      return processes_[id]->held[p].synced || processes_[id]->held[p].synced_keys.contains(key);
    });
    if (!knows) {
      const auto nodes = read_set(partition);
      if (!all_serve(nodes)) return;
      if (const uint64_t version = newest(nodes, p, key); version != 0) {
        for (const NodeId id : partition.homes) store(id, p, key, version);
      }
      for (const NodeId id : partition.homes) processes_[id]->held[p].synced_keys.insert(key);
    }
    const uint64_t version = ++versions_;
    for (size_t i = partition.homes.size(); i-- > 0;) {
      if (below(12) == 0) return;  // the proxy died: never acknowledged
      store(partition.homes[i], p, key, version);
    }
    acknowledged_[{p, key}] = version;
    ++writes_;
  }

  void sync(size_t p, bool to_the_end) {
    if (!served_ || served_->partitions[p].lost || served_->partitions[p].synced) return;
    const Partition& partition = served_->partitions[p];
    const auto nodes = read_set(partition);
    if (!all_serve(nodes)) return;
    for (int key = 0; key < kKeysPerPartition; ++key) {
      const uint64_t version = newest(nodes, p, key);
      for (const NodeId id : partition.homes) {
        if (version != 0) store(id, p, key, version);
      }
      if (!to_the_end && below(4) == 0) return;
    }
    for (const NodeId id : partition.homes) {
      processes_[id]->held[p].synced = true;
      if (!to_the_end && below(4) == 0) return;
    }
    for (const NodeId id : sources_of(partition)) {
      if (contains(partition.homes, id) || below(3) == 0) continue;
      processes_[id]->held[p].versions.clear();
    }
    forget_failures_if_whole();
  }

  // m crashes are survived from here on anew: all is synced on M+1 homes, and every node that the
  // map names as up is.
  void forget_failures_if_whole() {
    if (!served_) return;
    for (NodeId id = 0; id < served_->nodes.size(); ++id) {
      if (served_->is_up(id) && !is_member(*served_, id)) return;
    }
    for (size_t p = 0; p < kPartitions; ++p) {
      const Partition& partition = served_->partitions[p];
      if (partition.lost || partition.homes.size() <= settings_.max_parities) return;
      for (const NodeId id : partition.homes) {
        if (!processes_[id]->held[p].synced) return;
      }
    }
    failures_ = static_cast<size_t>(std::ranges::count(rooms_, Room::kNone));
  }

  // What a node will hold of the partition once it has the newest map.
  uint64_t held_under_last(NodeId id, size_t p, int key) const {
    const Process& process = *processes_[id];
    const bool forgets = process.installed != last_ && !process.keeps(*last_, id, p);
    return forgets ? 0 : newest({id}, p, key);
  }

  void check() {
    for (const auto& [place, version] : acknowledged_) {
      const auto& [p, key] = place;
      const Partition& partition = last_->partitions[p];
      INFO("partition " << p << " key " << key << " version " << version << " epoch "
                        << last_->epoch.number);
      REQUIRE(!partition.lost);
      if (partition.synced) {
        for (const NodeId id : partition.homes) {
          if (is_member(*last_, id)) REQUIRE(held_under_last(id, p, key) >= version);
        }
        continue;
      }
      auto groups = partition.sources;
      groups.push_back(partition.homes);
      const bool covered = std::ranges::any_of(groups, [&](const std::vector<NodeId>& group) {
        return std::ranges::all_of(group, [&](NodeId id) {
          return !is_member(*last_, id) || held_under_last(id, p, key) >= version;
        });
      });
      REQUIRE(covered);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<bool> silent_;
  std::vector<Room> rooms_;
  MembershipSettings settings_;
  Ring ring_;
  const bool stay_dead_;
  const bool grows_;
  MapPtr last_;
  MapPtr served_;
  MapPtr newest_served_;
  std::map<std::pair<size_t, int>, uint64_t> acknowledged_;
  uint64_t incarnations_ = 0;
  uint64_t versions_ = 0;
  uint32_t decider_ = 1;
  size_t failures_ = 0;
  size_t writes_ = 0;
  size_t losses_ = 0;
  size_t doubts_ = 0;    // takeovers that the operator had to be asked about
  size_t outdated_ = 0;  // takeovers that build upon what is older than what was served
  size_t maps_ = 0;
  size_t moves_ = 0;  // maps that only change homes
  size_t removals_ = 0;
};

uint64_t first_seed() {
  const char* text = std::getenv("ELASTRIPE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("no acknowledged record is forgotten, and M failures between syncs lose nothing") {
  size_t writes = 0, losses = 0, maps = 0, moves = 0, doubts = 0, removals = 0;
  const uint64_t first = first_seed();
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    const auto max_parities = static_cast<uint8_t>(1 + seed % 2);
    INFO("ELASTRIPE_SEED=" << seed);
    History history(seed, 4 + seed % 3, max_parities);
    for (int i = 0; i < 400; ++i) history.step();
    writes += history.acknowledged();
    losses += history.losses();
    maps += history.maps();
    moves += history.moves();
    doubts += history.doubts();
    removals += history.removals();
  }
  // The histories reach what they are about.
  CHECK(writes > 1000);
  CHECK(losses > 10);
  CHECK(maps > 1000);
  CHECK(moves > 100);
  CHECK(doubts > 0);
  CHECK(removals > 10);
}
