#include "proxy/admin/admin_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "proxy/admin/admin_json.h"
#include "proxy/admin/job_body.h"
#include "proxy/admin/member_actions.h"
#include "proxy/base/check.h"
#include "proxy/memcache/request.h"

namespace elastripe {
namespace {

constexpr size_t kMaxRunning = 64;
constexpr ev_ssize_t kMaxHeaderBytes = 16 << 10;
constexpr ev_ssize_t kMaxBodyBytes = 64 << 10;
constexpr int kTimeout_s = 30;
constexpr timeval kLookPeriod{0, 50'000};  // for connections that have ended
constexpr std::string_view kStatus = "/v1/status";
constexpr std::string_view kNodes = "/v1/nodes";
constexpr std::string_view kMetrics = "/metrics";
constexpr std::string_view kObjects = "/v1/objects/";
constexpr std::string_view kScrub = "/v1/scrub/";
constexpr std::string_view kAcceptLoss = "/v1/accept-loss";
constexpr std::string_view kSettings = "/v1/settings";
constexpr std::string_view kJobs = "/v1/jobs";
constexpr std::string_view kCancel = "/cancel";
constexpr std::string_view kNode = "/v1/nodes/";
constexpr std::string_view kDeclareDead = "declare-dead";
// All that libevent knows: a method that no path has is refused here, like any other wrong one.
constexpr uint16_t kAllMethods = EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                 EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH;

bool is_address(const std::string& host) {
  in6_addr parsed;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &parsed) == 1;
  }
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

// Against DNS rebinding: a web page can have its own name resolve to this interface and then read
// the answers, but its requests name that page's host. Addresses and localhost can not be rebound,
// and no browser leaves the header out.
bool is_meant_for(evhttp_request* request, const std::string& configured) {
  const char* host = evhttp_request_get_host(request);
  return host == nullptr || is_address(host) || evutil_ascii_strcasecmp(host, "localhost") == 0 ||
         evutil_ascii_strcasecmp(host, configured.c_str()) == 0;
}

// Whether another web page asks, as browsers tell. It could not read the answer, but the work is
// done.
bool is_cross_site(evhttp_request* request) {
  const evkeyvalq* headers = evhttp_request_get_input_headers(request);
  const char* site = evhttp_find_header(headers, "Sec-Fetch-Site");
  if (site != nullptr) {
    const std::string_view from(site);
    return from != "none" && from != "same-origin";
  }
  const char* origin = evhttp_find_header(headers, "Origin");
  const char* host = evhttp_find_header(headers, "Host");
  return origin != nullptr && (host == nullptr || origin != "http://" + std::string(host));
}

void reply(evhttp_request* request, int code, const char* type, std::string_view text) {
  evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
  evbuffer_add(evhttp_request_get_output_buffer(request), text.data(), text.size());
  evhttp_send_reply(request, code, nullptr, nullptr);
}
void reply_json(evhttp_request* request, int code, std::string_view text) {
  reply(request, code, "application/json", text);
}
void reply_text(evhttp_request* request, int code, std::string_view text) {
  reply(request, code, "text/plain; charset=utf-8", text);
}
void reply_error(evhttp_request* request, int code, ErrorCode error, std::string message) {
  reply_json(request, code, error_json({error, std::move(message)}));
}

int http_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kInvalid:
      return 400;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kTimeout:
      return 504;
    default:
      return 503;
  }
}

void reply_failure(evhttp_request* request, const Error& error) {
  reply_json(request, http_code(error.code), error_json(error));
}

// A web page can send a POST anywhere, but a header of its own only where the server lets it.
// False: refused.
bool names_action(evhttp_request* request, const std::string& action) {
  const char* named = evhttp_find_header(evhttp_request_get_input_headers(request), "X-Elastripe");
  if (named != nullptr && named == action) return true;
  reply_error(request, 400, ErrorCode::kInvalid, "send the header X-Elastripe: " + action);
  return false;
}

// A path of something that is done with one node; its name is still percent-encoded.
struct NodePath {
  std::string_view name;
  std::string_view action;
};
std::optional<NodePath> node_path(std::string_view path) {
  if (!path.starts_with(kNode)) return std::nullopt;
  path.remove_prefix(kNode.size());
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const NodePath node{path.substr(0, slash), path.substr(slash + 1)};
  if (node.action != kDeclareDead && !member_action(node.action)) return std::nullopt;
  return node;
}

// A path of jobs of one kind, or (null) of any, and what is behind it.
struct JobPath {
  const JobKind* kind;
  std::string_view rest;

