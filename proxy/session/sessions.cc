#include "proxy/session/sessions.h"

#include <sys/socket.h>

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe {
namespace {
// As memcached says it.
constexpr std::string_view kTooMany = "ERROR Too many open connections\r\n";
// In one period in which others wait, it is looked so often who lets them.
constexpr int kLooksInYieldTimeout = 4;
}  // namespace

Sessions::Sessions(Loop& loop, ObjectOps& ops, Clock& clock, ServerStats& server,
                   WorkerStats& stats, SessionSettings settings)
    : loop_(loop), context_{ops, clock, server, stats, settings} {
  on_timer();
}

Sessions::~Sessions() { CHECK(sessions_.empty(), "{} sessions are still open", sessions_.size()); }

void Sessions::adopt(Fd socket, const ClientAccess& access) {
  if (draining_) return;
  Session::Client client{.socket = std::move(socket), .tls = nullptr, .users = access.users};
  if (access.tls != nullptr) {
    client.tls = access.tls->load()->connection(client.socket.get());
    if (client.tls == nullptr) return context_.stats.connection_refused();
  }
  if (!context_.server.try_open(context_.settings.max_connections) && !take_place()) {
    context_.stats.connection_refused();
    if (client.tls != nullptr) return;
    [[maybe_unused]] const ssize_t sent =
        send(client.socket.get(), kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL);
    return;
  }
  context_.stats.connection_opened();
  Session::Owner& owner = *this;
  auto session = std::make_unique<Session>(loop_, std::move(client), context_, scratch_, owner);
  Session* key = session.get();
  const bool is_let_in = key->is_let_in();
  const auto newcomer = is_let_in ? newcomers_.end() : newcomers_.insert(newcomers_.end(), key);
  sessions_.emplace(key, Open{.session = std::move(session), .newcomer = newcomer});
  forget_who_is_in();
}

void Sessions::forget_who_is_in() {
  while (!newcomers_.empty() && newcomers_.front()->is_let_in()) {
    sessions_.at(newcomers_.front()).newcomer = newcomers_.end();
    newcomers_.pop_front();
  }
}

// Whoever only connects, or does not get on with its handshake or login, keeps nobody out.
bool Sessions::take_place() {
  forget_who_is_in();
  if (newcomers_.empty()) return false;
  Session* first = newcomers_.front();
  Open& open = sessions_.at(first);
  newcomers_.pop_front();
  open.newcomer = newcomers_.end();
  open.has_place = false;
  context_.stats.connection_refused();
  first->abort();
  return true;
}

void Sessions::change_settings(const SessionSettings& settings) {
  context_.settings = settings;
  for (auto& [session, open] : sessions_) session->settings_changed();
  on_timer();
}

void Sessions::drain(std::function<void()> empty) {
  draining_ = true;
  if (sessions_.empty()) return empty();
  empty_ = std::move(empty);
  for (auto& [session, open] : sessions_) session->drain();
}

void Sessions::abort() {
  for (auto& [session, open] : sessions_) session->abort();
}

void Sessions::on_timer() {
  const TimePoint now = loop_.now();
  const Session::Waiting waiting{
      .for_reads = context_.ops.memory().read.in_turn.waiting(),
      .for_writes = context_.ops.memory().staged.waiting(),
      .for_lines = static_cast<size_t>(std::ranges::count_if(
          sessions_, [](const auto& session) { return session.first->waits_for_line(); }))};
  for (auto& [session, open] : sessions_) session->yield(now, waiting);
  loop_.arm(*this, now + context_.settings.yield_timeout / kLooksInYieldTimeout);
}

void Sessions::ended(Session& session) {
  const auto open = sessions_.find(&session);
  if (open->second.newcomer != newcomers_.end()) newcomers_.erase(open->second.newcomer);
  if (open->second.has_place) context_.server.close_one();
  sessions_.erase(open);
  context_.stats.connection_closed();
  if (draining_ && sessions_.empty() && empty_) std::exchange(empty_, nullptr)();
}

}  // namespace elastripe
