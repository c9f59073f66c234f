#include "proxy/session/listener.h"

#include <event2/event.h>

#include <cerrno>
#include <cstring>

#include "proxy/base/check.h"
#include "proxy/base/log.h"

namespace elastripe {
namespace {
constexpr int kAcceptsPerTurn = 64;
constexpr Duration kRestAfterFailure = std::chrono::milliseconds(100);
}  // namespace

Listener::Listener(Loop& loop, Fd socket, std::chrono::seconds keepalive,
                   std::function<void(Fd)> accepted)
    : loop_(loop),
      socket_(std::move(socket)),
      keepalive_(keepalive),
      accepted_(std::move(accepted)) {
  event_ =
      event_new(loop_.base(), socket_.get(), EV_READ | EV_PERSIST, &Listener::on_readable, this);
  CHECK(event_ != nullptr && event_add(event_, nullptr) == 0);
}

Listener::~Listener() { close(); }

void Listener::close() {
  cancel();
  if (event_ != nullptr) event_free(std::exchange(event_, nullptr));
  socket_.reset();
}

void Listener::on_readable(int, short, void* self) { static_cast<Listener*>(self)->accept_some(); }

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn && socket_.valid(); ++i) {
    Fd client(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (client.valid()) {
      set_no_delay(client);
      elastripe::set_keepalive(client, keepalive_);
      accepted_(std::move(client));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    // Out of descriptors or memory: the queue stays readable, so rest instead of spinning.
    log_error("accept: {}", std::strerror(errno));
    event_del(event_);
    loop_.arm(*this, loop_.now() + kRestAfterFailure);
    return;
  }
}

void Listener::on_timer() { CHECK(event_add(event_, nullptr) == 0); }

}  // namespace elastripe
