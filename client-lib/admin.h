// The admin interface of a proxy (docs/admin-api.md): where an object lies, and how much redundancy
// it has. It is HTTP, by libcurl; a build without that has no such header installed.
//
//   auto admin = Admin::create({"127.0.0.1:11311"});
//   auto job = admin->transition(5, {.prefix = "vid"});   // to five data shards, online
//   auto report = job->wait();
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "options.h"

namespace elastripe::client {

class AdminInterface;
class Proxies;

// An object's record: GET /v1/objects/KEY, whose whole answer is `json`.
struct ObjectInfo {
  std::string kind;  // "inline", "striped" or "tombstone"
  uint64_t size = 0;
  std::string scheme;               // empty unless it is striped, as of the next two
  uint64_t missing_shards = 0;      // gone
  uint64_t unreachable_shards = 0;  // their nodes do not answer, and may have them
  std::vector<std::string> homes;   // the nodes that have its record
  std::string json;
};

// How far a transition is: GET /v1/transitions/ID, whose whole answer is `json`.
struct TransitionReport {
  uint64_t id = 0;
  std::string state;                       // "running", "cancelling", "done", "cancelled", "failed"
  std::string reason;                      // why it failed, or what it waits for
  std::map<std::string, uint64_t> counts;  // of objects, by what became of them
  std::string json;
};

// What to take to another k: one of the first three, and how.
struct TransitionOptions {
  std::optional<std::string> key = {};
  std::optional<std::string> prefix = {};
  bool all = false;
  bool dry_run = false;   // only counts
  uint64_t rate = 0;      // bytes a second to and from the nodes; 0: no limit
  unsigned parallel = 4;  // objects at a time
};

// A job of the cluster, as one proxy tells of it. Should that proxy end, another one goes on with
// the job, which has its id there, too.
class Transition {
 public:
  uint64_t id() const { return id_; }

  // kNotFound when the proxy knows it no more.
  Result<TransitionReport> report() const;

  // No object begins any more; wait for those that have begun.
  Result<TransitionReport> cancel() const;

  // The last report, when it is done or cancelled. kServer if it failed as a whole, kTimeout if it
  // runs after so long; and as report() does.
  Result<TransitionReport> wait(
      std::chrono::milliseconds timeout = std::chrono::milliseconds::max()) const;

 private:
  friend class Admin;
  Transition(std::shared_ptr<const AdminInterface> admin, uint64_t id)
      : admin_(std::move(admin)), id_(id) {}

  std::shared_ptr<const AdminInterface> admin_;
  uint64_t id_;
};

// For many threads. Of several proxies another one is asked as by Pool (pool.h).
class Admin {
 public:
  // Opens no connection yet. The interface is where a proxy says that it is, or at `named`, the
  // address of that of a lone proxy. `options` are for the proxies; the interface has neither login
  // nor TLS. kInvalid: an address or an option is impossible.
  static Result<Admin> create(const std::vector<std::string>& proxies, const Options& options = {},
                              std::string_view named = {});
  ~Admin();
  Admin(Admin&&) noexcept;
  Admin& operator=(Admin&&) noexcept;

  // kNotFound if there is no such object.
  Result<ObjectInfo> object_info(std::string_view key);

  // Starts taking objects to `to` data shards, the k or the k' of their scheme, and returns at
  // once. kServer also if another job runs.
  Result<Transition> transition(unsigned to, const TransitionOptions& options);

 private:
  Admin(std::unique_ptr<Proxies> proxies, std::string named);

  std::unique_ptr<Proxies> proxies_;
  std::string named_;
};

}  // namespace elastripe::client