  bool cancels() const { return rest.starts_with('/') && rest.ends_with(kCancel); }
};
std::optional<JobPath> job_path(std::string_view path) {
  const auto rest_behind = [path](std::string_view list) -> std::optional<std::string_view> {
    if (!path.starts_with(list)) return std::nullopt;
    const std::string_view rest = path.substr(list.size());
    if (!rest.empty() && !rest.starts_with('/')) return std::nullopt;
    return rest;
  };
  if (const auto rest = rest_behind(kJobs)) return JobPath{nullptr, *rest};
  for (const JobKind& kind : job_kinds()) {
    if (const auto rest = rest_behind(kind.path)) return JobPath{&kind, *rest};
  }
  return std::nullopt;
}

struct Methods {
  uint32_t bits;
  const char* text;
};
Methods methods_of(std::string_view path) {
  constexpr Methods kReads = {EVHTTP_REQ_GET | EVHTTP_REQ_HEAD, "GET, HEAD"};
  constexpr Methods kActs = {EVHTTP_REQ_POST, "POST"};
  if (path == kAcceptLoss || node_path(path)) return kActs;
  constexpr Methods kBoth = {kReads.bits | kActs.bits, "GET, HEAD, POST"};
  if (path == kSettings) return kBoth;
  const auto job = job_path(path);
  if (!job) return kReads;
  if (job->rest.empty() && job->kind != nullptr) return kBoth;
  return job->cancels() ? kActs : kReads;
}

std::string body_of(evhttp_request* request) {
  evbuffer* buffer = evhttp_request_get_input_buffer(request);
  std::string body(evbuffer_get_length(buffer), '\0');
  evbuffer_copyout(buffer, body.data(), body.size());
  return body;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The path as sent: still percent-encoded, so that a key may hold a slash.
std::string path_of(evhttp_request* request) {
  const char* path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
  return path == nullptr ? std::string() : std::string(path);
}

std::string decode(std::string_view encoded) {
  size_t size = 0;
  char* text = evhttp_uridecode(std::string(encoded).c_str(), 0, &size);
  if (text == nullptr) return {};
  std::string decoded(text, size);
  std::free(text);
  return decoded;
}

}  // namespace

AdminServer::AdminServer(Loop& loop, Fd socket, MetricRegistry& registry, AdminSources sources)
    : registry_(registry),
      sources_(std::move(sources)),
      http_(evhttp_new(loop.base())),
      running_(kMaxRunning) {
  CHECK(http_ != nullptr);
  evhttp_set_max_headers_size(http_, kMaxHeaderBytes);
  evhttp_set_max_body_size(http_, kMaxBodyBytes);
  evhttp_set_timeout(http_, kTimeout_s);
  evhttp_set_allowed_methods(http_, kAllMethods);
  evhttp_set_gencb(http_, &AdminServer::on_request, this);
  evhttp_set_bevcb(http_, &AdminServer::on_connection, this);
  const int fd = dup(socket.get());
  CHECK(fd >= 0, "no admin listener");
  evhttp_bound_socket* bound = evhttp_accept_socket_with_handle(http_, fd);
  CHECK(bound != nullptr, "no admin listener");
  listener_ = evhttp_bound_socket_get_listener(bound);
  evconnlistener_set_error_cb(listener_, &AdminServer::on_accept_error);
  look_ = event_new(loop.base(), -1, 0, &AdminServer::on_look, this);
  CHECK(look_ != nullptr);
}

AdminServer::~AdminServer() {
  event_free(look_);
  evhttp_free(http_);
  for (bufferevent* connection : connections_) bufferevent_decref(connection);
}

// libevent does not tell of the end of a connection: what it is made of, its socket included, is
// held until it is seen to have ended.
bufferevent* AdminServer::on_connection(event_base* base, void* self) {
  auto& server = *static_cast<AdminServer*>(self);
  server.forget_ended();
  bufferevent* connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
  CHECK(connection != nullptr);
  bufferevent_incref(connection);
  server.connections_.push_back(connection);
  if (server.connections_.size() >= kMaxConnections) evconnlistener_disable(server.listener_);
  event_add(server.look_, &kLookPeriod);
  return connection;
}

void AdminServer::forget_ended() {
  std::erase_if(connections_, [](bufferevent* connection) {
    bufferevent_event_cb on_event = nullptr;
    bufferevent_getcb(connection, nullptr, nullptr, &on_event, nullptr);
    if (on_event != nullptr) return false;
    bufferevent_decref(connection);
    return true;
  });
}

void AdminServer::on_look(int, short, void* self) {
  auto& server = *static_cast<AdminServer*>(self);
  server.forget_ended();
  if (!server.connections_.empty()) event_add(server.look_, &kLookPeriod);
  if (server.connections_.size() < kMaxConnections) evconnlistener_enable(server.listener_);
}

// Out of files, most likely. Those that come meanwhile wait in the backlog.
void AdminServer::on_accept_error(evconnlistener* listener, void* self) {
  evconnlistener_disable(listener);
  event_add(static_cast<AdminServer*>(self)->look_, &kLookPeriod);
}

