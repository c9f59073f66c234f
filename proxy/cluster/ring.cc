#include "proxy/cluster/ring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "proxy/base/check.h"

namespace elastripe {
namespace {

struct Point {
  uint32_t value;
  node::NodeId node;
};

// The four points that ketama takes from one MD5 digest, least significant byte first.
constexpr size_t kPointsPerDigest = 4;
std::array<uint32_t, kPointsPerDigest> ketama_points(std::string_view label) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned digest_bytes = 0;
  const int done = EVP_Digest(label.data(), label.size(), digest.data(), &digest_bytes, EVP_md5(),
                              /*impl=*/nullptr);
  CHECK(done == 1 && digest_bytes == 16, "libcrypto refuses MD5, which places the ring's points");
  std::array<uint32_t, kPointsPerDigest> points{};
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t byte = 0; byte < 4; ++byte) {
      points[i] |= static_cast<uint32_t>(digest[4 * i + byte]) << (8 * byte);
    }
  }
  return points;
}

// They depend on its name only, and rings are built anew whenever nodes come or go, when most of
// them stay. There is one entry for every name that the cluster has ever had.
using NodePoints = std::array<uint32_t, Ring::kPointsPerNode>;
const NodePoints& points_of(const std::string& name) {
  thread_local std::unordered_map<std::string, NodePoints> known;
  const auto [entry, is_new] = known.try_emplace(name);
  for (size_t i = 0; is_new && i < entry->second.size(); i += kPointsPerDigest) {
    const std::string label = name + "-" + std::to_string(i / kPointsPerDigest);
    std::ranges::copy(ketama_points(label), entry->second.begin() + static_cast<ptrdiff_t>(i));
  }
  return entry->second;
}

std::vector<Point> node_points(const std::vector<std::string>& names) {
  std::vector<Point> points;
  points.reserve(names.size() * Ring::kPointsPerNode);
  for (size_t id = 0; id < names.size(); ++id) {
    if (names[id].empty()) continue;
    for (const uint32_t value : points_of(names[id])) {
      points.push_back({value, static_cast<node::NodeId>(id)});
    }
  }
  std::ranges::sort(points, {},
                    [](const Point& point) { return uint64_t{point.value} << 32 | point.node; });
  return points;
}

}  // namespace

Ring::Ring(const std::vector<std::string>& names, uint32_t partitions) {
  const std::vector<Point> points = node_points(names);
  const size_t nodes = points.size() / kPointsPerNode;
  orders_.resize(partitions);
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    const uint32_t start = ketama_points("partition-" + std::to_string(partition))[0];
    const auto first = std::ranges::lower_bound(points, start, {}, &Point::value);
    const size_t offset = static_cast<size_t>(first - points.begin());
    std::vector<bool> met(names.size(), false);
    auto& order = orders_[partition];
    for (size_t i = 0; i < points.size() && order.size() < nodes; ++i) {
      const node::NodeId id = points[(offset + i) % points.size()].node;
      if (met[id]) continue;
      met[id] = true;
      order.push_back(id);
    }
  }
}

}  // namespace elastripe
