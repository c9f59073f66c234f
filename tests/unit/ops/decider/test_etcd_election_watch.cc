// What a proxy knows of the key while etcd, or the way to it, is gone.
#include <catch2/catch.hpp>

#include "tests/unit/ops/decider/etcd_election_fixture.h"

using namespace elastripe;
using namespace elastripe::etcd_elections;
using namespace std::chrono_literals;

TEST_CASE("the ttl of whoever has the key goes on while etcd is away", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  b.stand();
  etcd.run_for(kTtl - 4 * kSoon);
  etcd.store().stop();
  etcd.run_for(kSoon);
  etcd.store().start();
  etcd.run_for(2 * kSoon);
  CHECK(etcd.holder() == "a");
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 3 * kSoon));
}

TEST_CASE("who is cut off from etcd does not begin once its key may be gone", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  etcd.store().cut(a.id());
  bool is_elected = true;
  REQUIRE(etcd.run_until(
      [&] {
        is_elected &= etcd.holder() == "a" || !a.may_begin();
        return etcd.holder() == "";
      },
      2 * kTtl));
  CHECK(is_elected);
  CHECK(etcd.holds_for(kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kTtl));
  CHECK(etcd.holder() == "a");
}

TEST_CASE("a decider whose lease ended while it was cut off takes the key again", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  etcd.store().cut(a.id());
  CHECK(etcd.run_until([&] { return a.status().problem != ""; }, kTtl));
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, 2 * kTtl));
  etcd.run_for(kTtl);
  etcd.store().mend(a.id());
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, 2 * kTtl));
  etcd.run_for(kSoon);
  // Somebody else may have written there meanwhile.
  CHECK(etcd.pair("map")->value == map->value);
  CHECK(etcd.pair("map")->revision > map->revision);
}

TEST_CASE("a decider that is cut off for less than a ttl keeps its key", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto taken = etcd.pair("decider");
  etcd.store().cut(a.id());
  REQUIRE(etcd.run_until([&] { return a.status().problem != ""; }, kTtl));
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.status().problem == ""; }, 2 * kSoon));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.pair("decider") == taken; }));
}

TEST_CASE("a decider whose lease is taken away early gets another one", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add_decider(map_of(5));
  const auto taken = etcd.pair("decider");
  REQUIRE(etcd.store().revoke(taken->lease).has_value());
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  CHECK(etcd.pair("decider")->lease != taken->lease);
  CHECK(a.status().problem == "");
}

TEST_CASE("a write that was done although no answer came is known by its being told", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  etcd.store().cut(a.id());
  etcd.run_for(kSoon);
  CHECK(a.status().elected == "");
  etcd.store().mend(a.id());
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kTtl));
  CHECK(etcd.holder() == "a");
}

TEST_CASE("without etcd nobody begins, and the status tells why", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  SECTION("where nobody had the key") {
    etcd.run_for(kSoon);
    etcd.store().stop();
    a.stand();
    CHECK(etcd.holds_for(3 * kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  }
  SECTION("where it had the key, until the lease is over") {
    a.stand();
    REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
    etcd.run_for(kSoon);
    etcd.store().stop();
    etcd.run_for(kTtl);
    CHECK(etcd.holds_for(3 * kTtl, [&] { return a.begins_at() == TimePoint::max(); }));
  }
  CHECK(a.status().problem.find("etcd") != std::string::npos);
  CHECK(b.status().problem.find("etcd") != std::string::npos);
  CHECK(etcd.holds_for(3 * kTtl, [&] { return a.status().problem != ""; }));
  etcd.store().start();
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 3 * kTtl));
  CHECK(etcd.run_until([&] { return b.status().elected == "a"; }, kSoon));
  CHECK(etcd.run_until([&] { return a.status().problem.empty(); }, kSoon));
  CHECK(b.status().problem == "");
}

TEST_CASE("a decider without etcd says that it can not reach it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  CHECK(a.status().problem == "");
  etcd.store().stop();
  etcd.run_for(kTtl);
  CHECK(a.status().problem != "");
  etcd.store().start();
  CHECK(etcd.run_until([&] { return a.status().problem == "" && etcd.holder() == "a"; }, 2 * kTtl));
}

