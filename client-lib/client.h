// A client of an elastripe proxy, or of any memcached: objects by key, errors as values.
//
//   auto client = Client::create(*parse_address("127.0.0.1:11311"));
//   auto put = client->put("greeting", "hello");
//   auto value = client->get("greeting");
//   if (value) use(value->bytes()); else report(value.error().message);
//
// A thin layer over memcached's ASCII protocol. One Client is for one thread at a time, and asks
// one server; Pool (pool.h) is for many of both. It connects at the first request and again after a
// failure. Whole objects are read by libmemcached, on a connection of its own; writes and all else
// take a second one, which is looked at before each request: one that the server has closed while
// it was idle is made anew, and nothing is lost on it. A forked child may use the Client that it
// has of its parent: it connects by itself.
//
// Every call may fail as kInvalid (nothing was sent), kServer (refused; nothing was done),
// kConnection and kTimeout; a write as kUnknownOutcome, too. What else it fails as stands beside
// it. Error::may_have_taken_effect() tells of a write that failed whether it may be done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "options.h"

namespace elastripe::client {

// An object as it was read. Owns its bytes.
class Value {
 public:
  Value() = default;
  // `data` is from malloc.
  Value(char* data, size_t bytes, uint32_t flags, uint64_t cas)
      : data_(data), bytes_(bytes), flags_(flags), cas_(cas) {}

  std::string_view bytes() const { return {data_.get(), bytes_}; }
  uint32_t flags() const { return flags_; }
  uint64_t cas() const { return cas_; }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;  // libmemcached's own buffer, not copied
  size_t bytes_ = 0;
  uint32_t flags_ = 0;
  uint64_t cas_ = 0;
};

using Values = std::map<std::string, Value, std::less<>>;

struct PutOptions {
  uint32_t flags = 0;
  int64_t exptime = 0;  // memcached's: 0 never, up to 30 days in seconds from now, else Unix time
  std::optional<uint64_t> cas = {};  // only if the object's is this one: else kExists, kNotFound
};

// One of many that are put. Owns nothing.
struct Object {
  std::string_view key;
  std::string_view bytes;
};

// What became of objects that were not stored, by key.
using PutErrors = std::map<std::string, Error, std::less<>>;

// A part of an object, and what it is a part of.
struct Range {
  std::string bytes;
  uint64_t cas = 0;
  uint64_t object_bytes = 0;  // of the whole object
};

struct UpdateOptions {
  std::optional<uint64_t> cas = {};  // only if the object's is this one, else kExists
};

// What `stats` tells, in the server's order.
using Stats = std::vector<std::pair<std::string, std::string>>;

class Client {
 public:
  // Opens no connection yet. Fails only on impossible options, as kInvalid.
  static Result<Client> create(const Options& options);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  const Options& options() const;

  // With its flags and its cas unique. kNotFound if there is none.
  Result<Value> get(std::string_view key);

  // Those of `keys` that exist. An object that cannot be read now is an error, which hides the
  // rest.
  Result<Values> get_many(std::span<const std::string> keys);

  // Stores up to kMaxObjectBytes. On success the object survives what its pool's scheme promises.
  Result<> put(std::string_view key, std::string_view object, const PutOptions& options = {});

  // Stores an object that is not there yet. kExists if there is one. Takes no cas.
  Result<> add(std::string_view key, std::string_view object, const PutOptions& options = {});

  // Stores each object for itself, many at a time: all are stored but those that are named. Fails
  // as a whole only if nothing was stored, kServer if the server serves nothing. Takes no cas.
  Result<PutErrors> put_many(std::span<const Object> objects, const PutOptions& options = {});

  // `length` bytes of the object from `offset` on, or as many as it has there. kNotFound.
  Result<Range> get_range(std::string_view key, uint64_t offset, uint64_t length);

  // Puts the bytes, 1 MiB at most, in the place of those that the object has from `offset` on: all
  // of them at once. The new cas unique; 0 if others have followed, so that nobody knows.
  // kNotFound; kOutOfRange if the object ends before the bytes do.
  Result<uint64_t> update(std::string_view key, uint64_t offset, std::string_view bytes,
                          const UpdateOptions& options = {});

  // Add bytes to the end of an object, or to its beginning. kNotFound if there is none.
  Result<> append(std::string_view key, std::string_view bytes);
  Result<> prepend(std::string_view key, std::string_view bytes);

  // Change an object that is a decimal number, and tell the new one. After 2^64 - 1 comes 0;
  // decrement() stops at 0. kNotFound if there is none; kServer if it is no number.
  Result<uint64_t> increment(std::string_view key, uint64_t delta = 1);
  Result<uint64_t> decrement(std::string_view key, uint64_t delta = 1);

  // kNotFound if there was none.
  Result<> remove(std::string_view key);

  // Gives an object another exptime: see PutOptions. kNotFound if there is none.
  Result<> touch(std::string_view key, int64_t exptime);

  // `stats` or `stats GROUP`.
  Result<Stats> stats(std::string_view group = {});

 private:
  struct Connections;
  explicit Client(const Options& options);

  Result<> get_some(std::span<const std::string> keys, Values& found);
  // A classic command that stores; `not_stored` is what that answer says of it.
  Result<> store(std::string_view command, std::string_view key, std::string_view object,
                 const PutOptions& options, const Error& not_stored);
  Result<uint64_t> count(std::string_view command, std::string_view key, uint64_t delta);

  std::unique_ptr<Connections> connections_;
};

}  // namespace elastripe::client
