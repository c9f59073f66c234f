// Cases of requests to servers: a load of many connections, or one request at a time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/bench/load.h"
#include "tools/bench/runner.h"
#include "tools/bench/system_calls.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

// Requests over many connections to one server.
struct Load {
  Json labels;
  Target target;
  LoadSettings settings;  // host, port and prefix are the target's
  SourceFactory sources;
  const ObjectBytes* objects;  // outlive it
  Operation kind;              // of the requests whose latencies count

  cli::Result<LoadResult> run() const;
};

// A turn is one load. Figures: "operations", "per_second" (quartiles of turns), "p50_us" and
// "p99_us" of all requests of the kind, processor time, and what `more` makes of all turns.
Case load_case(const Load& load, void (*more)(const LoadResult& sum, Json& figures) = nullptr);
TracedCase traced_case(const Load& load);

// GETs or SETs of records that are all equally likely, as a load for each target: labels are those
// that are given, "request", and its name as "server". Loads of another `number` make others.
std::vector<Load> uniform_loads(const Json& labels, Operation operation,
                                std::span<const Target> targets, const LoadSettings& settings,
                                const ObjectBytes& objects, uint64_t records, size_t number);
// As a group.
Group load_cases(const std::vector<Load>& loads);

// Stores records 0 to `records` - 1 there, as the load says.
cli::Result<> store_records(const Target& target, const ObjectBytes& objects, uint64_t records,
                            LoadSettings load = {});

// A value that the objects of one size have in turns.
const std::string& turn_value(size_t object_bytes, size_t number);

// Objects of one size at one server; their keys are used one after the other, again and again.
struct Objects {
  Target target;
  size_t bytes = 0;
  std::vector<std::string> keys;

  // Keys that begin so, up to their number.
  static Objects numbered(const Target& target, size_t bytes, const std::string& prefix,
                          size_t keys);
};

// A turn is one PUT, if it makes any, and one GET of the same key, whose bytes are compared.
// Without PUTs the objects are there, with turn_value 0. Figures: "put" and "get", each latencies
// and processor time.
cli::Result<Case> object_case(Json labels, const Objects& objects, bool puts = true);
// So many PUTs or GETs.
cli::Result<TracedCase> traced_case(Json labels, const Objects& objects, bool puts,
                                    uint64_t requests);
// "put-" and "get-": what object cases took, by size and what `series` says.
void chart_objects(Report& report, const std::string& file, Chart chart, const Rows& rows,
                   const char* series);

}  // namespace elastripe::bench