TEST_CASE("who missed changes that etcd has forgotten looks for the key anew", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  REQUIRE(b.status().elected == "a");
  etcd.store().cut(b.id());
  a.hear_decider();
  etcd.run_for(kSoon);
  const Proxy& c = etcd.add_elected();
  etcd.compact();
  etcd.run_for(kSoon);
  CHECK(b.status().elected == "a");
  etcd.store().mend(b.id());
  // That is no failure.
  bool is_well = true;
  CHECK(etcd.run_until(
      [&] {
        is_well &= b.status().problem == "";
        return b.status().elected == c.name();
      },
      2 * kTtl));
  CHECK(is_well);
  // Nothing that was forgotten keeps it from following what comes after.
  REQUIRE(etcd.holder() == c.name());
  etcd.store().cut(c.id());
  CHECK(etcd.run_until([&] { return b.status().elected == ""; }, 3 * kTtl));
}

TEST_CASE("etcd that stops while a watch is on its way is missed", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add_elected();
  etcd.store().stop();
  etcd.run_for(3 * kTtl);
  CHECK_FALSE(a.status().problem.empty());
}

TEST_CASE("who asks a member of etcd without a leader is not elected, and hears of who is later",
          "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  etcd.store().part_member(a.id());
  b.stand();
  CHECK(etcd.run_until([&] { return b.may_begin(); }, kTtl + 2 * kSoon));
  CHECK(etcd.holder() == "b");
  CHECK(a.status().elected == "a");
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == "b"; }));
  CHECK(a.status().problem.find("etcd") != std::string::npos);
  CHECK(a.begins_at() == TimePoint::max());
  etcd.store().join_member(a.id());
  CHECK(etcd.run_until([&] { return a.status().elected == "b"; }, 2 * kTtl));
}

TEST_CASE("a follower that is cut off says so", "[etcd]") {
  Elections etcd;
  const Proxy& a = etcd.add();
  etcd.run_for(kSoon);
  etcd.store().cut(a.id());
  CHECK(etcd.run_until([&] { return !a.status().problem.empty(); }, 10 * kTtl));
}

TEST_CASE("a problem goes on as long as etcd does not answer", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  etcd.store().cut(a.id());
  REQUIRE(etcd.run_until([&] { return !a.status().problem.empty(); }, kTtl));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return !a.status().problem.empty(); }));
}

namespace {

// It is another store, which begins at its first revision, when proxies hear of it.
void make_anew(Elections& etcd, bool is_noticed) {
  if (is_noticed) etcd.store().stop();
  etcd.store().make_anew();
  etcd.run_for(kSoon);
  etcd.store().start();
  etcd.run_for(2 * kTtl);
}

}  // namespace

TEST_CASE("an etcd that was made anew, when nobody had the key, tells who takes it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  for (int i = 0; i < 10; ++i) {
    a.stand();
    REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
    a.hear_decider();
    REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  }
  etcd.run_for(kSoon);
  const etcd::Revision before = etcd.store().find("/e/").revision;
  // A machine that takes the place of another one may do so between two watches.
  make_anew(etcd, /*is_noticed=*/GENERATE(true, false));
  a.stand();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  REQUIRE(etcd.pair("decider")->revision < before);
  CHECK(etcd.run_until([&] { return a.may_begin() && b.status().elected == "a"; }, kSoon));
  CHECK(etcd.holds_for(kTtl, [&] { return a.may_begin(); }));
  CHECK(b.status().problem == "");
  a.hear_decider();
  CHECK(etcd.run_until([&] { return b.status().elected == ""; }, kSoon));
}

TEST_CASE("who decides has the key of an etcd that was made anew, and publishes there", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  REQUIRE(b.status().elected == "a");
  make_anew(etcd, /*is_noticed=*/GENERATE(true, false));
  CHECK(etcd.run_until([&] { return etcd.value("map") == text_of_map(5); }, kTtl));
  CHECK(etcd.holder() == "a");
  CHECK(etcd.value("members") != "");
  CHECK(etcd.run_until([&] { return b.status().elected == "a"; }, 2 * kTtl));
  for (const Proxy* proxy : {&a, &b}) CHECK(proxy->status().problem == "");
  // And it is displaced there as ever.
  a.kill();
  b.stand();
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 3 * kTtl));
}
