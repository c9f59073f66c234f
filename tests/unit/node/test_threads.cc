// Many threads on one engine (run it under TSan too).
#include <array>
#include <set>
#include <thread>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {
namespace {

constexpr int kThreads = 4;

// A frame made by hand: TestNode::send() counts and asserts, which Catch2 does not allow in
// threads; nor may they use args_of() and the like.
Reply send(TestNode& node, const Epoch& epoch, Opcode opcode, const std::string& args,
           const std::string& payload = {}) {
  Frame frame;
  frame.header.opcode = opcode;
  frame.header.args_bytes = static_cast<uint32_t>(args.size());
  frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
  frame.header.cluster_id = kClusterId;
  frame.header.epoch = epoch;
  frame.header.incarnation = is_control(opcode) ? 0 : kOwnIncarnation;
  frame.header.now_ms = kNowMs;
  frame.args = as_view(args);
  frame.payload = as_view(payload);
  return node.engine.serve(frame);
}

std::string apply_args(const std::string& key, Mutation mutation, uint64_t attempt) {
  RecordApplyRequest request;
  request.m = 2;
  request.attempt_id = {3, attempt};
  request.base_version = UINT64_MAX;
  request.mutation = mutation;
  request.delta = 1;
  request.key = key;
  return encoded(request);
}

void run_threads(const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&body, t] { body(t); });
}

}  // namespace

TEST_CASE("increments of one key by many threads all count") {
  TestNode node;
  node.set("key", "0");
  constexpr int kEach = 1000;
  std::atomic<int> failed = 0;
  run_threads([&](int t) {
    for (int i = 0; i < kEach; ++i) {
      const auto attempt = static_cast<uint64_t>(t * kEach + i + 1);
      const Reply reply = send(node, node.map.epoch, Opcode::kRecordApply,
                               apply_args("key", Mutation::kIncrement, attempt));
      if (reply.header.status != Status::kOk) ++failed;
    }
  });
  REQUIRE(failed == 0);
  const Record record = record_of(node.read("key"));
  REQUIRE(record.content.value == std::to_string(kThreads * kEach));
  REQUIRE(record.meta.version == next_block(1ull << kCounterBits) + kThreads * kEach);
}

TEST_CASE("readers never see half a record while it is replaced") {
  TestNode node;
  node.set("key", std::string(3000, 'a'));
  std::atomic<int> torn = 0, reads = 0;
  run_threads([&](int t) {
    for (int i = 0; i < 500; ++i) {
      if (t < 2) {
        const char fill = static_cast<char>('a' + i % 26);
        send(node, node.map.epoch, Opcode::kRecordApply,
             apply_args("key", Mutation::kSet, static_cast<uint64_t>(t * 1000 + i + 1)),
             encoded(inline_content(std::string(3000, fill))));
        continue;
      }
      const Reply reply = send(node, node.map.epoch, Opcode::kRecordRead,
                               encoded(RecordReadRequest{.role = Role::kAny, .key = "key"}));
      const auto record = decode_record(reply.payload.bytes());
      ++reads;
      const bool whole = record && record->content.value.find_first_not_of(
                                       record->content.value[0]) == std::string::npos;
      if (!whole) ++torn;
    }
  });
  REQUIRE(reads == 1000);
  REQUIRE(torn == 0);
}

