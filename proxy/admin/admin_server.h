// AdminServer: the HTTP interface for operators and monitoring (docs/admin-api.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "proxy/admin/transition_report.h"
#include "proxy/async/scope.h"
#include "proxy/base/metrics.h"
#include "proxy/io/loop.h"
#include "proxy/io/socket.h"
#include "proxy/ops/decider.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/scrub.h"

struct evhttp;
struct evhttp_request;

namespace elastripe {

// What it shows and does. All are called on the loop's thread.
struct AdminSources {
  std::function<ClusterStatus()> cluster;
  std::function<MapPtr()> map;
  std::function<std::string()> not_serving;  // empty: ready
  std::function<Task<Result<ObjectReport>>(std::string key)> inspect;
  std::function<Task<Result<ScrubReport>>(std::string key)> scrub;
  std::function<Result<AcceptedLoss>()> accept_loss;
  std::function<Result<void>(const std::string& node)> declare_dead;
  std::function<Result<TransitionReport>(TransitionJobSpec)> start_transition;
  std::function<TransitionReports()> transitions;
  std::function<Result<TransitionReport>(uint64_t id)> cancel_transition;
  std::string version;
  std::string proxy_id;  // tells processes apart, as `stats settings` does
  std::string host;      // as configured: a name of its own, or an address
};

// On the control thread, so that it answers whatever the workers do.
class AdminServer {
 public:
  // `socket` is bound and listening.
  AdminServer(Loop& loop, Fd socket, MetricRegistry& registry, AdminSources sources);
  ~AdminServer();  // after join()

  // Ends when no request runs any more; whoever calls it also cancels their waits.
  Task<void> join() { return running_.join(); }

 private:
  static void on_request(evhttp_request* request, void* self);
  void route(evhttp_request* request, const std::string& path);
  // `answer` of the key, which is checked.
  using KeyAnswer = Task<void> (AdminServer::*)(evhttp_request*, std::string key);
  void answer_key(evhttp_request* request, std::string_view encoded_key, KeyAnswer answer);
  void accept_loss(evhttp_request* request);
  void declare_dead(evhttp_request* request, std::string_view encoded_name);
  // `rest` of the path, behind /v1/transitions.
  void answer_transitions(evhttp_request* request, std::string_view rest);
  void answer_ready(evhttp_request* request);
  Task<void> inspect_and_answer(evhttp_request* request, std::string key);
  Task<void> scrub_and_answer(evhttp_request* request, std::string key);

  MetricRegistry& registry_;
  const AdminSources sources_;
  evhttp* http_;
  Scope running_;
};

}  // namespace elastripe
