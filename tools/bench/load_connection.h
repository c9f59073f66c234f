// One connection of a load: composes requests, checks replies, records latencies. Used by one
// thread; never waits.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "tools/bench/load.h"

namespace elastripe::bench {

class LoadConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Counts into `result`.
  LoadConnection(const LoadSettings& settings, const ObjectBytes& objects,
                 std::unique_ptr<RequestSource> source, LoadResult& result);
  ~LoadConnection();
  LoadConnection(const LoadConnection&) = delete;
  LoadConnection& operator=(const LoadConnection&) = delete;

  cli::Result<> connect();
  int fd() const { return fd_; }

  // Sends what waits, and new requests until as many as the depth are in flight.
  cli::Result<> ask(TimePoint now);
  // Takes the replies that have come.
  cli::Result<> receive(TimePoint now);
  // No new requests.
  void end() { ended_ = true; }

  // Nothing in flight, and nothing more to ask.
  bool idle() const { return ended_ && in_flight_.empty(); }

  bool waits_for_room() const { return sent_ < out_.size(); }
  // True once whenever waits_for_room() is another than when it was last asked.
  bool wants_change_of_interest();

 private:
  struct InFlight {
    Request request;
    bool reads = false;  // a GET; else a SET
    TimePoint sent;
    TimePoint started;  // of a read-modify-write: its read
  };

  void compose(const InFlight& asked);
  cli::Result<> flush();
  // Takes one whole reply from the front of `text`; 0 if it is not whole yet.
  cli::Result<size_t> take_reply(std::string_view text, TimePoint now);
  cli::Result<size_t> take_value(std::string_view text, const Request& request) const;
  void complete(const InFlight& answered, TimePoint now);
  void count(Operation operation, TimePoint since, TimePoint now);

  const LoadSettings& settings_;
  const ObjectBytes& objects_;
  const std::unique_ptr<RequestSource> source_;
  LoadResult& result_;

  int fd_ = -1;
  bool ended_ = false;
  bool watched_for_room_ = false;
  std::deque<InFlight> in_flight_;
  std::string out_;
  size_t sent_ = 0;  // of out_
  std::string in_;   // its first `received_` bytes are replies not yet taken
  size_t received_ = 0;
  uint64_t revision_ = 0;
};

}  // namespace elastripe::bench