TEST_CASE("readers never see half a change of a shard in place, and every change counts") {
  TestNode node;
  constexpr uint32_t kBytes = 3 * kPageBytes - 100;
  const ShardName data{{7, 8}, 0, 0, 0};
  const ShardName parity{{7, 8}, 0, 0, 2};
  for (const ShardName& name : {data, parity}) {
    const ShardWriteRequest request{{.name = name, .key = "key", .payload_bytes = kBytes}};
    send(node, node.map.epoch, Opcode::kShardWrite, encoded(request), std::string(kBytes, '\0'));
  }
  const auto update = [&](const ShardName& name, ShardUpdateMode mode, const std::string& bytes) {
    const ShardUpdateRequest request{
        name, mode, 0, {{10, static_cast<uint32_t>(bytes.size()), crc32c(as_view(bytes))}}, {}};
    return send(node, node.map.epoch, Opcode::kShardUpdate, encoded(request), bytes);
  };
  const auto read = [&](const ShardName& name) {
    return send(node, node.map.epoch, Opcode::kShardRead, encoded(ShardReadRequest{name, 10, 0}));
  };
  std::atomic<int> failed = 0, torn = 0;
  run_threads([&](int t) {
    for (int i = 0; i < 500; ++i) {
      if (t < 2) {
        const std::string bytes(kBytes - 10, static_cast<char>('a' + (i * 2 + t) % 26));
        const Reply swapped = update(data, ShardUpdateMode::kSwap, bytes);
        if (swapped.header.status != Status::kOk) ++failed;
        const auto mode = i % 2 == 0 ? ShardUpdateMode::kAdd : ShardUpdateMode::kLog;
        if (update(parity, mode, payload_of(swapped)).header.status != Status::kOk) ++failed;
        continue;
      }
      const Reply reply = read(t == 2 ? data : parity);
      if (reply.header.status != Status::kOk) ++failed;
      const std::string bytes = payload_of(reply);
      if (bytes.find_first_not_of(bytes[0]) != std::string::npos) ++torn;
      if (t == 3) node.engine.tick();
      send(node, node.map.epoch, Opcode::kShardScan, encoded(ShardScanRequest{0, 10, 0, {}}));
    }
  });
  CHECK(failed == 0);
  CHECK(torn == 0);
  CHECK(payload_of(read(parity)) == payload_of(read(data)));
}

TEST_CASE("updates of one log have a number each, and none is seen in half") {
  LogNode node(kAsTail);
  constexpr uint64_t kEach = 500;
  constexpr size_t kBytes = 40;
  std::atomic<int> failed = 0, torn = 0;
  std::atomic<uint64_t> last = node.version;
  std::array<std::vector<uint64_t>, 2> lsns;
  const auto settle = [&] {
    const LogSettleRequest request{{{"key", node.version, last.load()}}};
    send(node, node.map.epoch, Opcode::kLogSettle, encoded(request));
  };
  const auto append = [&](size_t t, uint64_t i) {
    const std::string bytes(kBytes, static_cast<char>('a' + i % 26));
    LogAppendRequest request{.m = 2,
                             .id = {t + 1, i + 1},
                             .value = node.version,
                             .known = node.version + (1 << 20),
                             .offset = 80 + i % 30,
                             .crc32c = crc32c(as_view(bytes)),
                             .key = "key"};
    const Reply reply = send(node, node.map.epoch, Opcode::kLogAppend, encoded(request), bytes);
    if (reply.header.status == Status::kOk) {
      const uint64_t lsn = decode<LogAppendReply>(as_view(reply.args))->lsn;
      lsns[t].push_back(lsn);
      for (uint64_t seen = last; seen < lsn && !last.compare_exchange_weak(seen, lsn);) {
      }
      return true;
    }
    if (reply.header.status != Status::kLogFull) ++failed;
    settle();
    return false;
  };
  run_threads([&](int t) {
    for (uint64_t i = 0; i < kEach; ++i) {
      if (t < 2) {
        while (!append(static_cast<size_t>(t), i) && failed == 0) {
        }
        continue;
      }
      const RecordReadRequest read{
          .role = Role::kAny, .m = 2, .key = "key", .log = LogWanted::kImage};
      const Reply reply = send(node, node.map.epoch, Opcode::kRecordRead, encoded(read));
      const auto told = decode<RecordReadReply>(as_view(reply.args));
      if (told && told->log.empty()) continue;
      const auto image = decode_log(as_view(told ? told->log : std::string_view()));
      if (!image) {
        ++failed;
        continue;
      }
      const auto is_whole = [](const LogExtent& extent) {
        return crc32c(as_view(extent.bytes)) == extent.crc32c &&
               extent.bytes.find_first_not_of(extent.bytes[0]) == std::string_view::npos;
      };
      if (!std::ranges::all_of(image->settled, is_whole)) ++torn;
      if (!std::ranges::all_of(image->unsettled, is_whole)) ++torn;
      if (t == 2) settle();
      if (t == 3) node.engine.tick();
      send(node, node.map.epoch, Opcode::kLogScan, encoded(LogScanRequest{.max_entries = 10}));
    }
  });
  CHECK(failed == 0);
  CHECK(torn == 0);
  std::set<uint64_t> all(lsns[0].begin(), lsns[0].end());
  all.insert(lsns[1].begin(), lsns[1].end());
  CHECK(all.size() == 2 * kEach);
  CHECK(*all.rbegin() - *all.begin() == 2 * kEach - 1);
  CHECK(node.image().last == *all.rbegin());
}

