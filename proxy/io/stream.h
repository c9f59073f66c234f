// Stream: a TCP connection as its owner sees it: bytes in, bytes out, and word of when to go on.
// It stands between the owner and the socket, so that encryption has a place.
#pragma once

#include <sys/uio.h>

#include <span>

#include "proxy/io/loop.h"
#include "proxy/io/socket.h"
#include "proxy/io/write_queue.h"

struct event;

namespace elastripe {

// Loop thread only. The owner hears nothing of a stream that is not open.
class Stream {
 public:
  class Owner {
   public:
    virtual void on_readable() = 0;
    virtual void on_writable() = 0;

   protected:
    ~Owner() = default;
  };

  Stream(Loop& loop, Owner& owner) : loop_(loop), owner_(owner) {}
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Takes a non-blocking socket that is connected, or connecting: then it can be written to, or
  // connect_error() says why not, once on_writable() is called.
  void open(Fd socket);
  bool is_open() const { return socket_.valid(); }
  void close();
  // 0 or an errno.
  int connect_error() const { return connect_result(socket_); }

  // While `wanted`, on_readable() is called whenever there may be something to read.
  void watch(bool wanted);
  // Calls on_writable() once, when the stream can be written to.
  void await_writable();

  struct Taken {
    size_t bytes = 0;
    bool at_end = false;  // nothing more will come
    int error = 0;        // the connection is broken: an errno
  };
  // Fills the parts in order as far as bytes are there. Fewer than were asked for: the rest is not
  // there yet.
  Taken read(std::span<const iovec> parts);
  // Writes what the socket takes. kBlocked: on_writable() will be called.
  WriteQueue::Flush flush(WriteQueue& queue);

 private:
  static void readable(int fd, short what, void* self);
  static void writable(int fd, short what, void* self);

  Loop& loop_;
  Owner& owner_;
  Fd socket_;
  event* read_event_ = nullptr;
  event* write_event_ = nullptr;
  bool is_watched_ = false;
};

}  // namespace elastripe
