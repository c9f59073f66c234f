#include "proxy/session/session.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proxy/base/log.h"

namespace elastripe {
namespace {
constexpr Duration kLeavingLook = std::chrono::milliseconds(20);
constexpr Duration kLoginLines = std::chrono::seconds(1);
}  // namespace

Session::Session(Loop& loop, Client client, SessionContext& context, ReadScratch& scratch,
                 Owner& owner)
    : TurnEnd(loop),
      loop_(loop),
      context_(context),
      owner_(owner),
      stream_(loop, *this),
      replies_(context.settings),
      pipeline_(context, replies_, *this),
      input_(context, scratch, pipeline_, client.users),
      opened_at_(loop.now()),
      last_activity_(opened_at_) {
  stream_.open(std::move(client.socket), std::move(client.tls));
  stream_.watch(true);
  on_timer();
}

Session::~Session() { close(); }

void Session::close() {
  cancel();
  stream_.close();
  pipeline_.close();
  input_.finish("the client is gone");
}

void Session::drain() {
  input_.drain();
  request_turn_end();
}

void Session::abort() {
  close();
  request_turn_end();
}

void Session::on_readable() {
  if (is_leaving_) {
    const auto discarded = stream_.discard();
    if (discarded == Stream::Discarded::kEnd) abort();
    if (discarded == Stream::Discarded::kBytes) last_activity_ = loop_.turn_time();
    return;
  }
  const uint64_t before = input_.received_bytes();
  if (!input_.read_from(stream_)) {
    if (!stream_.has_shaken_hands()) {
      context_.stats.handshake_failed();
      log_debug("client: {}", stream_.describe(EPROTO));
    }
    close();
  }
  if (input_.received_bytes() != before) last_activity_ = loop_.turn_time();
  request_turn_end();
}

// Replies leave here, at most one write a turn, and what waited for them goes on.
void Session::on_turn_end() {
  if (stream_.is_open() && !is_leaving_) {
    input_.resume();
    send_replies();
  }
  pipeline_.wake_senders();
  if (!stream_.is_open()) {
    if (!pipeline_.is_running()) owner_.ended(*this);
    return;
  }
  watch_client();
  if (input_.may_resume()) request_turn_end();
  // A session at one of its limits reads nothing: the client's sends then wait in TCP.
  stream_.watch(is_leaving_ || input_.wants_bytes());
}

void Session::send_replies() {
  pipeline_.queue_replies();
  if (pipeline_.is_cut()) input_.finish("the connection is cut");
  const uint64_t before = replies_.sent_bytes();
  const bool is_broken = replies_.flush(stream_) == WriteQueue::Flush::kBroken;
  if (const uint64_t sent = replies_.sent_bytes() - before; sent > 0) {
    context_.stats.sent(sent);
    last_activity_ = loop_.turn_time();
  }
  const bool all_answered = input_.is_finished() && pipeline_.is_empty();
  if (is_broken) return close();
  if ((all_answered || pipeline_.is_cut()) && replies_.all_sent()) leave();
}

// The client may have sent more, which nobody reads: closed now, the socket would take back replies
// that the client has not received, or end in an error behind them.
void Session::leave() {
  if (input_.has_guessed_too_often()) log_failed_logins();
  stream_.end_output();
  const auto discarded = stream_.discard();
  if (discarded != Stream::Discarded::kBytes && stream_.is_delivered()) return close();
  is_leaving_ = true;
  last_activity_ = loop_.now();
  leaves_until_ = last_activity_ + context_.settings.stall_timeout;
  on_timer();
}

// A line a second at most: whoever reaches the port may make us log.
void Session::log_failed_logins() {
  auto& [logged_at, left_out] = context_.failed_logins;
  const TimePoint now = loop_.turn_time();
  if (logged_at != TimePoint{} && now < logged_at + kLoginLines) {
    ++left_out;
    return;
  }
  logged_at = now;
  log_warning("client: {} has failed to log in{}", stream_.peer(),
              left_out == 0 ? "" : fmt::format(", and {} others before it", left_out));
  left_out = 0;
}

void Session::value_asked() {
  input_.value_asked();
  request_turn_end();
}

void Session::command_ended(Pipeline::Slot& slot) {
  input_.command_ended(slot);
  last_activity_ = loop_.turn_time();  // a reply may not leave for it
}

void Session::watch_client() {
  const TimePoint now = loop_.turn_time();
  input_.watch_client(now);
  taking_.update(now, !replies_.all_sent(), replies_.sent_bytes(),
                 context_.settings.progress_bytes);
}

// Who has not shown by then that it may come in is closed.
TimePoint Session::let_in_until() const {
  return is_let_in() ? TimePoint::max() : opened_at_ + context_.settings.stall_timeout;
}

void Session::on_timer() {
  const auto& settings = context_.settings;
  const TimePoint now = loop_.now();
  if (is_leaving_) {
    const bool is_silent = now >= last_activity_ + kLeavingLook;
    if (now >= leaves_until_ || (is_silent && stream_.is_delivered())) return abort();
    return loop_.arm(*this, now + kLeavingLook);
  }
  const TimePoint late = std::min({input_.late_at(settings.stall_timeout),
                                   taking_.late_at(settings.stall_timeout), let_in_until()});
  const bool is_idle = pipeline_.is_empty() && !input_.is_receiving() && replies_.all_sent();
  const bool may_idle = !is_idle || settings.idle_timeout == Duration::zero();
  const TimePoint idle_end = may_idle ? TimePoint::max() : last_activity_ + settings.idle_timeout;
  if (now >= late) context_.stats.connection_cut();
  if (now >= std::min(late, idle_end)) return abort();
  Duration period = settings.stall_timeout;
  if (settings.idle_timeout > Duration::zero()) period = std::min(period, settings.idle_timeout);
  loop_.arm(*this, std::min(now + period, std::min(late, idle_end)));
}

void Session::yield(TimePoint now, const Waiting& all) {
  if (!stream_.is_open()) return;
  if (waits_for_line()) request_turn_end();
  const ClientMemory& memory = pipeline_.memory();
  const bool is_taking = !replies_.all_sent();
  const bool has_read = is_taking && memory.large.early.taken() + memory.large.in_turn.taken() > 0;
  const bool has_line = input_.holds_line_memory() || (pipeline_.has_key_memory() && is_taking);
  const bool waits = (all.for_reads > memory.waiting && has_read) ||
                     (all.for_writes > 0 && input_.holds_value_memory()) ||
                     (all.for_lines > (waits_for_line() ? 1 : 0) && has_line);
  const uint64_t moved = replies_.sent_bytes() + input_.moved_bytes();
  yielding_.update(now, waits, moved, context_.settings.yield_bytes);
  if (now < yielding_.late_at(context_.settings.yield_timeout)) return;
  context_.stats.connection_cut();
  abort();
}

}  // namespace elastripe
