#include "tools/bench/cases.h"

#include <algorithm>
#include <map>

#include "tools/bench/processor_time.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr std::chrono::milliseconds kWarmUp{200};
constexpr size_t kValues = 2;

LoadSettings load_of(const Target& target, LoadSettings load) {
  load.host = target.host;
  load.port = target.port;
  load.key_prefix = target.key_prefix;
  return load;
}

}  // namespace

ProcessorTime ProcessorTime::of(const Target& target) {
  return {process_seconds(target.front), process_seconds(target.back)};
}

void ProcessorTime::add_since(const ProcessorTime& before, const Target& target) {
  const ProcessorTime now = of(target);
  front += now.front - before.front;
  back += now.back - before.back;
}

void ProcessorTime::add_figures(Json& row, const Target& target, uint64_t requests) const {
  const double us = 1e6 / static_cast<double>(std::max<uint64_t>(requests, 1));
  if (!target.front.empty()) row["front_cpu_us"] = front * us;
  if (!target.back.empty()) row["back_cpu_us"] = back * us;
}

LoadCase::LoadCase(Json labels, Target target, LoadSettings load, SourceFactory sources,
                   const ObjectBytes& objects, Operation kind)
    : Case(std::move(labels)),
      target_(std::move(target)),
      load_(load_of(target_, std::move(load))),
      sources_(std::move(sources)),
      objects_(objects),
      kind_(kind) {}

Result<> LoadCase::turn(size_t number) {
  LoadSettings load = load_;
  if (number == 0 && load.duration) load.duration = std::min(*load.duration, kWarmUp);
  const auto before = ProcessorTime::of(target_);
  const auto result = run_load(load, objects_, sources_);
  if (!result) return cli::fail("{}: {}", target_.name, result.error());
  if (number == 0) return {};
  time_.add_since(before, target_);
  sum_.add(*result);
  per_second_.push_back(result->per_second());
  return {};
}

void LoadCase::add_figures(Json& row) const {
  row["operations"] = sum_.operations;
  row["per_second"] = quartiles(per_second_);
  row["p50_us"] = sum_.of(kind_).quantile_us(0.5);
  row["p99_us"] = sum_.of(kind_).quantile_us(0.99);
  time_.add_figures(row, target_, sum_.operations);
}

Result<uint64_t> LoadCase::rehearse() const {
  return TRY(run_load(load_, objects_, sources_)).operations;
}

Result<> store_records(const Target& target, const ObjectBytes& objects, uint64_t records,
                       LoadSettings load) {
  const auto stored = store_records(load_of(target, std::move(load)), objects, records);
  if (!stored) return cli::fail("{}: {}", target.name, stored.error());
  return {};
}

const char* verb_of(Operation operation) { return operation == Operation::kRead ? "GET" : "SET"; }

const std::string& turn_value(size_t object_bytes, size_t number) {
  static std::map<std::pair<size_t, size_t>, std::string> values;
  std::string& value = values[{object_bytes, number % kValues}];
  if (value.empty()) value = make_object(object_bytes, number % kValues);
  return value;
}

template <class Request>
Result<> ObjectCase::timed(Requests& requests, Request request) const {
  const auto before = ProcessorTime::of(target_);
  const auto start = std::chrono::steady_clock::now();
  const Result<> done = request();
  const auto took = std::chrono::steady_clock::now() - start;
  requests.us.push_back(std::chrono::duration<double, std::micro>(took).count());
  requests.time.add_since(before, target_);
  if (!done) return cli::fail("{}: {}", labels().dump(), done.error());
  return {};
}

Result<> ObjectCase::turn(size_t number) {
  const std::string& key = objects_.keys[number % objects_.keys.size()];
  const std::string& value = turn_value(objects_.bytes, objects_.puts ? number : 0);
  if (client_ == nullptr) client_ = TRY(target_.connect());
  static std::string got;  // whose room is used again
  if (objects_.puts) TRY(timed(put_, [&] { return client_->put(key, value); }));
  TRY(timed(get_, [&] { return client_->get(key, got); }));
  if (got != value) return cli::fail("{}: wrong bytes of {}", labels().dump(), key);
  if (number == 0) put_ = get_ = {};
  return {};
}

void ObjectCase::add_figures(Json& row) const {
  for (const auto& [name, requests] : {std::pair{"put", &put_}, std::pair{"get", &get_}}) {
    if (requests->us.empty()) continue;
    row[name] = latencies(requests->us);
    requests->time.add_figures(row[name], target_, requests->us.size());
  }
}

Result<uint64_t> ObjectCase::rehearse(bool puts, uint64_t requests) const {
  std::string got;
  for (uint64_t i = 0; i < requests; ++i) {
    const std::string& key = objects_.keys[i % objects_.keys.size()];
    TRY(puts ? client_->put(key, turn_value(objects_.bytes, i)) : client_->get(key, got));
  }
  return requests;
}

}  // namespace elastripe::bench
