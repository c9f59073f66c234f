// Runs testdata/*.txt: how maps follow from what nodes report, as scripts with traces
// (tests/support/script.h).
//
//   cluster nodes=N parities=M [partitions=4]   a new one, which has its first map
//   kill|restart|silence|wake ID...             what these nodes report from now on
//   die ID...                                   refuses, and all is synced without it
//   settle                                      a map that all install and are synced under
//   sync [ID...]                                all partitions, or those with such a home
//   room ID...|all for-more|for-own|none
//   flush now|off [at=UNIX_SECONDS]
//   accept-loss|give-up-silent on|off
//   append                                      one more node in the configuration
//   map                                         the next map, which all that answer install
//   needs                                       whether another map is asked for
//   base [accept-loss]                          what a decider that takes over builds upon
//   take-over                                   the map that it makes; nobody installs it
#include <fmt/ranges.h>

#include "proxy/cluster/takeover.h"
#include "tests/support/script.h"
#include "tests/unit/cluster/membership_fixture.h"

using namespace elastripe;
using node::ClusterMap;
using node::NodeId;
using node::NodeState;

namespace {

std::string describe(const node::Partition& partition) {
  std::string text = fmt::format("homes {}", fmt::join(partition.homes, " "));
  if (partition.synced) text += ", synced";
  if (partition.lost) text += ", LOST";
  auto sources = partition.sources;
  for (auto& group : sources) std::ranges::sort(group);
  std::ranges::sort(sources);
  for (const auto& group : sources) text += fmt::format(", from {}", fmt::join(group, " "));
  return text;
}

std::string describe_nodes(const ClusterMap& map) {
  std::string text;
  for (const auto state :
       {NodeState::kUp, NodeState::kSuspect, NodeState::kAway, NodeState::kLost}) {
    std::string ids;
    for (size_t id = 0; id < map.nodes.size(); ++id) {
      if (map.nodes[id].state == state) ids += fmt::format(" {}", id);
    }
    if (!ids.empty()) text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name(state), ids);
  }
  return text;
}

// What `map` says otherwise than the one before it.
std::string describe(const ClusterMap& map, const ClusterMap& before) {
  std::string text = fmt::format("epoch {}: {}\n", map.epoch.number, describe_nodes(map));
  if (map.flush_at != 0) text += fmt::format("flush at {}\n", map.flush_at);
  if (map.flush_floor != before.flush_floor) text += "flushed\n";
  size_t same = 0;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    if (map.partitions[p] == before.partitions[p]) {
      ++same;
    } else {
      text += fmt::format("partition {}: {}\n", p, describe(map.partitions[p]));
    }
  }
  if (same > 0)
    text += fmt::format("{} as before\n",
                        same == 1 ? "a partition" : fmt::format("{} partitions", same));
  return text;
}

Room room_of(const std::string& word) {
  return word == "for-more" ? Room::kForMore : word == "for-own" ? Room::kForOwn : Room::kNone;
}

class Script {
 public:
  std::string handle(const ScriptCommand& command) {
    const std::string& name = command.name;
    if (name == "cluster") {
      cluster_.emplace(command.number("nodes", 0),
                       static_cast<uint8_t>(command.number("parities", 1)),
                       static_cast<uint32_t>(command.number("partitions", 4)));
      ClusterMap nothing;
      nothing.partitions.resize(cluster_->map.partitions.size());
      return describe(cluster_->map, nothing);
    }
    REQUIRE(cluster_.has_value());
    Cluster& c = *cluster_;
    if (name == "map") return make_map();
    if (name == "needs") return needs();
    if (name == "base") return base(!command.words.empty());
    if (name == "take-over") return take_over();
    if (name == "sync") {
      sync(command);
    } else if (name == "room") {
      set_room(command);
    } else if (name == "flush") {
      c.request.flush.now = command.word(0) == "now";
      c.request.flush.at.reset();
      if (!command.options.empty()) {
        c.request.flush.at = static_cast<uint32_t>(command.number("at", 0));
      }
    } else if (name == "accept-loss") {
      c.request.accept_loss = command.word(0) == "on";
    } else if (name == "give-up-silent") {
      c.request.give_up_silent = command.word(0) == "on";
    } else if (name == "settle") {
      settle();
    } else if (name == "append") {
      append();
    } else {
      REQUIRE_FALSE(command.words.empty());
      for (size_t i = 0; i < command.words.size(); ++i) {
        report(name, static_cast<NodeId>(command.number(i)));
      }
    }
    return {};
  }

