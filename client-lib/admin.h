// The admin interface of the proxies (docs/admin-api.md): where an object lies, and how much
// redundancy it has. It is HTTP, by libcurl; a build without that has no such header installed.
//
//   auto admin = Admin::create({"proxy1:11311", "proxy2:11311"});
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

class AdminInterfaces;

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

// A job of the cluster, which is not bound to the proxy that was asked for it: each call asks any
// of those that the Admin knows, as Pool does (pool.h). Should the one end that runs the job,
// another one goes on with it. For many threads; outlives the Admin.
class Transition {
 public:
  // Another program may go on with the job by it: Admin::find_transition().
  uint64_t id() const { return id_; }

  // kNotFound when the cluster knows it no more, as of all but the last few. A proxy that has not
  // heard of a new one yet is given the time to.
  Result<TransitionReport> report() const;

  // No object begins any more; wait for those that have begun. What was not answered is asked for
  // elsewhere: it is no harm twice.
  Result<TransitionReport> cancel() const;

  // The last report, when it is done or cancelled. kServer if it failed as a whole, kTimeout if it
  // runs after so long; and as report() does.
  Result<TransitionReport> wait(
      std::chrono::milliseconds timeout = std::chrono::milliseconds::max()) const;

 private:
  friend class Admin;
  using Clock = std::chrono::steady_clock;
  Transition(std::shared_ptr<const AdminInterfaces> admin, uint64_t id);

  Result<TransitionReport> ask() const;
  // Whether it is another proxy's, of which the asked one has not heard.
  bool is_unheard(const Result<TransitionReport>& report) const;

  std::shared_ptr<const AdminInterfaces> admin_;
  uint64_t id_;
  Clock::time_point heard_by_;  // all proxies know of it then
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

  // That of the id, which anybody may have started. kNotFound if the proxy that answers knows of
  // none: of one that has begun within the last two seconds it may not have heard yet.
  Result<Transition> find_transition(uint64_t id);

 private:
  explicit Admin(std::shared_ptr<const AdminInterfaces> interfaces);

  std::shared_ptr<const AdminInterfaces> interfaces_;
};

}  // namespace elastripe::client
