#include "proxy/etcd/http_etcd.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>

#include "proxy/async/one_shot.h"
#include "proxy/base/check.h"
#include "proxy/etcd/etcd_json.h"
#include "proxy/io/tls.h"

namespace elastripe {

using etcd::Changes;
using etcd::Found;
using etcd::Lease;
using etcd::LeaseId;
using etcd::Revision;

namespace {

// A password that was refused is not tried again for so long.
constexpr Duration kRefusedLogin = std::chrono::seconds(10);

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
  errno = 0;
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return fail(ErrorCode::kUnavailable, "{}: {}", path,
                errno != 0 ? std::strerror(errno) : "has no password");
  }
  return line;
}

// kNotFound; kStaleEpoch: the token is none any more; kInvalid: no other member will do it, either.
Error refusal_of(const HttpReply& reply) {
  const etcd_json::Refusal refusal = etcd_json::parse_refusal(reply.body);
  if (refusal.code == -1) {
    return {ErrorCode::kUnavailable, fmt::format("HTTP status {}", reply.status)};
  }
  const auto says = [&](std::string_view words) { return refusal.message.contains(words); };
  const bool is_token_old = refusal.code == kUnauthenticated || says("invalid auth token") ||
                            says("revision of auth store is old");
  if (is_token_old) return {ErrorCode::kStaleEpoch, refusal.message};
  if (refusal.code == kNotFound) return {ErrorCode::kNotFound, refusal.message};
  const bool is_final = refusal.code == kInvalidArgument || refusal.code == kPermissionDenied;
  return {is_final ? ErrorCode::kInvalid : ErrorCode::kUnavailable, refusal.message};
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

Result<void> check_files(const EtcdSettings& settings) {
  if (!settings.password_file.empty()) {
    const auto password = read_password(settings.password_file);
    if (!password) {
      return fail(ErrorCode::kInvalid, "etcd.password_file: {}", password.error().message);
    }
  }
  const auto checked = check_client_files(
      {.certificate = settings.tls.certificate, .key = settings.tls.key, .ca = settings.tls.ca});
  if (!checked) return fail(ErrorCode::kInvalid, "etcd: {}", checked.error().message);
  return {};
}

struct HttpEtcd::Call {
  OneShot<Result<HttpReply>> done;
};

HttpEtcd::HttpEtcd(Loop& loop, EtcdSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      endpoint_(std::random_device()() % std::max<size_t>(settings_.endpoints.size(), 1)),
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

Task<Result<HttpReply>> HttpEtcd::exchange(std::string url, std::string token, std::string body,
                                           TimePoint deadline, IsComplete is_complete) {
  if (is_cancelled_) co_return fail(ErrorCode::kCancelled, "shutting down");
  const uint64_t id = next_call_++;
  Call call;
  calls_[id] = &call;
  // A member that has lost the others refuses then, watches too, which it would take else.
  std::vector<std::string> headers = {"Grpc-Metadata-hasleader: true"};
  if (!token.empty()) headers.push_back("Authorization: " + token);
  http_->post({.url = std::move(url),
               .headers = std::move(headers),
               .body = std::move(body),
               .deadline = deadline,
               .is_complete = is_complete},
              [this, id](Result<HttpReply> reply) {
                loop_.post([this, id, reply = std::move(reply)]() mutable {
                  finish(id, std::move(reply));
                });
              });
  co_return co_await call.done;
}

Task<Result<std::string>> HttpEtcd::log_in(TimePoint deadline) {
  const auto password = read_password(settings_.password_file);
  if (!password) co_return fail(password.error());
  // Each try costs etcd a slow hash, and there may be many proxies.
  if (refused_ && refused_->password == *password && loop_.now() < refused_->until) {
    co_return fail(refused_->error);
  }
  refused_.reset();
  const auto reply =
      co_await exchange(settings_.endpoints[endpoint_] + "/v3/auth/authenticate", {},
                        etcd_json::log_in(settings_.user, *password), deadline, nullptr);
  if (!reply) co_return fail(reply.error());
  if (reply->status != 200) {
    const etcd_json::Refusal refusal = etcd_json::parse_refusal(reply->body);
    const bool is_final = refusal.code == kInvalidArgument || refusal.code == kPermissionDenied;
    Error error{is_final ? ErrorCode::kInvalid : ErrorCode::kUnavailable,
                fmt::format("{} can not log in: {}", settings_.user, refusal.message)};
    if (is_final) refused_ = {*password, loop_.now() + kRefusedLogin, error};
    co_return fail(std::move(error));
  }
  co_return read_reply<std::string>(reply, etcd_json::parse_token);
}

// Where one member does not answer, or can not do it, the next one is asked, each for its part of
// the time; the next call goes on there. A token that has run out is replaced, once.
Task<Result<HttpReply>> HttpEtcd::ask(std::string path, std::string body, TimePoint deadline,
                                      IsComplete is_complete) {
  const size_t members = settings_.endpoints.size();
  Error failure{ErrorCode::kUnavailable, "etcd: no endpoint"};
  bool is_new_token = false;
  for (size_t tries = 0; tries < members && loop_.now() < deadline;) {
    const size_t asked = endpoint_;
    const Duration left = deadline - loop_.now();
    // A watch takes all the time that there is.
    const bool is_watch = is_complete != nullptr;
    const TimePoint end =
        is_watch ? deadline : loop_.now() + left / static_cast<int64_t>(members - tries);
    if (!settings_.user.empty() && token_.empty()) {
      auto token = co_await log_in(end);
      is_new_token = true;
      if (token) token_ = std::move(*token);
      if (!token) failure = token.error();
    }
    if (settings_.user.empty() || !token_.empty()) {
      const std::string token = token_;
      auto reply =
          co_await exchange(settings_.endpoints[asked] + path, token, body, end, is_complete);
      if (reply && reply->status == 200) co_return reply;
      failure = reply ? refusal_of(*reply) : reply.error();
      if (failure.code == ErrorCode::kNotFound) co_return fail(std::move(failure));
      const bool is_token_old = failure.code == ErrorCode::kStaleEpoch;
      if (is_token_old && token_ == token) token_.clear();
      if (is_token_old && !is_new_token) continue;
    }
    if (failure.code == ErrorCode::kInvalid) break;
    if (failure.code == ErrorCode::kCancelled) co_return fail(std::move(failure));
    failure.message = fmt::format("{}: {}", settings_.endpoints[asked], failure.message);
    // The other flow may have met the same member, and gone on already.
    if (endpoint_ == asked) endpoint_ = (asked + 1) % members;
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
  const std::string token = token_;
  auto reply =
      co_await ask("/v3/watch", etcd_json::watch(prefix, since), deadline, etcd_json::is_told);
  if (!reply) co_return fail(reply.error());
  auto watched = etcd_json::parse_watch(reply->body, since);
  // A watch is told in its own way that the token has run out: as that it may not be.
  const bool is_denied = watched && (watched->refusal.contains("permission denied") ||
                                     watched->refusal.contains("invalid auth token"));
  if (is_denied && !token.empty() && token_ == token) {
    token_.clear();
    reply =
        co_await ask("/v3/watch", etcd_json::watch(prefix, since), deadline, etcd_json::is_told);
    if (!reply) co_return fail(reply.error());
    watched = etcd_json::parse_watch(reply->body, since);
  }
  if (!watched || !watched->has_begun || !watched->refusal.empty()) {
    const std::string reason =
        watched ? watched->refusal : etcd_json::parse_refusal(reply->body).message;
    co_return fail(ErrorCode::kUnavailable, "etcd: {}",
                   reason.empty() ? "the watch did not begin" : reason);
  }
  if (reply->is_whole && watched->changes.changes.empty() && !watched->is_forgotten) {
    co_return fail(ErrorCode::kUnavailable, "etcd: somebody between has ended the watch");
  }
  if (watched->is_forgotten) {
    co_return fail(ErrorCode::kNotFound, "etcd: it has forgotten what changed since then");
  }
  co_return std::move(watched->changes);
}

}  // namespace elastripe
