#include "tools/bench/transition_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "tools/bench/object_bytes.h"
#include "tools/bench/own_network.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/runner.h"
#include "tools/bench/try.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

double since_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

uint64_t block_bytes(const Json& done) {
  return done.value("read_bytes", uint64_t{0}) + done.value("sent_bytes", uint64_t{0});
}

// What each count is now, without what it was.
Json difference(Json now, const Json& before) {
  for (const auto& [name, count] : before.items()) {
    now[name] = now.at(name).get<uint64_t>() - count.get<uint64_t>();
  }
  return now;
}

std::string prefix_of(const TransitionKind& kind) {
  return fmt::format("{}/{}/", kind.layout, kind.object_bytes);
}

Result<> note_transition(const TransitionCluster& cluster, const TransitionKind& kind,
                         Direction direction, bool wire, Notes& notes) {
  const std::string name = name_of(direction);
  const TransitionCall call{.key = prefix_of(kind) + "0",
                            .direction = direction,
                            .execution = kind.execution,
                            .order_selection = kind.order_selection};
  const Blocks planned = TRY(planned_blocks(kind.parameters, kind.layout, call));
  const Json before = wire ? TRY(cluster.wire_bytes()) : Json();
  const Json report = TRY(cluster.transition(call));
  const Json& done = report.at("done");
  const Blocks counted{done.at("read_blocks"), done.at("sent_blocks")};
  if (done.at("objects") != 1 || counted != planned) {
    return cli::fail("{}: {} and {} blocks read and sent, but {} and {} planned", name,
                     counted.read, counted.sent, planned.read, planned.sent);
  }
  notes.add(name + "/us", report.at("object_seconds").value("max", 0.0) * 1e6);
  if (!wire) return {};
  Json& figures = notes.figures[name];
  figures.update({{"blocks_read", counted.read},
                  {"blocks_sent", counted.sent},
                  {"block_bytes", block_bytes(done)}});
  const Json on_wire = difference(TRY(cluster.wire_bytes()), before);
  for (const auto& [of, bytes] : on_wire.items()) {
    figures[of] = std::min<uint64_t>(figures.value(of, UINT64_MAX), bytes);
  }
  return {};
}

// Other traffic only adds to what a transition takes: PUTs before it, a shard that a busy node was
// late with. So the least of the first turns is what counts.
constexpr size_t kWireTurns = 3;

Case transition_case(const TransitionCluster& cluster, const TransitionKind& kind) {
  const Parameters& p = kind.parameters;
  const Json labels{{"parameters", p.text()},
                    {"k", p.k},
                    {"m", p.m},
                    {"k_prime", p.k_prime},
                    {"layout", kind.layout},
                    {"execution", kind.execution},
                    {"object_bytes", kind.object_bytes},
                    {"order_selection", kind.order_selection},
                    {"bits_per_second", kind.bits_per_second}};
  return {labels, deciles, [&cluster, kind](Notes& notes, size_t number) -> Result<> {
            for (const Direction direction : kDirections) {
              TRY(note_transition(cluster, kind, direction, number < kWireTurns, notes));
            }
            return {};
          }};
}

// GETs of all objects under the prefix, then one's transition, then that of all in one job.
Result<> note_small_objects(const TransitionCluster& cluster, const std::string& prefix,
                            Notes& notes) {
  std::string value;
  for (int i = 0; i < kJobObjects; ++i) {
    // Twice: the proxy may know the first time only what it was before a transition.
    for (const bool counts : {false, true}) {
      const auto start = Clock::now();
      TRY(cluster.client->get(fmt::format("{}{}", prefix, i), value));
      if (counts) notes.add("get_us", since_us(start));
    }
  }
  for (const bool job : {false, true}) {
    for (const Direction direction : kDirections) {
      const Json report = TRY(cluster.transition(
          {.key = job ? "" : prefix + "0", .prefix = job ? prefix : "", .direction = direction}));
      const int objects = job ? kJobObjects : 1;
      if (report.at("done").value("objects", 0) != objects) {
        return cli::fail("{}: done {}", prefix, report.at("done").dump());
      }
      notes.add(fmt::format("{}/{}_us", name_of(direction), job ? "job" : "alone"),
                report.value("seconds", 0.0) * 1e6 / objects);
    }
  }
  return {};
}

// In words: what there was no more of.
std::string limit_of(const Json& pass) {
  const auto share = [&](const char* of) { return number(pass, of) / number(pass, "seconds"); };
  const double processors = std::thread::hardware_concurrency();
  const double busy = processors - share("idle_cpu_seconds");
  if (share("proxy_thread_cpu_seconds") > 0.9) return "the thread of the proxy that transitions";
  if (busy > 0.9 * processors) {
    return fmt::format("all {:.0f} processors, {:.2f} of them by the cluster", processors,
                       share("proxy_cpu_seconds") + share("nodes_cpu_seconds"));
  }
  return fmt::format("waiting: {:.2f} of {:.0f} processors busy", busy, processors);
}