void AdminServer::on_request(evhttp_request* request, void* self) {
  static_cast<AdminServer*>(self)->route(request, path_of(request));
}

void AdminServer::route(evhttp_request* request, const std::string& path) {
  if (!is_meant_for(request, sources_.host)) {
    return reply_error(request, 403, ErrorCode::kInvalid,
                       "the Host header is neither an address nor localhost nor admin.host of the "
                       "configuration");
  }
  if (is_cross_site(request)) {
    return reply_error(request, 403, ErrorCode::kInvalid, "asked by another web page");
  }
  const auto allows = methods_of(path);
  if ((evhttp_request_get_command(request) & allows.bits) == 0) {
    evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", allows.text);
    return reply_error(request, 405, ErrorCode::kInvalid, "this path needs another method");
  }
  if (path == kStatus || path == kNodes || path == kMetrics) {
    run(request, show_cluster(request, path));
  } else if (path.starts_with(kObjects)) {
    answer_key(request, std::string_view(path).substr(kObjects.size()),
               &AdminServer::inspect_and_answer);
  } else if (path.starts_with(kScrub)) {
    answer_key(request, std::string_view(path).substr(kScrub.size()),
               &AdminServer::scrub_and_answer);
  } else if (path == kAcceptLoss) {
    if (names_action(request, "accept-loss")) run(request, accept_loss(request));
  } else if (path == kSettings) {
    answer_settings(request);
  } else if (const auto node = node_path(path)) {
    answer_node(request, decode(node->name), std::string(node->action));
  } else if (const auto job = job_path(path)) {
    answer_jobs(request, job->kind, job->rest);
  } else if (path == "/healthz") {
    reply_text(request, 200, "ok\n");
  } else if (path == "/readyz") {
    answer_ready(request);
  } else {
    reply_error(request, 404, ErrorCode::kNotFound, "no such path");
  }
}

void AdminServer::answer_key(evhttp_request* request, std::string_view encoded_key,
                             KeyAnswer answer) {
  std::string key = decode(encoded_key);
  // Any bytes: clients may send keys in base64.
  if (key.empty() || key.size() > memcache::kMaxKeyBytes) {
    return reply_error(request, 400, ErrorCode::kInvalid, "not a key of 1 to 250 bytes");
  }
  run(request, (this->*answer)(request, std::move(key)));
}

void AdminServer::run(evhttp_request* request, Task<void> answer) {
  if (running_.try_spawn(std::move(answer))) return;
  reply_error(request, 503, ErrorCode::kUnavailable, "too many requests at once");
}

Task<void> AdminServer::show_cluster(evhttp_request* request, std::string path) {
  const decider::ClusterStatus status = co_await sources_.cluster();
  if (path == kStatus) {
    reply_json(request, 200,
               status_json(status, sources_.repair(), sources_.background_scrub(), sources_.version,
                           sources_.proxy_id));
  } else if (path == kNodes) {
    reply_json(request, 200, nodes_json(status));
  } else {
    reply(request, 200, "text/plain; version=0.0.4; charset=utf-8", registry_.text());
  }
}

Task<void> AdminServer::accept_loss(evhttp_request* request) {
  const auto accepted = co_await sources_.accept_loss();
  if (!accepted) co_return reply_failure(request, accepted.error());
  reply_json(request, 202, accepted_json(*accepted));
}

void AdminServer::answer_settings(evhttp_request* request) {
  if (evhttp_request_get_command(request) == EVHTTP_REQ_POST) {
    if (!names_action(request, "settings")) return;
    auto fields = JobBody::parse(body_of(request));
    if (!fields) return reply_failure(request, fields.error());
    const auto settings = fields->texts("set");
    const auto of_version = fields->number("of_version", 0, UINT32_MAX);
    SettingsOrder order{.settings = settings.value_or(std::vector<std::string>()),
                        .of_version = {},
                        .is_recycled = fields->flag("is_recycled").value_or(false)};
    if (of_version) order.of_version = static_cast<uint32_t>(*of_version);
    if (!settings) fields->complain("set", "is missing");
    fields->complain_of_unknown();
    if (auto checked = fields->check(); !checked) return reply_failure(request, checked.error());
    return run(request, change_settings(request, std::move(order)));
  }
  const MapPtr map = sources_.map();
  if (map != nullptr) return reply_json(request, 200, settings_json(*map));
  reply_error(request, 503, ErrorCode::kUnavailable, sources_.not_serving());
}

Task<void> AdminServer::change_settings(evhttp_request* request, SettingsOrder order) {
  const auto version = co_await sources_.change_settings(std::move(order));
  if (!version) co_return reply_failure(request, version.error());
  reply_json(request, 202, fmt::format("{{\"version\": {}}}\n", *version));
}