TEST_CASE("what several keep and others flush comes to what has changed") {
  TestNode node;
  constexpr uint32_t kBytes = 5 * kPageBytes;
  const ShardName data{{7, 8}, 0, 0, 0};
  const ShardName parity{{7, 8}, 0, 0, 2};
  for (const ShardName& name : {data, parity}) {
    const ShardWriteRequest request{{.name = name, .key = "key", .payload_bytes = kBytes}};
    send(node, node.map.epoch, Opcode::kShardWrite, encoded(request), std::string(kBytes, '\0'));
  }
  const auto update = [&](const ShardUpdateRequest& request, const std::string& bytes) {
    return send(node, node.map.epoch, Opcode::kShardUpdate, encoded(request), bytes);
  };
  std::atomic<int> failed = 0;
  const auto flush = [&](uint32_t left_bytes) {
    const Reply flushed = update({data, ShardUpdateMode::kFlush, left_bytes, {}, {}}, {});
    const auto told = decode<ShardUpdateReply>(as_view(flushed.args));
    if (!told) {
      ++failed;
      return;
    }
    ShardUpdateRequest adds{parity, ShardUpdateMode::kAdd, 0, {}, {}};
    const std::string changes = payload_of(flushed);
    size_t at = 0;
    for (const auto& range : told->ranges) {
      adds.extents.push_back(
          {range.offset, range.length, crc32c(as_view(changes).subspan(at, range.length))});
      at += range.length;
    }
    if (update(adds, changes).header.status != Status::kOk) ++failed;
  };
  run_threads([&](int t) {
    for (uint32_t i = 0; i < 500; ++i) {
      const std::string bytes(kPageBytes + 10,
                              static_cast<char>('a' + (static_cast<int>(i) + t) % 26));
      const ShardUpdateRequest keep{data,
                                    ShardUpdateMode::kKeep,
                                    4 * kPageBytes,
                                    {{i * 37 % (kBytes - kPageBytes - 10),
                                      static_cast<uint32_t>(bytes.size()), crc32c(as_view(bytes))}},
                                    {}};
      const Status kept = update(keep, bytes).header.status;
      if (kept == Status::kLogFull) {
        flush(t % 2 == 0 ? 0 : kPageBytes);
      } else if (kept != Status::kOk) {
        ++failed;
      }
    }
  });
  flush(0);
  CHECK(failed == 0);
  const auto read = [&](const ShardName& name) {
    return payload_of(
        send(node, node.map.epoch, Opcode::kShardRead, encoded(ShardReadRequest{name, 0, 0})));
  };
  CHECK(read(parity) == read(data));
}

TEST_CASE("once a map is installed no frame of the epoch before takes effect") {
  TestNode node;
  node.set("key", "0");
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> attempts = 100;
  const Epoch old_epoch = node.map.epoch;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        send(node, old_epoch, Opcode::kRecordApply,
             apply_args("key", Mutation::kIncrement, ++attempts));
        send(node, old_epoch, Opcode::kHeartbeat, encoded(HeartbeatRequest{5000, 3000}));
        node.engine.statistics();
      }
    });
  }
  while (node.stat("frames_RECORD_APPLY") < 200) std::this_thread::yield();
  ClusterMap next = make_map(2, {1, 2, 0});
  seal(next);
  const Reply installed = send(node, old_epoch, Opcode::kInstallMap, {}, encoded(next));
  const std::string args = encoded(HeartbeatRequest{5000, 3000});
  const Reply granted = send(node, next.epoch, Opcode::kHeartbeat, args);
  const std::string read_args = encoded(RecordReadRequest{.role = Role::kAny, .key = "key"});
  const Reply first = send(node, next.epoch, Opcode::kRecordRead, read_args);
  const uint64_t applied = node.stat("frames_RECORD_APPLY");
  while (node.stat("frames_RECORD_APPLY") < applied + 200) std::this_thread::yield();
  const Reply second = send(node, next.epoch, Opcode::kRecordRead, read_args);
  stop = true;
  threads.clear();
  REQUIRE(status(installed) == "OK");
  REQUIRE(status(granted) == "OK");
  REQUIRE(status(first) == "OK");
  REQUIRE(payload_of(first) == payload_of(second));
}