// All objects of one layout, once one way.
Result<> note_bulk(const TransitionCluster& cluster, const TransitionCall& call, int objects,
                   Notes& notes) {
  const Target& target = cluster.cluster.target;
  const auto processors = [&] {
    return Json{{"proxy_cpu_seconds", process_seconds(target.front)},
                {"nodes_cpu_seconds", process_seconds(target.back)},
                {"idle_cpu_seconds", idle_seconds()}};
  };
  const Json wire = TRY(cluster.wire_bytes());
  auto threads = thread_seconds(target.front.front());
  const Json before = processors();
  const Json report = TRY(cluster.transition(call));
  Json& figures = notes.figures = processors();
  for (const auto& [name, seconds] : before.items()) {
    figures[name] = number(figures, name) - seconds.get<double>();
  }
  double busiest = 0;
  for (const auto& [thread, seconds] : thread_seconds(target.front.front())) {
    busiest = std::max(busiest, seconds - threads[thread]);
  }
  const Json& done = report.at("done");
  if (done.value("objects", 0) != objects || done != report.at("planned")) {
    return cli::fail("done {}, but planned {}", done.dump(), report.at("planned").dump());
  }
  figures.update(difference(TRY(cluster.wire_bytes()), wire));
  figures.update({{"objects", objects},
                  {"object_bytes", done.at("object_bytes")},
                  {"seconds", report.at("seconds")},
                  {"object_p50_seconds", report.at("object_seconds").at("p50")},
                  {"object_p99_seconds", report.at("object_seconds").at("p99")},
                  {"block_bytes", block_bytes(done)},
                  {"proxy_thread_cpu_seconds", busiest}});
  figures["limited_by"] = limit_of(figures);
  return {};
}

constexpr const char* kReadPrefix = "read/";
constexpr int kReadKeys = 16;

std::string read_prefix(size_t bytes) { return fmt::format("{}{}/", kReadPrefix, bytes); }

// GETs one after the other, until it is told to stop. What each took, in microseconds.
Result<std::vector<double>> read_until(const std::atomic<bool>& stop, const Target& target,
                                       size_t bytes) {
  const auto client = TRY(target.connect());
  const std::string object = make_object(bytes, 1);
  std::string value;
  std::vector<double> us;
  for (int i = 0; !stop; ++i) {
    const auto start = Clock::now();
    TRY(client->get(fmt::format("{}{}", read_prefix(bytes), i % kReadKeys), value));
    us.push_back(since_us(start));
    if (value != object) return cli::fail("wrong bytes of {}{}", read_prefix(bytes), i % kReadKeys);
  }
  return us;
}

// Reads while the transition goes, or for a second if there is none.
Result<> note_beside(const TransitionCluster& cluster, size_t read_bytes,
                     const std::optional<TransitionCall>& call, Notes& notes) {
  const auto start = Clock::now();
  std::atomic<bool> stop = false;
  auto reading = std::async(std::launch::async,
                            [&] { return read_until(stop, cluster.cluster.target, read_bytes); });
  if (!call) std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto report = call ? cluster.transition(*call) : Json{{"done", {{"objects", 0}}}};
  const double seconds = since_us(start) / 1e6;
  stop = true;
  const auto us = reading.get();
  const double objects = TRY(report).at("done").at("objects");
  for (const double one : TRY(us)) notes.add("us", one);
  notes.figures["seconds"] = number(notes.figures, "seconds") + seconds;
  notes.figures["transitioned"] = number(notes.figures, "transitioned") + objects;
  return {};
}

}  // namespace

std::vector<TransitionKind> kinds_of(const Parameters& parameters, const std::vector<size_t>& sizes,
                                     const std::vector<uint64_t>& rates) {
  std::vector<TransitionKind> kinds;
  for (const uint64_t rate : rates) {
    for (const size_t bytes : sizes) {
      for (const char* execution : kExecutions) {
        for (const char* layout : kLayouts) {
          kinds.push_back({parameters, layout, execution, bytes, true, rate});
        }
      }
    }
  }
  return kinds;
}

Result<Rows> measure_transitions(const std::vector<TransitionKind>& kinds, int repetitions,
                                 int port, bool own_network) {
  const Parameters& parameters = kinds.front().parameters;
  fmt::print(stderr, "  {}\n", parameters.text());
  const auto cluster = TRY(TransitionCluster::start(parameters, port, 256));
  std::set<std::string> stored;  // one object of each layout and size: cases leave it narrow
  std::vector<std::pair<uint64_t, Group>> by_rate;
  for (const TransitionKind& kind : kinds) {
    if (stored.insert(prefix_of(kind)).second) {
      TRY(cluster.put(prefix_of(kind), 1, kind.object_bytes));
    }
    const uint64_t rate = kind.bits_per_second;
    if (by_rate.empty() || by_rate.back().first != rate) by_rate.emplace_back(rate, Group());
    by_rate.back().second.push_back(transition_case(cluster, kind));
  }
  Rows rows;
  for (auto& [rate, group] : by_rate) {
    if (rate > 0 && !own_network) return cli::fail("no network to limit");
    if (own_network) TRY(limit_own_network(rate));
    auto of_rate = TRY(measure({group}, {.rounds = repetitions}));
    std::ranges::move(of_rate, std::back_inserter(rows));
  }
  if (own_network) TRY(limit_own_network(0));
  return rows;
}

