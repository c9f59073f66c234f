// A connection on which whole objects are read, by libmemcached. That does not tell its socket, so
// nobody can look whether the server has closed it: writes take the other one (meta_connection.h).
#pragma once

#include <libmemcached/memcached.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "client-lib/options.h"

namespace elastripe::client {

class ClassicConnection {
 public:
  // It connects at the first request, and again after a failure or when it was idle for long.
  explicit ClassicConnection(Options options) : options_(std::move(options)) {}

  using Command = std::function<memcached_return_t(memcached_st*)>;
  // Runs one command of libmemcached's, on a connection that is logged in. MEMCACHED_NOTFOUND is
  // kNotFound.
  Result<> run(const Command& command);

 private:
  struct Free {
    pid_t process;  // which made it

    bool is_of_parent() const { return process != ::getpid(); }
    void operator()(memcached_st* handle) const {
      // In a forked child it would say "quit" on the connection that its parent goes on with.
      if (!is_of_parent()) memcached_free(handle);
    }
  };

  using Handle = std::unique_ptr<memcached_st, Free>;

  // A first request, which changes nothing: whatever fails before it has ended is unsent.
  Result<> connect();
  // What the server or libmemcached said last; `code` is libmemcached's return code.
  Error error_of(memcached_return_t code) const;

  const Options options_;
  Handle handle_;  // one connection each
  std::chrono::steady_clock::time_point last_used_;
};

}  // namespace elastripe::client
