#include "proxy/io/stream.h"

#include <event2/event.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {

void Stream::open(Fd socket) {
  CHECK(!is_open());
  socket_ = std::move(socket);
  event_base* base = loop_.base();
  read_event_ = event_new(base, socket_.get(), EV_READ | EV_PERSIST, &Stream::readable, this);
  write_event_ = event_new(base, socket_.get(), EV_WRITE, &Stream::writable, this);
  CHECK(read_event_ != nullptr && write_event_ != nullptr);
}

void Stream::close() {
  if (read_event_ != nullptr) event_free(std::exchange(read_event_, nullptr));
  if (write_event_ != nullptr) event_free(std::exchange(write_event_, nullptr));
  is_watched_ = false;
  socket_.reset();
}

void Stream::readable(int, short, void* self) { static_cast<Stream*>(self)->owner_.on_readable(); }
void Stream::writable(int, short, void* self) { static_cast<Stream*>(self)->owner_.on_writable(); }

void Stream::watch(bool wanted) {
  if (wanted == is_watched_) return;
  is_watched_ = wanted;
  CHECK((wanted ? event_add(read_event_, nullptr) : event_del(read_event_)) == 0);
}

void Stream::await_writable() { CHECK(event_add(write_event_, nullptr) == 0); }

Stream::Taken Stream::read(std::span<const iovec> parts) {
  for (;;) {
    const ssize_t got = parts.size() == 1  // cheaper for the kernel
                            ? recv(socket_.get(), parts[0].iov_base, parts[0].iov_len, 0)
                            : readv(socket_.get(), parts.data(), static_cast<int>(parts.size()));
    if (got > 0) return {.bytes = static_cast<size_t>(got)};
    if (got == 0) return {.at_end = true};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    if (errno != EINTR) return {.error = errno};
  }
}

WriteQueue::Flush Stream::flush(WriteQueue& queue) {
  const auto flushed = queue.flush(socket_.get());
  if (flushed == WriteQueue::Flush::kBlocked) await_writable();
  return flushed;
}

}  // namespace elastripe
