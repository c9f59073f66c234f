#include "proxy/etcd/http_etcd.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "proxy/async/one_shot.h"
#include "proxy/base/check.h"
#include "proxy/etcd/etcd_json.h"

namespace elastripe {

using etcd::Changes;
using etcd::Found;
using etcd::Lease;
using etcd::LeaseId;
using etcd::Revision;

namespace {

// Codes of gRPC.
constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kUnauthenticated = 16;

// The file's first line.
Result<std::string> read_password(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(
        ErrorCode::kUnavailable,
        "{}: has a password, and others than its owner may use it (mode {:o}): chmod 600 it", path,
        status.st_mode & 07777U);
  }
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return fail(ErrorCode::kUnavailable, "{}: has no password that can be read", path);
  }
  return line;
}

// An answer of one kind; `parse` says nothing where it is none.
template <class T>
Result<T> read_reply(const Result<HttpReply>& reply, std::optional<T> (*parse)(std::string_view)) {
  if (!reply) return fail(reply.error());
  auto parsed = parse(reply->body);
  if (!parsed) return fail(ErrorCode::kUnavailable, "etcd: its answer is none of API v3");
  return std::move(*parsed);
}

}  // namespace

struct HttpEtcd::Call {
  OneShot<Result<HttpReply>> done;
};

