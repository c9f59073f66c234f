#include <catch2/catch.hpp>

#include "proxy/ops/jobs/expiry_clock.h"
#include "tests/support/virtual_clock.h"

using namespace elastripe;
using namespace std::chrono_literals;
using jobs::ExpiryClock;

namespace {

struct Clocks {
  // The wall clocks of others are so many seconds ahead of the one that is right.
  uint32_t lead(std::initializer_list<int64_t> others) {
    clock->consult([this, others] {
      std::vector<int64_t> unix_ms;
      for (const int64_t lead_s : others) unix_ms.push_back(right_ms() + 1000 * lead_s);
      return unix_ms;
    });
    const auto unix_s = clock->look();
    REQUIRE(unix_s);
    return *unix_s - static_cast<uint32_t>(right_ms() / 1000);
  }
  int64_t right_ms() const { return static_cast<int64_t>(wall.unix_ms()) - 1000 * own_lead_s; }

  explicit Clocks(int64_t lead_s) : own_lead_s(lead_s), wall(events) {
    wall.set_wall_clock_by(own_lead_s * 1s);
    clock.emplace(wall);  // which believes what it shows then
  }

  const int64_t own_lead_s;
  EventQueue events{1};
  VirtualClock wall;
  std::optional<ExpiryClock> clock;
};

}  // namespace

TEST_CASE("a wall clock that was wrong from the start is compared with those of others") {
  constexpr int64_t kWrong_s = 7200;
  Clocks wrong(kWrong_s);
  CHECK(wrong.lead({}) == kWrong_s);  // nobody knows better
  CHECK(wrong.lead({0}) == 0);
  CHECK(wrong.lead({0, 1}) == 1);
  CHECK(wrong.lead({0, 0, kWrong_s}) == 0);
  CHECK(wrong.lead({0, kWrong_s}) == kWrong_s);
}

TEST_CASE("a wall clock that is right is believed beside others that are wrong") {
  Clocks right(0);
  CHECK(right.lead({}) == 0);
  CHECK(right.lead({7200}) == 0);
  CHECK(right.lead({7200, 7200}) == 0);
  CHECK(right.lead({-7200, 7200}) == 0);
  CHECK(right.lead({-7200, 0}) == 0);
  CHECK(right.lead({-1}) == 0);  // as late as it was told
  // Nobody can say which one of two is wrong; what is kept for longer than need be is not lost.
  CHECK(static_cast<int32_t>(right.lead({-7200})) == -7200);
}

TEST_CASE("nothing is collected while it is not known what other clocks show") {
  Clocks clocks(0);
  clocks.clock->consult([] { return std::nullopt; });
  CHECK_FALSE(clocks.clock->look());
}
