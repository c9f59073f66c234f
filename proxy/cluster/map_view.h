// MapView: what all workers know in common: who the nodes are, the map that this proxy serves
// under, and how full the nodes are.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/published.h"
#include "proxy/cluster/members.h"
#include "server-patches/node/format/cluster_map.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

// Room for new records and shards at the nodes, by node id: what each told last, in a heartbeat or
// in an answer to a write, and what is on its way there from this proxy. Any thread.
class NodeRooms {
 public:
  explicit NodeRooms(size_t nodes) : rooms_(nodes) {}

  size_t size() const { return rooms_.size(); }
  // Nothing is known: no limit.
  uint64_t free_bytes(node::NodeId id) const {
    return id < rooms_.size() ? rooms_[id].free_bytes.load(std::memory_order_relaxed) : UINT64_MAX;
  }
  // All workers look at this, and most replies bring no news.
  void note_free_bytes(node::NodeId id, uint64_t bytes) const {
    if (id < rooms_.size() && free_bytes(id) != bytes) {
      rooms_[id].free_bytes.store(bytes, std::memory_order_relaxed);
    }
  }

  // All memory that the node has for records and shards. 0: nothing is known.
  uint64_t limit_bytes(node::NodeId id) const {
    return id < rooms_.size() ? rooms_[id].limit_bytes.load(std::memory_order_relaxed) : 0;
  }
  void note_limit_bytes(node::NodeId id, uint64_t bytes) const {
    if (id < rooms_.size()) rooms_[id].limit_bytes.store(bytes, std::memory_order_relaxed);
  }

  // Beside what is on its way. Nothing is known: no limit.
  uint64_t left_bytes(node::NodeId id) const {
    const uint64_t free = free_bytes(id);
    if (free == UINT64_MAX) return free;
    const uint64_t coming = rooms_[id].coming_bytes.load(std::memory_order_relaxed);
    return free > coming ? free - coming : 0;
  }

  // False if there is no room beside what is on its way. Else, until leave(), it counts.
  bool enter(node::NodeId id, uint64_t bytes) const {
    if (id >= rooms_.size()) return true;
    const uint64_t others = rooms_[id].coming_bytes.fetch_add(bytes, std::memory_order_relaxed);
    const uint64_t free = free_bytes(id);
    if (free > others && free - others > bytes) return true;
    leave(id, bytes);
    return false;
  }
  // Whether there is room or not.
  void enter_anyway(node::NodeId id, uint64_t bytes) const {
    if (id < rooms_.size()) {
      rooms_[id].coming_bytes.fetch_add(bytes, std::memory_order_relaxed);
    }
  }
  void leave(node::NodeId id, uint64_t bytes) const {
    if (id < rooms_.size()) {
      rooms_[id].coming_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    }
  }

  // This incarnation of the node had no room for a record that sync brought; `as_source`: of a
  // partition that it is a source of. The decider asks once a turn: 0 if that was not so since.
  void note_refused_sync(node::NodeId id, uint64_t incarnation, bool as_source) const {
    if (id < rooms_.size()) rooms_[id].refused(as_source) = incarnation;
  }
  uint64_t take_refused_sync(node::NodeId id, bool as_source) const {
    return id < rooms_.size() ? rooms_[id].refused(as_source).exchange(0) : 0;
  }

 private:
  struct alignas(64) Room {
    std::atomic<uint64_t> free_bytes = UINT64_MAX;
    std::atomic<uint64_t> coming_bytes = 0;
    std::atomic<uint64_t> limit_bytes = 0;
    // The incarnation that did.
    std::atomic<uint64_t> refused_more = 0, refused_own = 0;
    std::atomic<uint64_t>& refused(bool as_source) {
      return as_source ? refused_own : refused_more;
    }
  };
  mutable std::vector<Room> rooms_;
};
using NodeRoomsPtr = std::shared_ptr<const NodeRooms>;

