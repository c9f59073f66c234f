#include "tools/bench/latency.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "tools/bench/interrupt.h"
#include "tools/bench/object_bytes.h"
#include "tools/bench/statistics.h"

namespace elastripe::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kKeys = 8;  // of one case; overwritten again and again

// Requests of one case in one round: enough for a median, few enough that a round is short.
int repeats_of(size_t object_bytes) {
  if (object_bytes <= (16u << 10)) return 24;
  return object_bytes <= (1u << 20) ? 12 : 6;
}

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

std::vector<LatencyCase> cases_of(const Servers& servers, const LatencySettings& settings) {
  std::vector<LatencyCase> cases;
  for (const size_t bytes : settings.sizes) {
    cases.push_back({"memcached", "direct", "memcached/", servers.plain_port(), bytes, {}, {}});
    for (size_t i = 0; i < settings.schemes.size(); ++i) {
      const std::string& scheme = settings.schemes[i];
      if (bytes <= static_cast<size_t>(kInlineMaxBytes)) {
        cases.push_back({scheme, "inline", inline_prefix(i), servers.proxy_port(), bytes, {}, {}});
      }
      cases.push_back({scheme, "striped", striped_prefix(i), servers.proxy_port(), bytes, {}, {}});
    }
  }
  return cases;
}

// One round of one case.
cli::Result<> measure_round(LatencyCase& c, client::Client& client, const std::string& object) {
  std::vector<double> puts;
  std::vector<double> gets;
  const int repeats = repeats_of(c.object_bytes);
  const auto key_of = [&](int i) {
    return fmt::format("{}{}/{}", c.prefix, c.object_bytes, static_cast<size_t>(i) % kKeys);
  };
  for (int i = 0; i < repeats; ++i) {
    const auto start = SteadyClock::now();
    const auto done = client.put(key_of(i), object);
    puts.push_back(microseconds_since(start));
    if (!done) {
      return cli::fail("PUT {} bytes, {} {}: {}", c.object_bytes, c.scheme, c.path,
                       done.error().message);
    }
  }
  for (int i = 0; i < repeats; ++i) {
    const auto start = SteadyClock::now();
    const auto value = client.get(key_of(i));
    gets.push_back(microseconds_since(start));
    if (!value) {
      return cli::fail("GET {} bytes, {} {}: {}", c.object_bytes, c.scheme, c.path,
                       value.error().message);
    }
    if (value->bytes() != object) {
      return cli::fail("GET {} bytes, {} {}: wrong bytes", c.object_bytes, c.scheme, c.path);
    }
  }
  c.put_us.push_back(median(puts));
  c.get_us.push_back(median(gets));
  return {};
}

}  // namespace

cli::Result<std::vector<LatencyCase>> measure_latency(const Servers& servers,
                                                      const LatencySettings& settings) {
  auto proxy = connect_to(servers.proxy_port());
  auto plain = connect_to(servers.plain_port());
  if (!proxy || !plain) return std::unexpected(!proxy ? proxy.error() : plain.error());
  std::vector<LatencyCase> cases = cases_of(servers, settings);
  std::vector<size_t> order(cases.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 random(1);

  const auto start = SteadyClock::now();
  for (int round = -1; round < settings.max_rounds; ++round) {  // -1: warms up, not counted
    if (was_interrupted()) return cli::fail("interrupted");
    if (round >= settings.min_rounds && SteadyClock::now() - start > settings.budget) break;
    std::ranges::shuffle(order, random);
    for (const size_t i : order) {
      LatencyCase& c = cases[i];
      const std::string object = make_object(c.object_bytes, random());
      auto& client = c.path == "direct" ? *plain : *proxy;
      if (auto done = measure_round(c, client, object); !done) {
        return std::unexpected(done.error());
      }
      if (round < 0) {
        c.put_us.clear();
        c.get_us.clear();
      }
    }
  }
  return cases;
}

}  // namespace elastripe::bench
