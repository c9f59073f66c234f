// A log against a plain array of bytes, each with the number of the update that it is of.
#include <map>
#include <random>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/update/update_log.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

constexpr uint64_t kVersion = 1000;  // of the record; its value is of 900
constexpr uint64_t kValue = 900;

Id128 id_of(uint64_t lsn) { return {77, lsn}; }
UpdateName name_of(uint64_t lsn) { return {id_of(lsn), lsn}; }

class LogTest {
 public:
  LogBytes put(std::string_view bytes) {
    auto place = pool.append(as_view(bytes), LogPool::Claim::kAccepted);
    REQUIRE(place.has_value());
    return std::move(*place);
  }
  void add(uint64_t lsn, uint64_t offset, std::string_view bytes) {
    log.add(name_of(lsn), offset, put(bytes), crc32c(as_view(bytes)));
  }

  // Until it is called again.
  LogImage image() { return log.image(told_bytes); }
  LogImage view(uint64_t offset, uint64_t length) { return log.view(offset, length, told_bytes); }

  ArenaStore store{{.view_max_bytes = 100}};  // no unit is in one piece
  LogPool pool{{.unit_bytes = 256, .units = 1000}, store};
  UpdateLog log{kValue, kVersion};
  std::string told_bytes;
};

// "10: text @lsn" of each, for readable comparisons.
std::string told(const std::vector<LogExtent>& extents) {
  std::string out;
  for (const LogExtent& extent : extents) {
    if (!out.empty()) out += ", ";
    out += std::to_string(extent.offset) + ": " + std::string(extent.bytes) + " @" +
           std::to_string(extent.lsn - kVersion);
  }
  return out;
}
bool is_intact(const LogExtent& extent) { return crc32c(as_view(extent.bytes)) == extent.crc32c; }

}  // namespace

TEST_CASE("a new log has nothing, and the rank of its record") {
  const UpdateLog log(kValue, kVersion);
  CHECK(log.value() == kValue);
  CHECK(log.last() == 0);
  CHECK(log.rank() == kVersion);
  CHECK(log.reach() == kVersion);
  CHECK(log.empty());
  CHECK(log.bytes() == 0);
  std::string bytes;
  CHECK(log.image(bytes).settled.empty());
  CHECK(log.view(0, UINT64_MAX, bytes).unsettled.empty());
}

TEST_CASE("of what is settled the newest bytes of each place are kept") {
  LogTest t;
  t.add(kVersion + 1, 10, "aaaaaaaaaa");
  t.add(kVersion + 2, 13, "bbb");
  t.add(kVersion + 3, 5, "cccccc");
  CHECK(told(t.image().unsettled) == "10: aaaaaaaaaa @1, 13: bbb @2, 5: cccccc @3");
  CHECK(t.log.bytes() == 19);
  t.log.settle(kVersion + 1);
  CHECK(told(t.image().settled) == "10: aaaaaaaaaa @1");
  t.log.settle(kVersion + 2);
  CHECK(told(t.image().settled) == "10: aaa @1, 13: bbb @2, 16: aaaa @1");
  t.log.settle(kVersion + 3);
  CHECK(told(t.image().settled) == "5: cccccc @3, 11: aa @1, 13: bbb @2, 16: aaaa @1");
  CHECK(t.log.bytes() == 15);
  CHECK(t.pool.usage().live_bytes == 15);
  CHECK(t.pool.usage().merged_bytes == 4);
  CHECK(t.log.cost() == 15 + 4 * LogPool::kBesideBytes);
  const LogImage image = t.image();
  CHECK(std::ranges::all_of(image.settled, is_intact));
  t.log.settle(kVersion + 2);
  CHECK(t.log.settled_to() == kVersion + 3);
}

TEST_CASE("an older update that comes late lies under the newer ones") {
  LogTest t;
  t.add(kVersion + 2, 3, "bb");
  t.add(kVersion + 4, 7, "d");
  t.log.settle(kVersion + 4);
  t.add(kVersion + 3, 0, "cccccccccc");
  CHECK(told(t.image().settled) == "0: ccccccc @3, 7: d @4, 8: cc @3");
  CHECK(t.log.unsettled_count() == 0);
  CHECK(t.log.bytes() == 10);
  CHECK(t.pool.usage().live_bytes == 10);
  CHECK(t.log.find(id_of(kVersion + 3)) == kVersion + 3);
  t.add(kVersion + 1, 2, "aaaa");
  CHECK(told(t.image().settled) == "0: ccccccc @3, 7: d @4, 8: cc @3");
  CHECK(t.log.unsettled_count() == 0);
  CHECK(t.log.bytes() == 10);
  CHECK(t.pool.usage().merged_bytes == 2 + 1 + 4);
  CHECK(t.log.last() == kVersion + 4);
  CHECK(t.log.settled_to() == kVersion + 4);
  const LogImage image = t.image();
  for (const LogExtent& extent : image.settled) {
    CHECK(extent.id.is_zero());
    CHECK(is_intact(extent));
  }
}

