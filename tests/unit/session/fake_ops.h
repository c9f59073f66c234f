// ObjectOps of tests: a map in memory whose operations end at once, or when the test lets them.
#pragma once

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/ops/objects/staging_memory.h"
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
    bool is_stale = false;
    bool win_is_taken = false;
    bool was_used = false;
  };

  Task<Result<objects::ReadOutcome>> get(const objects::ReadRequest& request,
                                         objects::ValueSink& sink) override {
    return read_entry(request, sink);
  }
  // The flow lives longer than what it was called with.
  Task<Result<objects::ReadOutcome>> read_entry(objects::ReadRequest request,
                                                objects::ValueSink& sink) {
    const std::string key(request.key);
    if (request.touch) {
      const auto touched = co_await touch(key, *request.touch);
      if (!*touched && !request.creates) co_return objects::ReadOutcome{};
    }
    co_await begin("get " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    objects::ReadOutcome outcome;
    bool wins = false;
    if (!entries.contains(key) && request.creates) {
      wins = true;
      entries[key] = {.value = {},
                      .exptime = request.creates->exptime,
                      .cas = request.creates->cas.value_or(++last_cas)};
    }
    if (auto it = entries.find(key); it != entries.end()) {
      const bool may_win = request.may_win && !it->second.win_is_taken;
      const uint32_t expires = it->second.exptime;
      wins |= may_win && (it->second.is_stale || (expires != 0 && expires < request.wins_before));
      const Entry entry = it->second;
      it->second.win_is_taken |= wins;
      it->second.was_used |= request.is_use;
      const objects::ByteRange range = request.range.within(entry.value.size());
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
          sink.begin({.flags = entry.flags,
                      .cas = entry.cas,
                      .size = entry.value.size(),
                      .range_bytes = size,
                      .exptime = entry.exptime,
                      .is_stale = entry.is_stale,
                      .is_won = wins,
                      .win_is_taken = entry.win_is_taken,
                      .was_used = entry.was_used});
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
  Task<Result<objects::StoreOutcome>> store(objects::StoreRequest request) override {
    const std::string key(request.key);
    co_await begin("store " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    auto it = entries.find(key);
    if (request.verb == objects::StoreVerb::kAdd && it != entries.end())
      co_return objects::StoreStatus::kNotStored;
    const bool extends =
        request.verb == objects::StoreVerb::kAppend || request.verb == objects::StoreVerb::kPrepend;
    if (extends && it == entries.end() && !request.creates) {
      co_return objects::StoreStatus::kNotStored;
    }
    if (extends && it != entries.end() && request.cas && it->second.cas != *request.cas) {
      co_return objects::StoreStatus::kExists;
    }
    if (request.verb == objects::StoreVerb::kCas) {
      if (it == entries.end()) co_return objects::StoreStatus::kNotFound;
      const bool is_older = request.stale_if_older && it->second.cas > request.cas;
      if (it->second.cas != request.cas && !is_older) co_return objects::StoreStatus::kExists;
    }
    const uint64_t size = request.value->size();
    std::string value;
    if (storage_of(key, size) == Storage::kInline) {
      value = (co_await request.value->next(size))->text();
    }
    while (value.size() < size) {
      if (failures.contains("the rest of " + key)) {
        co_return fail(failures.at("the rest of " + key));
      }
      if (slow.contains("the parts of " + key)) co_await turnstile.pass();
      const uint64_t bytes = std::min(part_bytes, size - value.size());
      if (auto arrived = co_await request.value->arrived(bytes); !arrived) {
        broken.push_back(key);
        co_return fail(arrived.error());
      }
      const auto permit =
          co_await objects::StagingMemory(memory().staged, request.staging_memory).acquire(bytes);
      auto part = co_await request.value->next(bytes);
      if (!part) {
        broken.push_back(key);
        co_return fail(part.error());
      }
      value += part->text();
    }
    if (slow.contains("the commit of " + key)) co_await turnstile.pass();
    if (extends && it != entries.end()) {
      Entry& entry = it->second;
      entry.value =
          request.verb == objects::StoreVerb::kAppend ? entry.value + value : value + entry.value;
      entry.cas = ++last_cas;
      co_return objects::StoreOutcome{objects::StoreStatus::kStored, entry.cas, entry.value.size()};
    }
    const uint32_t exptime = extends ? *request.creates : request.exptime;
    Entry entry{value, request.flags, exptime, request.new_cas.value_or(++last_cas)};
    if (request.stale_if_older && it != entries.end() && it->second.cas > request.cas) {
      entry.is_stale = true;
      entry.win_is_taken = it->second.win_is_taken;
      entry.exptime = it->second.exptime;
    }
    entries[key] = std::move(entry);
    co_return objects::StoreOutcome{objects::StoreStatus::kStored, entries[key].cas, value.size()};
  }
  Task<Result<objects::UpdateOutcome>> update(objects::UpdateRequest request) override {
    const std::string key(request.key);
    co_await begin("update " + key, key);
    if (failures.contains(key)) co_return fail(failures.at(key));
    auto bytes = co_await request.value->next(request.value->size());
    if (!bytes) co_return fail(bytes.error());
    const auto it = entries.find(key);
    if (it == entries.end())
      co_return objects::UpdateOutcome{.status = objects::UpdateStatus::kNotFound};
    Entry& entry = it->second;
    objects::UpdateOutcome outcome{.cas = entry.cas, .size = entry.value.size()};
    if (request.cas && *request.cas != entry.cas) {
      outcome.status = objects::UpdateStatus::kExists;
    } else if (request.offset + bytes->size() > entry.value.size()) {
      outcome.status = objects::UpdateStatus::kOutOfRange;
    } else {
      entry.value.replace(request.offset, bytes->size(), bytes->text());
      outcome.cas = entry.cas = ++last_cas;
    }
    co_return outcome;
  }
  Task<Result<objects::CounterOutcome>> change_counter(objects::CounterRequest request) override {
    const std::string key(request.key);
    co_await begin("counter " + key, key);
    auto it = entries.find(key);
    if (it == entries.end() && !request.creates) {
      co_return objects::CounterOutcome{objects::CounterStatus::kNotFound, 0};
    }
    if (it == entries.end()) {
      const auto [initial, exptime] = *request.creates;
      const uint64_t cas = request.new_cas.value_or(++last_cas);
      entries[key] = {std::to_string(initial), 0, exptime, cas};
      co_return objects::CounterOutcome{objects::CounterStatus::kOk, initial, cas, exptime};
    }
    if (request.cas && *request.cas != it->second.cas) {
      co_return objects::CounterOutcome{objects::CounterStatus::kExists};
    }
    uint64_t now = 0;
    const std::string& value = it->second.value;
    const char* const end = value.data() + value.size();
    if (const auto [stop, error] = std::from_chars(value.data(), end, now);
        error != std::errc{} || stop != end) {
      co_return objects::CounterOutcome{objects::CounterStatus::kNotNumber, 0};
    }
    now = request.increment ? now + request.delta : now - std::min(now, request.delta);
    Entry& entry = it->second;
    entry.value = std::to_string(now);
    entry.cas = request.new_cas.value_or(++last_cas);
    entry.exptime = request.exptime.value_or(entry.exptime);
    co_return objects::CounterOutcome{objects::CounterStatus::kOk, now, entry.cas, entry.exptime};
  }
  Task<Result<objects::RemoveStatus>> remove(objects::RemoveRequest request) override {
    const std::string key(request.key);
    co_await begin("remove " + key, key);
    const auto it = entries.find(key);
    if (it == entries.end()) co_return objects::RemoveStatus::kNotFound;
    Entry& entry = it->second;
    if (request.cas && *request.cas != entry.cas) co_return objects::RemoveStatus::kExists;
    if (!request.keeps_object()) {
      entries.erase(it);
      co_return objects::RemoveStatus::kRemoved;
    }
    if (request.empties) entry = {};
    entry.is_stale = request.marks_stale;
    entry.win_is_taken = false;
    entry.cas = request.new_cas.value_or(++last_cas);
    entry.exptime = request.exptime.value_or(entry.exptime);
    co_return objects::RemoveStatus::kRemoved;
  }
  Task<Result<bool>> touch(std::string_view name, uint32_t exptime) override {
    const std::string key(name);
    co_await begin("touch " + key, key);
    auto it = entries.find(key);
    if (it == entries.end()) co_return false;
    it->second.exptime = exptime;
    co_return true;
  }
  Task<Result<void>> flush_all(uint32_t at) override {
    co_await begin("flush_all " + std::to_string(at), "flush_all");
    if (failures.contains("flush_all")) co_return fail(failures.at("flush_all"));
    if (at == 0) entries.clear();
    co_return Result<void>{};
  }
  Task<Result<void>> list(jobs::ObjectVisitor& visitor) override {
    co_await begin("list", "list");
    for (const auto& [key, entry] : entries) {
      if (!co_await visitor.visit({key, entry.exptime, entry.cas, entry.value.size()})) break;
    }
    if (failures.contains("list")) co_return fail(failures.at("list"));
    co_return Result<void>{};
  }
  MemoryBudgets& memory() override { return *memory_; }
  void limit_reads(uint64_t bytes, uint64_t max_part) {
    memory_.emplace(MemorySizes{.staged = 3 << 20, .read = bytes, .max_part = max_part});
  }
  Storage storage_of(std::string_view, uint64_t bytes) const override {
    return bytes <= inline_bytes ? Storage::kInline : Storage::kStriped;
  }
  uint64_t inline_max_bytes(std::string_view) const override { return inline_bytes; }
  bool unreadable_is_miss(std::string_view key) const override { return key.starts_with("cache:"); }
  std::string not_serving() const override { return reason; }

  std::map<std::string, Entry> entries;
  std::map<std::string, Error> failures;
  std::set<std::string> slow;  // keys whose operations wait at the turnstile
  std::vector<std::string> started;
  std::vector<std::string> read;    // keys whose values got memory
  std::vector<std::string> broken;  // keys whose values never came whole
  uint64_t part_bytes = UINT64_MAX;
  uint64_t live_bytes = 0;  // of values that were read and not let go
  uint64_t most_live_bytes = 0;
  Turnstile turnstile;
  std::string reason;
  uint64_t inline_bytes = 100;
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

 private:
  std::optional<MemoryBudgets> memory_{
      std::in_place, MemorySizes{.staged = 3 << 20, .read = 64 << 20, .max_part = 1 << 20}};
};

}  // namespace elastripe
