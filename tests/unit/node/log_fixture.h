// A node with a striped record, and short forms of the frames about its update log.
#pragma once

#include "server-patches/node/format/crc32c.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {

// Two segments of 100 bytes.
inline RecordContent object_content() {
  RecordContent content = striped_content();
  content.segments.push_back(content.segments[0]);
  content.segments[1].number = 1;
  content.size = 200;
  return content;
}
inline Record object_of(uint64_t version, uint64_t value) {
  Record record = make_record(version, "");
  record.meta.value_version = value;
  record.content = object_content();
  return record;
}

struct Update {
  UpdateName name;
  uint64_t offset = 0;
  std::string bytes;
};

// "10: text @lsn" of each, from the version on.
inline std::string told(const std::vector<LogExtent>& extents, uint64_t version) {
  std::string out;
  for (const LogExtent& extent : extents) {
    if (!out.empty()) out += ", ";
    out += std::to_string(extent.offset) + ": " + std::string(extent.bytes) + " @" +
           std::to_string(extent.lsn - version);
  }
  return out;
}

inline const std::vector<NodeId> kAsTail = {0, 1, 2};
inline const std::vector<NodeId> kAsMiddle = {1, 0, 2};
inline const std::vector<NodeId> kAsHead = {1, 2, 0};

class LogNode : public TestNode {
 public:
  explicit LogNode(std::vector<NodeId> homes, EngineOptions options = {},
                   ArenaStore::Options memory = {.view_max_bytes = 1000})
      : TestNode(std::move(homes), memory, options), version(next_block(map.version_floor)) {
    REQUIRE(status(store_record("key", object_of(version, version))) == "OK");
  }

  // A new update that knows of all there is.
  LogAppendRequest append_request(uint64_t offset = 0) {
    return {.m = 2,
            .id = {9, ++updates},
            .value = version,
            .known = version + (1 << 20),
            .offset = offset,
            .key = "key"};
  }
  Reply append(LogAppendRequest r, std::string_view bytes) {
    r.crc32c = crc32c(as_view(bytes));
    return send(Opcode::kLogAppend, encoded(r), bytes);
  }
  Reply append(uint64_t offset, std::string_view bytes) {
    return append(append_request(offset), bytes);
  }

  Update update(uint64_t lsn, uint64_t offset, std::string bytes) const {
    return {{{8, lsn}, version + lsn}, offset, std::move(bytes)};
  }
  // Numbers from the version on.
  Reply store(const std::vector<Update>& stored, uint64_t settled_to = 0,
              std::vector<UpdateName> unsettled = {}, const std::string& key = "key",
              uint64_t value = 0) {
    LogStoreRequest request{.m = 2,
                            .value = value == 0 ? version : value,
                            .settled_to = settled_to == 0 ? 0 : version + settled_to,
                            .entries = {},
                            .unsettled = std::move(unsettled),
                            .key = key};
    std::string payload;
    for (const auto& [name, offset, bytes] : stored) {
      request.entries.push_back(
          {name, offset, static_cast<uint32_t>(bytes.size()), crc32c(as_view(bytes))});
      payload += bytes;
    }
    return send(Opcode::kLogStore, encoded(request), payload);
  }
  Reply settle(uint64_t lsn, uint64_t value = 0) {
    const LogSettleRequest request{{{"key", value == 0 ? version : value, version + lsn}}};
    return send(Opcode::kLogSettle, encoded(request));
  }
  LogScanReply scan_logs(LogScanRequest request = {.max_entries = 100}) {
    return args_of<LogScanReply>(send(Opcode::kLogScan, encoded(request)));
  }

  // What a read tells of the log, encoded.
  std::string log_bytes(LogWanted wanted = LogWanted::kImage, uint64_t offset = 0,
                        uint64_t length = 0, const std::string& key = "key") {
    const RecordReadRequest r{.role = Role::kAny,
                              .m = 2,
                              .key = key,
                              .log = wanted,
                              .log_offset = offset,
                              .log_length = length};
    return args_of<RecordReadReply>(send(Opcode::kRecordRead, encoded(r))).log;
  }
  // "settled | unsettled"; "none" without a log.
  std::string log(LogWanted wanted = LogWanted::kImage, uint64_t offset = 0, uint64_t length = 0) {
    const std::string bytes = log_bytes(wanted, offset, length);
    if (bytes.empty()) return "none";
    const auto image = decode_log(as_view(bytes));
    REQUIRE(image.has_value());
    return told(image->settled, version) + " | " + told(image->unsettled, version);
  }
  LogImage image() {
    kept_ = log_bytes();
    auto decoded = decode_log(as_view(kept_));
    REQUIRE(decoded.has_value());
    return std::move(*decoded);
  }

  // The commit of `content` on the record that is here.
  RecordApplyRequest on_record(Mutation mutation) {
    RecordApplyRequest r = request("key", mutation);
    r.condition = Condition::kIfVersion;
    r.condition_argument = record_of(read("key")).meta.version;
    return r;
  }
  // Numbers from the version on, of the two segments.
  Reply fold(uint64_t first, uint64_t second) {
    RecordContent content = record_of(read("key")).content;
    content.segments[0].folded_lsn = first == 0 ? 0 : version + first;
    content.segments[1].folded_lsn = second == 0 ? 0 : version + second;
    return apply(on_record(Mutation::kFold), content);
  }

  uint64_t version = 0;  // of the record and its value
  uint64_t updates = 0;

 private:
  std::string kept_;
};

inline uint64_t lsn_of(const Reply& reply) {
  REQUIRE(status(reply) == "OK");
  return args_of<LogAppendReply>(reply).lsn;
}

inline std::vector<Id128> missing_of(const Reply& reply) {
  REQUIRE(status(reply) == "OK");
  return args_of<LogStoreReply>(reply).missing;
}

inline void unsync(Partition& partition) {
  partition.synced = false;
  partition.sources = {{0, 1}};
}

// A map that follows the one that the node has.
inline void install_next(LogNode& node, std::vector<NodeId> homes,
                         const std::function<void(Partition&)>& change = {}) {
  ClusterMap next = make_map(node.map.epoch.number + 1, std::move(homes));
  next.base = node.map.epoch;
  for (Partition& partition : next.partitions) {
    if (change) change(partition);
  }
  node.install(std::move(next));
  node.grant();
}

// The log of the node's record, as another copy may have it.
inline LogImage image_of(const LogNode& node, uint64_t rank, std::string_view bytes = "synced") {
  return {.value = node.version,
          .last = node.version + 1,
          .rank = node.version + rank,
          .settled_to = 0,
          .reach = node.version,
          .recent = {{{8, 1}, node.version + 1}},
          .settled = {},
          .unsettled = {{{8, 1}, node.version + 1, 0, crc32c(as_view(bytes)), bytes}},
          .unnumbered = {}};
}
inline Reply sync(LogNode& node, const std::string& image, bool by_sync = true) {
  return node.send(Opcode::kRecordStore,
                   encoded(RecordStoreRequest{.m = 2, .sync = by_sync, .key = "key", .log = image}),
                   encoded(object_of(node.version, node.version)));
}

}  // namespace elastripe::node::test