void AdminServer::answer_node(evhttp_request* request, std::string name,
                              const std::string& action) {
  if (!names_action(request, action)) return;
  if (action == kDeclareDead) return run(request, declare_dead(request, std::move(name)));
  auto change = parse_member_change(*member_action(action), std::move(name), body_of(request),
                                    sources_.is_network_trusted);
  if (!change) return reply_failure(request, change.error());
  run(request, change_members(request, std::move(*change)));
}

Task<void> AdminServer::change_members(evhttp_request* request, MemberChange change) {
  const auto changed = co_await sources_.change_members(std::move(change));
  if (!changed) co_return reply_failure(request, changed.error());
  reply_json(request, 202, "{}");
}

Task<void> AdminServer::declare_dead(evhttp_request* request, std::string name) {
  const auto declared = co_await sources_.declare_dead(std::move(name));
  if (!declared) co_return reply_failure(request, declared.error());
  reply_json(request, 202, "{}");
}

void AdminServer::answer_jobs(evhttp_request* request, const JobKind* kind, std::string_view rest) {
  const std::string name(kind == nullptr ? "job" : kind->name);
  const bool posts = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
  if (posts && !names_action(request, name)) return;
  if (rest.empty() && posts) {
    std::string order(body_of(request));
    const auto asked = kind->parse(order, sources_.map());
    if (!asked) return reply_failure(request, asked.error());
    if (order.size() > jobs::ClusterJob::kMaxOrderBytes) {
      return reply_failure(request, Error{ErrorCode::kInvalid, "the body has too many bytes"});
    }
    return run(request, start_job(request, name, std::move(order)));
  }
  const std::vector<jobs::ClusterJob> jobs = sources_.jobs();
  if (rest.empty()) return reply_json(request, 200, jobs_json(jobs, kind));
  if (posts) rest.remove_suffix(kCancel.size());
  const auto id = number_of(rest.substr(std::min<size_t>(1, rest.size())));
  const auto known = std::ranges::find_if(jobs, [&](const jobs::ClusterJob& job) {
    return id && job.id == *id && !job.report.empty();
  });
  const bool is_known = known != jobs.end();
  const bool is_other = is_known && kind != nullptr && kind->name != known->kind;
  if (is_known && !is_other && !posts) return reply_json(request, 200, known->report);
  // Who decides may know of one that this proxy has not heard of yet.
  if (posts && id && !is_other) {
    return run(request, cancel_job(request, *id, kind == nullptr ? "" : name));
  }
  reply_error(request, 404, ErrorCode::kNotFound, "no such " + name);
}

Task<void> AdminServer::start_job(evhttp_request* request, std::string kind, std::string order) {
  const auto job = co_await sources_.start_job(std::move(kind), std::move(order));
  if (!job) co_return reply_failure(request, job.error());
  reply_json(request, 202, job->report);
}

Task<void> AdminServer::cancel_job(evhttp_request* request, uint64_t id, std::string kind) {
  const auto job = co_await sources_.cancel_job(id, std::move(kind));
  if (!job) co_return reply_failure(request, job.error());
  reply_json(request, 202, job->report);
}

void AdminServer::answer_ready(evhttp_request* request) {
  const std::string reason = sources_.not_serving();
  reply_text(request, reason.empty() ? 200 : 503, reason.empty() ? "ok\n" : reason + "\n");
}

// If the client hangs up meanwhile, libevent takes the request off its connection, and the reply
// only frees it.
Task<void> AdminServer::inspect_and_answer(evhttp_request* request, std::string key) {
  const char* query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
  size_t first = 0;
  if (query != nullptr) {
    constexpr std::string_view kFirst = "first=";
    const std::string_view text(query);
    const auto number = number_of(text.substr(std::min(kFirst.size(), text.size())));
    if (!text.starts_with(kFirst) || !number) {
      co_return reply_error(request, 400, ErrorCode::kInvalid, "the query is not first=SEGMENT");
    }
    first = *number;
  }
  const auto report = co_await sources_.inspect(key, first, kSegmentsAtOnce);
  if (!report.has_value()) {
    reply_failure(request, report.error());
  } else if (report->record == nullptr) {
    reply_error(request, 404, ErrorCode::kNotFound, "no such object");
  } else {
    reply_json(request, 200, object_json(key, *report, sources_.map()));
  }
}

Task<void> AdminServer::scrub_and_answer(evhttp_request* request, std::string key) {
  const auto report = co_await sources_.scrub(key);
  if (!report) {
    reply_failure(request, report.error());
  } else if (report->record == nullptr) {
    reply_error(request, 404, ErrorCode::kNotFound, "no such object");
  } else {
    reply_json(request, 200, scrub_json(key, *report, sources_.map()));
  }
}

}  // namespace elastripe
