// The proxies that may be asked: their idle connections, and which of them is asked next.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client-lib/client.h"
#include "client-lib/fail.h"

namespace elastripe::client {

// What may be done with a request that got no answer.
enum class Retry : uint8_t {
  kRead,         // it changes nothing: it may be sent again
  kWrite,        // it must not be sent again
  kConditional,  // it names a cas unique, and so takes effect once at most: it may be sent again
};

// Several proxies of one cluster, of which the one that answered last is asked first. For many
// threads: each request has a connection of its own meanwhile.
class Proxies {
 public:
  static Result<std::unique_ptr<Proxies>> create(const std::vector<std::string>& addresses,
                                                 Options options, size_t most_idle);
  explicit Proxies(size_t most_idle) : most_idle_(most_idle) {}

  // What `request` returns, of the first proxy that can answer.
  //
  // The next proxy is asked when nothing was done: there is no connection, or the proxy says that
  // it serves nothing. A read is also asked again when its answer did not come. A write is then
  // sent again only if it has a cas unique; if the later try is refused, nobody knows whether that
  // is due to the first, and the outcome is unknown. A connection that broke may have been of a
  // process that has ended: its proxy is asked once more, after the others.
  template <std::invocable<Client&> Request>
  std::invoke_result_t<Request, Client&> run(Retry retry, const Request& request);

  // Closes the connections that nobody uses.
  void close();

 private:
  struct Proxy {
    Options options;
    std::mutex mutex;
    std::vector<Client> idle;  // the last used one is last
  };

  // Asks one proxy.
  template <class Request>
  auto ask(Proxy& proxy, const Request& request) -> std::invoke_result_t<Request, Client&>;
  Client take(Proxy& proxy);
  void give_back(Proxy& proxy, Client client);

  const size_t most_idle_;
  std::deque<Proxy> proxies_;  // which stay where they are
  std::atomic<size_t> preferred_ = 0;
};

template <std::invocable<Client&> Request>
std::invoke_result_t<Request, Client&> Proxies::run(Retry retry, const Request& request) {
  const size_t count = proxies_.size();
  const size_t first = preferred_.load(std::memory_order_relaxed);
  std::vector<size_t> queue;
  queue.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) queue.push_back((first + i) % count);

  std::optional<Error> unknown;  // how a try ended that may have taken effect
  for (size_t place = 0;; ++place) {
    auto result = ask(proxies_[queue[place]], request);
    if (result) {
      preferred_.store(queue[place], std::memory_order_relaxed);
      return result;
    }
    Error& error = result.error();
    const bool may_be_done = retry != Retry::kRead && error.may_have_taken_effect();
    const bool has_no_answer = error.kind == ErrorKind::kConnection ||
                               error.kind == ErrorKind::kTimeout || is_not_serving(error);
    const bool has_broken = error.kind == ErrorKind::kConnection && !error.is_unsent;
    if (has_broken && place < count) queue.push_back(queue[place]);
    const bool goes_on = may_be_done ? retry == Retry::kConditional : has_no_answer;
    if (goes_on && place + 1 < queue.size()) {
      if (may_be_done) unknown = std::move(error);
      continue;
    }
    if (unknown && !may_be_done) {
      return fail(ErrorKind::kUnknownOutcome,
                  unknown->message + "; when it was sent again: " + error.message);
    }
    return result;
  }
}

template <class Request>
auto Proxies::ask(Proxy& proxy, const Request& request) -> std::invoke_result_t<Request, Client&> {
  Client client = take(proxy);
  auto result = request(client);
  give_back(proxy, std::move(client));
  return result;
}

}  // namespace elastripe::client
