// elastripe node: shows the nodes, and changes who they are (docs/operations.md).
#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/cli/admin.h"
#include "tools/cli/answer.h"
#include "tools/cli/commands.h"
#include "tools/cli/node_wait.h"
#include "tools/cli/status_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

void print_nodes(const std::vector<Json>& nodes) {
  fmt::print("{:<10} {:<22} {:<8} {:<9} {:>11} {:>11} {:>8} {:>8} {:>9} {:>16}\n", "node",
             "address", "state", "role", "used", "free", "records", "shards", "log",
             "synced/homes");
  for (const Json& node : nodes) {
    const Json& statistics = part(node, "statistics");
    fmt::print("{:<10} {:<22} {:<8} {:<9} {:>11} {:>11} {:>8} {:>8} {:>9} {:>16}\n",
               shown(node, "name"), shown(node, "address"), shown(node, "state"),
               shown(node, "role"), mebibytes(number(statistics, "used_bytes")),
               mebibytes(number(node, "free_bytes")), shown(statistics, "records"),
               shown(statistics, "shards"), mebibytes(number(statistics, "log_bytes")),
               shown(node, "partitions_synced") + "/" + shown(node, "partitions_home"));
  }
}

Result<> node(const Globals& globals, const std::string& name) {
  const auto answer = fetch(globals, "/v1/nodes");
  if (!answer) return std::unexpected(answer.error());
  std::vector<Json> nodes;
  for (const Json& node : part(*answer, "nodes")) {
    if (name.empty() || shown(node, "name") == name) nodes.push_back(node);
  }
  if (!name.empty() && nodes.empty()) return fail("no node is named {}", name);
  if (globals.json) {
    print_json(name.empty() ? *answer : nodes.front());
  } else {
    print_nodes(nodes);
  }
  return {};
}

// True if the person at the terminal says yes.
bool confirms(const std::string& question) {
  fmt::print(stderr, "{} [y/N] ", question);
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

// Has the proxy do something with a node.
Result<Json> act_on(const Globals& globals, const std::string& name, const std::string& action,
                    const Json& body = {}) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  return admin->post("/v1/nodes/" + url_escape(name) + "/" + action, action,
                     body.empty() ? std::string() : body.dump());
}

Result<> declare_dead(const Globals& globals, const std::string& name, bool yes) {
  if (!yes) {
    if (isatty(STDIN_FILENO) == 0) return fail("say --yes: there is no terminal to ask at");
    const auto question = fmt::format(
        "What only node {} has is given up, and must never be served by it again.\n"
        "Is its process gone?",
        name);
    if (!confirms(question)) return fail("nothing was done");
  }
  const auto answer = act_on(globals, name, "declare-dead");
  if (!answer) return std::unexpected(answer.error());
  if (globals.json) {
    print_json(*answer);
  } else {
    fmt::print("node {} counts as dead until it answers\n", name);
  }
  return {};
}

void wait_a_moment() {
  const timespec moment = {0, 250'000'000L};
  nanosleep(&moment, nullptr);
}

// What a command waits for goes to standard error, for whoever wonders: when that has become
// something else, and not all the time.
class WaitNews {
 public:
  void note(const std::string& awaited) {
    const auto now = SteadyClock::now();
    if (awaited == told_ || now < next_) return;
    fmt::print(stderr, "waiting: {}\n", awaited);
    told_ = awaited;
    next_ = now + kPeriod;
  }

 private:
  static constexpr std::chrono::seconds kPeriod{3};
  std::string told_;
  SteadyClock::time_point next_ = SteadyClock::now() + kPeriod;
};

// A proxy that does not answer may do so later.
Result<> wait_for_node(const Globals& globals, const std::string& name, int timeout_s) {
  const auto begin = SteadyClock::now();
  const auto timeout = std::max(std::chrono::seconds(timeout_s), kShortestWait);
  const auto end = begin + timeout;
  const auto since_begin = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - begin);
  };
  WaitNews news;
  for (;; wait_a_moment()) {
    const auto nodes_asked = since_begin();
    const auto nodes = fetch(globals, "/v1/nodes");
    const auto status_asked = since_begin();
    const auto status = fetch(globals, "/v1/status");
    const bool is_over = SteadyClock::now() >= end;
    if (!nodes || !status) {
      const std::string& error = nodes ? status.error() : nodes.error();
      if (is_over) return fail("{}", error);
      news.note(error);
      continue;
    }
    const NodeSighting seen{*nodes, *status, nodes_asked, status_asked};
    const std::string awaited = awaited_of(seen, name);
    if (awaited.empty()) return {};
    // A proxy that follows hears of a new member a moment later than others.
    const bool has_looked = is_over || nodes_asked >= kOnTheWay;
    if (has_looked && is_unknown(seen, name)) return fail("no node is named {}", name);
    if (shown(part(*status, "repair"), "state") == "off") {
      return fail("repair.automatic is off, so redundancy may never be full");
    }
    if (is_over) return fail("{}, after {} s", awaited, timeout.count());
    news.note(awaited);
  }
}

