// MapView: what the decider tells all workers: the map that this proxy serves under, and how full
// the nodes are. Immutable snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/published.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Set by the decider's thread, read by all. Empty until the first map is served, and again while
// the proxy may not serve: between maps, or once it is deposed.
class MapView {
 public:
  // Null: not serving; `reason()` says why.
  node::MapPtr current() const { return map_.load(); }
  std::string reason() const { return *reason_.load(); }

  // What the nodes told last that new data can still take, by node id. A moment old, so nodes keep
  // a reserve. Nothing is known: no limit.
  uint64_t free_bytes(node::NodeId id) const {
    const auto known = free_bytes_.load();
    return known == nullptr || id >= known->size() ? UINT64_MAX : (*known)[id];
  }
  void note_free_bytes(std::vector<uint64_t> by_node) {
    free_bytes_.store(std::make_shared<const std::vector<uint64_t>>(std::move(by_node)));
  }

  void serve(node::MapPtr map) { map_.store(std::move(map)); }
  void stop_serving(std::string reason) {
    reason_.store(std::make_shared<const std::string>(std::move(reason)));
    map_.store(nullptr);
  }

 private:
  Published<node::ClusterMap> map_;
  Published<std::vector<uint64_t>> free_bytes_;
  Published<std::string> reason_{
      std::make_shared<const std::string>("starting: no cluster map yet")};
};

}  // namespace elastripe
