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

  Task<Result<ReadOutcome>> get(std::string_view name, ValueSink& sink, ByteRange wanted) override {
    const std::string key(name);
    co_await begin("get " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    ReadOutcome outcome;
    if (auto it = entries.find(key); it != entries.end()) {
      const Entry entry = it->second;
      const ByteRange range = wanted.within(entry.value.size());
      const uint64_t size = range.length;
      for (uint64_t offset = 0; offset == 0 || offset < size; offset += part_bytes) {
        const auto part = as_bytes(entry.value)
                              .subspan(range.offset + offset, std::min(part_bytes, size - offset));
        if (slow.contains("the parts of " + key)) co_await turnstile.pass();
        MemoryHold hold = sink.try_reserve(part.size());
        if (hold == nullptr) {
          auto reserved = co_await sink.reserve(part.size());
          if (!reserved) co_return fail(reserved.error());
          hold = std::move(*reserved);
        }
        if (offset == 0) {
          read.push_back(key);
          outcome.found = true;
          sink.begin({entry.flags, entry.cas, entry.value.size(), size});
        } else if (failures.contains("the rest of " + key)) {
          co_return fail(failures.at("the rest of " + key));
        }
        if (!part.empty()) {
          sink.part(Buffer::copy_of(part, counted(std::move(hold), part.size())));
        }
      }
    }
    co_return outcome;
  }
  Task<Result<StoreOutcome>> store(StoreRequest request) override {
    const std::string key(request.key);
    co_await begin("store " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    auto it = entries.find(key);
    if (request.verb == StoreVerb::kAdd && it != entries.end()) co_return StoreOutcome::kNotStored;
    if (request.verb == StoreVerb::kCas) {
      if (it == entries.end()) co_return StoreOutcome::kNotFound;
      if (it->second.cas != request.cas) co_return StoreOutcome::kExists;
    }
    std::string value(request.value.text());
    while (request.source != nullptr && value.size() < request.size()) {
      if (failures.contains("the rest of " + key)) {
        co_return fail(failures.at("the rest of " + key));
      }
      if (slow.contains("the parts of " + key)) co_await turnstile.pass();
      const uint64_t left = request.size() - value.size();
      auto part = co_await request.source->next(std::min(part_bytes, left));
      if (!part) {
        broken.push_back(key);
        co_return fail(part.error());
      }
      value += part->text();
    }
    if (slow.contains("the commit of " + key)) co_await turnstile.pass();
    entries[key] = {value, request.flags, request.exptime, ++last_cas};
    co_return StoreOutcome::kStored;
  }
  Task<Result<CounterOutcome>> change_counter(CounterRequest request) override {
    const std::string key(request.key);
    co_await begin("counter " + key, key);
    auto it = entries.find(key);
    if (it == entries.end()) co_return CounterOutcome{CounterStatus::kNotFound, 0};
    if (it->second.value.find_first_not_of("0123456789") != std::string::npos) {
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    }
    const uint64_t now = std::stoull(it->second.value) + request.delta;
    it->second.value = std::to_string(now);
    co_return CounterOutcome{CounterStatus::kOk, now};
  }
  Task<Result<bool>> remove(std::string_view name) override {
    const std::string key(name);
    co_await begin("remove " + key, key);
    co_return entries.erase(key) > 0;
  }
  Task<Result<bool>> touch(std::string_view name, uint32_t exptime) override {
    const std::string key(name);
    co_await begin("touch " + key, key);
    auto it = entries.find(key);
    if (it == entries.end()) co_return false;
    it->second.exptime = exptime;
    co_return true;
  }
  Task<Result<ReadOutcome>> touch_and_get(std::string_view key, uint32_t exptime,
                                          ValueSink& sink) override {
    const auto touched = co_await touch(key, exptime);
    if (!*touched) co_return ReadOutcome{};
    co_return co_await get(key, sink, {});
  }
  ReadBudget& read_budget() override { return *budget; }
  bool stripes(std::string_view, uint64_t bytes) const override { return bytes > inline_max_bytes; }
  std::string not_serving() const override { return reason; }

  std::map<std::string, Entry> entries;
  std::map<std::string, Error> failures;
  std::set<std::string> slow;  // keys whose operations wait at the turnstile
  std::vector<std::string> started;
  std::vector<std::string> read;  // keys whose values got memory
  std::optional<ReadBudget> budget{std::in_place, 64 << 20, 1 << 20};
  std::vector<std::string> broken;  // keys whose values never came whole
  uint64_t part_bytes = UINT64_MAX;
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
