// ObjectOps of tests: a map in memory whose operations end at once, or when the test lets them.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/session/object_ops.h"
#include "tests/unit/async/manual.h"

namespace elastripe {

class FakeOps : public ObjectOps {
 public:
  struct Entry {
    std::string value;
    uint32_t flags = 0;
    uint32_t exptime = 0;
    uint64_t cas = 0;
  };

  Task<Result<ReadOutcome>> get(std::string key, ReadMemory& memory) override {
    co_await begin("get " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    ReadOutcome outcome;
    if (auto it = entries.find(key); it != entries.end()) {
      const Entry& entry = it->second;
      MemoryHold hold = memory.try_reserve(entry.value.size());
      if (hold == nullptr) {
        auto reserved = co_await memory.reserve(entry.value.size());
        if (!reserved) co_return fail(reserved.error());
        hold = std::move(*reserved);
      }
      read.push_back(key);
      outcome.object.emplace(
          Object{.flags = entry.flags,
                 .cas = entry.cas,
                 .size = entry.value.size(),
                 .value = {Buffer::copy_of(as_bytes(entry.value),
                                           counted(std::move(hold), entry.value.size()))}});
    }
    co_return outcome;
  }
  Task<Result<StoreOutcome>> store(StoreRequest request) override {
    co_await begin("store " + request.key, request.key);
    if (failures.contains(request.key)) co_return fail(failures.at(request.key));
    auto it = entries.find(request.key);
    if (request.verb == StoreVerb::kAdd && it != entries.end()) co_return StoreOutcome::kNotStored;
    if (request.verb == StoreVerb::kCas) {
      if (it == entries.end()) co_return StoreOutcome::kNotFound;
      if (it->second.cas != request.cas) co_return StoreOutcome::kExists;
    }
    entries[request.key] = {std::string(request.value.text()), request.flags, request.exptime,
                            ++last_cas};
    co_return StoreOutcome::kStored;
  }
  Task<Result<CounterOutcome>> change_counter(CounterRequest request) override {
    co_await begin("counter " + request.key, request.key);
    auto it = entries.find(request.key);
    if (it == entries.end()) co_return CounterOutcome{CounterStatus::kNotFound, 0};
    if (it->second.value.find_first_not_of("0123456789") != std::string::npos) {
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    }
    const uint64_t now = std::stoull(it->second.value) + request.delta;
    it->second.value = std::to_string(now);
    co_return CounterOutcome{CounterStatus::kOk, now};
  }
  Task<Result<bool>> remove(std::string key) override {
    co_await begin("remove " + key, key);
    co_return entries.erase(key) > 0;
  }
  Task<Result<bool>> touch(std::string key, uint32_t exptime) override {
    co_await begin("touch " + key, key);
    auto it = entries.find(key);
    if (it == entries.end()) co_return false;
    it->second.exptime = exptime;
    co_return true;
  }
  Task<Result<ReadOutcome>> touch_and_get(std::string key, uint32_t exptime,
                                          ReadMemory& memory) override {
    const auto touched = co_await touch(key, exptime);
    if (!*touched) co_return ReadOutcome{};
    co_return co_await get(key, memory);
  }
  ReadBudget& read_budget() override { return *budget; }
  bool stripes(const std::string&, uint64_t bytes) const override {
    return bytes > inline_max_bytes;
  }
  std::string not_serving() const override { return reason; }

  std::map<std::string, Entry> entries;
  std::map<std::string, Error> failures;
  std::set<std::string> slow;  // keys whose operations wait at the turnstile
  std::vector<std::string> started;
  std::vector<std::string> read;  // keys whose values got memory
  std::optional<ReadBudget> budget{std::in_place, 64 << 20, 1 << 20};
  uint64_t live_bytes = 0;  // of values that were read and not let go
  uint64_t most_live_bytes = 0;
  Turnstile turnstile;
  std::string reason;
  uint64_t inline_max_bytes = 100;
  uint64_t last_cas = 0;

 private:
  MemoryHold counted(MemoryHold hold, uint64_t bytes) {
    struct Counted {
      MemoryHold hold;
      uint64_t& live;
      const uint64_t bytes;
      ~Counted() { live -= bytes; }
    };
    live_bytes += bytes;
    most_live_bytes = std::max(most_live_bytes, live_bytes);
    return std::make_shared<const Counted>(std::move(hold), live_bytes, bytes);
  }
  Task<void> begin(std::string what, std::string key) {
    started.push_back(std::move(what));
    if (slow.contains(key)) co_await turnstile.pass();
  }
};

}  // namespace elastripe
