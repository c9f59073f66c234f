#include "tools/bench/transition_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <set>

#include "tools/bench/object_bytes.h"

namespace elastripe::bench {
namespace {

using cli::Result;

std::string key_of(const TransitionCase& c) {
  return fmt::format("{}{}", TransitionCluster::prefix_of(c.layout), c.object_bytes);
}

// One object of each layout and size: cases leave it narrow.
Result<> put_objects(const TransitionCluster& cluster, const std::vector<TransitionCase>& cases) {
  auto client = connect_to(cluster.processes().proxy_port());
  if (!client) return std::unexpected(client.error());
  std::set<std::string> there;
  for (const TransitionCase& c : cases) {
    if (!there.insert(key_of(c)).second) continue;
    if (const auto done = client->put(key_of(c), make_object(c.object_bytes, 1)); !done) {
      return cli::fail("PUT {}: {}", key_of(c), done.error().message);
    }
  }
  return {};
}

Result<> plan_blocks(TransitionCase& c) {
  for (const Direction direction : kDirections) {
    const auto planned =
        planned_blocks(c.parameters, c.layout, direction, c.execution, c.order_selection);
    if (!planned) return std::unexpected(planned.error());
    c.of(direction).blocks = *planned;
  }
  return {};
}

Result<double> run_once(const TransitionCluster& cluster, TransitionCase& c, Direction direction) {
  const auto report = cluster.transition({.key = key_of(c),
                                          .prefix = {},
                                          .direction = direction,
                                          .execution = c.execution,
                                          .order_selection = c.order_selection});
  if (!report) return std::unexpected(report.error());
  const Json& done = report->at("done");
  MeasuredTransition& measured = c.of(direction);
  const Blocks counted{done.value("read_blocks", uint64_t{0}),
                       done.value("sent_blocks", uint64_t{0})};
  if (done.value("objects", 0) != 1 || counted != measured.blocks) {
    return cli::fail(
        "{} {} {} {} of {} bytes: {} and {} blocks read and sent, but {} and {} planned",
        c.parameters.text(), c.layout, c.execution, name_of(direction), c.object_bytes,
        counted.read, counted.sent, measured.blocks.read, measured.blocks.sent);
  }
  measured.bytes = done.value("read_bytes", uint64_t{0}) + done.value("sent_bytes", uint64_t{0});
  return report->at("object_seconds").value("max", 0.0) * 1e6;
}

// Both directions once, between two looks at what has gone over the network.
Result<> count_wire(const TransitionCluster& cluster, TransitionCase& c) {
  for (const Direction direction : kDirections) {
    const auto before = cluster.wire_bytes();
    if (!before) return std::unexpected(before.error());
    const auto us = run_once(cluster, c, direction);
    if (!us) return std::unexpected(us.error());
    const auto after = cluster.wire_bytes();
    if (!after) return std::unexpected(after.error());
    c.of(direction).wire = *after - *before;
  }
  return {};
}

// Cases of one rate.
Result<> measure(const TransitionCluster& cluster, std::vector<TransitionCase*> cases,
                 int repetitions, const std::atomic<bool>& interrupted) {
  std::mt19937_64 random(1);
  for (TransitionCase* c : cases) {  // and warms up
    if (interrupted) return cli::fail("interrupted");
    if (auto done = count_wire(cluster, *c); !done) return done;
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    std::ranges::shuffle(cases, random);
    for (TransitionCase* c : cases) {
      for (const Direction direction : kDirections) {
        if (interrupted) return cli::fail("interrupted");
        const auto us = run_once(cluster, *c, direction);
        if (!us) return std::unexpected(us.error());
        c->of(direction).us.push_back(*us);
      }
    }
  }
  return {};
}

}  // namespace

std::vector<TransitionCase> cases_of(const Parameters& parameters, std::vector<size_t> sizes,
                                     std::vector<uint64_t> rates) {
  std::vector<TransitionCase> cases;
  for (const uint64_t rate : rates) {
    for (const size_t bytes : sizes) {
      for (const char* execution : kExecutions) {
        for (const char* layout : kLayouts) {
          TransitionCase c;
          c.parameters = parameters;
          c.layout = layout;
          c.execution = execution;
          c.object_bytes = bytes;
          c.bits_per_second = rate;
          cases.push_back(std::move(c));
        }
      }
    }
  }
  return cases;
}

Result<> measure_cases(const TransitionCluster& cluster, std::vector<TransitionCase>& cases,
                       int repetitions, OwnNetwork* network, const std::atomic<bool>& interrupted) {
  if (auto done = put_objects(cluster, cases); !done) return done;
  std::set<uint64_t> rates;
  for (TransitionCase& c : cases) {
    if (auto done = plan_blocks(c); !done) return done;
    rates.insert(c.bits_per_second);
  }
  for (const uint64_t rate : rates) {
    if (rate > 0 && network == nullptr) return cli::fail("no network to limit");
    if (network != nullptr) {
      if (auto done = network->limit(rate); !done) return done;
    }
    std::vector<TransitionCase*> of_rate;
    for (TransitionCase& c : cases) {
      if (c.bits_per_second == rate) of_rate.push_back(&c);
    }
    if (auto done = measure(cluster, of_rate, repetitions, interrupted); !done) return done;
  }
  return network != nullptr ? network->limit(0) : Result<>{};
}

}  // namespace elastripe::bench
