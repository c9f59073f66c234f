#include <catch2/catch.hpp>

#include "proxy/ops/decider/room_watch.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;

namespace {
constexpr uint64_t kLimit = 64 << 20;
constexpr uint64_t kEnough = kLimit / RoomWatch::kShareToTry;
}  // namespace

TEST_CASE("a node that refused is tried again after a while, if some of its memory is free") {
  RoomWatch watch;
  const TimePoint start{};
  CHECK(watch.room() == Room::kForMore);
  CHECK(watch.refused(Room::kForOwn, start));
  CHECK(!watch.refused(Room::kForOwn, start + 1s));
  CHECK(watch.room() == Room::kForOwn);
  CHECK(!watch.told(kLimit, kLimit, start + 9s));
  CHECK(!watch.told(kEnough - 1, kLimit, start + 11s));
  CHECK(!watch.told(0, 0, start + 11s));
  CHECK(watch.told(kEnough, kLimit, start + 12s));
  CHECK(watch.room() == Room::kForMore);
  CHECK(!watch.told(kLimit, kLimit, start + 13s));
}

TEST_CASE("the wait doubles with every trial that fails, and starts anew after one that succeeds") {
  RoomWatch watch;
  TimePoint now{};
  Duration expected = RoomWatch::kFirstWait;
  for (int trial = 0; trial < 10; ++trial) {
    watch.refused(Room::kForOwn, now);
    CHECK(!watch.told(kLimit, kLimit, now + expected - 1ns));
    CHECK(watch.told(kLimit, kLimit, now + expected));
    now += expected;
    expected = std::min(2 * expected, RoomWatch::kLongestWait);
  }
  CHECK(expected == RoomWatch::kLongestWait);
  watch.succeeded();
  watch.refused(Room::kForOwn, now);
  watch.succeeded();  // what it is a home of, without what it has refused
  CHECK(watch.told(kLimit, kLimit, now + RoomWatch::kFirstWait));
  watch.refused(Room::kForOwn, now);
  CHECK(!watch.told(kLimit, kLimit, now + RoomWatch::kFirstWait));
}

TEST_CASE("a node can refuse less, and then even its own") {
  RoomWatch watch;
  CHECK(watch.refused(Room::kForOwn, {}));
  CHECK(watch.refused(Room::kNone, {}));
  CHECK(watch.room() == Room::kNone);
  CHECK(!watch.refused(Room::kForOwn, {}));
  CHECK(watch.told(kLimit, kLimit, TimePoint{} + RoomWatch::kLongestWait));
  CHECK(watch.room() == Room::kForMore);
}
