// What the node counts, for `stats elastripe` and HELLO. docs/node-protocol.md, "Statistics".
#include "server-patches/node/engine/impl.h"

namespace elastripe::node {

void Engine::Impl::count(const Frame& frame, const Answer& answer) {
  ++counters_.frames;
  ++counters_.frames_by_opcode[index_of(frame.header.opcode)];
  ++counters_.answers_by_status[static_cast<size_t>(answer.status)];
  counters_.bytes_in += kHeaderBytes + frame.args.size() + frame.payload.size();
  counters_.bytes_out += kHeaderBytes + answer.args.size() + answer.payload.size();
}

NodeStatistics Engine::Impl::node_statistics() const {
  const ItemStore::Memory memory = store_.memory();
  const LogPool::Usage log_units = logs_.pool().usage();
  const uint64_t now_ms = clock_.boottime_ms();
  const uint64_t oldest_ms = oldest_log_ms_;
  return {.used_bytes = memory.used_bytes,
          .limit_bytes = memory.limit_bytes,
          .records = counters_.records,
          .shards = counters_.shards,
          .record_bytes = counters_.record_bytes,
          .shard_bytes = counters_.shard_bytes,
          .frames = counters_.frames,
          .bytes_in = counters_.bytes_in,
          .bytes_out = counters_.bytes_out,
          .cpu_us = clock_.cpu_us(),
          .logs = logs_with_bytes_,
          .log_bytes = log_units.live_bytes,
          .log_used_bytes = log_units.units * log_units.unit_bytes,
          .log_limit_bytes = log_units.limit_units * log_units.unit_bytes,
          .log_age_ms = oldest_ms == 0 ? 0 : now_ms - std::min(now_ms, oldest_ms),
          .log_merged_bytes = log_units.merged_bytes,
          .log_refusals = counters_.answers_by_status[static_cast<size_t>(Status::kLogFull)]};
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
  size_t synced = 0, lost = 0;
  for (const uint32_t p : own_partitions_) {
    synced += partitions_[p].synced ? 1 : 0;
    lost += partitions_[p].lost ? 1 : 0;
  }
  add("partitions_home", own_partitions_.size());
  add("partitions_synced", synced);
  add("partitions_lost", lost);
  add("max_version", max_version_);

  const NodeStatistics s = node_statistics();
  for (const auto& [name, number] : kNodeStatistics) add(std::string(name), s.*number);
  add("free_bytes", store_.memory().free_bytes);
  for (const auto& [name, counter] : kOwnCounters) add(name, counters_.*counter);
  for (size_t i = 0; i < kOpcodes.size(); ++i) {
    add(std::string("frames_") + kOpcodes[i].name, counters_.frames_by_opcode[i]);
  }
  for (uint8_t status = 1; status < kStatuses; ++status) {
    add(std::string("refused_") + name(static_cast<Status>(status)),
        counters_.answers_by_status[status]);
  }
  return out;
}

}  // namespace elastripe::node
