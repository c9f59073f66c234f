// Shards that were made out of each other share a body: what each name stands for stays, whatever
// is patched and deleted around it.
#include <map>
#include <random>
#include <set>

#include "tests/unit/node/stored_shard.h"

namespace elastripe::node::test {
namespace {

ShardName name_of(uint64_t number) { return {{77, number}, 3, 0, 1}; }

std::string random_bytes(std::mt19937& random, size_t bytes) {
  std::string out(bytes, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

void write(TestNode& node, const ShardName& name, std::string_view bytes) {
  const ShardWriteRequest request{
      {.name = name, .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes.size())}};
  REQUIRE(status(node.send(Opcode::kShardWrite, encoded(request), bytes)) == "OK");
}
Reply read(TestNode& node, const ShardName& name, uint32_t offset = 0, uint32_t length = 0) {
  return node.send(Opcode::kShardRead, encoded(ShardReadRequest{name, offset, length}));
}
uint64_t deleted(TestNode& node, const ShardName& name) {
  const Reply reply = node.send(Opcode::kShardDelete, encoded(ShardDeleteRequest{{name}}));
  return decode<ShardDeleteReply>(as_view(reply.args))->deleted;
}

template <class Map>
auto any_of(Map& map, std::mt19937& random) {
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(random() % map.size()));
}

struct Patch {
  uint32_t offset = 0;
  std::string bytes;
};
Reply patch(TestNode& node, const ShardName& from, const ShardName& to, size_t shard_bytes,
            const std::vector<Patch>& patches) {
  ShardPatchRequest request{
      from,
      {.name = to, .key = "owner", .payload_bytes = static_cast<uint32_t>(shard_bytes)},
      ShardPatchMode::kWrite,
      {}};
  std::string payload;
  for (const Patch& one : patches) {
    const auto length = static_cast<uint32_t>(one.bytes.size());
    request.extents.push_back({one.offset, length, crc32c(as_view(one.bytes))});
    payload += one.bytes;
  }
  return node.send(Opcode::kShardPatch, encoded(request), payload);
}

std::vector<Patch> random_patches(std::mt19937& random, size_t bytes) {
  std::vector<Patch> patches;
  for (size_t at = random() % bytes; at < bytes;) {
    const size_t length = std::min<size_t>(1 + random() % 6000, bytes - at);
    patches.push_back({static_cast<uint32_t>(at), random_bytes(random, length)});
    at += length + random() % 9000;
  }
  return patches;
}
void lay_over(std::string& bytes, const std::vector<Patch>& patches) {
  for (const Patch& one : patches) bytes.replace(one.offset, one.bytes.size(), one.bytes);
}

uint64_t used(TestNode& node) { return node.store.memory().used_bytes; }

// A second version of a shard, whose bytes are in a body from then on.
std::string start_body(TestNode& node, size_t bytes) {
  std::string now(bytes, 'o');
  write(node, name_of(0), now);
  REQUIRE(status(patch(node, name_of(0), name_of(1), bytes, {{0, "1"}})) == "OK");
  now[0] = '1';
  return now;
}

}  // namespace

TEST_CASE("a shard that was made by a patch is patched in place") {
  constexpr size_t kBytes = 100'000;
  TestNode node({1, 2, 3});
  start_body(node, kBytes);
  CHECK(deleted(node, name_of(0)) == 1);
  const uint64_t before = used(node);
  REQUIRE(status(patch(node, name_of(1), name_of(2), kBytes, {{50'000, "2"}})) == "OK");
  // The page that has changed, and a name.
  CHECK(used(node) - before < 2 * kPageBytes);
  CHECK(payload_of(read(node, name_of(1), 50'000, 1)) == "o");
  CHECK(payload_of(read(node, name_of(2), 50'000, 1)) == "2");
  CHECK(deleted(node, name_of(1)) == 1);
  CHECK(used(node) == before);
  CHECK(status(read(node, name_of(1))) == "NOT_HERE");
  CHECK(payload_of(read(node, name_of(2), 49'999, 3)) == "o2o");
}

TEST_CASE("each name keeps its bytes, whatever is patched, deleted and sent again") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const size_t bytes : {1u, 4096u, 9000u, 40'000u}) {
    TestNode node({1, 2, 3});
    const uint64_t empty = used(node);
    std::map<uint64_t, std::string> shards;
    struct Sent {
      uint64_t from = 0;
      uint64_t to = 0;
      std::vector<Patch> patches;
    } last;
    for (uint64_t next = 0; next < 400; ++next) {
      if (shards.empty()) {
        shards[next] = random_bytes(random, bytes);
        write(node, name_of(next), shards[next]);
      } else if (random() % 2 == 0) {
        last = {random() % 3 == 0 ? any_of(shards, random)->first : shards.rbegin()->first, next,
                random_patches(random, bytes)};
        REQUIRE(status(patch(node, name_of(last.from), name_of(next), bytes, last.patches)) ==
                "OK");
        shards[next] = shards[last.from];
        lay_over(shards[next], last.patches);
      } else if (random() % 8 == 0 && shards.contains(last.from) && shards.contains(last.to)) {
        REQUIRE(status(patch(node, name_of(last.from), name_of(last.to), bytes, last.patches)) ==
                "OK");
      } else if (shards.size() > 1 + random() % 6) {
        const uint64_t gone =
            random() % 4 == 0 ? any_of(shards, random)->first : shards.begin()->first;
        REQUIRE(deleted(node, name_of(gone)) == 1);
        REQUIRE(deleted(node, name_of(gone)) == 0);
        shards.erase(gone);
      }
      for (const auto& [number, expected] : shards) {
        CAPTURE(next, number);
        const auto offset = static_cast<uint32_t>(random() % bytes);
        const auto length = static_cast<uint32_t>(1 + random() % (bytes - offset));
        REQUIRE(payload_of(read(node, name_of(number), offset, length)) ==
                expected.substr(offset, length));
        REQUIRE(payload_of(read(node, name_of(number))) == expected);
      }
      REQUIRE(node.stat("shards") == shards.size());
    }
    ShardConfirmRequest confirm;
    confirm.check_pages = true;
    for (const auto& [number, _] : shards) confirm.names.push_back(name_of(number));
    const Reply confirmed = node.send(Opcode::kShardConfirm, encoded(confirm));
    const auto told = decode<ShardConfirmReply>(as_view(confirmed.args));
    REQUIRE(told);
    REQUIRE(told->entries.size() == shards.size());
    for (size_t i = 0; const auto& [_, expected] : shards) {
      REQUIRE(told->entries[i].present);
      REQUIRE(told->entries[i++].crc32c == crc32c(as_view(expected)));
    }
    while (!shards.empty()) {
      const auto gone = any_of(shards, random);
      REQUIRE(deleted(node, name_of(gone->first)) == 1);
      shards.erase(gone);
    }
    CHECK(used(node) == empty);
    CHECK(node.stat("shard_bytes") == 0);
    CHECK(node.stat("bad_pages") == 0);
  }
}

namespace {

// All that few steps can do to a shard and three that are made of it, or of each other: each order
// of them on a node of its own.
class EveryOrder {
 public:
  explicit EveryOrder(size_t most_steps) : most_steps_(most_steps) { go_on(); }
  size_t orders() const { return orders_; }

 private:
  static constexpr uint64_t kNames = 4;
  static constexpr size_t kBytes = 3 * kPageBytes;
  struct Step {
    uint64_t from = 0;
    uint64_t to = 0;  // the same: `from` is deleted
  };

  // What name `n` stands for, however it came to be: n pages are marked.
  static std::string bytes_of(uint64_t n) {
    std::string bytes(kBytes, 'o');
    bytes[1] = static_cast<char>('0' + n);
    for (size_t page = 0; page < n; ++page) bytes[page * kPageBytes + 7] = 'x';
    return bytes;
  }
  static std::vector<Patch> patches_of(const Step& step) {
    const std::string to = bytes_of(step.to);
    std::vector<Patch> patches{{1, to.substr(1, 1)}};
    for (size_t page = 0; page < kBytes / kPageBytes; ++page) {
      const size_t at = page * kPageBytes + 7;
      if (bytes_of(step.from)[at] == to[at]) continue;
      patches.push_back({static_cast<uint32_t>(at), to.substr(at, 1)});
    }
    return patches;
  }

  void take(TestNode& node, const Step& step, std::set<uint64_t>& there) {
    const bool is_there = there.contains(step.from);
    if (step.from == step.to) {
      REQUIRE(deleted(node, name_of(step.from)) == (is_there ? 1 : 0));
      there.erase(step.from);
    } else {
      const Reply reply =
          patch(node, name_of(step.from), name_of(step.to), kBytes, patches_of(step));
      REQUIRE(status(reply) == (is_there ? "OK" : "NOT_HERE"));
      if (is_there) there.insert(step.to);
    }
  }

  // Takes all steps from the beginning, compares, and goes on with each next one.
  void go_on() {
    TestNode node({1, 2, 3});
    const uint64_t empty = used(node);
    write(node, name_of(0), bytes_of(0));
    std::set<uint64_t> there{0};
    bool is_refused = false;
    for (const Step& step : steps_) {
      is_refused = !there.contains(step.from);
      take(node, step, there);
    }
    ++orders_;
    for (uint64_t n = 0; n < kNames; ++n) {
      const Reply reply = read(node, name_of(n));
      REQUIRE(status(reply) == (there.contains(n) ? "OK" : "NOT_HERE"));
      if (there.contains(n)) REQUIRE(payload_of(reply) == bytes_of(n));
    }
    REQUIRE(node.stat("shards") == there.size());
    for (const uint64_t n : there) REQUIRE(deleted(node, name_of(n)) == 1);
    REQUIRE(used(node) == empty);
    if (steps_.size() == most_steps_ || is_refused) return;  // that leads nowhere
    for (uint64_t from = 0; from < kNames; ++from) {
      for (uint64_t to = 0; to < kNames; ++to) {
        steps_.push_back({from, to});
        go_on();
        steps_.pop_back();
      }
    }
  }

  const size_t most_steps_;
  std::vector<Step> steps_;
  size_t orders_ = 0;
};

}  // namespace

TEST_CASE("each name keeps its bytes in every order of a few patches and deletions") {
  const EveryOrder every(5);
  CHECK(every.orders() > 40'000);
}

TEST_CASE("a body that is being read is copied") {
  constexpr size_t kBytes = 10'000;
  TestNode node;
  const std::string old = start_body(node, kBytes);
  {
    const StoredShard shard = stored_shard(node, name_of(1));
    const ItemRef& reader = shard.item;
    OwnedBytes before(node.store.value_bytes(reader));
    node.store.read(reader, 0, before.bytes());
    REQUIRE(status(patch(node, name_of(1), name_of(2), kBytes, {{5000, "2"}})) == "OK");
    OwnedBytes after(before.size());
    node.store.read(reader, 0, after.bytes());
    CHECK(std::ranges::equal(after.bytes(), before.bytes()));
  }
  CHECK(payload_of(read(node, name_of(1))) == old);
  CHECK(payload_of(read(node, name_of(2), 4999, 3)) == "o2o");
}

TEST_CASE("a bad page of a body is told where it is touched, and lasts where it is not") {
  constexpr size_t kBytes = 3 * kPageBytes;
  TestNode node;
  start_body(node, kBytes);
  damage(node, name_of(1), kBytes - 1);
  CHECK(status(patch(node, name_of(1), name_of(2), kBytes, {{kBytes - 5, "x"}})) == "BAD_PAGE");
  CHECK(status(read(node, name_of(2))) == "NOT_HERE");
  REQUIRE(status(patch(node, name_of(1), name_of(2), kBytes, {{5, "x"}})) == "OK");
  CHECK(payload_of(read(node, name_of(2), 4, 3)) == "oxo");
  CHECK(status(read(node, name_of(2), 2 * kPageBytes)) == "BAD_PAGE");
  CHECK(status(read(node, name_of(1), 2 * kPageBytes)) == "BAD_PAGE");
}

TEST_CASE("a name whose place has gone bad finds no other body's bytes") {
  TestNode node;
  start_body(node, 5000);
  write(node, name_of(10), std::string(5000, 'x'));
  REQUIRE(status(patch(node, name_of(10), name_of(11), 5000, {{0, "y"}})) == "OK");
  {
    const ItemRef item = node.store.find(shard_item_key(name_of(11)));
    const size_t end = node.store.value_bytes(item);
    for (size_t at = end - 20; at < end; ++at) {
      std::byte byte;
      node.store.read(item, at, {&byte, 1});
      for (int bit = 0; bit < 8; ++bit) {
        const std::byte flipped = byte ^ std::byte(1u << bit);
        node.store.write(item, at, {&flipped, 1});
        REQUIRE(status(read(node, name_of(11))) == "NOT_HERE");
      }
      node.store.write(item, at, {&byte, 1});
    }
  }
  CHECK(payload_of(read(node, name_of(11), 0, 2)) == "yx");
}

TEST_CASE("a patch in place without room changes nothing") {
  constexpr size_t kBytes = 20'000;
  TestNode node;
  const std::string old = start_body(node, kBytes);
  // The undo, then the name.
  for (const char tag : {'\x04', kShardTag}) {
    node.hooked.has_room = [&](std::string_view key) { return key.front() != tag; };
    CHECK(status(patch(node, name_of(1), name_of(2), kBytes, {{5000, "2"}})) == "NO_SPACE");
    CHECK(status(read(node, name_of(2))) == "NOT_HERE");
    CHECK(payload_of(read(node, name_of(1))) == old);
    CHECK(node.stat("shards") == 2);
  }
  node.hooked.has_room = nullptr;
  REQUIRE(status(patch(node, name_of(1), name_of(2), kBytes, {{5000, "2"}})) == "OK");
  CHECK(payload_of(read(node, name_of(1))) == old);
  CHECK(payload_of(read(node, name_of(2), 4999, 3)) == "o2o");
}

TEST_CASE("a full node patches in place what it has") {
  constexpr size_t kBytes = 20'000;
  TestNode node({1, 2, 0}, {.limit_bytes = 96u << 10, .reserve_bytes = 32u << 10});
  start_body(node, kBytes);
  uint64_t more = 100;
  const auto fill = [&](size_t bytes) {
    const ShardWriteRequest request{
        {.name = name_of(++more), .key = "owner", .payload_bytes = static_cast<uint32_t>(bytes)}};
    return status(node.send(Opcode::kShardWrite, encoded(request), std::string(bytes, 'f')));
  };
  while (fill(1000) == "OK") {
  }
  CHECK(fill(kBytes) == "NO_SPACE");
  CHECK(status(patch(node, name_of(1), name_of(2), kBytes, {{5000, "2"}})) == "OK");
  CHECK(status(patch(node, name_of(0), name_of(3), kBytes, {{5000, "2"}})) == "NO_SPACE");
}

}  // namespace elastripe::node::test
