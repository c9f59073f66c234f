// A client of an elastripe proxy, or of any memcached: objects by key, errors as values.
//
// A thin layer over libmemcached's ASCII protocol. One Client is one connection, used by one thread
// at a time; it connects at the first request and again after a failure. Parts of objects are read
// and changed by commands that libmemcached does not know, over a second connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct memcached_st;  // NOLINT(readability-identifier-naming): of libmemcached

namespace elastripe::client {

inline constexpr size_t kMaxKeyBytes = 250;
inline constexpr size_t kMaxObjectBytes = size_t{1} << 30;

enum class ErrorKind : uint8_t {
  kNotFound,        // no object under this key
  kOutOfRange,      // the object ends before the bytes do; nothing was done
  kExists,          // its cas unique is another one; nothing was done
  kInvalid,         // refused here: key or object out of bounds; nothing was sent
  kConnection,      // no connection, or it broke; a write may have taken effect
  kTimeout,         // no answer in time; a write may have taken effect
  kServer,          // SERVER_ERROR, CLIENT_ERROR or ERROR; the message is the server's
  kUnknownOutcome,  // an error that says "outcome unknown": a write may have taken effect
};

// The kind as text in snake case ("not_found").
std::string_view name(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string message;  // one line
};

template <class T = void>
using Result = std::expected<T, Error>;

struct Options {
  std::string host = "127.0.0.1";
  uint16_t port = 11311;
  int connect_timeout_ms = 2000;
  int request_timeout_ms = 30000;  // longest wait for progress on the connection
};

// Reads `HOST:PORT`, `[IPV6]:PORT`, `HOST` or `:PORT`; what is left out keeps its default.
Result<Options> parse_address(std::string_view text);

// An object as it was read. Owns its bytes.
class Value {
 public:
  Value() = default;
  Value(char* data, size_t bytes, uint32_t flags) : data_(data), bytes_(bytes), flags_(flags) {}

  std::string_view bytes() const { return {data_.get(), bytes_}; }
  uint32_t flags() const { return flags_; }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;  // from malloc: libmemcached's own buffer, not copied
  size_t bytes_ = 0;
  uint32_t flags_ = 0;
};

struct PutOptions {
  uint32_t flags = 0;
  int64_t exptime = 0;  // memcached's: 0 never, up to 30 days in seconds from now, else Unix time
};

// A part of an object, and what it is a part of.
struct Range {
  std::string bytes;
  uint64_t cas = 0;
  uint64_t object_bytes = 0;  // of the whole object
};

struct UpdateOptions {
  std::optional<uint64_t> cas = {};  // only if the object's is this one
};

class MetaConnection;

// Checks the bounds of memcached's keys: 1 to 250 bytes, none of them white space or control.
Result<> validate_key(std::string_view key);

class Client {
 public:
  // Opens no connection yet. Fails only on an impossible address.
  static Result<Client> create(const Options& options);

  // kNotFound if there is none.
  Result<Value> get(std::string_view key);

  // Those of `keys` that exist, in one request. An error hides the rest.
  Result<std::map<std::string, Value, std::less<>>> get_many(std::span<const std::string> keys);

  // Stores up to kMaxObjectBytes. On success the object survives what its pool's scheme promises.
  // libmemcached sends in pieces of 8196 bytes and forgets to push the last one when it is full: a
  // request of an exact multiple of that waits for TCP, 40 to 200 ms.
  Result<> put(std::string_view key, std::string_view object, const PutOptions& options = {});

  // `length` bytes of the object from `offset` on, or as many as it has there.
  Result<Range> get_range(std::string_view key, uint64_t offset, uint64_t length);

  // Puts the bytes, 1 MiB at most, in the place of those that the object has from `offset` on: all
  // of them at once. The new cas unique; 0 if others have followed, so that nobody knows.
  Result<uint64_t> update(std::string_view key, uint64_t offset, std::string_view bytes,
                          const UpdateOptions& options = {});

  // Adds bytes to the end of an object. kNotFound if there is none.
  Result<> append(std::string_view key, std::string_view bytes);

  // kNotFound if there was none.
  Result<> remove(std::string_view key);

  // `stats` or `stats GROUP` as the server answers it, in its order.
  Result<std::vector<std::pair<std::string, std::string>>> stats(std::string_view group = {});

 private:
  struct Close {
    void operator()(memcached_st* handle) const;
  };
  struct Delete {
    void operator()(MetaConnection* connection) const;
  };
  Client(memcached_st* handle, const Options& options);

  // The last failure of the connection as an error; `code` is libmemcached's return code.
  Error error_of(int code) const;
  // What the end of a read means: kNotFound when the server answered, and found nothing (more).
  Error read_error(int code) const;

  std::unique_ptr<memcached_st, Close> handle_;
  std::unique_ptr<MetaConnection, Delete> meta_;
};

}  // namespace elastripe::client