// One change follows another only when the cluster has come to rest, which a proxy that is asked in
// between says: it is asked again.
Result<> change_members(const Globals& globals, const std::string& name, const std::string& action,
                        const Json& body, SteadyClock::time_point end) {
  WaitNews news;
  for (;; wait_a_moment()) {
    const auto answer = act_on(globals, name, action, body);
    if (answer) return {};
    const bool is_changing = answer.error().find("try again") != std::string::npos;
    if (!is_changing || SteadyClock::now() >= end) return std::unexpected(answer.error());
    news.note(answer.error());
  }
}

struct MemberArguments {
  std::string name;
  std::string address;
  std::string domain;
  bool undoes = false;
  bool waits = true;
  int timeout_s = 600;

  SteadyClock::time_point end() const {
    return SteadyClock::now() + std::chrono::seconds(timeout_s);
  }
};

// What is still to come.
struct Awaited {
  std::string what;        // empty: nothing
  bool is_futile = false;  // it does not come any more
};

// Waits until nothing is awaited, by what the nodes are.
Result<> wait_until(const Globals& globals, SteadyClock::time_point end,
                    const std::function<Awaited(const Json& nodes)>& look) {
  WaitNews news;
  for (;; wait_a_moment()) {
    const auto nodes = fetch(globals, "/v1/nodes");
    const Awaited awaited = nodes ? look(*nodes) : Awaited{nodes.error()};
    if (awaited.what.empty()) return {};
    if (awaited.is_futile || SteadyClock::now() >= end) return fail("{}", awaited.what);
    news.note(awaited.what);
  }
}

// What is known of a new member that is not up.
std::string why_not_up(const Json& node, const std::string& name, const std::string& address) {
  const std::string lacks = text(node, "lacks");
  const bool has_answered = text(node, "process").find_first_not_of('0') != std::string::npos;
  std::string why = fmt::format("no node answers at {}", address);
  if (has_answered) {
    why = fmt::format("the process at {} is not taken, as one of another cluster is not", address);
  }
  if (!lacks.empty()) why = fmt::format("its build lacks {}", lacks);
  return fmt::format(
      "node {0} has been added, and is {1}: {2}. The log of the proxy that decides tells of it "
      "(node={0}); it is a member until `elastripe node remove {0}`",
      name, shown(node, "state"), why);
}

Result<> add_node(const Globals& globals, const MemberArguments& arguments) {
  const auto end = arguments.end();
  const size_t colon = arguments.address.rfind(':');
  if (colon == std::string::npos) return fail("{} is not HOST:PORT", arguments.address);
  std::string host = arguments.address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = arguments.address.substr(colon + 1);
  int number = 0;
  if (!CLI::detail::lexical_cast(port, number)) return fail("{} is not a port", port);
  Json body = {{"host", host}, {"port", number}};
  if (!arguments.domain.empty()) body["domain"] = arguments.domain;
  if (auto added = change_members(globals, arguments.name, "add", body, end); !added) return added;
  if (!arguments.waits) return {};
  return wait_until(globals, end, [&](const Json& nodes) {
    const Json node = node_named(nodes, arguments.name);
    if (text(node, "state") == "up") return Awaited{};
    return Awaited{why_not_up(node, arguments.name, arguments.address)};
  });
}

Awaited awaited_of_drain(const Globals& globals, const Json& node, const std::string& name) {
  const Json& statistics = part(node, "statistics");
  // A proxy that has just started says what its configuration says.
  if (text(node, "role") != "draining" || text(node, "state") != "up") {
    return {fmt::format("node {} is {}, {}: nobody drains it", name, shown(node, "state"),
                        shown(node, "role"))};
  }
  const double partitions = number(node, "partitions_home") + number(node, "partitions_source");
  if (partitions + number(statistics, "shards") == 0) return {};
  const auto status = fetch(globals, "/v1/status");
  return {fmt::format("node {} still has {} partitions and {} shards{}", name, partitions,
                      shown(statistics, "shards"), status ? hold_up_of_repair(*status) : "")};
}