Result<Rows> measure_small_objects(const Parameters& parameters, int repetitions, int port) {
  const auto cluster = TRY(TransitionCluster::start(parameters, port, 64));
  Group cases;
  for (const size_t bytes : {kKiB, 4 * kKiB, 16 * kKiB, 64 * kKiB}) {
    const auto prefix = fmt::format("ers-2/{}/", bytes);
    TRY(cluster.put(prefix, kJobObjects, bytes));
    cases.push_back({{{"object_bytes", bytes}}, deciles, [&cluster, prefix](Notes& notes, size_t) {
                       return note_small_objects(cluster, prefix, notes);
                     }});
  }
  return measure({cases}, {.rounds = repetitions});
}

Result<Rows> measure_bulk(const Parameters& p, size_t object_bytes, int objects, int port) {
  constexpr int kMost = 10'000;
  // The share of the free memory that objects take: the rest is for the proxy, for this process and
  // for others.
  constexpr double kShareOfMemory = 0.7;
  // Parities of the old generation until the read grace is over, records, headers, rounding of
  // sizes.
  constexpr double kOverhead = 1.3;
  constexpr int kNodeMb = 128;  // of each node, beside what objects take
  constexpr int kOfLayouts = kLayouts.size();
  const double of_object = static_cast<double>(object_bytes) * (p.k + p.m) / p.k * kOverhead;
  if (objects == 0) {
    const double fit = available_memory_bytes() * kShareOfMemory / of_object;
    objects = std::max(std::min(kMost, static_cast<int>(fit)), kOfLayouts);
  }
  fmt::print(stderr, "  {} objects\n", objects);
  const double of_node = of_object * objects / (p.k_prime + p.m);
  const auto cluster =
      TRY(TransitionCluster::start(p, port, kNodeMb + static_cast<int>(of_node / kMiB)));
  const int of_layout = objects / kOfLayouts;
  for (const std::string layout : kLayouts) {
    TRY(cluster.put(layout + "/", of_layout, object_bytes));
  }
  Group cases;
  for (const char* execution : kExecutions) {
    for (const Direction direction : kDirections) {
      for (const std::string layout : kLayouts) {
        const TransitionCall call{
            .prefix = layout + "/", .direction = direction, .execution = execution};
        cases.push_back(
            {{{"layout", layout}, {"execution", execution}, {"direction", name_of(direction)}},
             deciles,
             [&cluster, call, of_layout](Notes& notes, size_t) {
               return note_bulk(cluster, call, of_layout, notes);
             }});
      }
    }
  }
  return measure({cases}, {.warm_up = false, .shuffled = false});
}

Result<Rows> measure_beside(const Parameters& p, int objects, int rounds, int port) {
  const auto cluster =
      TRY(TransitionCluster::start(p, port, 1024, {{kReadPrefix, p.scheme("ers-2"), {}}}));
  const std::string prefix = "ers-2/";
  TRY(cluster.put(prefix, objects, kMiB));
  const std::vector<std::pair<const char*, std::optional<TransitionCall>>> ways{
      {"nothing", {}},
      {"--rate 25M", TransitionCall{.prefix = prefix, .rate = 25u << 20}},
      {"--parallel 1", TransitionCall{.prefix = prefix, .parallel = 1}},
      {"--parallel 4", TransitionCall{.prefix = prefix, .parallel = 4}}};
  size_t transitions = 0;  // each goes in the direction that the one before did not
  Group cases;
  for (const size_t bytes : {kKiB, kMiB}) {
    TRY(cluster.put(read_prefix(bytes), kReadKeys, bytes));
    for (const auto& [name, way] : ways) {
      cases.push_back({{{"read_bytes", bytes}, {"transition", name}},
                       latencies,
                       [&cluster, &transitions, bytes, call = way](Notes& notes, size_t) mutable {
                         if (call) call->direction = kDirections[transitions++ % 2];
                         return note_beside(cluster, bytes, call, notes);
                       }});
    }
  }
  Rows rows = TRY(measure({cases}, {.rounds = rounds, .warm_up = false, .shuffled = false}));
  for (Json& row : rows) {
    row["transitioned_per_second"] = number(row, "transitioned") / number(row, "seconds");
    row["gets"] = row["us"]["requests"];
    for (const char* quantile : {"p50_us", "p99_us"}) row[quantile] = row["us"][quantile];
  }
  return rows;
}

}  // namespace elastripe::bench
