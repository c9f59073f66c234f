// Runs testdata/*.txt: deciders over real nodes and flows on virtual time, as scripts with traces
// (tests/support/script.h). P is a proxy, by number; N a node.
//
//   cluster nodes=N [scheme=rs:2,1] [refused-is-dead=no]
//   decider [force]                 one more proxy, which makes maps
//   build node|proxy old|new        of those that start from now on: old has no capabilities
//   kill|vanish|start N...          a process ends, and its machine refuses connections or is gone
//   stall|stick|resume N...         a process stops, or one thread of it does
//   cut P N... / mend               links, also of a proxy that does not run yet
//   pause|continue|end P            a proxy
//   put P KEY VALUE [count=1]       KEY, or KEY0, KEY1, ...
//   get P KEY [count=1]
//   homes P KEY / records
//   spare                           a machine starts, of which nobody knows yet
//   configured N                    proxies that start from now on know the first N nodes only
//   member P add|drain|refill|remove N
//   run TIME
//   until P settled                 whole, all members up, each partition where it belongs
//   until P whole|serving|waiting|no-map|ended|loss [limit=60s] [not-before=0s]
//   until P node N STATE            as above
//   until P reason WORD...
//   status P / uses P               how it stands, and which capabilities the cluster uses
//   accept-loss P / declare-dead P NAME
#include <fmt/ranges.h>

#include <map>

#include "proxy/ops/objects/outcome.h"
#include "tests/support/script.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;
using node::NodeState;

namespace {

Duration duration(const std::string& text) {
  const bool is_ms = text.ends_with("ms");
  const auto number = std::stol(text);
  return is_ms ? Duration(std::chrono::milliseconds(number)) : std::chrono::seconds(number);
}

std::string describe(sim::SimProxy& proxy) {
  const ClusterStatus status = proxy.decider()->status();
  std::string text = fmt::format("{}, epoch {}", status.state, status.epoch.number);
  for (const auto state :
       {NodeState::kUp, NodeState::kSuspect, NodeState::kAway, NodeState::kLost}) {
    std::string ids;
    for (const NodeStatus& node : status.nodes) {
      if (status.partitions > 0 && node.info.state == state)
        ids += fmt::format(" {}", node.info.id);
    }
    if (!ids.empty()) text += fmt::format(", {}{}", name(state), ids);
  }
  for (const NodeStatus& node : status.nodes) {
    if (node.info.role == node::NodeRole::kDraining)
      text += fmt::format(", {} drains", node.info.id);
  }
  if (status.partitions > 0) {
    const bool whole = status.partitions_synced == status.partitions;
    text += whole ? ", all synced" : ", not all synced";
  }
  if (status.partitions_to_move > 0) text += ", some to move";
  if (status.partitions_lost > 0) text += fmt::format(", {} LOST", status.partitions_lost);
  if (proxy.map().current() == nullptr) text += ", serves no map";
  if (!status.reason.empty()) text += ": " + status.reason;
  return text + "\n";
}

class Script {
 public:
  std::string handle(const ScriptCommand& command) {
    const std::string& name = command.name;
    if (name == "cluster") {
      cluster_.reset();  // before the next one
      proxies_.clear();
      cluster_ = std::make_unique<ClusterFixture>(command.number("nodes", 0),
                                                  command.option("scheme", "rs:2,1"));
      cluster_->decider_settings.refused_is_dead =
          command.option("refused-is-dead", "yes") == "yes";
      return {};
    }
    REQUIRE(cluster_ != nullptr);
    if (name == "decider") {
      cluster_->decider_settings.force_epoch = !command.words.empty();
      proxies_.push_back(&cluster_->add_decider());
    } else if (name == "build") {
      const bool is_new = command.word(1) == "new";
      const auto build = is_new ? node::own_capabilities() : node::CapabilitySet();
      if (command.word(0) == "proxy") {
        cluster_->decider_settings.capabilities = build;
      } else {
        for (size_t i = 0; i < cluster_->decider_settings.nodes.size(); ++i) {
          cluster_->node(i).install_build(build);
        }
      }
    } else if (name == "spare") {
      cluster_->network().add_node().start();
    } else if (name == "configured") {
      // The first nodes only, as a configuration says that has missed what came later.
      cluster_->decider_settings.nodes.resize(command.number(0));
    } else if (name == "records") {
      return fmt::format("records on all nodes: {}\n", cluster_->records());
    } else if (name == "run") {
      cluster_->run_for(duration(command.word(0)));
    } else if (name == "cut") {
      for (size_t i = 1; i < command.words.size(); ++i) {
        cluster_->network().cut(static_cast<int>(command.number(0)),
                                static_cast<node::NodeId>(command.number(i)));
      }
    } else if (name == "mend") {
      cluster_->network().mend_all();
    } else if (const auto change = kNodeChanges.find(name); change != kNodeChanges.end()) {
      for (size_t i = 0; i < command.words.size(); ++i) {
        change->second(cluster_->node(command.number(i)));
      }
    } else {
      return ask(command, *proxies_.at(command.number(0)));
    }
    return {};
  }