Result<> drain_node(const Globals& globals, const MemberArguments& arguments) {
  const auto end = arguments.end();
  const char* action = arguments.undoes ? "refill" : "drain";
  if (auto begun = change_members(globals, arguments.name, action, {}, end); !begun) return begun;
  if (arguments.undoes || !arguments.waits) return {};
  double draining_in = 0;  // the last epoch in which it did
  return wait_until(globals, end, [&](const Json& nodes) {
    const double epoch = number(nodes, "epoch");
    const Json node = node_named(nodes, arguments.name);
    if (text(node, "role") == "draining") {
      draining_in = std::max(draining_in, epoch);
    } else if (draining_in > 0 && epoch > draining_in) {
      const char* now = node.is_null() ? "is no member any more" : "takes new data again";
      return Awaited{fmt::format("node {} {}: somebody has had it so", arguments.name, now),
                     /*is_futile=*/true};
    }
    return awaited_of_drain(globals, node, arguments.name);
  });
}

Result<> remove_node(const Globals& globals, const MemberArguments& arguments) {
  return change_members(globals, arguments.name, "remove", {}, arguments.end());
}

using MemberCommand = Result<> (*)(const Globals&, const MemberArguments&);

std::shared_ptr<MemberArguments> add_member_command(CLI::App& command, Globals& globals,
                                                    MemberCommand run) {
  auto arguments = std::make_shared<MemberArguments>();
  command.add_option("NAME", arguments->name)->required();
  command.add_option("--timeout", arguments->timeout_s, "Seconds")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  command.callback([&globals, arguments, run] { report(globals, run(globals, *arguments)); });
  return arguments;
}

void add_member_commands(CLI::App& node, Globals& globals) {
  CLI::App* add = node.add_subcommand(
      "add", "Makes a node that runs a member; or tells where one that is lost is now");
  auto added = add_member_command(*add, globals, add_node);
  add->add_option("HOST:PORT", added->address)->required();
  add->add_option("--domain", added->domain, "What it fails together with; itself by default");
  add->add_flag("!--no-wait", added->waits, "Do not wait until it is up");

  CLI::App* drain =
      node.add_subcommand("drain", "Moves everything off a node, and waits until it is empty");
  auto drained = add_member_command(*drain, globals, drain_node);
  drain->add_flag("--undo", drained->undoes, "It takes new data again");
  drain->add_flag("!--no-wait", drained->waits, "Do not wait until it is empty");

  CLI::App* removal =
      node.add_subcommand("remove", "Ends the membership of a node that is empty, or lost");
  add_member_command(*removal, globals, remove_node);
}

}  // namespace

void add_node_command(CLI::App& app, Globals& globals) {
  auto name = std::make_shared<std::string>();
  CLI::App* const command =
      app.add_subcommand("node", "Shows the nodes: state, memory, partitions");
  command->add_option("NAME", *name, "One node instead of all");
  auto* const dead = command->add_subcommand(
      "declare-dead", "Vouches that a silent node's process is gone, with its memory");
  auto dead_name = std::make_shared<std::string>();
  auto yes = std::make_shared<bool>(false);
  dead->add_option("NAME", *dead_name)->required();
  dead->add_flag("--yes", *yes, "Do not ask");
  dead->callback(
      [&globals, dead_name, yes] { report(globals, declare_dead(globals, *dead_name, *yes)); });
  auto* const wait = command->add_subcommand(
      "wait",
      "Waits until a node is up and nothing lacks redundancy: then the next may be stopped");
  auto wait_name = std::make_shared<std::string>();
  auto timeout_s = std::make_shared<int>(600);
  wait->add_option("NAME", *wait_name)->required();
  wait->add_option("--timeout", *timeout_s, "Seconds")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  wait->callback([&globals, wait_name, timeout_s] {
    report(globals, wait_for_node(globals, *wait_name, *timeout_s));
  });
  add_member_commands(*command, globals);
  command->callback([&globals, name, command] {
    if (command->get_subcommands().empty()) report(globals, node(globals, *name));
  });
}

}  // namespace elastripe::cli
