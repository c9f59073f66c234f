#include "proxy/io/resolver.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace elastripe {

class Resolver::Question : public std::enable_shared_from_this<Question> {
 public:
  Question(Loop& loop, std::string host, uint16_t port, std::function<void(Found)> done)
      : host_(std::move(host)), port_(port), loop_(&loop), done_(std::move(done)) {}

  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }
  bool is_same(const Question& other) const { return host_ == other.host_ && port_ == other.port_; }

  // The resolver's thread.
  void answer(const Found& found) {
    const std::lock_guard lock(mutex_);
    if (loop_ == nullptr) return;
    loop_->post([self = shared_from_this(), found] {
      if (const auto done = std::exchange(self->done_, nullptr)) done(found);
    });
  }

  // The loop's thread, which may end then.
  void withdraw() {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;
    done_ = nullptr;
  }

 private:
  const std::string host_;
  const uint16_t port_;
  std::mutex mutex_;
  Loop* loop_;                       // guarded by mutex_; null: nobody waits any more
  std::function<void(Found)> done_;  // the loop's thread only
};

struct Resolver::State {
  LookUp look_up;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Question>> questions;
  bool stopping = false;
};

Resolver::Waiting& Resolver::Waiting::operator=(Waiting&& other) noexcept {
  std::swap(question_, other.question_);
  if (const auto old = std::exchange(other.question_, nullptr)) old->withdraw();
  return *this;
}

Resolver::Waiting::~Waiting() {
  if (question_ != nullptr) question_->withdraw();
}

Resolver::Resolver(LookUp look_up) : state_(std::make_shared<State>()) {
  state_->look_up = std::move(look_up);
  std::thread([state = state_] { serve(state); }).detach();
}

Resolver::~Resolver() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

Resolver::Waiting Resolver::ask(Loop& loop, const std::string& host, uint16_t port,
                                std::function<void(Found)> done) {
  auto question = std::make_shared<Question>(loop, host, port, std::move(done));
  const std::lock_guard lock(state_->mutex);
  state_->questions.push_back(question);
  state_->changed.notify_all();
  return Waiting(std::move(question));
}

void Resolver::serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->questions.empty(); });
    if (state->stopping) return;
    const std::shared_ptr<Question> first = state->questions.front();
    lock.unlock();
    const Found found = state->look_up(first->host(), first->port());
    lock.lock();
    // whoever asked the same meanwhile has its answer, too
    std::vector<std::shared_ptr<Question>> answered;
    std::erase_if(state->questions, [&](const auto& question) {
      if (!question->is_same(*first)) return false;
      answered.push_back(question);
      return true;
    });
    for (const auto& question : answered) question->answer(found);
  }
}

}  // namespace elastripe
