#include "tools/cli/mttdl.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace elastripe::cli {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kDay = 24 * kHour;
constexpr double kYear = 365.25 * kDay;
constexpr double kMaxDuration = 30000 * kYear;

constexpr const char* kAssumptions =
    "Assumed:\n"
    "- Nodes fail one by one, independently, at a constant rate: no rack, switch, power supply or\n"
    "  bad release takes several at once. A crashed process is a failure, as its memory is gone.\n"
    "- Shards that are there are intact: no latent errors.\n"
    "- A segment's shards are on random nodes, and objects are so many that any {} nodes have\n"
    "  enough shards of one to lose it. Every node has as many bytes, in either state.\n"
    "- Repair waits anew after each failure, then reads what it needs of a segment once and "
    "writes\n"
    "  what is gone, at the full rate. Its times are exponential, as those of failures.\n"
    "- Segments that lost the most shards go first; when these have them again, one node fewer\n"
    "  counts as gone. A repair that was running when a node failed keeps its order, so the truth\n"
    "  is between that and \"any order\": everything is made again before a node less is gone.\n"
    "- An object has one segment; of more segments, each can be lost. A narrow segment whose gone\n"
    "  blocks are in different stripes survives more than is counted here.\n"
    "- Records and inline objects are not counted: they are copied at once, without the wait.\n";

// n (n-1) .. (n-count+1): in how many ways `count` of n can follow each other.
double arrangements(int n, int count) {
  double ways = 1;
  for (int i = 0; i < count; ++i) ways *= std::max(n - i, 0);
  return ways;
}

double choose(int n, int count) { return arrangements(n, count) / arrangements(count, count); }

// From each number of gone nodes, 1..m, to one less.
template <class BytesOf>
std::vector<double> repair_times(const FailureModel& model, int m, BytesOf bytes_of) {
  std::vector<double> times;
  for (int gone = 1; gone <= m; ++gone) {
    times.push_back(model.repair_wait + bytes_of(gone) / model.repair_rate);
  }
  return times;
}

DataLoss data_loss_of(const char* state, const FailureModel& model, const Coding& coding, int m) {
  const std::vector<double> worst_first = repair_times(model, m, [&](int gone) {
    return repair_bytes(model, coding, gone, /*lost_at_least=*/gone);
  });
  const std::vector<double> any_order = repair_times(
      model, m, [&](int gone) { return repair_bytes(model, coding, gone, /*lost_at_least=*/1); });
  const double any_object = mean_time_to_loss(model.nodes, model.node_mtbf, worst_first);
  return {.state = state,
          .node_repair = worst_first.front(),
          .any_object = any_object,
          .chance_in_year = -std::expm1(-kYear / any_object),
          .lost_share = share_with_lost(model.nodes, coding, m + 1, m + 1),
          // Only failures of its own nodes endanger it, and it waits for all in the same danger.
          .one_object = mean_time_to_loss(coding.shards, model.node_mtbf, worst_first),
          .any_order = mean_time_to_loss(model.nodes, model.node_mtbf, any_order)};
}

std::string number_text(double number) {
  if (number >= 1e6) return fmt::format("{:.1e}", number);
  return number >= 9.95 ? fmt::format("{:.0f}", number) : fmt::format("{:.1f}", number);
}

std::string time_text(double seconds) {
  if (seconds < 2 * kMinute) return number_text(seconds) + " s";
  if (seconds < 2 * kHour) return number_text(seconds / kMinute) + " min";
  if (seconds < 2 * kDay) return number_text(seconds / kHour) + " h";
  if (seconds < 2 * kYear) return number_text(seconds / kDay) + " days";
  return number_text(seconds / kYear) + " years";
}

std::string percent_text(double share) {
  return share >= 0.001 ? fmt::format("{:.1f}%", share * 100) : fmt::format("{:.1e}%", share * 100);
}

}  // namespace

double share_with_lost(int nodes, const Coding& coding, int gone, int lost) {
  return choose(gone, lost) * arrangements(coding.shards, lost) *
         arrangements(nodes - coding.shards, gone - lost) / arrangements(nodes, gone);
}

double share_touched(const Coding& coding, int lost) {
  return 1 - arrangements(coding.shards - coding.width, lost) / arrangements(coding.shards, lost);
}

double repair_bytes(const FailureModel& model, const Coding& coding, int gone, int lost_at_least) {
  double share = 0;  // of all that is stored
  for (int lost = lost_at_least; lost <= gone; ++lost) {
    const double read = share_touched(coding, lost) * coding.data / coding.width;
    const double written = static_cast<double>(lost) / coding.shards;
    share += share_with_lost(model.nodes, coding, gone, lost) * (read + written);
  }
  return share * model.nodes * model.node_bytes;
}

