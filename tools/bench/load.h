// Load of many connections: each keeps a number of requests in flight, in one of memcached's
// dialects, in clear or over TLS, and for updates of single fields a meta command of elastripe's.
// Every reply is checked, every latency recorded.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/base/duration_summary.h"
#include "proxy/io/tls.h"
#include "tools/bench/dialect.h"
#include "tools/bench/object_bytes.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

// A kDelete of what is gone is a success, too.
enum class Operation : uint8_t { kRead, kUpdate, kInsert, kReadModifyWrite, kDelete };
inline constexpr std::array kOperations{Operation::kRead, Operation::kUpdate, Operation::kInsert,
                                        Operation::kReadModifyWrite, Operation::kDelete};
// "read", "update", "insert", "read-modify-write", "delete"
const char* name_of(Operation operation);

struct Request {
  Operation operation = Operation::kRead;
  uint64_t record = 0;
  // What an update, also that of a read-modify-write, changes of the record (`ms` with an offset);
  // nothing: the whole record is stored anew.
  std::optional<size_t> field = {};
};

// What one connection asks for, one request after the other; used by one thread.
struct RequestSource {
  std::function<std::optional<Request>()> next;  // nothing: there is no more to do
  std::function<void(const Request&)> acknowledged = [](const Request&) {};
};
using SourceFactory = std::function<RequestSource()>;

struct LoadSettings {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::vector<uint16_t> more_ports = {};  // connections go to all of them in turns
  std::string key_prefix = {};
  int connections = 32;
  int depth = 1;      // requests in flight on each connection
  int threads = 1;    // that drive the connections
  int exptime_s = 0;  // of what is stored, from then on; 0: for ever
  Dialect dialect = Dialect::kText;
  std::shared_ptr<const TlsContext> tls = nullptr;  // null: in clear
  // No request is sent after it; what is in flight is still answered, and counted.
  std::optional<std::chrono::milliseconds> duration = {};
};

using Latencies = DurationSummary<256>;
inline double quantile_us(const Latencies& latencies, double fraction) {
  return std::chrono::duration<double, std::micro>(latencies.quantile(fraction)).count();
}

struct LoadResult {
  uint64_t operations = 0;  // a read-modify-write is one
  double seconds = 0;
  // By operation. A read-modify-write counts thrice: its read, its update, and the whole of both.
  std::array<Latencies, kOperations.size()> latencies;

  double per_second() const { return static_cast<double>(operations) / seconds; }
  const Latencies& of(Operation operation) const {
    return latencies[static_cast<size_t>(operation)];
  }
  void add(const LoadResult& other);
};

// The first failure ends it: a connection that breaks or waits for 30 s, a reply that is no
// success, an object that is gone or not what was stored.
cli::Result<LoadResult> run_load(const LoadSettings& settings, const ObjectBytes& objects,
                                 const SourceFactory& sources);

// So many connections to the server of the settings, made one after the other, each of which has
// had one answer and is open until the result is destroyed.
class Connections;
struct CloseConnections {
  void operator()(Connections* connections) const;
};
using ConnectionsPtr = std::unique_ptr<Connections, CloseConnections>;
cli::Result<ConnectionsPtr> open_connections(const LoadSettings& settings, int count);

// Stores records 0 to `records` - 1, once each.
SourceFactory new_records(uint64_t records);

// Requests of one kind, for records that are all equally likely.
SourceFactory uniform_requests(Operation operation, uint64_t records, uint64_t seed);

// The key of a record, as of YCSB: neighbours are far from each other.
std::string key_of(const std::string& prefix, uint64_t record);

}  // namespace elastripe::bench
