// Who has the key, and what that one publishes.
#include <catch2/catch.hpp>

#include "tests/unit/ops/decider/etcd_election_fixture.h"

using namespace elastripe;
using namespace elastripe::etcd_elections;
using namespace std::chrono_literals;

TEST_CASE("of those who stand, the one that has the key begins, and no other", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  SECTION("one after the other") {
    a.stand();
    REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
    CHECK(etcd.holder() == "a");
    b.stand();
  }
  SECTION("at once") {
    a.stand();
    b.stand();
    REQUIRE(etcd.run_until([&] { return etcd.holder() != ""; }, kSoon));
    etcd.run_for(kSoon);
  }
  const bool is_a = etcd.holder() == "a";
  Proxy& first = is_a ? a : b;
  Proxy& second = is_a ? b : a;
  CHECK(etcd.holds_for(kTtl - 3 * kSoon, [&] {
    return etcd.holder() == first.name() && first.may_begin() &&
           second.begins_at() == TimePoint::max();
  }));
  for (const Proxy* proxy : {&a, &b}) {
    CHECK(proxy->status() ==
          decider::ElectionStatus{.by = "etcd", .elected = first.name(), .problem = ""});
  }
}

TEST_CASE("who hears of a decider wants no key, and gives back the one that it has", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == "a"; }));
  a.hear_decider();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == ""; }));
  CHECK(b.status().elected == "");
}

TEST_CASE("who has decided and follows gives the key back", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  a.follow();
  CHECK(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(kTtl, [&] { return etcd.holder() == ""; }));
  // And what it served is not its business any more, were it elected again.
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  CHECK(etcd.holds_for(kTtl, [&] { return etcd.pair("map") == map; }));
}

TEST_CASE("who has the key and does not begin is displaced once it has had it for a ttl",
          "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  Proxy& b = etcd.add();
  a.stand();
  REQUIRE(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  const TimePoint taken = etcd.now();
  b.stand();
  CHECK(etcd.holds_for(kTtl - kSoon,
                       [&] { return etcd.holder() == "a" && b.begins_at() == TimePoint::max(); }));
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 2 * kSoon));
  CHECK(etcd.holder() == "b");
  CHECK(etcd.now() - taken >= kTtl - kHeartbeat);
  // The other one learns of it, and has its turn a ttl later.
  etcd.run_for(kHeartbeat);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "b"; }));
  CHECK(etcd.run_until([&] { return a.may_begin(); }, 2 * kSoon));
}

TEST_CASE("who has begun and is gone is displaced at once, however young the key is", "[etcd]") {
  Elections etcd;
  Proxy& first = etcd.add();
  Proxy& other = etcd.add();
  other.hear_sign();  // of whoever decided before
  etcd.run_for(kHeartbeat);
  first.stand();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  etcd.run_for(kSoon);
  SECTION("it is heard of") {
    other.hear_sign();
    first.kill();
    other.stand();
    CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, kSoon));
  }
  SECTION("it is not") {
    first.kill();
    other.stand();
    CHECK(etcd.holds_for(kTtl - 3 * kSoon, [&] { return etcd.holder() == "a"; }));
  }
}

TEST_CASE("who comes later counts the ttl of whoever has the key from then on", "[etcd]") {
  Elections etcd;
  etcd.add_elected();
  etcd.run_for(3 * kTtl);
  Proxy& b = etcd.add();
  b.stand();
  CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "a"; }));
  CHECK(etcd.run_until([&] { return b.may_begin(); }, 2 * kSoon));
}

TEST_CASE("who lacks a majority of the nodes lets others go first, for a ttl", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  a.stand(/*has_majority=*/false);
  SECTION("and stands then, if there is nobody") {
    CHECK(etcd.holds_for(kTtl - kHeartbeat,
                         [&] { return etcd.holder() == "" && a.begins_at() == TimePoint::max(); }));
    CHECK(etcd.run_until([&] { return a.may_begin(); }, kSoon));
  }
  SECTION("and another one that has it is the first") {
    etcd.run_for(kTtl - kSoon);
    Proxy& b = etcd.add_elected();
    CHECK(etcd.holds_for(kTtl - kSoon, [&] { return etcd.holder() == "b"; }));
    CHECK(b.may_begin());
    CHECK(a.begins_at() == TimePoint::max());
  }
}

TEST_CASE("who no longer reaches a majority of the nodes gives the key back", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  a.stand(/*has_majority=*/false);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(a.begins_at() == TimePoint::max());
}

