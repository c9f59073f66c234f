// What is asked of the decider and is done once a map that says so is served: flush_all (rule 27),
// and what the operator changes. Who asks waits for the answer.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/async/one_shot.h"
#include "proxy/cluster/membership.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

// On the decider's thread. A request is asked until a map carries it, and is answered when that map
// is served, or one that follows from it. Whoever asks for a flush meanwhile shares the next map; a
// change has one of its own, which is there before it waits.
class PendingRequests {
 public:
  struct Request {
    std::optional<uint32_t> flush_at;  // a flush at that unix second, 0: at once; else a change
    TimePoint deadline;
    OneShot<Result<void>>* answer = nullptr;  // outlives the request
    bool is_carried = false;
  };

  void add(Request request) { requests_.push_back(request); }

  // What the next map has to say, in the order in which it was asked: one time is pending at most,
  // and whoever flushes later decides which.
  void add_to(FlushOrder& order) const {
    for (const Request& request : requests_) {
      if (request.is_carried || !request.flush_at) continue;
      order.now |= *request.flush_at == 0;
      order.at = request.flush_at;
    }
  }
  bool are_asked() const {
    return std::ranges::any_of(requests_, [](const Request& r) { return !r.is_carried; });
  }

  // The map that is installed now says what add_to() said.
  void carried() {
    for (Request& request : requests_) request.is_carried = true;
  }
  // The map that carries them is given up, yet another decider may build upon it, and have it
  // served: asked for again, they might flush twice (as rule 6 says of commits).
  void give_up_carried() {
    if (mutant(Mutant::kRepeatFlush)) {
      for (Request& request : requests_) request.is_carried = !request.flush_at;
      return;
    }
    answer(
        [](const Request& request) { return request.is_carried; },
        [](const Request& request) { return failure(request, "another proxy makes maps, too"); });
  }

  // Answers resume whoever waits, at once, and these may ask for the next map: so all that are due
  // are answered together. `is_followed`: this proxy goes by the settings of that map, for which
  // changes wait.
  void served(bool is_followed) {
    answer(
        [&](const Request& request) {
          return request.is_carried && (request.flush_at || is_followed);
        },
        [](const Request&) { return Result<void>{}; });
  }
  void expire(TimePoint now) {
    answer([now](const Request& request) { return request.deadline <= now; },
           [](const Request& request) { return failure(request, "no map was served in time"); });
  }
  void fail_all(const std::string& why) {
    answer([](const Request&) { return true; },
           [&](const Request& request) { return failure(request, why); });
  }

 private:
  // A map that carries it may be installed somewhere, and be what the next decider builds upon.
  static Result<void> failure(const Request& request, const std::string& why) {
    const auto code = request.is_carried ? ErrorCode::kUnknownOutcome : ErrorCode::kUnavailable;
    return fail(Error{code, why});
  }

  template <class Which, class How>
  void answer(Which which, How how) {
    std::vector<Request> chosen;
    std::erase_if(requests_, [&](const Request& request) {
      if (which(request)) chosen.push_back(request);
      return which(request);
    });
    for (const Request& request : chosen) request.answer->set(how(request));
  }

  std::vector<Request> requests_;  // in the order in which they came
};

}  // namespace elastripe::decider
