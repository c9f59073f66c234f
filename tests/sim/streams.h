// Clients whose values come and go part by part, in their own time.
#pragma once

#include <string>

#include "tests/sim/scenario.h"
#include "tests/support/whole_object.h"

namespace elastripe::sim {

// How long a client takes for one part. In a calm world nobody stops for long, and nobody goes.
class Pace {
 public:
  Pace(const StreamProfile& profile, const bool& is_calm, uint64_t seed)
      : profile_(profile), is_calm_(is_calm), random_(seed) {}

  bool comes_at_once() { return random_.chance(0.3); }
  Duration pause() {
    if (is_calm_) return random_.between(Duration::zero(), std::chrono::milliseconds(10));
    const bool stops = random_.chance(profile_.stops);
    return random_.between(Duration::zero(), stops ? profile_.stop_max : profile_.pause_max);
  }
  // Whether the client goes away, at this part.
  bool goes() { return !is_calm_ && random_.chance(profile_.cuts); }

 private:
  const StreamProfile& profile_;
  const bool& is_calm_;
  SimRandom random_;
};

// A value on its way in.
class SlowSource final : public objects::ValueSource {
 public:
  SlowSource(OpsContext& ops, std::string value, Pace pace)
      : ops_(ops), value_(std::move(value)), pace_(std::move(pace)) {}

  uint64_t size() const override { return value_.size(); }
  Task<Result<Buffer>> next(size_t bytes) override {
    ELASTRIPE_CHECK(!was_cut_ && bytes > 0 && bytes <= value_.size() - given_);
    const bool goes = pace_.goes();
    if (goes || !pace_.comes_at_once()) {
      if (!co_await ops_.clock.sleep_for(pace_.pause())) {
        co_return fail(ErrorCode::kCancelled, "shutting down");
      }
    }
    was_cut_ = goes;
    if (goes) co_return fail(ErrorCode::kCancelled, "the client has gone");
    const std::string_view part = std::string_view(value_).substr(given_, bytes);
    given_ += bytes;
    co_return Buffer::copy_of(part);
  }
  bool was_cut() const { return was_cut_; }

 private:
  OpsContext& ops_;
  const std::string value_;
  Pace pace_;
  size_t given_ = 0;
  bool was_cut_ = false;
};

// A value on its way out: there is often no room for its next part.
class SlowSink final : public WholeSink {
 public:
  SlowSink(OpsContext& ops, Pace pace) : WholeSink(ops), ops_(ops), pace_(std::move(pace)) {}

  MemoryHold try_reserve(uint64_t bytes) override {
    return pace_.comes_at_once() ? WholeSink::try_reserve(bytes) : nullptr;
  }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    const bool goes = pace_.goes();
    if (!co_await ops_.clock.sleep_for(pace_.pause()) || goes) {
      co_return fail(ErrorCode::kCancelled, "nobody waits any more");
    }
    co_return co_await WholeSink::reserve(bytes);
  }

 private:
  OpsContext& ops_;
  Pace pace_;
};

}  // namespace elastripe::sim
