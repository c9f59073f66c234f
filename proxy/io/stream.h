// Stream: a connection as its owner sees it: bytes in, bytes out, and word of when to go on. It
// stands between the owner and the socket, in clear or over TLS.
#pragma once

#include <sys/uio.h>

#include <span>

#include "proxy/io/loop.h"
#include "proxy/io/socket.h"
#include "proxy/io/tls.h"
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
  // connect_error() says why not, once on_writable() is called. With `tls`, its own (of this
  // socket), all goes over that; a server need not shake hands, its first read does.
  void open(Fd socket, TlsPtr tls = nullptr);
  bool is_open() const { return socket_.valid(); }
  void close();
  // For an end that takes nothing back: a socket that is closed before all that came has been read
  // resets the connection, and drops what has been written and is yet on its way. So no more is
  // written after end_output(), what comes is dropped, and is_delivered() says when to close.
  void end_output();
  enum class Discarded : uint8_t { kNothing, kBytes, kEnd };  // kEnd: nothing more will come
  Discarded discard();
  bool is_delivered() const;
  // 0 or an errno.
  int connect_error() const { return connect_result(socket_); }
  std::string peer() const { return peer_of(socket_); }

  // Brings the connection to where bytes can be sent. kBlocked: on_writable() is called when it is
  // time to try again. kBroken: the reason is describe(EPROTO). At once without TLS.
  WriteQueue::Flush shake_hands();
  bool has_shaken_hands() const;
  // An error of this stream as text: that of TLS for EPROTO.
  std::string describe(int error) const;

  // While `wanted`, on_readable() is called whenever there may be something to read.
  void watch(bool wanted);
  // Calls on_writable() once, when the stream can be written to.
  void await_writable();

  struct Taken {
    size_t bytes = 0;
    bool at_end = false;  // nothing more will come
    int error = 0;        // the connection is broken: an errno

    bool is_end() const { return at_end || error != 0; }
  };
  // Fills the parts in order as far as bytes are there. Fewer than were asked for: the rest is not
  // there yet.
  Taken read(std::span<const iovec> parts);
  // Writes what the socket takes. kBlocked: on_writable() will be called.
  WriteQueue::Flush flush(WriteQueue& queue);

 private:
  // A connection over TLS. Its timer reads what has been decrypted and nobody has taken: no event
  // of the socket tells of that.
  struct Tls : Timer {
    Tls(Stream& owner, TlsPtr of) : stream(owner), connection(std::move(of)) {}
    void on_timer() override;
    ssl_st* get() const { return connection.get(); }
    void note_error() { error = take_tls_error(*connection); }

    Stream& stream;
    const TlsPtr connection;
    std::string error;
    bool write_awaits_read = false;  // the handshake's, or that of what goes out
    bool read_awaits_write = false;
    bool may_have_more = false;  // the last read took all that it was to take
    Taken end;                   // met behind bytes that were read: for the next read
  };
  static void readable(int fd, short what, void* self);
  static void writable(int fd, short what, void* self);
  Taken read_tls(std::span<const iovec> parts);
  size_t fill(const iovec& part, Taken& taken);
  void read_failed(int result, Taken& taken);
  bool was_last(size_t record_bytes) const;
  WriteQueue::Flush flush_tls(WriteQueue& queue);
  void await_readable();
  void look_for_buffered();
  void end_tls();

  Loop& loop_;
  Owner& owner_;
  Fd socket_;
  event* read_event_ = nullptr;
  event* write_event_ = nullptr;
  bool is_watched_ = false;
  std::unique_ptr<Tls> tls_;  // null: in clear
};

}  // namespace elastripe
