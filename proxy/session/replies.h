// Replies: the output of a connection. Each command composes its reply, which is queued when those
// before it have been, and leaves as the client takes it.
#pragma once

#include "proxy/io/stream.h"
#include "proxy/memcache/output.h"
#include "proxy/session/execute.h"

namespace elastripe {

// Loop thread only. It counts what it is given and queues it; its users keep the order.
class Replies {
 public:
  explicit Replies(const SessionSettings& settings) : settings_(settings) {}

  // Adds a part to a reply that is not queued yet.
  void compose(memcache::Output& reply, memcache::Output&& part);
  // Everything before this reply is queued: so is what there is of it.
  void queue(memcache::Output& reply);
  // What was composed will never be queued.
  void drop_composed() { composed_bytes_ = composed_text_ = 0; }
  void clear();

  // Whether a further command may be taken.
  bool has_room() const;
  // Whether a further part may be composed of the reply; of the first one, which the others wait
  // for, if the socket takes it.
  bool has_room_for(const memcache::Output& reply, bool is_first) const;

  WriteQueue::Flush flush(Stream& stream) { return stream.flush(queue_); }
  bool all_sent() const { return queue_.empty(); }                // of what was queued
  uint64_t sent_bytes() const { return queue_.written_bytes(); }  // since the start

 private:
  const SessionSettings& settings_;
  WriteQueue queue_;
  size_t composed_bytes_ = 0;  // and not queued
  size_t composed_text_ = 0;   // of these, all but large values
};

}  // namespace elastripe
