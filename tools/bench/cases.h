// Cases of requests to servers: a load of many connections, or one request at a time.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/load.h"
#include "tools/bench/object_client.h"
#include "tools/bench/runner.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

// Processor time of a contestant, in seconds.
struct ProcessorTime {
  double front = 0;  // of what clients are connected to
  double back = 0;   // of what is behind it

  static ProcessorTime of(const Target& target);
  void add_since(const ProcessorTime& before, const Target& target);
  // Microseconds per request: "front_cpu_us", and "back_cpu_us" if there is something behind.
  void add_figures(Json& row, const Target& target, uint64_t requests) const;
};

// A turn is one load. Figures: "operations", "per_second" (quartiles of turns), "p50_us" and
// "p99_us" of all requests of the kind, processor time.
class LoadCase : public Case {
 public:
  // Host, port and prefix of the load are the target's. The objects outlive the case.
  LoadCase(Json labels, Target target, LoadSettings load, SourceFactory sources,
           const ObjectBytes& objects, Operation kind);

  cli::Result<> turn(size_t number) override;
  void add_figures(Json& row) const override;

  const Target& target() const { return target_; }
  // One load that is not kept; how many operations it made.
  cli::Result<uint64_t> rehearse() const;

 protected:
  const LoadResult& sum() const { return sum_; }

 private:
  const Target target_;
  const LoadSettings load_;
  const SourceFactory sources_;
  const ObjectBytes& objects_;
  const Operation kind_;
  LoadResult sum_;                  // of all turns
  std::vector<double> per_second_;  // by turn
  ProcessorTime time_;
};

// Stores records 0 to `records` - 1 there, as the load says.
cli::Result<> store_records(const Target& target, const ObjectBytes& objects, uint64_t records,
                            LoadSettings load = {});

// "GET" or "SET".
const char* verb_of(Operation operation);

// A value that the objects of one size have in turns.
const std::string& turn_value(size_t object_bytes, size_t number);

// A turn is one PUT, if it makes any, and one GET of the same key, whose bytes are compared.
// Without PUTs the objects are there, with turn_value 0. Figures: "put" and "get", each latencies
// and processor time.
class ObjectCase : public Case {
 public:
  struct Objects {
    std::vector<std::string> keys;  // used one after the other, again and again
    size_t bytes = 0;
    bool puts = true;
  };
  ObjectCase(Json labels, Target target, Objects objects)
      : Case(std::move(labels)), target_(std::move(target)), objects_(std::move(objects)) {}

  cli::Result<> turn(size_t number) override;
  void add_figures(Json& row) const override;

  const Target& target() const { return target_; }
  // So many PUTs or GETs that are not kept.
  cli::Result<uint64_t> rehearse(bool puts, uint64_t requests) const;

 private:
  struct Requests {
    std::vector<double> us;
    ProcessorTime time;
  };
  template <class Request>
  cli::Result<> timed(Requests& requests, Request request) const;

  const Target target_;
  const Objects objects_;
  std::unique_ptr<ObjectClient> client_;  // from turn 0 on
  Requests put_;
  Requests get_;
};

}  // namespace elastripe::bench
