#include "tools/bench/cases.h"

#include <algorithm>
#include <map>

#include "tools/bench/processor_time.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWarmUp{200};
constexpr size_t kValues = 2;

// Processor time of a contestant, in seconds.
struct ProcessorTime {
  double front = 0;
  double back = 0;

  static ProcessorTime of(const Target& target) {
    return {process_seconds(target.front), process_seconds(target.back)};
  }
  void add_since(const ProcessorTime& before, const Target& target) {
    const ProcessorTime now = of(target);
    front += now.front - before.front;
    back += now.back - before.back;
  }
  // Microseconds per request: "front_cpu_us", and "back_cpu_us" if there is something behind.
  void add_figures(Json& figures, const Target& target, uint64_t requests) const {
    const double us = 1e6 / static_cast<double>(std::max<uint64_t>(requests, 1));
    if (!target.front.empty()) figures["front_cpu_us"] = front * us;
    if (!target.back.empty()) figures["back_cpu_us"] = back * us;
  }
};

}  // namespace

Result<LoadResult> Load::run() const {
  LoadSettings whole = settings;
  whole.host = target.host;
  whole.port = target.port;
  whole.more_ports = target.more_ports;
  whole.key_prefix = target.key_prefix;
  whole.tls = target.tls;
  const auto result = run_load(whole, *objects, sources);
  if (!result) return cli::fail("{}: {}", target.name, result.error());
  return *result;
}

Case load_case(const Load& load, void (*more)(const LoadResult& sum, Json& figures)) {
  const auto turn = [=, sum = LoadResult(), time = ProcessorTime()](
                        Notes& notes, size_t number) mutable -> Result<> {
    Load now = load;
    if (number == 0 && now.settings.duration) {
      now.settings.duration = std::min(*now.settings.duration, kWarmUp);
    }
    const auto before = ProcessorTime::of(load.target);
    const auto result = TRY(now.run());
    if (number == 0) return {};
    time.add_since(before, load.target);
    sum.add(result);
    notes.add("per_second", result.per_second());
    notes.figures = {{"operations", sum.operations},
                     {"p50_us", quantile_us(sum.of(load.kind), 0.5)},
                     {"p99_us", quantile_us(sum.of(load.kind), 0.99)}};
    time.add_figures(notes.figures, load.target, sum.operations);
    if (more != nullptr) more(sum, notes.figures);
    return {};
  };
  return {load.labels, quartiles, turn};
}

TracedCase traced_case(const Load& load) {
  return {load.labels, load.target,
          [load]() -> Result<uint64_t> { return TRY(load.run()).operations; }};
}

std::vector<Load> uniform_loads(const Json& labels, Operation operation,
                                std::span<const Target> targets, const LoadSettings& settings,
                                const ObjectBytes& objects, uint64_t records, size_t number) {
  std::vector<Load> loads;
  for (const Target& target : targets) {
    Load& load = loads.emplace_back(labels, target, settings, SourceFactory(), &objects, operation);
    load.labels["request"] = operation == Operation::kRead ? "GET" : "SET";
    load.labels["server"] = target.name;
    load.sources = uniform_requests(operation, records, 100'000 * number + 10'000 * loads.size());
  }
  return loads;
}

Group load_cases(const std::vector<Load>& loads) {
  Group group;
  for (const Load& load : loads) group.push_back(load_case(load));
  return group;
}

Result<> store_records(const Target& target, const ObjectBytes& objects, uint64_t records,
                       LoadSettings load) {
  load.duration.reset();
  TRY(check_interrupt());
  TRY((Load{{}, target, load, new_records(records), &objects, Operation::kInsert}.run()));
  return {};
}

const std::string& turn_value(size_t object_bytes, size_t number) {
  static std::map<std::pair<size_t, size_t>, std::string> values;
  std::string& value = values[{object_bytes, number % kValues}];
  if (value.empty()) value = make_object(object_bytes, number % kValues);
  return value;
}

Objects Objects::numbered(const Target& target, size_t bytes, const std::string& prefix,
                          size_t keys) {
  Objects objects{target, bytes, {}};
  for (size_t i = 0; i < keys; ++i) objects.keys.push_back(fmt::format("{}{}", prefix, i));
  return objects;
}

Result<Case> object_case(Json labels, const Objects& objects, bool puts) {
  const std::shared_ptr<ObjectClient> client = TRY(objects.target.connect());
  std::map<std::string, ProcessorTime> times;
  const auto turn = [=](Notes& notes, size_t number) mutable -> Result<> {
    const auto timed = [&](const char* name, auto request) -> Result<> {
      const auto before = ProcessorTime::of(objects.target);
      const auto start = Clock::now();
      const Result<> done = request();
      const std::chrono::duration<double, std::micro> took = Clock::now() - start;
      if (!done || number == 0) return done;
      notes.add(name, took.count());
      times[name].add_since(before, objects.target);
      times[name].add_figures(notes.figures[name], objects.target, notes.samples[name].size());
      return {};
    };
    const std::string& key = objects.keys[number % objects.keys.size()];
    const std::string& value = turn_value(objects.bytes, puts ? number : 0);
    static std::string got;  // whose room is used again
    if (puts) TRY(timed("put", [&] { return client->put(key, value); }));
    TRY(timed("get", [&] { return client->get(key, got); }));
    if (got != value) return cli::fail("wrong bytes of {}", key);
    return {};
  };
  return Case{std::move(labels), latencies, turn};
}

Result<TracedCase> traced_case(Json labels, const Objects& objects, bool puts, uint64_t requests) {
  const std::shared_ptr<ObjectClient> client = TRY(objects.target.connect());
  const auto make_requests = [=]() -> Result<uint64_t> {
    std::string got;
    for (uint64_t i = 0; i < requests; ++i) {
      const std::string& key = objects.keys[i % objects.keys.size()];
      TRY(puts ? client->put(key, turn_value(objects.bytes, i)) : client->get(key, got));
    }
    return requests;
  };
  return TracedCase{std::move(labels), objects.target, make_requests};
}

void chart_objects(Report& report, const std::string& file, Chart chart, const Rows& rows,
                   const char* series) {
  const std::string title = chart.title;
  chart.x_label = "object";
  chart.y_label = "microseconds, median, quartiles";
  chart.logarithmic = true;
  for (const auto& [verb, kind] : {std::pair{"PUT", "put"}, {"GET", "get"}}) {
    chart.title = verb + title;
    report.chart(file + kind, chart, rows, "{object_bytes bytes}", series, kind);
  }
}

}  // namespace elastripe::bench
