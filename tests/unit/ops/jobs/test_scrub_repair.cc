// Shards that are there, but bad or wrong, are made again; and nothing is made of a wrong one.
#include "proxy/ops/jobs/repair.h"
#include "proxy/ops/jobs/scrubber.h"
#include "server-patches/node/engine/checksum.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/ops/jobs/moving_fixture.h"

using namespace elastripe;

namespace {

using Shards = std::vector<uint8_t>;

// Changes the last byte of a shard; unless its pages shall be bad, their checksums, too.
void tamper(node::ArenaStore& store, const node::ItemRef& item, bool makes_pages_bad) {
  const auto layout = node::read_shard_item(store, item);
  REQUIRE(layout);
  std::vector<std::byte> bytes(layout->header.payload_bytes);
  store.read(item, layout->payload_at, bytes);
  bytes.back() ^= std::byte{0x40};
  store.write(item, layout->payload_at, bytes);
  if (makes_pages_bad) return;
  const std::vector<uint32_t> checksums = node::page_checksums(bytes);
  store.write(item, layout->checksums_at, std::as_bytes(std::span(checksums)));
}

struct Scrubbed : Moving {
  using Moving::Moving;

  ScrubReport scrub() {
    auto report = cluster.run(scrub_object(proxy->ops(), "key", cluster.deadline()));
    REQUIRE(report.has_value());
    return std::move(*report);
  }
  // What it found counts as gone.
  RepairOutcome repair(const ScrubReport* scrubbed) {
    auto outcome = cluster.run(repair_object(proxy->ops(), {.key = "key", .scrubbed = scrubbed}));
    REQUIRE(outcome.has_value());
    return std::move(*outcome);
  }
  void tamper_with(size_t index, bool makes_pages_bad = false) {
    node::ArenaStore& store = cluster.node(segment().placement[index]).store();
    const node::ItemRef item = store.find(node::shard_item_key(name(index)));
    REQUIRE(item);
    tamper(store, item, makes_pages_bad);
  }
  // Nothing but the shards of the record is kept.
  void check_mended() {
    check_whole();
    const size_t shards = segment().placement.size();
    CHECK(cluster.run_until([&] { return cluster.shards() == shards; }, 60s));
    CHECK(scrub().is_clean());
  }
};

}  // namespace

TEST_CASE("a wrong shard is outvoted, and made again of the others") {
  const uint8_t index = GENERATE(as<uint8_t>{}, 1, 4, 5, 6);
  Scrubbed s(9, "ers-2:4,2,5");
  const auto before = s.name(index);
  const auto cas = s.inspect().record->meta.value_version;
  s.tamper_with(index);
  const ScrubReport found = s.scrub();
  CHECK(found.segments[0].wrong == Shards{index});
  CHECK(found.segments[0].bad.empty());
  const RepairOutcome outcome = s.repair(&found);
  CHECK(outcome.status == ObjectStatus::kDone);
  CHECK(outcome.shards == 1);
  CHECK(s.name(index) != before);
  CHECK(s.inspect().record->meta.value_version == cas);
  s.check_mended();
}

TEST_CASE("a shard with a bad page is made again, with one parity too") {
  const uint8_t index = GENERATE(as<uint8_t>{}, 0, 5);
  Scrubbed s;
  s.tamper_with(index, /*makes_pages_bad=*/true);
  const ScrubReport found = s.scrub();
  CHECK(found.segments[0].bad == Shards{index});
  CHECK(found.segments[0].wrong.empty());
  CHECK(s.repair(nullptr).status == ObjectStatus::kAlreadyThere);  // it is there
  CHECK(s.repair(&found).status == ObjectStatus::kDone);
  s.check_mended();
}

TEST_CASE("the checksum of what was written tells that the one parity is wrong") {
  Scrubbed s;
  s.tamper_with(5);
  const ScrubReport found = s.scrub();
  CHECK(found.segments[0].wrong == Shards{5});
  CHECK(found.segments[0].data_matches);
  CHECK(s.repair(&found).status == ObjectStatus::kDone);
  s.check_mended();
}

TEST_CASE("what nothing tells apart is left alone") {
  Scrubbed s;
  s.tamper_with(2);
  const ScrubReport found = s.scrub();
  CHECK(found.segments[0].has_unexplained);
  CHECK_FALSE(found.segments[0].data_matches);
  const auto before = *s.inspect().record;
  CHECK(s.repair(&found).status == ObjectStatus::kAlreadyThere);
  CHECK(*s.inspect().record == before);
}

TEST_CASE("a scrub of another version of the object makes nothing gone") {
  Scrubbed s(9, "ers-2:4,2,5");
  s.tamper_with(1);
  const ScrubReport found = s.scrub();
  REQUIRE(s.cluster.put(*s.proxy, "key", s.value));
  CHECK(s.repair(&found).status == ObjectStatus::kAlreadyThere);
  s.check_mended();
}

