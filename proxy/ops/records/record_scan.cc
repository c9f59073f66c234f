#include "proxy/ops/records/record_scan.h"

namespace elastripe::records {

namespace {

void set_bit(std::vector<uint8_t>& bits, size_t index, size_t count) {
  bits.resize((count + 7) / 8);
  bits[index / 8] = static_cast<uint8_t>(bits[index / 8] | 1u << (index % 8));
}

}  // namespace

std::vector<uint8_t> partition_bits(const std::vector<bool>& chosen) {
  std::vector<uint8_t> bits((chosen.size() + 7) / 8);
  for (size_t p = 0; p < chosen.size(); ++p) {
    if (chosen[p]) set_bit(bits, p, chosen.size());
  }
  return bits;
}

std::map<NodeId, std::vector<uint8_t>> partitions_by_tail(const node::ClusterMap& map,
                                                          const std::vector<bool>& chosen) {
  std::map<NodeId, std::vector<uint8_t>> by_tail;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    if (!chosen[p] || map.partitions[p].homes.empty()) continue;
    set_bit(by_tail[map.partitions[p].homes.front()], p, map.partitions.size());
  }
  return by_tail;
}

}  // namespace elastripe::records
