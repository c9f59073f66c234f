// The proxies that may be asked: their idle connections, and which of them is asked next.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client-lib/client.h"
#include "client-lib/fail.h"

namespace elastripe::client {

// What may be done with a request that got no answer.
enum class Retry : uint8_t {
  kRead,         // it changes nothing: it may be sent again
  kWrite,        // it must not be sent again
  kConditional,  // it takes effect once at most, as it names a cas unique, or what is done already
                 // is no harm twice: it may be sent again
};

// Whether the error is no answer of a proxy that serves.
inline bool is_no_answer(const Error& error) {
  return error.kind == ErrorKind::kConnection || error.kind == ErrorKind::kTimeout ||
         is_not_serving(error);
}

// Whether the server closed the connection, or it broke, when the request had been sent.
inline bool has_broken(const Error& error) {
  return error.kind == ErrorKind::kConnection && !error.is_unsent;
}

// The first error of a request for which `matches` holds, or null; it has several if it is many.
template <class T, std::predicate<const Error&> Matches>
const Error* first_error(const Result<T>& result, const Matches& matches) {
  if (!result) return matches(result.error()) ? &result.error() : nullptr;
  if constexpr (std::same_as<T, PutErrors>) {
    for (const auto& [key, error] : *result) {
      if (matches(error)) return &error;
    }
  }
  return nullptr;
}

// Several proxies of one cluster, of which the one that answered last is asked first; after one
// that did not answer, the one behind it. For many threads: each request has a connection of its
// own meanwhile.
class Proxies {
 public:
  static Result<std::unique_ptr<Proxies>> create(const std::vector<std::string>& addresses,
                                                 Options options, size_t most_idle);
  explicit Proxies(size_t most_idle) : most_idle_(most_idle) {}

  // What `request` returns, of the first proxy that can answer.
  //
  // The next proxy is asked when nothing was done: there is no connection, or the proxy says that
  // it serves nothing. A read is also asked again when its answer did not come. A write is then
  // sent again only if it is conditional; if the later try is refused, nobody knows whether that
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
  static void close(Proxy& proxy);
  // Remembers whom to ask first, by whether this one has answered.
  void note(size_t proxy, bool has_answered);

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
    note(queue[place], first_error(result, is_no_answer) == nullptr);
    if (result) return result;
    Error& error = result.error();
    const bool may_be_done = retry != Retry::kRead && error.may_have_taken_effect();
    if (has_broken(error) && place < count) queue.push_back(queue[place]);
    const bool goes_on = may_be_done ? retry == Retry::kConditional : is_no_answer(error);
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
  // Its process may have ended: then its other connections would lose a request each.
  if (first_error(result, has_broken) != nullptr) close(proxy);
  give_back(proxy, std::move(client));
  return result;
}

}  // namespace elastripe::client