TEST_CASE("shards that do not fit the others are not committed") {
  Scrubbed s(9, "ers-2:4,2,5");
  s.kill(s.segment().placement[3]);
  const auto before = *s.inspect().record;
  // What is written is another thing by the time that its node is asked what it has.
  std::vector<NodeId> written;
  bool is_tampered = false;
  s.cluster.network().set_delay_rule(
      [&](int, NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kShardWrite) written.push_back(to);
        const bool is_of_new = std::ranges::find(written, to) != written.end();
        if (header.opcode != node::Opcode::kShardFingerprint || !is_of_new) return std::nullopt;
        node::ArenaStore& store = s.cluster.node(to).store();
        for (uint64_t cursor = 0;;) {
          cursor = store.walk(cursor, [&](const node::ItemRef& item) {
            if (store.key(item).front() != '\x02') return true;
            tamper(store, item, /*makes_pages_bad=*/false);
            is_tampered = true;
            return true;
          });
          if (cursor == 0) break;
        }
        return std::nullopt;
      });
  const RepairOutcome refused = s.repair(nullptr);
  s.cluster.network().set_delay_rule({});
  CHECK(is_tampered);
  CHECK(refused.status == ObjectStatus::kRefused);
  CHECK(refused.reason == "shards do not fit together: scrub it");
  CHECK(*s.inspect().record == before);
  CHECK(s.repair(nullptr).status == ObjectStatus::kDone);
  s.check_mended();
}

namespace {

// Many objects, of two kinds of keys.
struct ScrubbedMany : Scrubbed {
  ScrubbedMany() : Scrubbed(9, "ers-2:4,2,5") {
    for (size_t i = 0; i < kObjects; ++i) {
      REQUIRE(cluster.put(*proxy, "many" + std::to_string(i), value_of(1000 + 100 * i)));
    }
    REQUIRE(cluster.put(*proxy, "small", "inline"));
  }
  JobProgress run_job(ScrubJobSpec spec) {
    ScrubJob job(proxy->ops(), std::move(spec));
    bool ended = false;
    Scope scope;
    scope.spawn([](ScrubJob& running, bool& over) -> Task<void> {
      co_await running.run();
      over = true;
    }(job, ended));
    REQUIRE(cluster.run_until([&] { return ended && scope.live() == 0; }, 10h));
    return job.progress();
  }

  static constexpr size_t kObjects = 20;
};

}  // namespace

TEST_CASE("a scrub job looks at all objects, those that begin alike, or one", "[job]") {
  ScrubbedMany s;
  const JobProgress all = s.run_job({});
  CHECK(all.state == JobState::kDone);
  CHECK(all.counts.done == ScrubbedMany::kObjects + 2);
  CHECK(all.counts.skipped.empty());
  CHECK(all.done.traffic.bytes_read == all.planned.traffic.bytes_read);
  CHECK(all.done.traffic.bytes_sent == 0);
  CHECK(s.run_job({.job = {.prefix = "many1"}}).counts.done == 11);
  CHECK(s.run_job({.job = {.key = "key"}}).counts.done == 1);
  CHECK(s.run_job({.job = {.key = "none"}}).counts.no_object == 1);
  CHECK(s.run_job({.job = {.dry_run = true}}).planned.objects == ScrubbedMany::kObjects + 2);
}

TEST_CASE("a scrub job tells what is not clean, and repairs it if told to", "[job]") {
  ScrubbedMany s;
  s.tamper_with(2);
  const JobProgress found = s.run_job({});
  CHECK(found.counts.done == ScrubbedMany::kObjects + 1);
  CHECK(found.counts.refused == 1);
  REQUIRE(found.problems.size() == 1);
  CHECK(found.problems[0].key == "key");
  CHECK(found.problems[0].reason ==
        "segment 0: shards 2 are not what the others make them, data fails its checksum");
  const JobProgress repaired = s.run_job({.repairs = true});
  CHECK(repaired.counts.done == ScrubbedMany::kObjects + 2);
  CHECK(repaired.counts.refused == 0);
  CHECK(repaired.done.shards == 1);
  s.check_whole();
  CHECK(s.run_job({}).counts.refused == 0);
}

TEST_CASE("a scrub keeps to its rate, of bytes that the nodes read", "[job]") {
  ScrubbedMany s;
  const JobProgress fast = s.run_job({});
  const uint64_t rate = fast.planned.traffic.bytes() / 100;
  const JobProgress slow = s.run_job({.job = {.rate = rate}});
  CHECK(slow.counts.done == fast.counts.done);
  CHECK(slow.elapsed > 80s);  // of virtual time
  CHECK(fast.elapsed < 10s);
}

