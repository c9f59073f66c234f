#include "proxy/cluster/ring.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

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

Ring::Points Ring::points_of(const std::vector<std::string>& names) {
  Points points;
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
    : points_(std::make_shared<const Points>(points_of(names))), ids_(names.size()) {
  starts_.reserve(partitions);
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    const uint32_t value = ketama_points("partition-" + std::to_string(partition))[0];
    const auto first = std::ranges::lower_bound(*points_, value, {}, &Point::value);
    const auto start = static_cast<uint32_t>(first - points_->begin());
    starts_.push_back(start == points_->size() ? 0 : start);
  }
}

namespace {

constexpr double kFullest = 1.08;  // of the average
constexpr size_t kEvenPlaces = 9;  // the widest segment that is made even, and its first parts
// A partition looks at so many points, and on average at so many more than one: where domains
// differ in size, no point will do for most.
constexpr size_t kMostPoints = 64;
constexpr size_t kMorePoints = 4;
// So many are gone through for its first nodes: one rack may be a few of a thousand nodes.
constexpr size_t kFarthest = 128;

}  // namespace

// How often each node has been met in the first places of the partitions so far.
class Ring::Evening {
 public:
  Evening(const Points& points, const std::vector<node::NodeInfo>& nodes, size_t partitions)
      : points_(points), domains_(nodes.size(), kNone), points_left_(kMorePoints * partitions) {
    std::unordered_map<std::string_view, uint32_t> numbers;
    std::vector<size_t> sizes;
    for (const node::NodeInfo& node : nodes) {
      if (node.is_removed() || node.role == node::NodeRole::kDraining) continue;
      const auto [domain, is_new] = numbers.try_emplace(node.domain, numbers.size());
      if (is_new) sizes.push_back(0);
      ++sizes[domain->second];
      domains_[node.id] = domain->second;
    }
    places_ = std::min(kEvenPlaces, sizes.size());
    for (size_t places = 1; places <= places_; ++places) {
      most_.push_back(limits(sizes, partitions, places));
      met_.emplace_back(nodes.size());
    }
  }

  // The point where the next partition is to begin, whose hash is at `start`.
  uint32_t begin_near(uint32_t start) {
    if (places_ == 0) return start;
    const Places first = walk(start);
    Places places = first;
    uint32_t at = start;
    for (size_t points = 1; !have_room(places); ++points) {
      if (points == kMostPoints || points_left_ == 0) {
        take(first);
        return start;
      }
      --points_left_;
      at = taking_from(points == 1 ? next(taking_from(start)) : next(at));
      places = walk(at);
    }
    take(places);
    return at;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;  // takes no part
  struct Places {
    std::array<node::NodeId, kEvenPlaces> nodes{};
    size_t count = 0;
  };

  // By domain: so many times a node of it may be in the first `places` of all partitions. All get
  // as much as others, but for domains that would be there more than once with every partition, if
  // their nodes did: these are there with every one.
  static std::vector<uint32_t> limits(const std::vector<size_t>& sizes, size_t partitions,
                                      size_t places) {
    std::vector<bool> is_everywhere(sizes.size());
    size_t left = std::accumulate(sizes.begin(), sizes.end(), size_t{0});  // nodes of the others
    for (bool is_more = true; std::exchange(is_more, false);) {
      for (size_t domain = 0; domain < sizes.size(); ++domain) {
        if (is_everywhere[domain] || sizes[domain] * places <= left) continue;
        is_more = is_everywhere[domain] = true;
        left -= sizes[domain];
        --places;
      }
    }
    std::vector<uint32_t> limits;
    for (size_t domain = 0; domain < sizes.size(); ++domain) {
      const size_t met = is_everywhere[domain] ? partitions : partitions * places;
      const size_t nodes = is_everywhere[domain] ? sizes[domain] : left;
      const double each = static_cast<double>(met) / static_cast<double>(nodes);
      limits.push_back(static_cast<uint32_t>(std::ceil(kFullest * each)));
    }
    return limits;
  }

  uint32_t next(uint32_t at) const { return at + 1 == points_.size() ? 0 : at + 1; }
  // That point, or the next one of a node that takes part.
  uint32_t taking_from(uint32_t at) const {
    while (domains_[points_[at].node] == kNone) at = next(at);
    return at;
  }

  // The first nodes in distinct domains, or those that are not too far.
  Places walk(uint32_t at) const {
    Places places;
    for (size_t gone = 0; places.count < places_ && gone < kFarthest; at = next(at)) {
      const uint32_t domain = domains_[points_[at].node];
      gone += domain != kNone;
      const auto met = std::span(places.nodes).first(places.count);
      const auto is_of_it = [&](node::NodeId id) { return domains_[id] == domain; };
      if (domain == kNone || std::ranges::any_of(met, is_of_it)) continue;
      places.nodes[places.count++] = points_[at].node;
    }
    return places;
  }

  // Who is met in one place has been met within the first so many from there on.
  template <class Each>
  bool each_count(const Places& places, Each each) {
    for (size_t place = 0; place < places.count; ++place) {
      for (size_t within = place; within < places_; ++within) {
        const node::NodeId id = places.nodes[place];
        if (!each(met_[within][id], most_[within][domains_[id]])) return false;
      }
    }
    return true;
  }
  bool have_room(const Places& places) {
    return each_count(places, [](uint32_t met, uint32_t most) { return met < most; });
  }
  void take(const Places& places) {
    each_count(places, [](uint32_t& met, uint32_t) { return ++met > 0; });
  }

  const Points& points_;
  std::vector<uint32_t> domains_;  // by node id
  size_t places_ = 0;
  size_t points_left_;
  // By the number of places, less one:
  std::vector<std::vector<uint32_t>> most_;  // by domain
  std::vector<std::vector<uint32_t>> met_;   // by node id
};

Ring Ring::evened(const std::vector<node::NodeInfo>& nodes) const {
  Ring even = *this;
  Evening evening(*points_, nodes, starts_.size());
  for (uint32_t& start : even.starts_) start = evening.begin_near(start);
  return even;
}

Ring::Order::Order(const Ring& ring, size_t partition)
    : points_(ring.points_.get()),
      at_(ring.starts_[partition]),
      met_(ring.ids_),
      left_(ring.points_->size() / kPointsPerNode) {
  if (left_ > 0) met_[node()] = true;
}

void Ring::Order::go_on() {
  if (--left_ == 0) return;
  while (met_[node()]) at_ = at_ + 1 == points_->size() ? 0 : at_ + 1;
  met_[node()] = true;
}

}  // namespace elastripe