TEST_CASE("who decides and serves takes the key from whoever has it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  b.decide(map_of(5));
  // Not at once: two of which each serves a cluster would take it from each other all the time.
  CHECK(etcd.holds_for(kTtl / 3 - 3 * kSoon, [&] { return etcd.holder() == "a"; }));
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, kTtl));
  etcd.run_for(kHeartbeat);
  CHECK(a.begins_at() == TimePoint::max());
  CHECK(a.status().elected == "b");
}

TEST_CASE("who decides and serves nothing yet takes the key only if nobody has it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  b.stand();
  etcd.run_for(kSoon);
  b.decide(nullptr);
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.holder() == "a"; }));
  a.hear_decider();
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, kSoon));
}

TEST_CASE("a decider that leaves gives the key back at once, and takes it no more", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  Proxy& b = etcd.add();
  etcd.run_for(kSoon);
  a.leave();
  REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
  CHECK(etcd.holds_for(2 * kTtl, [&] { return etcd.holder() == ""; }));
  // Other keys are left, but who comes now sees that nobody has this one.
  const Proxy& c = etcd.add();
  etcd.run_for(kSoon);
  CHECK(c.status().elected == "");
  b.stand();
  CHECK(etcd.run_until([&] { return b.may_begin(); }, kSoon));
}

TEST_CASE("the key stays as long as its proxy wants it", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add();
  SECTION("that stands") { a.stand(); }
  SECTION("that decides") { a.decide(map_of(5)); }
  SECTION("that decides, and serves nothing") { a.decide(nullptr); }
  REQUIRE(etcd.run_until([&] { return etcd.holder() == "a"; }, kSoon));
  const auto taken = etcd.pair("decider");
  CHECK(taken->lease != 0);
  CHECK(etcd.holds_for(20 * kTtl, [&] { return etcd.pair("decider") == taken; }));
  CHECK(a.status().problem == "");
}

TEST_CASE("the key of a proxy that dies goes with its lease", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  Proxy& b = etcd.add();
  b.decide(nullptr);
  etcd.run_for(2 * kTtl);
  REQUIRE(etcd.holder() == "a");
  a.kill();
  CHECK(etcd.run_until([&] { return etcd.holder() == "b"; }, 2 * kTtl));
}

TEST_CASE("who has the key and serves publishes the map, and the nodes that are left", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_elected();
  etcd.run_for(kTtl);
  CHECK_FALSE(etcd.pair("map").has_value());
  CHECK_FALSE(etcd.pair("members").has_value());
  a.decide(nullptr);
  etcd.run_for(kTtl);
  CHECK_FALSE(etcd.pair("map").has_value());
  a.decide(map_of(5));
  REQUIRE(etcd.run_until([&] { return etcd.pair("map").has_value(); }, kSoon));
  CHECK(etcd.value("map") == text_of_map(5));
  CHECK(etcd.value(std::string(decider::kEtcdMembers)) ==
        "node-0 10.0.0.1:7001 rack-0 member\n"
        "node-2 [fd00::3]:7003 rack-2 draining\n"
        "node-3 host.example:7004 rack-3 member\n");
  // They stay when the proxy goes.
  CHECK(etcd.pair("map")->lease == 0);
  CHECK(etcd.pair("members")->lease == 0);
}

TEST_CASE("a map is published once, and the next one anew", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  const auto map = etcd.pair("map");
  REQUIRE(map.has_value());
  CHECK(etcd.holds_for(3 * kTtl, [&] { return etcd.pair("map") == map; }));
  a.decide(map_of(6));
  CHECK(etcd.run_until([&] { return etcd.value("map") == text_of_map(6); }, kSoon));
  CHECK(etcd.pair("members")->revision == etcd.pair("map")->revision);
}

TEST_CASE("a decider that leaves has no key, and publishes no more", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  a.leave();
  etcd.run_for(kSoon);
  a.decide(map_of(6));
  a.leave();
  etcd.run_for(kTtl);
  CHECK(etcd.value("map") == text_of_map(5));
}

TEST_CASE("who has lost the key on the way does not publish", "[etcd]") {
  Elections etcd;
  Proxy& a = etcd.add_decider(map_of(5));
  REQUIRE(etcd.value("map") == text_of_map(5));
  a.decide(map_of(6));
  a.beat();
  // It tries once, and leaves meanwhile, so that it does not take the key again.
  a.leave();
  a.beat();
  SECTION("with the key") {
    REQUIRE(etcd.run_until([&] { return etcd.holder() == ""; }, kSoon));
    CHECK(etcd.value("map") == text_of_map(6));
  }
  SECTION("without") {
    REQUIRE(etcd.store().revoke(etcd.pair("decider")->lease).has_value());
    etcd.run_for(kTtl);
    CHECK(etcd.value("map") == text_of_map(5));
  }
}
