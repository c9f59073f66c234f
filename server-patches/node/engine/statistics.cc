// What the node counts, for `stats elastripe` and HELLO. docs/node-protocol.md, "Statistics".
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {

void Engine::Impl::count(const Frame& frame, const Answer& answer) {
  const auto slot = [](auto value) { return static_cast<size_t>(value) % 32; };
  ++counters_.frames;
  ++counters_.frames_by_opcode[slot(frame.header.opcode)];
  ++counters_.answers_by_status[slot(answer.status)];
  counters_.bytes_in += kHeaderBytes + frame.args.size() + frame.payload.size();
  counters_.bytes_out += kHeaderBytes + answer.args.size() + answer.payload.size();
}

NodeStatistics Engine::Impl::node_statistics() const {
  const ItemStore::Memory memory = store_.memory();
  return {.used_bytes = memory.used_bytes,
          .limit_bytes = memory.limit_bytes,
          .records = counters_.records,
          .shards = counters_.shards,
          .record_bytes = counters_.record_bytes,
          .shard_bytes = counters_.shard_bytes,
          .frames = counters_.frames,
          .bytes_in = counters_.bytes_in,
          .bytes_out = counters_.bytes_out,
          .cpu_us = clock_.cpu_us()};
}

std::vector<std::pair<std::string, std::string>> Engine::Impl::statistics() const {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](std::string name, uint64_t value) {
    out.emplace_back(std::move(name), std::to_string(value));
  };
  std::shared_lock shared(gate_);
  add("incarnation", options_.incarnation);
  out.emplace_back("epoch", map_ ? to_string(map_->epoch) : "none");
  out.emplace_back("state", self_ ? "up" : "joining");
  const uint64_t now_ms = clock_.boottime_ms();
  const uint64_t until_ms = lease_until_ms_;
  add("lease_left_ms", until_ms > now_ms ? until_ms - now_ms : 0);
  size_t home = 0, synced = 0, lost = 0;
  for (size_t p = 0; self_ && p < map_->partitions.size(); ++p) {
    const Partition& partition = map_->partitions[p];
    if (!is_home(partition, *self_, partition.homes.size())) continue;
    ++home;
    synced += partitions_[p].synced ? 1 : 0;
    lost += partitions_[p].lost ? 1 : 0;
  }
  add("partitions_home", home);
  add("partitions_synced", synced);
  add("partitions_lost", lost);
  add("max_version", max_version_);

  const NodeStatistics s = node_statistics();
  add("records", s.records);
  add("record_bytes", s.record_bytes);
  add("shards", s.shards);
  add("shard_bytes", s.shard_bytes);
  add("used_bytes", s.used_bytes);
  add("limit_bytes", s.limit_bytes);
  add("free_bytes", store_.memory().free_bytes);
  add("frames", s.frames);
  add("bytes_in", s.bytes_in);
  add("bytes_out", s.bytes_out);
  add("bad_pages", counters_.bad_pages);
  add("bad_records", counters_.bad_records);
  add("out_of_memory", counters_.out_of_memory);
  add("records_forgotten", counters_.forgotten);
  for (uint8_t opcode = 0; opcode < 32; ++opcode) {
    if (!is_known(opcode)) continue;
    add(std::string("frames_") + name(static_cast<Opcode>(opcode)),
        counters_.frames_by_opcode[opcode]);
  }
  for (uint8_t status = 1; status <= static_cast<uint8_t>(Status::kSuperseded); ++status) {
    add(std::string("refused_") + name(static_cast<Status>(status)),
        counters_.answers_by_status[status]);
  }
  return out;
}

}  // namespace elastripe::node
