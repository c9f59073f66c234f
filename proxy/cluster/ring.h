// The consistent-hash ring (ketama): every node has points on it, every partition one; walking the
// ring from a partition's point orders the nodes for it. Such a ring is uneven: of 1,000 nodes with
// 65,536 partitions one is in the first three places of 30% more of them than the average. So a
// cluster uses one that is made even (consistent hashing with bounded loads: Mirrokni, Thorup and
// Zadimoghaddam, 2018): a partition whose first nodes have enough begins some points further on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

// Pure: depends on the members only, so every proxy computes the same ring. Immutable.
class Ring {
  struct Point {
    uint32_t value;
    node::NodeId node;
  };
  using Points = std::vector<Point>;

 public:
  static constexpr int kPointsPerNode = 160;

  // `names[id]` is the name of node id; without one, it is not on the ring. Partitions begin where
  // their names' hashes are.
  Ring(const std::vector<std::string>& names, uint32_t partitions);

  // The same points, and partitions that begin where no node has more than 1.08 times what it would
  // have on average in the first place of all partitions, in the first two, and so on up to nine;
  // those for which there is no such point near theirs begin there nevertheless. `nodes` are by id.
  // Those that are draining are passed over, so that it changes nothing when they are removed; and
  // so are further nodes of a domain. Where all partitions need one of a small domain, the average
  // is that of its nodes, and of the others'.
  Ring evened(const std::vector<node::NodeInfo>& nodes) const;

  // A range to be gone through once, while the ring lives.
  class Order {
   public:
    class Iterator {
     public:
      using value_type = node::NodeId;
      using difference_type = std::ptrdiff_t;
      explicit Iterator(Order& order) : order_(&order) {}
      node::NodeId operator*() const { return order_->node(); }
      Iterator& operator++() {
        order_->go_on();
        return *this;
      }
      void operator++(int) { order_->go_on(); }
      bool operator==(std::default_sentinel_t) const { return order_->left_ == 0; }

     private:
      Order* order_;
    };
    Iterator begin() { return Iterator(*this); }
    std::default_sentinel_t end() const { return {}; }

   private:
    friend Ring;
    Order(const Ring& ring, size_t partition);
    void go_on();
    node::NodeId node() const { return (*points_)[at_].node; }

    const Points* points_;
    size_t at_;
    std::vector<bool> met_;  // by node id
    size_t left_;            // nodes, with the one that it is at
  };
  // All its nodes in the order in which the partition meets them. It is found out step by step:
  // most who ask want a few of a thousand.
  Order order(size_t partition) const { return Order(*this, partition); }
  size_t partitions() const { return starts_.size(); }

 private:
  class Evening;
  static Points points_of(const std::vector<std::string>& names);

  std::shared_ptr<const Points> points_;  // by value
  std::vector<uint32_t> starts_;          // by partition: the point where it begins
  size_t ids_;                            // so many, with those that are not on the ring
};

}  // namespace elastripe