HttpEtcd::HttpEtcd(Loop& loop, EtcdSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      http_(std::make_unique<HttpCalls>(settings_.tls)) {
  ELASTRIPE_CHECK(!settings_.endpoints.empty(), "an etcd without endpoints");
}

HttpEtcd::~HttpEtcd() { ELASTRIPE_CHECK(calls_.empty(), "calls of etcd are under way"); }

void HttpEtcd::cancel() {
  is_cancelled_ = true;
  while (!calls_.empty()) {
    finish(calls_.begin()->first, fail(ErrorCode::kCancelled, "shutting down"));
  }
}

void HttpEtcd::finish(uint64_t id, Result<HttpReply> reply) {
  const auto call = calls_.find(id);
  if (call == calls_.end()) return;
  Call* const waiting = call->second;
  calls_.erase(call);
  waiting->done.set(std::move(reply));
}

Task<Result<HttpReply>> HttpEtcd::exchange(std::string url, std::string authorization,
                                           std::string body, TimePoint deadline,
                                           IsComplete is_complete) {
  if (is_cancelled_) co_return fail(ErrorCode::kCancelled, "shutting down");
  const uint64_t id = next_call_++;
  Call call;
  calls_[id] = &call;
  http_->post({.url = std::move(url),
               .authorization = std::move(authorization),
               .body = std::move(body),
               .deadline = deadline,
               .is_complete = is_complete},
              [this, id](Result<HttpReply> reply) {
                loop_.post([this, id, reply = std::move(reply)] { finish(id, reply); });
              });
  co_return co_await call.done;
}

Task<Result<std::string>> HttpEtcd::log_in(TimePoint deadline) {
  const auto password = read_password(settings_.password_file);
  if (!password) co_return fail(password.error());
  const auto reply =
      co_await exchange(settings_.endpoints[endpoint_] + "/v3/auth/authenticate", {},
                        etcd_json::log_in(settings_.user, *password), deadline, nullptr);
  if (!reply) co_return fail(reply.error());
  if (reply->status != 200) {
    co_return fail(ErrorCode::kUnavailable, "{} can not log in: {}", settings_.user,
                   etcd_json::parse_refusal(reply->body).message);
  }
  co_return read_reply<std::string>(reply, etcd_json::parse_token);
}

// Where one member does not answer, or can not do it, the next one is asked; once all were, the
// next call goes on there. A token that has run out is replaced, once.
Task<Result<HttpReply>> HttpEtcd::ask(std::string path, std::string body, TimePoint deadline,
                                      IsComplete is_complete) {
  Error failure{ErrorCode::kUnavailable, "etcd: no endpoint"};
  bool is_new_token = false;
  for (size_t tries = 0; tries < settings_.endpoints.size() && loop_.now() < deadline;) {
    if (!settings_.user.empty() && token_.empty()) {
      auto token = co_await log_in(deadline);
      if (!token && token.error().code == ErrorCode::kCancelled) co_return fail(token.error());
      is_new_token = true;
      if (token) token_ = std::move(*token);
      if (!token) failure = token.error();
    }
    const std::string endpoint = settings_.endpoints[endpoint_];
    if (settings_.user.empty() || !token_.empty()) {
      auto reply = co_await exchange(endpoint + path, token_, body, deadline, is_complete);
      if (!reply && reply.error().code == ErrorCode::kCancelled) co_return reply;
      if (!reply) {
        failure = reply.error();
      } else if (reply->status == 200) {
        co_return reply;
      } else {
        const auto refusal = etcd_json::parse_refusal(reply->body);
        failure.message =
            refusal.code == -1 ? fmt::format("HTTP status {}", reply->status) : refusal.message;
        if (refusal.code == kNotFound) co_return fail(ErrorCode::kNotFound, "{}", refusal.message);
        const bool is_token_old = refusal.code == kUnauthenticated ||
                                  refusal.message.find("invalid auth token") != std::string::npos;
        if (is_token_old) token_.clear();
        if (is_token_old && !is_new_token) continue;
        if (refusal.code == kInvalidArgument || refusal.code == kPermissionDenied) break;
      }
    }
    failure.message = fmt::format("{}: {}", endpoint, failure.message);
    endpoint_ = (endpoint_ + 1) % settings_.endpoints.size();
    ++tries;
  }
  co_return fail(ErrorCode::kUnavailable, "etcd: {}", failure.message);
}

Task<Result<Lease>> HttpEtcd::grant(Duration ttl, TimePoint deadline) {
  co_return read_reply<Lease>(co_await ask("/v3/lease/grant", etcd_json::grant(ttl), deadline),
                              etcd_json::parse_grant);
}

Task<Result<Lease>> HttpEtcd::keep_alive(LeaseId lease, TimePoint deadline) {
  auto kept =
      read_reply<Lease>(co_await ask("/v3/lease/keepalive", etcd_json::of_lease(lease), deadline),
                        etcd_json::parse_keep_alive);
  if (kept && kept->ttl == Duration::zero()) {
    co_return fail(ErrorCode::kNotFound, "etcd: the lease is over");
  }
  co_return kept;
}

Task<Result<void>> HttpEtcd::revoke(LeaseId lease, TimePoint deadline) {
  const auto reply = co_await ask("/v3/lease/revoke", etcd_json::of_lease(lease), deadline);
  if (!reply) co_return fail(reply.error());
  co_return Result<void>();
}

Task<Result<Found>> HttpEtcd::find(std::string prefix, TimePoint deadline) {
  co_return read_reply<Found>(co_await ask("/v3/kv/range", etcd_json::find(prefix), deadline),
                              etcd_json::parse_find);
}

Task<Result<Revision>> HttpEtcd::write(etcd::Write write, TimePoint deadline) {
  co_return read_reply<Revision>(co_await ask("/v3/kv/txn", etcd_json::write(write), deadline),
                                 etcd_json::parse_write);
}

Task<Result<Changes>> HttpEtcd::changes(std::string prefix, Revision since, TimePoint deadline) {
  const auto reply =
      co_await ask("/v3/watch", etcd_json::watch(prefix, since), deadline, etcd_json::is_told);
  if (!reply) co_return fail(reply.error());
  auto watched = etcd_json::parse_watch(reply->body, since);
  if (!watched || !watched->has_begun || !watched->refusal.empty()) {
    const std::string reason =
        watched ? watched->refusal : etcd_json::parse_refusal(reply->body).message;
    co_return fail(ErrorCode::kUnavailable, "etcd: {}",
                   reason.empty() ? "the watch did not begin" : reason);
  }
  if (watched->is_forgotten) {
    co_return fail(ErrorCode::kNotFound, "etcd: it has forgotten what changed since then");
  }
  co_return std::move(watched->changes);
}

}  // namespace elastripe
