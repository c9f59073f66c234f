// TLS for streams, by OpenSSL: 1.2 and above; of servers in the kernel, where that can do it.
// OpenSSL writes to sockets that are closed, so the process must ignore SIGPIPE.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "proxy/base/error.h"

struct ssl_ctx_st;  // NOLINT(readability-identifier-naming): of OpenSSL
struct ssl_st;      // NOLINT(readability-identifier-naming)

namespace elastripe {

struct FreeTls {
  void operator()(ssl_ctx_st* context) const;
  void operator()(ssl_st* connection) const;
};
// The TLS of one connection.
using TlsPtr = std::unique_ptr<ssl_st, FreeTls>;

// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // our own, with those between it and the CA behind it
  std::string key;          // its private key
  std::string ca;           // whose certificates we believe

  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

enum class TlsRole : uint8_t {
  kServer,        // shows its certificate
  kMutualServer,  // and asks the client for one that the CA has signed
  kClient,        // shows its certificate, and asks the server for one of the CA for its host
};

// Immutable, for any number of connections of any thread; certificates that have changed make
// another one, for the connections after that.
class TlsContext {
 public:
  // Reads the files. kInvalid with the file and the reason, also if key and certificate are of
  // different pairs, and if the other side would refuse the certificate: one that is not valid now;
  // of a server, one that is for clients only; of a kClient, one that its own CA has not signed. A
  // kServer needs no CA.
  static Result<std::shared_ptr<const TlsContext>> create(const TlsFiles& files, TlsRole role);

  // Until when its own certificate is valid.
  std::chrono::system_clock::time_point valid_until() const;
  // Its own certificate may be shown by a server; nodes want such of proxies.
  bool is_of_server() const;

  // On a socket, which it does not own. `host`: of the server that a kClient connects to, a name or
  // an address: its certificate must have it. Null without memory.
  TlsPtr connection(int socket, const std::string& host = {}) const;

 private:
  TlsContext(std::unique_ptr<ssl_ctx_st, FreeTls> context, TlsRole role);

  const std::unique_ptr<ssl_ctx_st, FreeTls> context_;
  const TlsRole role_;
};

// Whether a client that others connect, like libcurl, can use these files, as far as they are
// named: a certificate with its key, a CA. kInvalid as above.
Result<void> check_client_files(const TlsFiles& files);

// The reason of the last failure on this thread, which it takes from OpenSSL's queue: one line.
std::string take_tls_error();
// That of a connection; a certificate that is not believed is told in OpenSSL's words.
std::string take_tls_error(const ssl_st& connection);

}  // namespace elastripe