// Bytes on their way to a node, for as long as it lives.
class ComingBytes {
 public:
  ComingBytes() = default;
  ComingBytes(NodeRoomsPtr rooms, node::NodeId to, uint64_t bytes)
      : rooms_(std::move(rooms)), to_(to), bytes_(bytes) {
    rooms_->enter_anyway(to_, bytes_);
  }
  ComingBytes(ComingBytes&& other) noexcept
      : rooms_(std::move(other.rooms_)), to_(other.to_), bytes_(other.bytes_) {}
  ComingBytes& operator=(ComingBytes&& other) noexcept {
    std::swap(rooms_, other.rooms_);
    std::swap(to_, other.to_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ComingBytes() {
    if (rooms_ != nullptr) rooms_->leave(to_, bytes_);
  }

 private:
  NodeRoomsPtr rooms_;
  node::NodeId to_ = 0;
  uint64_t bytes_ = 0;
};

// Set by the decider's thread, read by all. Empty until the first map is served, and again while
// the proxy may not serve: between maps, or once it is deposed.
class MapView {
 public:
  // Null: not serving; `reason()` says why.
  node::MapPtr current() const { return map_.load(); }
  std::string reason() const { return *reason_.load(); }

  // Whether background work on stored objects is for this proxy: of those that serve a cluster it
  // is for the one that decides. Any number of them may do it, but then it is done for nothing.
  bool works_in_background() const { return works_in_background_; }
  void work_in_background(bool works) { works_in_background_ = works; }

  // Null: nobody has said yet. Whoever has a map finds its nodes here, and maybe later ones.
  MembersPtr members() const { return members_.load(); }
  // One more with every change.
  uint64_t members_version() const { return members_version_.load(std::memory_order_acquire); }
  // Before a call goes to one of them.
  void know_members(const std::vector<node::NodeInfo>& nodes, uint32_t partitions) {
    const MembersPtr known = members();
    if (known != nullptr && are_same_members(known->nodes, nodes)) return;
    members_.store(std::make_shared<const Members>(nodes, partitions));
    members_version_.fetch_add(1, std::memory_order_release);
  }

  NodeRoomsPtr rooms() const { return rooms_.load(); }
  // There are so many nodes; what was known of their rooms is forgotten if that is news.
  void expect_nodes(size_t count) {
    if (rooms()->size() != count) rooms_.store(std::make_shared<const NodeRooms>(count));
  }

  // From now on, a map with other settings of the cluster than the proxy follows is kept back until
  // it does: `follow` is called by serve(), and follows() or can_not_follow() when that is done.
  // Else proxies could work under one map by different settings.
  using Follow = std::function<void(const node::ClusterSettings&)>;
  void have_followed(Follow follow) { follow_ = std::move(follow); }

  // What was served last, also while nothing is; null: nothing yet. It stays of the same cluster
  // for as long as the process lives: what threads remember of versions and records would be false
  // in another one. On the decider's thread.
  const node::MapPtr& last_served() const { return last_served_; }

  // The newest map that nodes of our cluster were found to have. It counts as long as none was
  // served, and for where to look only. Null: none. On the decider's thread.
  void hear_of(node::MapPtr map) {
    if (last_served_ == nullptr) heard_of_ = std::move(map);
  }
  const node::MapPtr& heard_of() const { return heard_of_; }

  void serve(node::MapPtr map) {
    last_served_ = map;
    heard_of_ = nullptr;
    know_members(map->nodes, static_cast<uint32_t>(map->partitions.size()));
    const bool goes_by_them = follow_ == nullptr || are_same(map->settings, followed_);
    if (goes_by_them || mutant(Mutant::kServeUnfollowed)) {
      kept_back_ = nullptr;
      map_.store(std::move(map));
      return;
    }
    const bool is_asked = kept_back_ != nullptr && are_same(map->settings, kept_back_->settings);
    kept_back_ = std::move(map);
    if (!is_asked) follow_(kept_back_->settings);
  }
  void follows(const node::ClusterSettings& settings) {
    followed_ = settings;
    if (kept_back_ != nullptr && are_same(kept_back_->settings, followed_)) {
      map_.store(std::exchange(kept_back_, nullptr));
      if (const auto told = told_) told();
    }
  }
  // `told` is called when a map that was kept back is not any more.
  void have_told(std::function<void()> told) { told_ = std::move(told); }
  // It ends, and takes no settings any more: it serves on under maps with those that it has.
  void follow_no_more() {
    follow_ = [](const node::ClusterSettings&) {};
  }
  void can_not_follow(std::string reason) { stop(std::move(reason)); }
  void stop_serving(std::string reason) {
    kept_back_ = nullptr;
    stop(std::move(reason));
  }

 private:
  static bool are_same(const node::ClusterSettings& a, const node::ClusterSettings& b) {
    return a.version == b.version && a.text == b.text;
  }
  void stop(std::string reason) {
    reason_.store(std::make_shared<const std::string>(std::move(reason)));
    map_.store(nullptr);
  }

  Published<Members> members_;
  // Every call to a node looks at it.
  alignas(64) std::atomic<uint64_t> members_version_ = 0;
  alignas(64) Published<node::ClusterMap> map_;
  std::atomic<bool> works_in_background_ = true;
  Published<NodeRooms> rooms_{std::make_shared<const NodeRooms>(0)};
  Published<std::string> reason_{
      std::make_shared<const std::string>("starting: no cluster map yet")};
  // These belong to the decider's thread.
  node::MapPtr last_served_;
  node::MapPtr heard_of_;
  Follow follow_;
  std::function<void()> told_;
  node::ClusterSettings followed_;
  node::MapPtr kept_back_;
};

}  // namespace elastripe
