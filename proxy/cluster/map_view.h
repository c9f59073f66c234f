// MapView: the map that this proxy serves under: an immutable snapshot, swapped atomically.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Set by the decider's thread, read by all. Empty until the first map is served, and again while
// the proxy may not serve: between maps, or once it is deposed.
class MapView {
 public:
  // Null: not serving; `reason()` says why.
  node::MapPtr current() const { return map_.load(std::memory_order_acquire); }
  std::string reason() const { return *reason_.load(std::memory_order_acquire); }

  void serve(node::MapPtr map) { map_.store(std::move(map), std::memory_order_release); }
  void stop_serving(std::string reason) {
    reason_.store(std::make_shared<const std::string>(std::move(reason)),
                  std::memory_order_release);
    map_.store(nullptr, std::memory_order_release);
  }

 private:
  std::atomic<node::MapPtr> map_;
  std::atomic<std::shared_ptr<const std::string>> reason_{
      std::make_shared<const std::string>("starting: no cluster map yet")};
};

}  // namespace elastripe
