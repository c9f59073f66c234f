#include "proxy/io/stream.h"

#include <event2/event.h>
#include <linux/sockios.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "proxy/base/check.h"

namespace elastripe {
namespace {
constexpr size_t kRecordBytes = 16 << 10;  // at most, in TLS
}  // namespace

void Stream::open(Fd socket, TlsPtr tls) {
  CHECK(!is_open());
  socket_ = std::move(socket);
  if (tls != nullptr) tls_ = std::make_unique<Tls>(*this, std::move(tls));
  event_base* base = loop_.base();
  read_event_ = event_new(base, socket_.get(), EV_READ | EV_PERSIST, &Stream::readable, this);
  write_event_ = event_new(base, socket_.get(), EV_WRITE, &Stream::writable, this);
  CHECK(read_event_ != nullptr && write_event_ != nullptr);
}

void Stream::close() {
  if (read_event_ != nullptr) event_free(std::exchange(read_event_, nullptr));
  if (write_event_ != nullptr) event_free(std::exchange(write_event_, nullptr));
  is_watched_ = false;
  end_tls();
  socket_.reset();
}

void Stream::end_output() {
  end_tls();
  ::shutdown(socket_.get(), SHUT_WR);
}

Stream::Discarded Stream::discard() {
  static thread_local std::array<std::byte, kRecordBytes> dropped;
  const ssize_t got = recv(socket_.get(), dropped.data(), dropped.size(), 0);
  if (got > 0) return Discarded::kBytes;
  const bool may_come = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return may_come ? Discarded::kNothing : Discarded::kEnd;
}

bool Stream::is_delivered() const {
  // A Unix socket has put all of it into the other side's queue.
  int domain = AF_UNSPEC;
  socklen_t length = sizeof domain;
  const int told = getsockopt(socket_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &length);
  if (told != 0 || domain == AF_UNIX) return true;
  int on_the_way = 0;
  return ioctl(socket_.get(), SIOCOUTQ, &on_the_way) != 0 || on_the_way == 0;
}

void Stream::end_tls() {
  // The notice of the end, if the socket takes it; before that the handshake has to be over.
  if (tls_ != nullptr && SSL_is_init_finished(tls_->get()) && tls_->error.empty()) {
    SSL_shutdown(tls_->get());
    ERR_clear_error();
  }
  tls_.reset();
}

void Stream::readable(int, short, void* self) {
  Stream& stream = *static_cast<Stream*>(self);
  if (stream.tls_ == nullptr || !std::exchange(stream.tls_->write_awaits_read, false)) {
    return stream.owner_.on_readable();
  }
  if (!stream.is_watched_) CHECK(event_del(stream.read_event_) == 0);
  stream.tls_->may_have_more = true;  // the write reads whatever has come
  stream.owner_.on_writable();
  if (stream.is_open()) stream.look_for_buffered();
}

// For what goes out, whether or not the owner wants to read.
void Stream::await_readable() {
  tls_->write_awaits_read = true;
  CHECK(event_add(read_event_, nullptr) == 0);
}

void Stream::writable(int, short, void* self) {
  Stream& stream = *static_cast<Stream*>(self);
  if (stream.tls_ != nullptr && std::exchange(stream.tls_->read_awaits_write, false)) {
    stream.owner_.on_readable();
  }
  if (stream.is_open()) stream.owner_.on_writable();
}

void Stream::watch(bool wanted) {
  if (wanted == is_watched_) return;
  is_watched_ = wanted;
  if (wanted) {
    CHECK(event_add(read_event_, nullptr) == 0);
  } else if (tls_ == nullptr || !tls_->write_awaits_read) {
    CHECK(event_del(read_event_) == 0);
  }
  look_for_buffered();
}

void Stream::await_writable() { CHECK(event_add(write_event_, nullptr) == 0); }

Stream::Taken Stream::read(std::span<const iovec> parts) {
  if (tls_ != nullptr) return read_tls(parts);
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
  if (tls_ != nullptr) return flush_tls(queue);
  const auto flushed = queue.flush(socket_.get());
  if (flushed == WriteQueue::Flush::kBlocked) await_writable();
  return flushed;
}

bool Stream::has_shaken_hands() const {
  return tls_ == nullptr || SSL_is_init_finished(tls_->get()) == 1;
}

std::string Stream::describe(int error) const {
  if (tls_ != nullptr && !tls_->error.empty()) return "TLS: " + tls_->error;
  return std::strerror(error);
}

WriteQueue::Flush Stream::shake_hands() {
  if (tls_ == nullptr) return WriteQueue::Flush::kDone;
  ERR_clear_error();
  const int result = SSL_do_handshake(tls_->get());
  if (result == 1) return WriteQueue::Flush::kDone;
  switch (SSL_get_error(tls_->get(), result)) {
    case SSL_ERROR_WANT_READ:
      await_readable();
      return WriteQueue::Flush::kBlocked;
    case SSL_ERROR_WANT_WRITE:
      await_writable();
      return WriteQueue::Flush::kBlocked;
    default:
      tls_->error = ERR_peek_error() == 0 ? "the other side has closed the connection"
                                          : take_tls_error(*tls_->get());
      return WriteQueue::Flush::kBroken;
  }
}

// Until all parts are full or nothing more is there.
Stream::Taken Stream::read_tls(std::span<const iovec> parts) {
  if (tls_->end.is_end()) return std::exchange(tls_->end, {});
  Taken taken;
  tls_->may_have_more = true;
  for (const iovec& part : parts) {
    if (fill(part, taken) == part.iov_len) continue;
    tls_->may_have_more = false;
    break;
  }
  // An end is told by itself.
  if (taken.bytes > 0 && taken.is_end()) {
    tls_->end = {.at_end = taken.at_end, .error = taken.error};
    taken = {.bytes = taken.bytes};
  }
  look_for_buffered();
  return taken;
}

size_t Stream::fill(const iovec& part, Taken& taken) {
  size_t filled = 0;
  while (filled < part.iov_len) {
    ERR_clear_error();
    size_t got = 0;
    const int result = SSL_read_ex(tls_->get(), static_cast<std::byte*>(part.iov_base) + filled,
                                   part.iov_len - filled, &got);
    if (result != 1) {
      read_failed(result, taken);
      break;
    }
    filled += got;
    taken.bytes += got;
    if (was_last(got)) break;
  }
  return filled;
}

// After a record that is not full, of which OpenSSL has read nothing beyond, a further call of the
// kernel would mostly find nothing; if it would, an event of the socket tells. Where the kernel
// does TLS, OpenSSL never reads beyond a record.
bool Stream::was_last(size_t record_bytes) const {
  return record_bytes < kRecordBytes && SSL_has_pending(tls_->get()) == 0 &&
         BIO_get_ktls_recv(SSL_get_rbio(tls_->get())) == 0;
}

void Stream::read_failed(int result, Taken& taken) {
  switch (SSL_get_error(tls_->get(), result)) {
    case SSL_ERROR_WANT_READ:
      return;
    case SSL_ERROR_WANT_WRITE:
      tls_->read_awaits_write = true;
      return await_writable();
    case SSL_ERROR_ZERO_RETURN:
      taken.at_end = true;
      return;
    case SSL_ERROR_SYSCALL:
      taken.error = errno;
      taken.at_end = errno == 0;
      return;
    default:
      tls_->note_error();
      taken.error = EPROTO;
  }
}

WriteQueue::Flush Stream::flush_tls(WriteQueue& queue) {
  // A record each costs a call of the kernel, so that small pieces share one.
  static thread_local std::array<std::byte, kRecordBytes> together;
  while (!queue.empty()) {
    ByteView next = queue.front();
    if (next.size() < together.size() && next.size() < queue.bytes()) next = queue.gather(together);
    ERR_clear_error();
    size_t written = 0;
    const int result = SSL_write_ex(tls_->get(), next.data(), next.size(), &written);
    if (result == 1) {
      queue.consume(written);
      continue;
    }
    switch (SSL_get_error(tls_->get(), result)) {
      case SSL_ERROR_WANT_WRITE:
        await_writable();
        return WriteQueue::Flush::kBlocked;
      case SSL_ERROR_WANT_READ:
        await_readable();
        return WriteQueue::Flush::kBlocked;
      case SSL_ERROR_SYSCALL:
        return queue.broken(errno != 0 ? errno : EPIPE);
      default:
        tls_->note_error();
        return queue.broken(EPROTO);
    }
  }
  return WriteQueue::Flush::kDone;
}

void Stream::look_for_buffered() {
  if (tls_ == nullptr) return;
  const bool is_buffered = tls_->may_have_more && SSL_has_pending(tls_->get()) == 1;
  const bool has_more = is_buffered || tls_->end.is_end();
  if (is_watched_ && has_more) {
    loop_.arm(*tls_, loop_.now());
  } else {
    tls_->cancel();
  }
}

void Stream::Tls::on_timer() { stream.owner_.on_readable(); }

}  // namespace elastripe
