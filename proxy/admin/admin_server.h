// AdminServer: the HTTP interface for operators and monitoring (docs/admin-api.md).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/admin/job_report.h"
#include "proxy/async/scope.h"
#include "proxy/base/metrics.h"
#include "proxy/io/loop.h"
#include "proxy/io/socket.h"
#include "proxy/ops/decider/decider.h"
#include "proxy/ops/jobs/repairer.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/scrubber.h"
#include "proxy/ops/objects/outcome.h"

struct bufferevent;
struct evconnlistener;
struct event;
struct event_base;
struct evhttp;
struct evhttp_request;

namespace elastripe {

// That the cluster-wide settings shall change.
struct SettingsOrder {
  std::vector<std::string> settings;   // "timing.lease_ms=5000"
  std::optional<uint32_t> of_version;  // only if they are of that one yet
  bool is_recycled = false;            // the operator vouches that no log has an update
};

// What it shows and does. All are called on the loop's thread, and answer there; what another
// thread knows or does is a task.
struct AdminSources {
  std::function<Task<decider::ClusterStatus>()> cluster;  // brings the metrics up to date, too
  std::function<MapPtr()> map;
  std::function<std::string()> not_serving;  // empty: ready
  // `most` segments from `first` on.
  std::function<Task<Result<objects::ObjectReport>>(std::string key, size_t first, size_t most)>
      inspect;
  std::function<Task<Result<jobs::ScrubReport>>(std::string key)> scrub;
  std::function<Task<Result<decider::AcceptedLoss>>()> accept_loss;
  std::function<Task<Result<void>>(std::string node)> declare_dead;
  std::function<Task<Result<void>>(MemberChange)> change_members;
  // Their version then.
  std::function<Task<Result<uint32_t>>(SettingsOrder)> change_settings;
  // The order is a JSON object that the kind has parsed.
  std::function<Task<Result<jobs::ClusterJob>>(std::string kind, std::string order)> start_job;
  std::function<std::vector<jobs::ClusterJob>()> jobs;  // oldest first
  // Only one of the kind; empty: of any.
  std::function<Task<Result<jobs::ClusterJob>>(uint64_t id, std::string kind)> cancel_job;
  std::function<jobs::RepairStatus()> repair;
  std::function<jobs::ScrubStatus()> background_scrub;
  std::string version;
  std::string proxy_id;             // tells processes apart, as `stats settings` does
  std::string host;                 // as configured: a name of its own, or an address
  bool is_network_trusted = false;  // nodes may be added that other machines can reach
};

class AdminServer {
 public:
  static constexpr size_t kMaxConnections = 256;
  static constexpr size_t kSegmentsAtOnce = 1000;  // of one object that is shown

  // `socket` is bound and listening.
  AdminServer(Loop& loop, Fd socket, MetricRegistry& registry, AdminSources sources);
  ~AdminServer();  // after join()
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  // Ends when no request runs any more; whoever calls it also cancels their waits.
  Task<void> join() { return running_.join(); }

 private:
  static bufferevent* on_connection(event_base* base, void* self);
  static void on_accept_error(evconnlistener* listener, void* self);
  static void on_look(int fd, short what, void* self);
  void forget_ended();
  static void on_request(evhttp_request* request, void* self);
  void route(evhttp_request* request, const std::string& path);
  void run(evhttp_request* request, Task<void> answer);
  // `answer` of the key, which is checked.
  using KeyAnswer = Task<void> (AdminServer::*)(evhttp_request*, std::string key);
  void answer_key(evhttp_request* request, std::string_view encoded_key, KeyAnswer answer);
  // Answers one of the paths that show the cluster.
  Task<void> show_cluster(evhttp_request* request, std::string path);
  Task<void> accept_loss(evhttp_request* request);
  void answer_node(evhttp_request* request, std::string name, const std::string& action);
  Task<void> declare_dead(evhttp_request* request, std::string name);
  Task<void> change_members(evhttp_request* request, MemberChange change);
  // Jobs of one kind, or (null) of all; `rest` of the path is behind theirs.
  void answer_jobs(evhttp_request* request, const JobKind* kind, std::string_view rest);
  Task<void> start_job(evhttp_request* request, std::string kind, std::string order);
  Task<void> cancel_job(evhttp_request* request, uint64_t id, std::string kind);
  void answer_settings(evhttp_request* request);
  Task<void> change_settings(evhttp_request* request, SettingsOrder order);
  void answer_ready(evhttp_request* request);
  Task<void> inspect_and_answer(evhttp_request* request, std::string key);
  Task<void> scrub_and_answer(evhttp_request* request, std::string key);

  MetricRegistry& registry_;
  const AdminSources sources_;
  evhttp* http_;
  evconnlistener* listener_ = nullptr;  // of http_
  event* look_;
  std::vector<bufferevent*> connections_;  // and some that have ended
  Scope running_;
};

}  // namespace elastripe