 private:
  void report(const std::string& what, NodeId id) {
    if (what == "kill") return cluster_->kill(id);
    if (what == "restart") return cluster_->restart(id);
    if (what == "silence") return cluster_->silence(id);
    if (what == "wake") return cluster_->wake(id);
    INFO(what);
    REQUIRE(what == "die");
    cluster_->kill(id);
    settle();
  }
  void settle() {
    cluster_->step();
    cluster_->sync_all();
    cluster_->step();
  }
  void sync(const ScriptCommand& command) {
    if (command.words.empty()) return cluster_->sync_all();
    for (size_t p = 0; p < cluster_->map.partitions.size(); ++p) {
      const Homes& homes = cluster_->map.partitions[p].homes;
      for (size_t i = 0; i < command.words.size(); ++i) {
        if (std::ranges::find(homes, command.number(i)) == homes.end()) continue;
        for (const NodeId home : homes) cluster_->set_synced(home, p);
      }
    }
  }
  void set_room(const ScriptCommand& command) {
    const Room room = room_of(command.words.back());
    for (size_t i = 0; i + 1 < command.words.size(); ++i) {
      if (command.words[i] != "all") {
        cluster_->request.reports[command.number(i)].room = room;
        continue;
      }
      for (NodeReport& each : cluster_->request.reports) each.room = room;
    }
  }
  void append() {
    node::NodeInfo more;
    more.name = more.domain = fmt::format("node-{}", cluster_->settings.nodes.size());
    cluster_->settings.nodes.push_back(more);
    cluster_->request.reports.push_back({Verdict::kAnswers, 500, 0, {}, {}});
    cluster_->ring =
        Ring(Cluster::names(cluster_->settings.nodes.size()), cluster_->settings.partitions);
  }
  std::string needs() {
    const Cluster& c = *cluster_;
    if (needs_map(c.map, c.settings, c.request)) return "a map, as nodes changed\n";
    return needs_homes(c.map, c.ring, c.request) ? "a map, for better homes\n" : "nothing\n";
  }
  std::string make_map() {
    Cluster& c = *cluster_;
    const auto next = next_map(c.map, c.settings, c.ring, c.request);
    if (!next) return to_string(next.error()) + "\n";
    const ClusterMap before = std::exchange(c.map, *next);
    c.install();
    return describe(c.map, before);
  }
  // The maps that nodes have, for a decider that has none.
  std::vector<node::MapPtr> maps() const {
    std::vector<node::MapPtr> maps;
    for (const NodeReport& report : cluster_->request.reports) {
      const bool has_map = report.verdict == Verdict::kAnswers &&
                           cluster_->map.is_up(static_cast<NodeId>(maps.size()));
      maps.push_back(has_map ? std::make_shared<const ClusterMap>(cluster_->map) : nullptr);
    }
    return maps;
  }
  std::string base(bool accept_loss) {
    const auto found = choose_base(cluster_->request.reports, maps(), /*own=*/nullptr, accept_loss);
    if (!found) return to_string(found.error()) + "\n";
    const auto lost = std::ranges::count((*found)->partitions, true, &node::Partition::lost);
    return fmt::format("epoch {}, {} partitions LOST\n", (*found)->epoch.number, lost);
  }
  std::string take_over() {
    const Cluster& c = *cluster_;
    MapRequest request = c.request;
    request.maps = maps();
    const auto found = choose_base(request.reports, request.maps);
    if (!found) return to_string(found.error()) + "\n";
    const auto next = next_map(**found, c.settings, c.ring, request);
    return next ? describe(*next, **found) : to_string(next.error()) + "\n";
  }

  std::optional<Cluster> cluster_;
};

}  // namespace

TEST_CASE("maps follow from what nodes report, as the scripts say") {
  for (const char* name : {"changes", "deaths", "room", "silence", "takeover"}) {
    Script script;
    run_script(fmt::format("{}/{}.txt", ELASTRIPE_TEST_DATA, name),
               [&](const ScriptCommand& command) { return script.handle(command); });
  }
}
