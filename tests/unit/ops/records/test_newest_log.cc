// Which log sync takes to all homes.
#include <catch2/catch.hpp>
#include <string>

#include "proxy/ops/records/newest_log.h"

using namespace elastripe;
using namespace elastripe::records;

namespace {

constexpr uint64_t kValue = 100;

node::Record record() {
  node::Record record;
  record.meta.value_version = kValue;
  record.meta.version = kValue + 5;
  return record;
}

struct Shape {
  uint64_t last = 0;
  int unnumbered = 0;
  uint64_t value = kValue;
};

LogViewPtr log_of(const Shape& shape) {
  static const std::string bytes = "u";
  node::LogImage image;
  image.value = shape.value;
  image.last = image.rank = shape.last;
  for (int i = 0; i < shape.unnumbered; ++i) {
    node::LogExtent extent;
    extent.id = {7, static_cast<uint64_t>(i) + 1};
    extent.bytes = bytes;
    image.unnumbered.push_back(extent);
  }
  auto view = std::make_shared<LogView>();
  node::encode(image, view->encoded);
  auto decoded = node::decode_log(node::as_view(view->encoded));
  REQUIRE(decoded);
  view->image = *decoded;
  return view;
}

ToldLog told(uint32_t synced_in, const Shape& shape) {
  return {shape.value, synced_in, log_of(shape)};
}

LogViewPtr newest_of(const std::vector<ToldLog>& logs, LogCopies copies = LogCopies::kAll) {
  return newest_log(record(), logs, copies);
}

}  // namespace

TEST_CASE("while some can not tell when they were synced, all count the same") {
  node::ClusterMap map;
  map.capabilities = node::own_capabilities();
  auto newest = std::make_shared<node::Record>(record());
  const auto told_by = [&](uint32_t synced_in, const Shape& shape) {
    RecordReply reply;
    reply.record = newest;
    reply.synced_in = synced_in;
    reply.log = log_of(shape);
    return told_log(map, reply);
  };
  const auto last = [&] { return newest_of({told_by(0, {8}), told_by(5, {6})})->image.last; };
  CHECK(last() == 6);
  map.capabilities = {};
  CHECK(last() == 8);
}

TEST_CASE("where nobody has a log there is none") {
  CHECK(newest_of({}) == nullptr);
  CHECK(newest_of({{kValue, 3, nullptr}, {kValue, 4, nullptr}}) == nullptr);
}

TEST_CASE("of logs of one sync that with the last number counts, and then that which has more") {
  const auto newest = newest_of(
      {told(3, {.last = 120}), told(3, {.last = 130}), told(3, {.last = 130, .unnumbered = 1})});
  REQUIRE(newest != nullptr);
  CHECK(newest->image.last == 130);
  CHECK(newest->image.unnumbered.size() == 1);
}

TEST_CASE("a log of another value counts for nothing, nor does the sync of who has that value") {
  const auto newest =
      newest_of({told(9, {.last = 500, .value = kValue - 50}), told(3, {.last = 120})});
  REQUIRE(newest != nullptr);
  CHECK(newest->image.last == 120);
}

TEST_CASE("who has missed a sync has updates that count no more") {
  const auto newest = newest_of({told(3, {.last = 150, .unnumbered = 2}), told(4, {.last = 140})});
  REQUIRE(newest != nullptr);
  CHECK(newest->image.last == 140);
  CHECK(newest->image.unnumbered.empty());
}

// The others have folded all they had: an empty log, not none, which would leave what a home has.
TEST_CASE("where all who did not miss the sync have no log an empty one counts") {
  const auto newest = newest_of({told(3, {.last = 104, .unnumbered = 1}), {kValue, 4, nullptr}});
  REQUIRE(newest != nullptr);
  CHECK(newest->image.value == kValue);
  CHECK(newest->image.last == 0);
  CHECK(newest->image.reach == kValue + 5);
  CHECK(newest->image.unnumbered.empty());
}

TEST_CASE("with two copies what has a number counts though its home has missed a sync") {
  const std::vector<ToldLog> logs{told(3, {.last = 150, .unnumbered = 1}), told(4, {.last = 140})};
  const auto newest = newest_of(logs, LogCopies::kTwo);
  REQUIRE(newest != nullptr);
  CHECK(newest->image.last == 150);
  CHECK(newest->image.unnumbered.empty());
  const auto decoded = node::decode_log(node::as_view(newest->encoded));
  REQUIRE(decoded);
  CHECK(decoded->unnumbered.empty());
}
