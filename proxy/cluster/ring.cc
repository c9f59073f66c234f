#include "proxy/cluster/ring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "proxy/base/check.h"

namespace elastripe {
namespace {

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
const NodePoints& points_of_node(const std::string& name) {
  thread_local std::unordered_map<std::string, NodePoints> known;
  const auto [entry, is_new] = known.try_emplace(name);
  for (size_t i = 0; is_new && i < entry->second.size(); i += kPointsPerDigest) {
    const std::string label = name + "-" + std::to_string(i / kPointsPerDigest);
    std::ranges::copy(ketama_points(label), entry->second.begin() + static_cast<ptrdiff_t>(i));
  }
  return entry->second;
}

}  // namespace

std::vector<Ring::Point> Ring::points_of(const std::vector<std::string>& names) {
  std::vector<Point> points;
  points.reserve(names.size() * kPointsPerNode);
  for (size_t id = 0; id < names.size(); ++id) {
    if (names[id].empty()) continue;
    for (const uint32_t value : points_of_node(names[id])) {
      points.push_back({value, static_cast<node::NodeId>(id)});
    }
  }
  std::ranges::sort(points, {},
                    [](const Point& point) { return uint64_t{point.value} << 32 | point.node; });
  return points;
}

Ring::Ring(const std::vector<std::string>& names, uint32_t partitions)
    : points_(points_of(names)), ids_(names.size()) {
  starts_.reserve(partitions);
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    const uint32_t value = ketama_points("partition-" + std::to_string(partition))[0];
    const auto first = std::ranges::lower_bound(points_, value, {}, &Point::value);
    const auto start = static_cast<uint32_t>(first - points_.begin());
    starts_.push_back(start == points_.size() ? 0 : start);
  }
}

Ring::Order::Order(const Ring& ring, size_t partition)
    : points_(&ring.points_),
      at_(ring.starts_[partition]),
      met_(ring.ids_),
      left_(ring.points_.size() / kPointsPerNode) {
  if (left_ > 0) met_[node()] = true;
}

void Ring::Order::go_on() {
  if (--left_ == 0) return;
  while (met_[node()]) at_ = at_ + 1 == points_->size() ? 0 : at_ + 1;
  met_[node()] = true;
}

}  // namespace elastripe