TEST_CASE("writes, deletes, scans, marks and ticks run beside each other") {
  TestNode node({1, 2, 0}, {.buckets = 3000});
  std::atomic<int> wrong = 0;
  run_threads([&](int t) {
    for (uint64_t i = 0; i < 300; ++i) {
      const std::string key = "key" + std::to_string(i % 40);
      const ShardName name{{static_cast<uint64_t>(t), i % 20}, 0, 0, 0};
      const ShardHeader header{.name = name, .key = key, .payload_bytes = 5000};
      send(node, node.map.epoch, Opcode::kRecordApply,
           apply_args(key, i % 3 == 0 ? Mutation::kFence : Mutation::kDelete,
                      static_cast<uint64_t>(t) * 1000 + i + 1));
      send(node, node.map.epoch, Opcode::kShardWrite, encoded(ShardWriteRequest{header}),
           std::string(5000, 'x'));
      const Reply read =
          send(node, node.map.epoch, Opcode::kShardRead, encoded(ShardReadRequest{name, 0, 0}));
      if (read.payload.size() != 5000) ++wrong;
      send(node, node.map.epoch, Opcode::kShardDelete, encoded(ShardDeleteRequest{{name}}));
      send(node, node.map.epoch, Opcode::kMarkSynced,
           encoded(MarkSyncedRequest{node.partition(key), key, 0}));
      if (i % 10 == 0) {
        send(node, node.map.epoch, Opcode::kRecordScan,
             encoded(RecordScanRequest{.max_bytes = 1000, .partitions = {0xff, 0xff}}));
        send(node, node.map.epoch, Opcode::kShardScan, encoded(ShardScanRequest{0, 100, 0}));
      }
      if (t == 0) node.engine.tick();
    }
  });
  REQUIRE(wrong == 0);
  REQUIRE(node.stat("shards") == 0);
  REQUIRE(node.stat("shard_bytes") == 0);
  REQUIRE(node.stat("records") == 40);
}

TEST_CASE("readers of shards see whole versions while these are patched and deleted") {
  TestNode node;
  constexpr size_t kBytes = 9000;
  const auto name = [](uint64_t version) { return ShardName{{5, version}, 0, 0, 0}; };
  const auto header = [&](uint64_t version) {
    return ShardHeader{.name = name(version), .key = "key", .payload_bytes = kBytes};
  };
  const auto bytes = [](uint64_t version) {
    return std::string(kBytes, static_cast<char>('a' + version % 26));
  };
  send(node, node.map.epoch, Opcode::kShardWrite, encoded(ShardWriteRequest{header(0)}), bytes(0));
  std::atomic<uint64_t> newest = 0;
  std::atomic<bool> is_done = false;
  std::atomic<int> wrong = 0, reads = 0;
  run_threads([&](int t) {
    if (t == 0) {
      for (uint64_t version = 1; version <= 500 || reads < 500; ++version) {
        const ShardPatchRequest request{name(version - 1),
                                        header(version),
                                        ShardPatchMode::kWrite,
                                        {{0, kBytes, crc32c(as_view(bytes(version)))}}};
        const Reply patched =
            send(node, node.map.epoch, Opcode::kShardPatch, encoded(request), bytes(version));
        if (patched.header.status != Status::kOk) ++wrong;
        newest = version;
        if (version < 5) continue;
        send(node, node.map.epoch, Opcode::kShardDelete,
             encoded(ShardDeleteRequest{{name(version - 5)}}));
      }
      is_done = true;
      return;
    }
    for (uint64_t i = 0; !is_done; ++i) {
      const uint64_t version = newest - std::min<uint64_t>(newest, i % 3);
      const Reply read = send(node, node.map.epoch, Opcode::kShardRead,
                              encoded(ShardReadRequest{name(version), 0, 0}));
      if (read.header.status == Status::kNotHere) continue;  // deleted meanwhile
      ++reads;
      if (as_text(read.payload.bytes()) != bytes(version)) ++wrong;
      if (i % 10 == 0) {
        send(node, node.map.epoch, Opcode::kShardScan, encoded(ShardScanRequest{0, 100, 0}));
      }
    }
  });
  REQUIRE(wrong == 0);
  REQUIRE(node.stat("shards") == 5);
}

}  // namespace elastripe::node::test
