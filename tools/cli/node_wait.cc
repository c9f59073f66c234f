#include "tools/cli/node_wait.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cli/answer.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

// Whether something is younger than the command; `asked` is when its age was asked for.
bool is_news(double age_ms, milliseconds asked) {
  return age_ms <= static_cast<double>((asked - kOnTheWay).count());
}

// A process that ends and starts again at once is missed by nobody for a while, and until then
// everything that a proxy tells is of before. So nothing counts but
//
// - an answer of the node that came after the command began, of a process that the map names. Every
//   process has an incarnation of its own, and a map that names it was made since it started: what
//   this map says, and what is said of it (partitions are synced, objects lack nothing), is of the
//   node as it is now, whoever made it, and however late a proxy that follows hears of it.
// - a word of the proxy that made that map, said after the command began, that it is still the
//   newest. A node that was silent for a while is the same process when it is back, and lacks what
//   was written meanwhile; a proxy that follows may not know yet that it was left out.
std::string awaited_of_node(const Json& node, const std::string& name, milliseconds asked) {
  if (node.is_null()) return fmt::format("no node is named {}", name);
  if (text(node, "state") != "up") return fmt::format("node {} is {}", name, shown(node, "state"));
  if (!is_news(number(node, "last_answer_age_ms"), asked)) {
    return fmt::format("node {} has not answered since this command began", name);
  }
  if (shown(node, "process") != shown(node, "incarnation")) {
    return fmt::format("the process of node {} is none that the cluster knows yet", name);
  }
  return {};
}

// Whether whoever made the map has said, since the command began, that it is the newest one.
bool is_newest(const NodeSighting& seen) {
  const Json& status = seen.status;
  const Json& epoch = part(status, "epoch");
  const Json& repair = part(status, "repair");
  // A proxy that decides and is of an older build does not tell by which map it goes.
  if (repair.contains("epoch") && number(repair, "epoch") != number(epoch, "number")) return false;
  if (part(status, "decides") == true) return true;
  return std::ranges::any_of(part(status, "proxies"), [&](const Json& proxy) {
    // A proxy of an older build tells only that another one decides, and not as whom.
    const bool made_it = proxy.contains("decides_as")
                             ? text(proxy, "decides_as") == text(epoch, "decider")
                             : part(proxy, "decides") == true;
    return made_it && is_news(number(proxy, "age_ms"), seen.status_asked);
  });
}

}  // namespace

std::string awaited_of(const NodeSighting& seen, const std::string& name) {
  const Json& status = seen.status;
  if (text(status, "state") != "serving") {
    const std::string reason = text(status, "reason");
    return fmt::format("the cluster is {}{}{}", shown(status, "state"), reason.empty() ? "" : ": ",
                       reason);
  }
  std::string awaited = awaited_of_node(node_named(seen.nodes, name), name, seen.nodes_asked);
  if (!awaited.empty()) return awaited;
  const double epoch = number(part(status, "epoch"), "number");
  // Between the two answers the map may have become another one.
  if (number(seen.nodes, "epoch") != epoch || !is_newest(seen)) {
    return "the proxy that decides has not confirmed the cluster's map since this command began";
  }
  const Json& partitions = part(status, "partitions");
  if (number(partitions, "synced") != number(partitions, "total")) {
    return fmt::format("redundancy is not full: {} of {} partitions are synced",
                       shown(partitions, "synced"), shown(partitions, "total"));
  }
  if (epoch != number(part(status, "repair"), "settled_epoch")) {
    return "redundancy is not full" + hold_up_of_repair(status);
  }
  return {};
}

bool is_unknown(const NodeSighting& seen, const std::string& name) {
  return text(seen.status, "state") == "serving" && number(seen.nodes, "epoch") > 0 &&
         node_named(seen.nodes, name).is_null();
}

Json node_named(const Json& nodes, const std::string& name) {
  for (const Json& node : part(nodes, "nodes")) {
    if (shown(node, "name") == name) return node;
  }
  return {};
}

std::string hold_up_of_repair(const Json& status) {
  const Json& repair = part(status, "repair");
  const std::string waits_for = text(repair, "waits_for");
  const std::string problem = text(repair, "problem");
  std::string hold_up = waits_for.empty() ? "" : ": repair waits for " + waits_for;
  if (!problem.empty()) hold_up += (hold_up.empty() ? ": " : "; ") + problem;
  return hold_up;
}

}  // namespace elastripe::cli