TEST_CASE("what is folded goes, in the bytes of its segment only") {
  LogTest t;
  t.add(kVersion + 1, 5, "aaaaaaaaaa");
  t.add(kVersion + 2, 8, "bbbb");
  t.add(kVersion + 3, 0, "c");
  t.log.trim(0, 10, 0);
  CHECK(t.log.settled_to() == 0);
  t.log.trim(0, 10, kVersion + 1);
  CHECK(t.log.settled_to() == kVersion + 1);
  CHECK(told(t.image().settled) == "10: aaaaa @1");
  CHECK(told(t.image().unsettled) == "8: bbbb @2, 0: c @3");
  t.log.trim(10, 20, kVersion + 3);
  CHECK(told(t.image().settled) == "0: c @3, 8: bb @2");
  CHECK(t.log.last() == kVersion + 3);
  t.log.trim(0, 10, kVersion + 3);
  CHECK(t.log.empty());
  CHECK(t.pool.usage().live_bytes == 0);
  CHECK(t.log.find(id_of(kVersion + 2)) == kVersion + 2);
}

TEST_CASE("damage of an update stays damage of each of its parts") {
  LogTest t;
  const std::string bytes = "aaaaaaaaaa";
  t.log.add(name_of(kVersion + 1), 0, t.put(bytes), crc32c(as_view(bytes)) + 1);
  SECTION("whole") { t.log.settle(kVersion + 1); }
  SECTION("cut by a newer one") {
    t.add(kVersion + 2, 4, "b");
    t.log.settle(kVersion + 2);
  }
  SECTION("put under newer ones") {
    t.log = UpdateLog(kValue, kVersion);
    t.add(kVersion + 2, 4, "b");
    t.log.settle(kVersion + 2);
    t.log.add(name_of(kVersion + 1), 0, t.put(bytes), crc32c(as_view(bytes)) + 1);
    t.log.settle(kVersion + 2);
    CHECK(t.image().settled.size() == 3);
  }
  SECTION("cut twice") {
    t.add(kVersion + 2, 2, "b");
    t.add(kVersion + 3, 7, "c");
    t.log.settle(kVersion + 3);
  }
  SECTION("cut by a fold") {
    t.add(kVersion + 2, 20, "b");
    t.log.trim(0, 5, kVersion + 1);
    t.log.settle(kVersion + 2);
  }
  const LogImage image = t.image();
  CHECK_FALSE(image.settled.empty());
  for (const LogExtent& extent : image.settled) {
    INFO(extent.offset);
    CHECK(is_intact(extent) == (extent.lsn != kVersion + 1));
  }
}

TEST_CASE("an update that is known changes nothing") {
  LogTest t;
  t.add(kVersion + 1, 0, "a");
  t.log.add(name_of(kVersion + 1), 0, t.put("b"), crc32c(as_view("b")));
  t.log.add({id_of(kVersion + 1), kVersion + 5}, 0, t.put("b"), crc32c(as_view("b")));
  CHECK(told(t.image().unsettled) == "0: a @1");
  CHECK(t.log.last() == kVersion + 1);
  t.log.trim(0, 10, kVersion + 1);
  t.add(kVersion + 1, 0, "a");
  CHECK(t.log.empty());
}

TEST_CASE("a log remembers its newest updates, and up to where it does not") {
  LogTest t;
  const size_t count = kRecentUpdates + 10;
  for (uint64_t lsn = kVersion + 1; lsn <= kVersion + count; ++lsn) {
    t.add(lsn, 0, "a");
    t.log.settle(lsn);
    CHECK(t.log.bytes() == 1);
  }
  CHECK(t.log.reach() == kVersion + 10);
  CHECK(t.log.recent().size() == kRecentUpdates);
  CHECK(t.log.find(id_of(kVersion + 11)) == kVersion + 11);
  CHECK(t.log.find(id_of(kVersion + count)) == kVersion + count);
  CHECK_FALSE(t.log.find(id_of(kVersion + 10)));
  CHECK_FALSE(t.log.find({1, 1}));
}

