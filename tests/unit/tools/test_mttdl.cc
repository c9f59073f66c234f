#include <fmt/core.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coding/codec.h"
#include "tools/cli/mttdl.h"

namespace elastripe::cli {
namespace {

using coding::LayoutKind;
using coding::State;

constexpr double kHour = 3600;
constexpr double kGiB = 1 << 30;
constexpr double kMiB = 1 << 20;

constexpr Coding kNarrow{.data = 4, .width = 6, .shards = 7};  // ERS(4, 2, 5)
constexpr Coding kWide{.data = 5, .width = 7, .shards = 7};

FailureModel twelve_nodes() {
  return {.nodes = 12,
          .node_bytes = 64 * kGiB,
          .node_mtbf = 1000 * kHour,
          .repair_rate = 200 * kMiB,
          .repair_wait = 60};
}

DataLossReport report_of(int k, int m, int k_prime, const FailureModel& model) {
  const auto report = make_data_loss_report(k, m, k_prime, model);
  INFO((report ? std::string() : report.error()));
  REQUIRE(report);
  return *report;
}

std::string error_of(const FailureModel& model) {
  const auto report = make_data_loss_report(4, 2, 5, model);
  return report ? "" : report.error();
}

// Calls `visit` with every set of `size` of the numbers below `of`.
template <class Visit>
void each_subset(int of, int size, Visit visit) {
  std::vector<char> chosen(static_cast<size_t>(of), 0);
  std::fill_n(chosen.begin(), size, 1);
  do {
    std::set<int> subset;
    for (int i = 0; i < of; ++i) {
      if (chosen[static_cast<size_t>(i)] != 0) subset.insert(i);
    }
    visit(subset);
  } while (std::ranges::prev_permutation(chosen).found);
}

// The same chain as mean_time_to_loss(), by Gaussian elimination of its linear system: in each
// state (failures + repairs) t_i = 1 + failures t_{i+1} + repairs t_{i-1}.
double solved_by_elimination(int nodes, double mtbf, const std::vector<double>& repair_times) {
  const size_t states = repair_times.size() + 1;
  std::vector<std::vector<double>> a(states, std::vector<double>(states + 1, 0));
  for (size_t i = 0; i < states; ++i) {
    const double failures = (nodes - static_cast<double>(i)) / mtbf;
    const double repairs = i == 0 ? 0 : 1 / repair_times[i - 1];
    a[i][i] = failures + repairs;
    if (i + 1 < states) a[i][i + 1] = -failures;
    if (i > 0) a[i][i - 1] = -repairs;
    a[i][states] = 1;
  }
  for (size_t i = 0; i < states; ++i) {
    for (size_t row = 0; row < states; ++row) {
      if (row == i) continue;
      const double factor = a[row][i] / a[i][i];
      for (size_t column = i; column <= states; ++column) a[row][column] -= factor * a[i][column];
    }
  }
  return a[0][states] / a[0][0];
}

}  // namespace

TEST_CASE("with one parity the mean time to loss is MTBF^2 / (N (N-1) MTTR)") {
  const double mtbf = 1000 * kHour;
  const double repair = 60;
  CHECK(mean_time_to_loss(10, mtbf, std::vector{repair}) ==
        Approx(mtbf * mtbf / (10 * 9 * repair)).epsilon(1e-3));
  // Exactly, also where repair is slow.
  for (const double slow : {60.0, 10 * kHour, 5000 * kHour}) {
    const double f0 = 10 / mtbf;
    const double f1 = 9 / mtbf;
    CHECK(mean_time_to_loss(10, mtbf, std::vector{slow}) ==
          Approx((f0 + f1 + 1 / slow) / (f0 * f1)));
  }
}

TEST_CASE("with two parities it is MTBF^3 / (N (N-1) (N-2) MTTR1 MTTR2)") {
  const double mtbf = 1000 * kHour;
  CHECK(mean_time_to_loss(10, mtbf, std::vector<double>{300, 70}) ==
        Approx(mtbf * mtbf * mtbf / (10.0 * 9 * 8 * 300 * 70)).epsilon(2e-3));
}

TEST_CASE("without repair the mean time to loss is that of m + 1 failures in a row") {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  CHECK(mean_time_to_loss(10, 720, std::vector{kNever, kNever}) == Approx(72 + 80 + 90));
  CHECK(mean_time_to_loss(10, 720, {}) == Approx(72));  // no parity
}

TEST_CASE("the mean time to loss solves the linear system of its chain") {
  // Repair is slow, as elimination cancels where it is fast.
  for (const auto& times : {std::vector<double>{1e4},
                            {1e5, 2e4},
                            {3e5, 1e5, 5e4},
                            {1e6, 5e5, 2e5, 1e5, 5e4, 5e4, 5e4, 5e4}}) {
    for (const int nodes : {9, 12, 100}) {
      CHECK(mean_time_to_loss(nodes, 1e6, times) ==
            Approx(solved_by_elimination(nodes, 1e6, times)).epsilon(1e-6));
    }
  }
}

TEST_CASE("the share of segments that lost so many shards is counted over all placements") {
  constexpr int kNodes = 9;
  for (int gone = 1; gone <= 3; ++gone) {
    std::vector<double> counts(static_cast<size_t>(gone) + 1, 0);
    each_subset(kNodes, kNarrow.shards, [&](const std::set<int>& places) {
      ++counts[static_cast<size_t>(
          std::ranges::count_if(places, [&](int node) { return node < gone; }))];
    });
    const double placements = std::accumulate(counts.begin(), counts.end(), 0.0);
    CHECK(placements == 36);
    for (int lost = 0; lost <= gone; ++lost) {
      INFO(lost << " lost of " << gone << " gone");
      CHECK(share_with_lost(kNodes, kNarrow, gone, lost) ==
            Approx(counts[static_cast<size_t>(lost)] / placements));
    }
  }
}

TEST_CASE("the share of touched codewords is what any layout has on average") {
  for (const auto& [k, m, k_prime] : {std::tuple{4, 2, 5}, {4, 2, 8}, {2, 3, 6}}) {
    for (const LayoutKind kind : {LayoutKind::kSrs, LayoutKind::kErs1, LayoutKind::kErs2}) {
      const auto codec = coding::codec_for(
          {kind, static_cast<uint8_t>(k), static_cast<uint8_t>(m), static_cast<uint8_t>(k_prime)});
      REQUIRE(codec);
      const coding::Layout& layout = (*codec)->layout();
      const int shards = k_prime + m;
      for (const State state : {State::kNarrow, State::kWide}) {
        const int data = state == State::kNarrow ? k : k_prime;
        for (int lost = 0; lost <= m; ++lost) {
          int touched = 0;
          int all = 0;
          each_subset(shards, lost, [&](const std::set<int>& gone) {
            const bool is_parity_gone = !gone.empty() && *gone.rbegin() >= k_prime;
            for (int c = 0; c < layout.codewords(state); ++c) {
              ++all;
              touched += is_parity_gone ||
                         std::ranges::any_of(layout.codeword_blocks(state, c), [&](uint16_t b) {
                           return gone.contains(layout.node_of(b));
                         });
            }
          });
          INFO("k " << k << " k' " << k_prime << " data " << data << " lost " << lost);
          CHECK(share_touched({.data = data, .width = data + m, .shards = shards}, lost) ==
                Approx(static_cast<double>(touched) / all));
        }
      }
    }
  }
}

TEST_CASE("the repair of a node reads k bytes and writes one for each that it had") {
  const FailureModel model = twelve_nodes();
  CHECK(repair_bytes(model, kNarrow, 1, 1) == Approx((4 + 1) * model.node_bytes));
  CHECK(repair_bytes(model, kWide, 1, 1) == Approx((5 + 1) * model.node_bytes));
}

TEST_CASE("what lost most is a small part of what is to be repaired") {
  const FailureModel model = twelve_nodes();
  // The two nodes have shards of 7 * 6 in 12 * 11 segments: of each the 5 data shards are read, or
  // what they are computed from, and 2 are written. A shard is 1/7 of a segment.
  CHECK(repair_bytes(model, kWide, 2, 2) ==
        Approx(42.0 / 132 * (12 * model.node_bytes / 7) * (5 + 2)));
  CHECK(repair_bytes(model, kWide, 2, 2) < repair_bytes(model, kWide, 2, 1));
  // Segments that lost both shards are read once, not twice.
  CHECK(repair_bytes(model, kWide, 2, 1) < 2 * repair_bytes(model, kWide, 1, 1));
}

TEST_CASE("a report is of the chain with the times of repair") {
  const FailureModel model = twelve_nodes();
  const DataLossReport report = report_of(4, 2, 5, model);
  const DataLoss& wide = report.states[1];
  const double first = 60 + 6 * 64 * kGiB / (200 * kMiB);
  CHECK(wide.node_repair == Approx(first));
  const double second = 60 + 42.0 / 132 * 12 / 7 * 7 * 64 * kGiB / (200 * kMiB);
  CHECK(wide.any_object ==
        Approx(mean_time_to_loss(12, model.node_mtbf, std::vector{first, second})));
  CHECK(wide.one_object ==
        Approx(mean_time_to_loss(7, model.node_mtbf, std::vector{first, second})));
  CHECK(wide.lost_share == Approx(7.0 * 6 * 5 / (12 * 11 * 10)));
  CHECK(wide.any_order < wide.any_object);
  CHECK(wide.chance_in_year == Approx(1 - std::exp(-365.25 * 24 * kHour / wide.any_object)));
  CHECK(report.unrepaired == Approx(model.node_mtbf * (1 / 12.0 + 1 / 11.0 + 1 / 10.0)));
}

TEST_CASE("a loss takes its share, so one object lives longer by that") {
  FailureModel model = twelve_nodes();
  model.repair_rate *= 100;
  for (const DataLoss& loss : report_of(4, 2, 5, model).states) {
    CHECK(loss.any_object / loss.lost_share == Approx(loss.one_object).epsilon(0.01));
  }
  model.nodes = 7;  // all objects are on all nodes
  for (const DataLoss& loss : report_of(4, 2, 5, model).states) {
    CHECK(loss.lost_share == Approx(1));
    CHECK(loss.any_object == Approx(loss.one_object));
  }
}

TEST_CASE("data lives longer with better nodes, faster repair and more parities") {
  const FailureModel model = twelve_nodes();
  const DataLossReport before = report_of(4, 2, 5, model);
  const auto lives_longer = [](const DataLossReport& longer, const DataLossReport& shorter) {
    for (size_t state = 0; state < 2; ++state) {
      CHECK(longer.states[state].any_object > shorter.states[state].any_object);
      CHECK(longer.states[state].any_order > shorter.states[state].any_order);
      CHECK(longer.states[state].one_object > shorter.states[state].one_object);
      CHECK(longer.states[state].chance_in_year < shorter.states[state].chance_in_year);
    }
  };
  const auto with = [&](auto FailureModel::* member, auto value) {
    FailureModel other = model;
    other.*member = value;
    return report_of(4, 2, 5, other);
  };
  lives_longer(with(&FailureModel::node_mtbf, 2 * model.node_mtbf), before);
  lives_longer(with(&FailureModel::repair_rate, 2 * model.repair_rate), before);
  lives_longer(with(&FailureModel::repair_wait, 0.0), before);
  lives_longer(before, with(&FailureModel::node_bytes, 2 * model.node_bytes));
  lives_longer(report_of(4, 3, 5, model), before);
  lives_longer(before, report_of(4, 1, 5, model));
  // A wide object takes more to be read back.
  CHECK(before.states[0].any_object > before.states[1].any_object);
  // More nodes fail more often, but each loss takes less.
  const DataLossReport more = with(&FailureModel::nodes, 24);
  CHECK(more.states[1].any_object < before.states[1].any_object);
  CHECK(more.states[1].lost_share < before.states[1].lost_share);
}

TEST_CASE("with one parity there is nothing to put first") {
  for (const DataLoss& loss : report_of(4, 1, 5, twelve_nodes()).states) {
    CHECK(loss.any_order == Approx(loss.any_object));
  }
}

TEST_CASE("every scheme and cluster has a finite time") {
  FailureModel model = twelve_nodes();
  model.repair_wait = 0;
  model.node_bytes = 1;
  for (const int nodes : {72, kMaxPlannedNodes}) {
    model.nodes = nodes;
    for (const DataLoss& loss : report_of(32, 8, 64, model).states) {
      CHECK(std::isfinite(loss.any_object));
      CHECK(loss.any_object > 0);
      CHECK(loss.lost_share > 0);
      CHECK(loss.chance_in_year >= 0);
    }
  }
}

TEST_CASE("a cluster that makes no sense is refused with the option") {
  const auto with = [](auto FailureModel::* member, auto value) {
    FailureModel model = twelve_nodes();
    model.*member = value;
    return error_of(model);
  };
  CHECK(error_of(twelve_nodes()).empty());
  CHECK(with(&FailureModel::nodes, 6) == "--nodes is 6, must be 7..65535: a segment needs k' + m");
  CHECK(with(&FailureModel::nodes, 65536).starts_with("--nodes is 65536, must be"));
  CHECK(with(&FailureModel::node_bytes, 0.0) == "--node-bytes must be above 0");
  CHECK(with(&FailureModel::node_mtbf, 0.0) == "--node-mtbf must be above 0");
  CHECK(with(&FailureModel::repair_rate, 0.0) == "--repair-rate must be above 0");
  CHECK(with(&FailureModel::repair_wait, 0.0).empty());
}

TEST_CASE("the text of a data loss report is a table and what is assumed") {
  const std::string text = data_loss_text(report_of(4, 2, 5, twelve_nodes()));
  const auto shows = [&](const char* part) {
    INFO(part << "\nis not in\n" << text);
    CHECK(text.find(part) != std::string::npos);
  };
  shows(
      "data loss, mean times                                   narrow            wide\n"
      "a node's shards are made again within                   28 min          34 min\n");
  shows("  of all objects, so many are lost then               <= 15.9%           15.9%\n");
  shows("  if nothing were repaired                             11 days         11 days\n");
  shows("any 3 nodes have\n");
  CHECK(text.find("there is none to make shards on") == std::string::npos);
  FailureModel model = twelve_nodes();
  model.nodes = 8;
  CHECK(data_loss_text(report_of(4, 2, 5, model)).find("When more than 1 of the nodes are gone") !=
        std::string::npos);
}

TEST_CASE("the JSON of a data loss report has all figures of both states") {
  const DataLossReport report = report_of(4, 2, 5, twelve_nodes());
  const Json json = data_loss_json(report);
  CHECK(json["nodes"] == 12);
  CHECK(json["node_mtbf_seconds"] == 3.6e6);
  CHECK(json["unrepaired_seconds"] == report.unrepaired);
  for (const DataLoss& loss : report.states) {
    CHECK(json[loss.state] == Json({{"node_repair_seconds", loss.node_repair},
                                    {"any_object_seconds", loss.any_object},
                                    {"chance_in_year", loss.chance_in_year},
                                    {"lost_share", loss.lost_share},
                                    {"one_object_seconds", loss.one_object},
                                    {"any_order_seconds", loss.any_order}}));
  }
}

TEST_CASE("a duration is a number with a unit") {
  for (const auto& [text, seconds] : {std::pair{"250ms", 0.25},
                                      {"60s", 60.0},
                                      {"0s", 0.0},
                                      {"2min", 120.0},
                                      {"1000h", 3.6e6},
                                      {"2.5d", 216000.0},
                                      {"1y", 31557600.0}}) {
    const auto duration = parse_duration(text);
    INFO(text);
    REQUIRE(duration);
    CHECK(*duration == Approx(seconds));
  }
  for (const char* text : {"", "h", "10", "-1h", "1e3h", "inf s", "infs", "nans", "1 h", "1m",
                           "30001y", "1hh", " 1h"}) {
    INFO(text);
    REQUIRE(!parse_duration(text));
    CHECK(parse_duration(text).error().starts_with(fmt::format("'{}' is no duration: ", text)));
  }
}

}  // namespace elastripe::cli