 private:
  std::string ask(const ScriptCommand& command, sim::SimProxy& proxy) {
    const std::string& name = command.name;
    if (name == "status") return describe(proxy);
    if (name == "uses") return node::to_string(proxy.decider()->status().capabilities) + "\n";
    if (name == "until") return wait(command, proxy);
    if (name == "put" || name == "get") return use_keys(command, proxy);
    if (name == "homes") {
      return fmt::format("{}\n", fmt::join(cluster_->homes_of(proxy, command.word(1)), " "));
    }
    if (name == "accept-loss") {
      const auto accepted = cluster_->run(proxy.decider()->accept_loss(cluster_->deadline()));
      if (!accepted) return to_string(accepted.error()) + "\n";
      return fmt::format("{} start empty, {} lost\n", accepted->start_empty, accepted->lost);
    }
    if (name == "declare-dead") {
      const auto declared = proxy.decider()->declare_dead(command.word(1));
      return declared ? "declared\n" : to_string(declared.error()) + "\n";
    }
    if (name == "member") {
      using Kind = MemberChange::Kind;
      static const std::map<std::string, Kind> kinds{{"add", Kind::kAdd},
                                                     {"drain", Kind::kDrain},
                                                     {"refill", Kind::kRefill},
                                                     {"remove", Kind::kRemove}};
      MemberChange change{.kind = kinds.at(command.word(1)), .node = {}};
      change.node.name = change.node.host = change.node.domain = "node-" + command.word(2);
      change.node.port = 1;
      const auto changed =
          cluster_->run(proxy.decider()->change_members(change, cluster_->deadline()));
      return changed ? "done\n" : to_string(changed.error()) + "\n";
    }
    if (name == "pause") {
      proxy.pause();
    } else if (name == "continue") {
      proxy.resume();
    } else {
      INFO(name);
      REQUIRE(name == "end");
      proxy.kill();
    }
    return {};
  }

  // What all the keys give, if that is one thing.
  std::string use_keys(const ScriptCommand& command, sim::SimProxy& proxy) {
    const size_t count = command.number("count", 1);
    std::map<std::string, size_t> answers;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = command.word(1) + (count == 1 ? "" : std::to_string(i));
      if (command.name == "get") {
        ++answers[cluster_->get(proxy, key)];
      } else {
        ++answers[cluster_->put(proxy, key, command.word(2)) ? "stored" : "refused"];
      }
    }
    std::string text;
    for (const auto& [answer, times] : answers) {
      text += count == 1 ? answer + "\n" : fmt::format("{} x {}\n", times, answer);
    }
    return text;
  }

  // Whole, with all members up, and each partition where it belongs.
  bool is_settled(sim::SimProxy& proxy) {
    const ClusterStatus status = proxy.decider()->status();
    const auto is_up = [](const NodeStatus& node) { return node.info.state == NodeState::kUp; };
    return cluster_->serves_whole(proxy) && status.partitions_to_move == 0 &&
           std::ranges::all_of(status.nodes, is_up);
  }

  bool holds(const ScriptCommand& command, sim::SimProxy& proxy) {
    const std::string& what = command.word(1);
    if (what == "whole") return cluster_->serves_whole(proxy);
    if (what == "settled") return is_settled(proxy);
    if (what == "no-map") return proxy.map().current() == nullptr;
    if (what == "ended") return proxy.decider_has_ended();
    const ClusterStatus status = proxy.decider()->status();
    if (what == "loss") return status.can_accept_loss;
    if (what == "node") return name(status.nodes[command.number(2)].info.state) == command.word(3);
    if (what == "reason") return status.reason.find(command.word(2)) != std::string::npos;
    return status.state == what;
  }
  std::string wait(const ScriptCommand& command, sim::SimProxy& proxy) {
    const TimePoint begin = cluster_->events().now();
    const bool held = cluster_->run_until([&] { return holds(command, proxy); },
                                          duration(command.option("limit", "60s")));
    const bool early =
        cluster_->events().now() - begin < duration(command.option("not-before", "0s"));
    CHECK(held);
    CHECK_FALSE(early);
    return (held ? early ? "too early: " : "" : "not within the limit: ") + describe(proxy);
  }

  static inline const std::map<std::string, void (*)(sim::SimNode&)> kNodeChanges{
      {"kill", [](sim::SimNode& node) { node.kill(/*silent=*/false); }},
      {"vanish", [](sim::SimNode& node) { node.kill(/*silent=*/true); }},
      {"start", [](sim::SimNode& node) { node.start(); }},
      {"stall", [](sim::SimNode& node) { node.stall(); }},
      {"stick", [](sim::SimNode& node) { node.stick(); }},
      {"resume", [](sim::SimNode& node) { node.resume(); }}};

  std::unique_ptr<ClusterFixture> cluster_;
  std::vector<sim::SimProxy*> proxies_;
};

}  // namespace

TEST_CASE("deciders do what the scripts say") {
  for (const char* name : {"deciders", "losses", "nodes", "takeovers", "upgrades", "members"}) {
    Script script;
    run_script(fmt::format("{}/{}.txt", ELASTRIPE_TEST_DATA, name),
               [&](const ScriptCommand& command) { return script.handle(command); });
  }
}
