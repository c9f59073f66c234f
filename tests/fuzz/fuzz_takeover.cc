// The first map of a decider, out of whatever maps the nodes tell in their answers to HELLO. It
// must be one that nodes can read, above all that were told, or there must be a reason for none.
//
// The input: how many maps (1 byte), each with its length (2 bytes) and without its hash; then a
// byte of options, and what each node answers (read_report).
#include <algorithm>

#include "proxy/base/check.h"
#include "proxy/cluster/takeover.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/node_samples.h"

using namespace elastripe;

namespace {

constexpr size_t kNodes = 5;
constexpr uint32_t kPartitions = 8;
constexpr uint64_t kFirstIncarnation = 100;

MembershipSettings make_settings() {
  MembershipSettings settings{.nodes = {}, .partitions = kPartitions, .max_parities = 2};
  for (size_t i = 0; i < kNodes; ++i) {
    node::NodeInfo info;
    info.id = static_cast<node::NodeId>(i);
    info.name = info.host = info.domain = "n" + std::to_string(i);
    info.port = 1;
    settings.nodes.push_back(info);
  }
  return settings;
}
Ring make_ring() {
  std::vector<std::string> names;
  for (const node::NodeInfo& info : make_settings().nodes) names.push_back(info.name);
  return Ring(names, kPartitions);
}

NodeReport report(Verdict verdict, uint64_t incarnation = 0) {
  NodeReport report;
  report.verdict = verdict;
  report.incarnation = incarnation;
  return report;
}

node::MapPtr read_map(node::Reader& in) {
  const std::string sealed = node::sealed_map(node::as_view(in.short_string()));
  auto map = node::decode_map(node::as_view(sealed));
  return map ? std::make_shared<const node::ClusterMap>(std::move(*map)) : nullptr;
}

constexpr uint8_t kNoMap = 255;

// Verdict and room (1 byte), number of its map (1 byte), incarnation, highest version, synced bits.
// A node that has a map names its epoch (proxy/ops/decider/decider_peer.h, shows()).
void read_report(node::Reader& in, const std::vector<node::MapPtr>& told, NodeReport& report,
                 node::MapPtr& map) {
  const uint8_t judged = in.u8();
  report.verdict = static_cast<Verdict>(judged % 3);
  report.room = static_cast<Room>(judged / 3 % 3);
  const uint8_t which = in.u8();
  if (which < told.size()) map = told[which];
  if (map != nullptr) report.epoch = map->epoch;
  report.incarnation = in.u64();
  report.max_version = in.u64();
  for (const char bits : in.raw(kPartitions / 8)) {
    report.synced.push_back(static_cast<uint8_t>(bits));
  }
}

// As Decider::Impl::first_choice(); `known` loses the nodes of other clusters.
Result<node::ClusterMap> first_choice(MapRequest& known, const node::MapPtr& own = nullptr) {
  static const MembershipSettings settings = make_settings();
  static const Ring ring = make_ring();
  const auto strays = find_strays(settings, known.reports, known.maps);
  if (!strays) return fail(strays.error());
  for (const node::NodeId id : *strays) {
    CHECK(known.maps[id] != nullptr);
    known.reports[id] = report(Verdict::kRefuses);
    known.maps[id] = nullptr;
  }
  const auto base = choose_base(known.reports, known.maps, own, known.give_up_silent);
  if (!base) return fail(base.error());
  for (const NodeReport& report : known.reports) {
    known.above_number = std::max(known.above_number, report.epoch.number);
  }
  if (*base == nullptr) return first_map(settings, ring, known, 1);
  const bool is_found = *base == own || std::ranges::find(known.maps, *base) != known.maps.end();
  CHECK(is_found || known.give_up_silent);
  return next_map(**base, settings, ring, known);
}

}  // namespace

bool fuzz::accepts(std::string_view input) {
  node::Reader in(node::as_view(input));
  std::vector<node::MapPtr> told(in.u8() % kNodes);
  for (node::MapPtr& map : told) map = read_map(in);
  MapRequest known;
  known.decider = 7;
  const uint8_t options = in.u8();
  known.accept_loss = (options & 1) != 0;
  known.give_up_silent = (options & 2) != 0;
  if ((options & 4) != 0) known.flush.now = true;
  const bool has_served = (options & 8) != 0 && !told.empty();
  known.reports.resize(kNodes);
  known.maps.resize(kNodes);
  for (size_t i = 0; i < kNodes; ++i) read_report(in, told, known.reports[i], known.maps[i]);
  if (!in.ok()) return false;
  auto map = first_choice(known, has_served ? told.front() : nullptr);
  if (!map) {
    CHECK(!map.error().message.empty());
    return false;
  }
  for (const NodeReport& report : known.reports)
    CHECK(map->epoch.number > report.epoch.number, "{} after {}", map->epoch.number,
          report.epoch.number);
  node::seal(*map);
  const auto again = node::decode_map(node::as_view(node::encoded(*map)));
  CHECK(again.has_value(), "{}", again.error());
  CHECK(*again == *map);
  return true;
}

namespace {

struct Seed {
  std::vector<node::ClusterMap> maps;
  std::vector<uint8_t> map_of_node;
  std::vector<NodeReport> reports;
  uint8_t options = 0;

  std::string bytes() const {
    std::string all;
    node::Writer out(all);
    out.u8(static_cast<uint8_t>(maps.size()));
    for (const node::ClusterMap& map : maps) out.short_string(node::bare_map(map));
    out.u8(options);
    for (size_t i = 0; i < kNodes; ++i) {
      out.u8(static_cast<uint8_t>(reports[i].verdict));
      out.u8(map_of_node[i]);
      out.u64(reports[i].incarnation);
      out.u64(reports[i].max_version);
      out.u8(0xff);
    }
    return all;
  }
};

}  // namespace

std::vector<std::string> fuzz::seeds() {
  MapRequest request;
  request.decider = 3;
  request.maps.resize(kNodes);
  for (size_t i = 0; i < kNodes; ++i) {
    request.reports.push_back(report(Verdict::kAnswers, kFirstIncarnation + i));
  }
  const Seed none{{}, std::vector<uint8_t>(kNodes, kNoMap), request.reports};
  const auto first = std::make_shared<const node::ClusterMap>(first_choice(request).value());
  const Seed one{{*first}, std::vector<uint8_t>(kNodes, 0), request.reports};
  Seed lost = one;
  lost.reports[1] = report(Verdict::kRefuses);
  lost.map_of_node[1] = kNoMap;
  Seed accepted = lost;
  accepted.options = 7;
  std::ranges::fill(request.maps, first);
  for (NodeReport& report : request.reports) report.epoch = first->epoch;
  Seed two = one;  // of which the second has not reached all
  two.maps.push_back(first_choice(request).value());
  two.map_of_node[0] = two.map_of_node[1] = 1;
  Seed served = two;  // and the first was served by who takes over
  served.options = 8;
  return {none.bytes(), one.bytes(), lost.bytes(), accepted.bytes(), two.bytes(), served.bytes()};
}