TEST_CASE("logs that have forgotten all names are alike only up to the same number") {
  LogTest t;
  LogTest other;
  t.add(kVersion + 1, 0, "a");
  other.add(kVersion + 1, 0, "a");
  other.add(kVersion + 2, 1, "b");
  constexpr uint64_t kNext = kVersion + 10;  // of the record, which has the same value
  for (LogTest* log : {&t, &other}) {
    REQUIRE(log->log.forbid({1, 1}, {1, 1}));
    log->log.forget_forbidden(kNext);
    CHECK(log->log.recent().empty());
  }
  CHECK_FALSE(t.log.has_updates_of(other.image()));
  CHECK(other.log.has_updates_of(other.image()));
}

TEST_CASE("updates that come out of order are remembered in order") {
  LogTest t;
  for (const uint64_t lsn : std::vector<uint64_t>{3, 1, 5, 2}) t.add(kVersion + lsn, 0, "a");
  std::vector<uint64_t> order;
  for (const UpdateName& name : t.log.recent()) order.push_back(name.lsn - kVersion);
  CHECK(order == std::vector<uint64_t>{1, 2, 3, 5});
  CHECK(t.log.unsettled_below(kVersion + 3) ==
        std::vector<UpdateName>{name_of(kVersion + 1), name_of(kVersion + 2)});
  CHECK(t.log.last() == kVersion + 5);
  CHECK(t.log.rank() == kVersion + 5);
}

TEST_CASE("a view has what overlaps the range, and what is not settled up to the newest of that") {
  LogTest t;
  t.add(kVersion + 1, 0, "aaaa");
  t.add(kVersion + 2, 10, "bbbb");
  t.log.settle(kVersion + 2);
  t.add(kVersion + 3, 20, "c");
  t.add(kVersion + 4, 12, "d");
  t.add(kVersion + 5, 30, "e");
  const auto view = [&](uint64_t offset, uint64_t length) {
    const LogImage image = t.view(offset, length);
    CHECK(image.recent.empty());
    CHECK(image.last == kVersion + 5);
    CHECK(image.value == kValue);
    return told(image.settled) + " | " + told(image.unsettled);
  };
  CHECK(view(0, 4) == "0: aaaa @1 | ");
  CHECK(view(3, 1) == "0: aaaa @1 | ");
  CHECK(view(4, 6) == " | ");
  CHECK(view(4, 7) == "10: bbbb @2 | ");
  CHECK(view(13, 7) == "10: bbbb @2 | ");
  CHECK(view(13, 8) == "10: bbbb @2 | 20: c @3");
  CHECK(view(12, 1) == "10: bbbb @2 | 20: c @3, 12: d @4");
  CHECK(view(30, UINT64_MAX) == " | 20: c @3, 12: d @4, 30: e @5");
  CHECK(view(31, 100) == " | ");
}

TEST_CASE("a log is restored as a whole, or stays as it was") {
  LogTest t;
  t.add(kVersion + 1, 0, "aaaa");
  t.add(kVersion + 3, 2, "cc");
  t.log.settle(kVersion + 1);
  std::string encoded_image;
  encode(t.image(), encoded_image);
  const auto image = decode_log(as_view(encoded_image));
  REQUIRE(image);
  SECTION("what is not settled there is not settled here") {
    const uint64_t rank = GENERATE(uint64_t{0}, kVersion + 100);
    LogTest other;
    other.add(kVersion + 2, 50, "b");
    REQUIRE(other.log.restore(*image, rank, other.pool));
    CHECK(other.log.rank() == std::max(rank, kVersion + 3));
    CHECK(other.log.last() == kVersion + 3);
    CHECK(other.log.settled_to() == kVersion + 1);
    CHECK(other.log.reach() == kVersion);
    REQUIRE(other.log.unsettled_count() == 1);
    const LogImage restored = other.image();
    CHECK(told(restored.settled) == "0: aaaa @1");
    CHECK(told(restored.unsettled) == "2: cc @3");
    CHECK(restored.unsettled[0].id == id_of(kVersion + 3));
    CHECK(std::ranges::all_of(restored.settled, is_intact));
    CHECK(std::ranges::all_of(restored.unsettled, is_intact));
    CHECK(other.log.bytes() == 6);
    CHECK(other.pool.usage().live_bytes == 6);
    CHECK(other.log.find(id_of(kVersion + 3)) == kVersion + 3);
    CHECK_FALSE(other.log.find(id_of(kVersion + 2)));
    CHECK(other.log.has_updates_of(*image));
    CHECK_FALSE(UpdateLog(kValue, kVersion).has_updates_of(*image));
    other.log.settle(kVersion + 3);
    CHECK(told(other.image().settled) == "0: aa @1, 2: cc @3");
    CHECK(other.pool.usage().live_bytes == 4);
  }
  SECTION("without memory for it") {
    ArenaStore full({.limit_bytes = 0, .reserve_bytes = 0, .buckets = 16});
    LogPool none({.unit_bytes = 256, .units = 9}, full);
    LogTest other;
    other.add(kVersion + 2, 50, "b");
    CHECK_FALSE(other.log.restore(*image, kVersion + 100, none));
    CHECK(told(other.image().unsettled) == "50: b @2");
    CHECK(other.log.rank() == kVersion + 2);
  }
}

