// A client of several proxies of one cluster, for many threads.
//
//   auto pool = Pool::create({"proxy1:11311", "proxy2:11311"});
//   auto put = pool->put("greeting", "hello");
//
// The proxy that answered last is asked first, and the one behind a proxy that did not answer. The
// next one is asked if there is no connection, or the proxy serves nothing; a read also if no
// answer came. A write that may have taken effect is
// sent again only if it has a cas unique, and so takes effect once at most; when the second try is
// refused, that is kUnknownOutcome. Options::request_timeout_ms holds for each proxy, not for the
// whole call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client.h"

namespace elastripe::client {

class Proxies;

class Pool {
 public:
  // Opens no connection yet. `addresses` are what parse_address() reads, and take the place of host
  // and port of `options`. So many clients of each proxy are kept while nobody uses them, with up
  // to two connections each. kInvalid: an address or an option is impossible.
  static Result<Pool> create(const std::vector<std::string>& addresses, const Options& options = {},
                             size_t idle_clients = 8);
  ~Pool();
  Pool(Pool&&) noexcept;
  Pool& operator=(Pool&&) noexcept;

  // As of Client (client.h), each by one proxy at a time.
  Result<Value> get(std::string_view key);
  Result<Values> get_many(std::span<const std::string> keys);
  Result<> put(std::string_view key, std::string_view object, const PutOptions& options = {});
  Result<> add(std::string_view key, std::string_view object, const PutOptions& options = {});
  Result<PutErrors> put_many(std::span<const Object> objects, const PutOptions& options = {});
  Result<Range> get_range(std::string_view key, uint64_t offset, uint64_t length);
  Result<uint64_t> update(std::string_view key, uint64_t offset, std::string_view bytes,
                          const UpdateOptions& options = {});
  Result<> append(std::string_view key, std::string_view bytes);
  Result<> prepend(std::string_view key, std::string_view bytes);
  Result<uint64_t> increment(std::string_view key, uint64_t delta = 1);
  Result<uint64_t> decrement(std::string_view key, uint64_t delta = 1);
  Result<> remove(std::string_view key);
  Result<> touch(std::string_view key, int64_t exptime);
  Result<Stats> stats(std::string_view group = {});

  // Closes the connections that nobody uses. A later call connects again. A child process that was
  // forked may end its parent's Pool, but has to make one of its own: a thread that it has not may
  // hold a lock.
  void close();

 private:
  explicit Pool(std::unique_ptr<Proxies> proxies);

  std::unique_ptr<Proxies> proxies_;
};

}  // namespace elastripe::client
