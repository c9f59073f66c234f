// Listener: accepts client connections on one loop and hands the sockets on.
#pragma once

#include <functional>

#include "proxy/io/loop.h"
#include "proxy/io/socket.h"

namespace elastripe {

// One for the proxy: sockets are dealt to the workers in turn, so that few connections spread
// evenly (SO_REUSEPORT spreads them by hash, and lets a second proxy take a port that is in use).
class Listener : private Timer {
 public:
  // `accepted` is called on the loop's thread. `keepalive`: see set_keepalive().
  Listener(Loop& loop, Fd socket, std::chrono::seconds keepalive, std::function<void(Fd)> accepted);
  ~Listener() override;

  // For the connections after this.
  void set_keepalive(std::chrono::seconds keepalive) { keepalive_ = keepalive; }
  void close();

 private:
  static void on_readable(int fd, short what, void* self);
  void accept_some();
  void on_timer() override;

  Loop& loop_;
  Fd socket_;
  std::chrono::seconds keepalive_;
  std::function<void(Fd)> accepted_;
  event* event_;
};

}  // namespace elastripe