TEST_CASE("all objects are scrubbed and mended again and again", "[job]") {
  ScrubbedMany s;
  Scrubber scrubber(s.proxy->ops(), {.every = 10min, .rate = 1 << 20});
  Scope scope;
  scope.spawn(scrubber.run());
  s.cluster.run_for(5min);
  CHECK(scrubber.status().scrubs == 0);
  s.tamper_with(1, /*makes_pages_bad=*/true);
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().scrubs == 1; }, 20min));
  CHECK(scrubber.status().progress.done.shards == 1);
  s.check_whole();
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().scrubs == 2; }, 20min));
  CHECK(scrubber.status().progress.done.shards == 0);
  CHECK(scrubber.status().progress.counts.done == ScrubbedMany::kObjects + 2);
  s.proxy->kill();
  REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }));
}

TEST_CASE("scrubs are for the proxy that decides", "[job]") {
  ScrubbedMany s;
  Scrubber scrubber(s.proxy->ops(), {.every = 10min, .rate = 1});
  Scope scope;
  scope.spawn(scrubber.run());
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().is_running; }, 11min));
  CHECK(scrubber.status().due_in() == 0s);
  s.proxy->map().work_in_background(false);
  s.cluster.run_for(2s);
  scrubber.change_settings({.every = 10min, .rate = 0});  // so that what has begun soon ends
  REQUIRE(s.cluster.run_until([&] { return !scrubber.status().is_running; }, 1min));
  CHECK(scrubber.status().scrubs == 0);
  CHECK(scrubber.status().next_in == 0s);
  s.cluster.run_for(20min);
  CHECK_FALSE(scrubber.status().is_running);

  // Others have scrubbed meanwhile.
  s.proxy->map().work_in_background(true);
  scrubber.take_over(4min);
  s.cluster.run_for(3min);
  CHECK(scrubber.status().scrubs == 0);
  CHECK(scrubber.status().next_in <= 1min);
  CHECK(scrubber.status().due_in() == 60s);
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().scrubs == 1; }, 5min));
  s.proxy->kill();
  REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }));
}

TEST_CASE("scrubs may begin, end and go at another rate while the scrubber runs", "[job]") {
  ScrubbedMany s;
  const ScrubSettings never{.every = Duration::zero()};
  Scrubber scrubber(s.proxy->ops(), never);
  Scope scope;
  scope.spawn(scrubber.run());
  s.cluster.run_for(400s);
  CHECK(scrubber.status().scrubs == 0);
  CHECK_FALSE(scrubber.status().is_on);
  CHECK_FALSE(scrubber.status().due_in());
  // As long after its start as is said now.
  scrubber.change_settings({.every = 10min, .rate = 1});
  s.cluster.run_for(100s);
  CHECK(scrubber.status().scrubs == 0);
  CHECK(scrubber.status().next_in <= 100s);
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().is_running; }, 200s));
  scrubber.change_settings({.every = 10min, .rate = 0});
  REQUIRE(s.cluster.run_until([&] { return scrubber.status().scrubs == 1; }, 20min));
  scrubber.change_settings(never);
  s.cluster.run_for(15min);
  CHECK(scrubber.status().scrubs == 1);
  s.proxy->kill();
  REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }));
}

// The tail mends its own copy when the record is read there.
TEST_CASE("a home that lacks the record, or has another one, gets it again") {
  const bool is_inline = GENERATE(false, true);
  const bool is_gone = GENERATE(false, true);
  Scrubbed s;
  const std::string value = is_inline ? "small" : s.value;
  REQUIRE(s.cluster.put(*s.proxy, "copied", value));
  const NodeId at = s.cluster.homes_of(*s.proxy, "copied").back();
  node::ArenaStore& store = s.cluster.node(at).store();
  if (is_gone) {
    REQUIRE(store.remove(node::record_item_key("copied")));
  } else {
    const node::ItemRef item = store.find(node::record_item_key("copied"));
    REQUIRE(item);
    std::array<std::byte, 1> changed;
    const size_t at_byte = node::kRecordPrefixBytes + sizeof(uint64_t);  // of the value_version
    store.read(item, at_byte, changed);
    changed[0] ^= std::byte{4};
    store.write(item, at_byte, changed);
  }
  const auto scrub = [&](bool repairs) {
    ScrubJob job(s.proxy->ops(), {.job = {.key = "copied"}, .repairs = repairs});
    Scope scope;
    scope.spawn(job.run());
    REQUIRE(s.cluster.run_until([&] { return scope.live() == 0; }));
    return job.progress();
  };
  CHECK(scrub(false).counts.refused == 1);
  CHECK(scrub(true).counts.done == 1);
  CHECK(scrub(false).counts.done == 1);
  CHECK(s.cluster.get(*s.proxy, "copied") == value);
}
