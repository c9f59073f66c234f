// Single PUTs and GETs of several servers or kinds of objects that take turns, request by request,
// in random order: how long one takes when nothing else happens.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/bench/object_client.h"
#include "tools/bench/report.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {

// The samples of one kind of request.
struct Turns {
  std::vector<double> us;
  double front_cpu_seconds = 0;
  double back_cpu_seconds = 0;

  double front_cpu_us() const { return per_request_us(front_cpu_seconds); }
  double back_cpu_us() const { return per_request_us(back_cpu_seconds); }

 private:
  double per_request_us(double seconds) const {
    return us.empty() ? 0 : 1e6 * seconds / static_cast<double>(us.size());
  }
};

struct TurnCase {
  std::string name;
  const Target* target = nullptr;
  ObjectClient* client = nullptr;
  std::vector<std::string> keys;  // used one after the other, again and again

  Turns put = {};
  Turns get = {};
};

struct TurnSettings {
  size_t object_bytes = 0;
  bool puts = true;  // else the objects are there already, with turn_value 0
  std::chrono::milliseconds budget{10'000};  // no further turn starts after it
  int least = 5;                             // turns of each case
};

// A value that the objects of one size have in turns.
const std::string& turn_value(size_t object_bytes, size_t number);

// In a turn every case makes one PUT, then one GET of the same key, whose bytes are compared. The
// first turn of every case warms up and is not counted.
cli::Result<> measure_turns(std::vector<TurnCase>& cases, const TurnSettings& settings);

// {"p50_us": ..., "p25_us", "p75_us", "p99_us", "requests", "front_cpu_us", "back_cpu_us"}
Json json_of(const Turns& turns);

}  // namespace elastripe::bench