namespace {

// What a log should have, byte by byte.
class Model {
 public:
  static constexpr uint64_t kSize = 60;
  static constexpr uint64_t kSegment = 20;

  void add(uint64_t lsn, uint64_t offset, std::string bytes) {
    unsettled_[lsn] = {offset, std::move(bytes)};
    settle(settled_to_);
  }
  void settle(uint64_t lsn) {
    settled_to_ = std::max(settled_to_, lsn);
    while (!unsettled_.empty() && unsettled_.begin()->first <= lsn) {
      const auto& [number, update] = *unsettled_.begin();
      for (uint64_t i = 0; i < update.second.size(); ++i) {
        Byte& byte = bytes_[update.first + i];
        if (number > byte.lsn) byte = {number, update.second[i]};
      }
      unsettled_.erase(unsettled_.begin());
    }
  }
  void trim(uint64_t segment, uint64_t lsn) {
    settle(lsn);
    for (uint64_t i = segment * kSegment; i < (segment + 1) * kSegment; ++i) {
      if (bytes_[i].lsn <= lsn) bytes_[i] = {};
    }
  }

  void check(const LogImage& image) const {
    REQUIRE(image.settled_to == settled_to_);
    std::vector<Byte> seen(kSize);
    uint64_t end = 0;
    for (const LogExtent& extent : image.settled) {
      CHECK(extent.id.is_zero());
      REQUIRE(extent.offset >= end);
      REQUIRE(extent.end() <= kSize);
      REQUIRE(is_intact(extent));
      end = extent.end();
      for (uint64_t i = 0; i < extent.bytes.size(); ++i) {
        seen[extent.offset + i] = {extent.lsn, extent.bytes[i]};
      }
    }
    REQUIRE(seen == bytes_);
    REQUIRE(image.unsettled.size() == unsettled_.size());
    auto expected = unsettled_.begin();
    for (const LogExtent& extent : image.unsettled) {
      REQUIRE(extent.lsn == expected->first);
      REQUIRE(extent.id == id_of(extent.lsn));
      REQUIRE(extent.offset == expected->second.first);
      REQUIRE(extent.bytes == expected->second.second);
      REQUIRE(is_intact(extent));
      ++expected;
    }
  }
  // The same of a range, as a reader applies them.
  void check_view(const LogImage& view, uint64_t offset, uint64_t length) const {
    std::vector<Byte> seen(kSize);
    std::vector<Byte> wanted = bytes_;
    for (const LogExtent& extent : view.settled) {
      REQUIRE((extent.offset < offset + length && extent.end() > offset));
      put(extent, seen);
    }
    for (const LogExtent& extent : view.unsettled) put(extent, seen);
    for (const auto& [lsn, update] : unsettled_) {
      put({.id = {}, .lsn = lsn, .offset = update.first, .crc32c = 0, .bytes = update.second},
          wanted);
    }
    for (uint64_t i = offset; i < offset + length; ++i) REQUIRE(seen[i] == wanted[i]);
    // No more than has to be stored at the copies first.
    if (!view.unsettled.empty()) {
      const LogExtent& newest = view.unsettled.back();
      REQUIRE((newest.offset < offset + length && newest.end() > offset));
      REQUIRE(view.unsettled.size() ==
              static_cast<size_t>(
                  std::distance(unsettled_.begin(), unsettled_.upper_bound(newest.lsn))));
    }
  }
  size_t bytes() const {
    size_t count = static_cast<size_t>(
        std::ranges::count_if(bytes_, [](const Byte& byte) { return byte.lsn != 0; }));
    for (const auto& [lsn, update] : unsettled_) count += update.second.size();
    return count;
  }

