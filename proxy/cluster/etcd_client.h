// EtcdClient: what a proxy asks of etcd, a store of keys that others have installed. Real over
// HTTP (proxy/etcd), virtual in the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/error.h"

namespace elastripe::etcd {

using LeaseId = int64_t;   // 0: none
using Revision = int64_t;  // of the store: one more with each write; 0: there is none

// Keys with this lease go when it ends, on etcd's clock: not before `ttl` after it was granted or
// kept alive, and later if etcd's leader has changed.
struct Lease {
  LeaseId id = 0;
  Duration ttl{};
};

struct KeyValue {
  std::string key;
  std::string value;
  LeaseId lease = 0;
  Revision revision = 0;  // that wrote it

  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// All keys under a prefix.
struct Found {
  Revision revision = 0;  // of the store
  std::vector<KeyValue> pairs;
};

struct Change {
  KeyValue pair;
  bool is_deletion = false;
};

struct Changes {
  Revision revision = 0;  // all up to here are told
  std::vector<Change> changes;
};

// All or nothing, if the guard is of that revision (0: there is no such key).
struct Write {
  std::string guard;
  Revision guard_revision = 0;
  std::vector<KeyValue> pairs;  // with the leases that they shall have
};

// One thread. Answers are those of a majority of etcd's members. kUnavailable: etcd does not answer
// until the deadline, or refuses, and why; a write may have been done then, or may be done later.
// kCancelled: shutting down.
class EtcdClient {
 public:
  virtual ~EtcdClient() = default;

  virtual Task<Result<Lease>> grant(Duration ttl, TimePoint deadline) = 0;
  // Its time counts anew. kNotFound: it is over.
  virtual Task<Result<Lease>> keep_alive(LeaseId lease, TimePoint deadline) = 0;
  // Ends it; kNotFound: it is over.
  virtual Task<Result<void>> revoke(LeaseId lease, TimePoint deadline) = 0;
  virtual Task<Result<Found>> find(std::string prefix, TimePoint deadline) = 0;
  // The revision of the write; 0: the guard is of another one. kNotFound: a lease is over.
  virtual Task<Result<Revision>> write(Write write, TimePoint deadline) = 0;
  // What has changed under the prefix since the revision, in order: as soon as something has, or
  // nothing at the deadline. kNotFound: etcd does not remember changes since then any more.
  virtual Task<Result<Changes>> changes(std::string prefix, Revision since, TimePoint deadline) = 0;
};

}  // namespace elastripe::etcd