// The time from i gone nodes to i + 1, T_i, is what the next failure takes, and once more for each
// repair that comes before it: T_i = 1/f_i + r_i/f_i T_{i-1}, for rates f of failures and r of
// repairs. All terms are positive, so nothing cancels.
double mean_time_to_loss(int nodes, double node_mtbf, std::span<const double> repair_times) {
  double to_next = node_mtbf / nodes;
  double sum = to_next;
  int gone = 0;
  for (const double repair_time : repair_times) {
    ++gone;
    const double failure_time = node_mtbf / (nodes - gone);
    to_next = failure_time + failure_time / repair_time * to_next;
    sum += to_next;
  }
  return sum;
}

Result<DataLossReport> make_data_loss_report(int k, int m, int k_prime, const FailureModel& model) {
  const int shards = k_prime + m;
  if (model.nodes < shards || model.nodes > kMaxPlannedNodes) {
    return fail("--nodes is {}, must be {}..{}: a segment needs k' + m", model.nodes, shards,
                kMaxPlannedNodes);
  }
  for (const auto& [name, value] : {std::pair{"--node-bytes", model.node_bytes},
                                    {"--node-mtbf", model.node_mtbf},
                                    {"--repair-rate", model.repair_rate}}) {
    if (!(value > 0)) return fail("{} must be above 0", name);
  }
  const std::vector<double> never(static_cast<size_t>(m), std::numeric_limits<double>::infinity());
  return DataLossReport{
      .model = model,
      .m = m,
      .shards = shards,
      .unrepaired = mean_time_to_loss(model.nodes, model.node_mtbf, never),
      .states = {
          data_loss_of("narrow", model, {.data = k, .width = k + m, .shards = shards}, m),
          data_loss_of("wide", model, {.data = k_prime, .width = shards, .shards = shards}, m)}};
}

Json data_loss_json(const DataLossReport& report) {
  const FailureModel& model = report.model;
  Json json = {{"nodes", model.nodes},
               {"node_bytes", model.node_bytes},
               {"node_mtbf_seconds", model.node_mtbf},
               {"repair_rate", model.repair_rate},
               {"repair_wait_seconds", model.repair_wait},
               {"unrepaired_seconds", report.unrepaired}};
  for (const DataLoss& loss : report.states) {
    json[loss.state] = {
        {"node_repair_seconds", loss.node_repair}, {"any_object_seconds", loss.any_object},
        {"chance_in_year", loss.chance_in_year},   {"lost_share", loss.lost_share},
        {"one_object_seconds", loss.one_object},   {"any_order_seconds", loss.any_order}};
  }
  return json;
}

std::string data_loss_text(const DataLossReport& report) {
  const DataLoss& narrow = report.states[0];
  const DataLoss& wide = report.states[1];
  std::string text;
  const auto row = [&](const char* label, const std::string& first, const std::string& second) {
    text += fmt::format("{:<46}{:>16}{:>16}\n", label, first, second);
  };
  const auto times = [&](const char* label, double DataLoss::* time) {
    row(label, time_text(narrow.*time), time_text(wide.*time));
  };
  row("data loss, mean times", narrow.state, wide.state);
  times("a node's shards are made again within", &DataLoss::node_repair);
  times("any object is lost after", &DataLoss::any_object);
  row("  the chance of that in a year", percent_text(narrow.chance_in_year),
      percent_text(wide.chance_in_year));
  row("  of all objects, so many are lost then", "<= " + percent_text(narrow.lost_share),
      percent_text(wide.lost_share));
  times("  if repair went in any order", &DataLoss::any_order);
  row("  if nothing were repaired", time_text(report.unrepaired), time_text(report.unrepaired));
  times("a given object is lost after", &DataLoss::one_object);
  text += "\n" + fmt::format(kAssumptions, report.m + 1);
  const int spare = report.model.nodes - report.shards;
  if (spare < report.m) {
    text += fmt::format(
        "- When more than {} of the nodes are gone, there is none to make shards on: repair waits\n"
        "  until one is back, so --repair-wait has to be how long that takes.\n",
        spare);
  }
  return text;
}

Result<double> parse_duration(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string_view unit(parsed.ptr, end);
  for (const auto& [name, seconds] : {std::pair<std::string_view, double>{"ms", 0.001},
                                      {"s", 1},
                                      {"min", kMinute},
                                      {"h", kHour},
                                      {"d", kDay},
                                      {"y", kYear}}) {
    const double duration = number * seconds;
    if (parsed.ec == std::errc() && unit == name && duration >= 0 && duration <= kMaxDuration) {
      return duration;
    }
  }
  return fail("'{}' is no duration: a number with ms, s, min, h, d or y, up to 30000y", text);
}

}  // namespace elastripe::cli