 private:
  struct Byte {
    uint64_t lsn = 0;
    char byte = 0;
    friend bool operator==(const Byte&, const Byte&) = default;
  };
  static void put(const LogExtent& extent, std::vector<Byte>& bytes) {
    for (uint64_t i = 0; i < extent.bytes.size(); ++i) {
      Byte& byte = bytes[extent.offset + i];
      if (extent.lsn > byte.lsn) byte = {extent.lsn, extent.bytes[i]};
    }
  }

  std::vector<Byte> bytes_ = std::vector<Byte>(kSize);
  std::map<uint64_t, std::pair<uint64_t, std::string>> unsettled_;
  uint64_t settled_to_ = 0;
};

}  // namespace

TEST_CASE("whatever comes in whatever order, a log has the bytes that count") {
  const uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 100; ++round) {
    LogTest t;
    Model model;
    std::vector<uint64_t> held_back;  // numbers that are given, and come later
    uint64_t last = kVersion;
    uint64_t settled = kVersion;
    const auto add = [&](uint64_t lsn) {
      const uint64_t offset = below(Model::kSize);
      const std::string bytes(1 + below(std::min<uint64_t>(20, Model::kSize - offset)),
                              static_cast<char>('a' + lsn % 26));
      t.add(lsn, offset, bytes);
      model.add(lsn, offset, bytes);
    };
    for (int step = 0; step < 60; ++step) {
      switch (below(8)) {
        case 0:
          held_back.push_back(++last);
          break;
        case 1:
          if (held_back.empty()) break;
          add(held_back.front());
          held_back.erase(held_back.begin());
          break;
        case 2: {
          // Mostly all that is settled is here. What is not lies below the newer ones when it
          // comes.
          const uint64_t whole = held_back.empty() ? last : held_back.front() - 1;
          const uint64_t limit = below(4) == 0 ? last : std::max(whole, settled);
          settled += below(limit - settled + 1);
          t.log.settle(settled);
          model.settle(settled);
          break;
        }
        case 3: {
          const uint64_t segment = below(3);
          const uint64_t folded = kVersion + below(settled - kVersion + 1);
          t.log.trim(segment * Model::kSegment, (segment + 1) * Model::kSegment, folded);
          model.trim(segment, folded);
          break;
        }
        case 4: {
          if (below(4) != 0) break;
          std::string bytes;
          encode(t.image(), bytes);
          const auto image = decode_log(as_view(bytes));
          REQUIRE(image);
          UpdateLog restored(kValue, kVersion);
          REQUIRE(restored.restore(*image, 0, t.pool));
          REQUIRE(restored.last() == t.log.last());
          REQUIRE(restored.rank() == t.log.rank());
          t.log = std::move(restored);
          break;
        }
        default:
          add(++last);
      }
      const LogImage image = t.image();
      model.check(image);
      REQUIRE(t.log.bytes() == model.bytes());
      REQUIRE(t.log.unsettled_count() == image.unsettled.size());
      REQUIRE(t.log.cost() == t.log.bytes() + LogPool::kBesideBytes *
                                                  (image.settled.size() + image.unsettled.size()));
      const uint64_t offset = below(Model::kSize);
      const uint64_t length = 1 + below(Model::kSize - offset);
      model.check_view(t.view(offset, length), offset, length);
    }
    t.log = UpdateLog(kValue, kVersion);
    REQUIRE(t.pool.usage().live_bytes == 0);
  }
}

TEST_CASE("the few bytes that stay of what is overwritten all the time pin few units") {
  const bool compacts = GENERATE(true, false);
  ArenaStore store{{.view_max_bytes = 100}};
  LogPool pool{{.unit_bytes = 64 << 10, .units = 20}, store};
  UpdateLog hot(kValue, kVersion);
  UpdateLog slow(kValue, kVersion);
  uint64_t lsn = kVersion;
  const auto update = [&](UpdateLog& log, uint64_t offset, const std::string& bytes) {
    auto place = pool.append(as_view(bytes), LogPool::Claim::kAccepted);
    REQUIRE(place.has_value());
    log.add(name_of(++lsn), offset, std::move(*place), crc32c(as_view(bytes)));
    log.settle(lsn);
    if (compacts) log.compact(pool);
  };
  size_t most = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    update(hot, 0, std::string(4096, 'h'));
    if (i % 15 == 0) update(slow, i / 15 % 100 * 1024, std::string(1024, 's'));
    most = std::max(most, pool.usage().units);
  }
  CHECK(slow.bytes() == 100 * 1024);
  CHECK((most <= 20) == compacts);
  std::string bytes;
  const LogImage image = slow.image(bytes);
  CHECK(image.settled.size() == 100);
  CHECK(std::ranges::all_of(image.settled, is_intact));
}

}  // namespace elastripe::node::test
