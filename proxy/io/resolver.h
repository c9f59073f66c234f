// Resolver: looks names of hosts up on a thread of its own, because the system's resolver blocks
// for as long as its name servers are silent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/io/loop.h"
#include "proxy/io/socket.h"

namespace elastripe {

// Any thread.
class Resolver {
 public:
  using Found = Result<std::vector<SocketAddress>>;
  using LookUp = std::function<Found(const std::string& host, uint16_t port)>;
  class Question;

  // A question that waits for its answer. Who destroys it, on the loop's thread, is not answered.
  class Waiting {
   public:
    Waiting() = default;
    explicit Waiting(std::shared_ptr<Question> question) : question_(std::move(question)) {}
    Waiting(Waiting&& other) noexcept = default;
    Waiting& operator=(Waiting&& other) noexcept;
    ~Waiting();

   private:
    std::shared_ptr<Question> question_;
  };

  // `look_up` may still run for a while after the resolver is gone.
  explicit Resolver(LookUp look_up = resolve_all);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Questions are answered one after the other; those for the same host and port, together. `done`
  // runs on the loop's thread, never inside.
  Waiting ask(Loop& loop, const std::string& host, uint16_t port, std::function<void(Found)> done);

 private:
  struct State;
  static void serve(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // the thread's, too: nobody waits for its last look-up
};

}  // namespace elastripe
