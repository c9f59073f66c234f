#include "tests/sim/scenario.h"

#include <algorithm>

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

Scenario mixed() {
  Scenario s;
  s.name = "mixed";
  s.about = "everything at once, at ERS(2,2,3)";
  return s;
}

Scenario inline_records() {
  Scenario s;
  s.name = "inline";
  s.about = "small values only: records, three times, and no shards";
  s.scheme = "rep:3";
  s.inline_max_bytes = 1024;
  s.nodes = 5;
  s.keys = 1;
  s.clients = 4;
  return s;
}

Scenario single_parity() {
  Scenario s;
  s.name = "m1";
  s.about = "RS(2,1): two homes, one loss";
  s.scheme = "rs:2,1";
  s.nodes = 4;
  s.keys = 1;
  return s;
}

Scenario membership() {
  Scenario s;
  s.name = "membership";
  s.about = "many stalls, cuts and changes of the decider, maps that come late";
  s.node_stalls = 4;
  s.link_cuts = 6;
  s.proxy_kills = 2;
  s.proxy_pauses = 4;
  s.proxies = 3;
  s.at_decider = 0.7;
  s.map_delay_max = seconds(2);
  s.keys = 1;
  return s;
}

Scenario calm() {
  Scenario s;
  s.name = "calm";
  s.about = "no crash; the network delays, drops and duplicates";
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.network.drop = s.network.drop_reply = 0.02;
  s.network.duplicate = 0.05;
  s.network.late = 0.02;
  s.network.slow = 0.2;
  s.keys = 1;
  s.think_max = milliseconds(40);
  return s;
}

Scenario uploads() {
  Scenario s;
  s.name = "uploads";
  s.about = "large values, proxies that die or stop in mid-upload, and reclaim";
  s.large = 1;
  s.proxy_kills = 3;
  s.proxy_pauses = 3;
  s.node_kills = 1;
  s.proxies = 3;
  s.keys = 1;
  s.at_decider = 0.2;
  s.network.late = 0.02;
  s.faults_until = seconds(6);
  s.operations = 16;
  s.think_max = milliseconds(400);
  return s;
}

Scenario lost() {
  Scenario s;
  s.name = "lost";
  s.about = "more memory is lost than the scheme survives: errors, but no lies";
  s.scheme = "rep:2";
  s.inline_max_bytes = 1024;
  s.nodes = 4;
  s.node_kills = 6;
  s.silent_kills = 0.1;
  s.beyond_promise = true;
  s.check_leaks = false;
  return s;
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> kAll{mixed(), inline_records(), single_parity(), membership(),
                                          calm(),  uploads(),        lost()};
  return kAll;
}

const Scenario* find_scenario(std::string_view name) {
  const auto it = std::ranges::find(scenarios(), name, &Scenario::name);
  if (it != scenarios().end()) return &*it;
  for (const Rule& rule : rules()) {
    if (rule.scenario.name == name) return &rule.scenario;
  }
  return nullptr;
}

const Rule* find_rule(std::string_view mutant_name) {
  const auto it = std::ranges::find(rules(), mutant_name, &Rule::mutant_name);
  return it == rules().end() ? nullptr : &*it;
}

}  // namespace elastripe::sim
