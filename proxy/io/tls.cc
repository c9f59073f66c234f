#include "proxy/io/tls.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <ctime>

namespace elastripe {
namespace {

constexpr std::string_view kSessionContext = "elastripe";

Error refuse(const char* what, const std::string& path) {
  return {ErrorCode::kInvalid, fmt::format("{} {}: {}", what, path, take_tls_error())};
}

// Without it OpenSSL would ask at the terminal.
int no_pass_phrase(char*, int, int, void*) { return -1; }

Result<void> read_files(ssl_ctx_st* context, const TlsFiles& files) {
  SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return fail(refuse("certificate", files.certificate));
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fail(refuse("key", files.key));
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return fail(refuse("key", files.key));
  }
  return {};
}

bool is_of_server(X509* certificate) {
  return X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) == 1;
}

Result<void> believe(ssl_ctx_st* context, const std::string& ca, TlsRole role) {
  if (SSL_CTX_load_verify_locations(context, ca.c_str(), nullptr) != 1) {
    return fail(refuse("ca", ca));
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (role == TlsRole::kClient) return {};
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(ca.c_str());
  if (names == nullptr) return fail(refuse("ca", ca));
  SSL_CTX_set_client_CA_list(context, names);
  return {};
}

std::string text_of(const ASN1_TIME& time) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(BIO_new(BIO_s_mem()), BIO_free);
  if (!text || ASN1_TIME_print(text.get(), &time) != 1) return "an unreadable time";
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<size_t>(count)};
}

// Why `own` is not signed by a CA that the context believes; nothing if it is.
std::string why_unbelievable(ssl_ctx_st* context, X509* own) {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_ctrl(context, SSL_CTRL_GET_CHAIN_CERTS, 0, static_cast<void*>(&chain));
  const std::unique_ptr<X509_STORE_CTX, void (*)(X509_STORE_CTX*)> check(X509_STORE_CTX_new(),
                                                                         X509_STORE_CTX_free);
  if (!check ||
      X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), own, chain) != 1) {
    return take_tls_error();
  }
  if (X509_verify_cert(check.get()) == 1) return {};
  ERR_clear_error();
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
}

std::unexpected<Error> refuse_certificate(const TlsFiles& files, const std::string& reason) {
  return fail(ErrorCode::kInvalid, "certificate {}: {}", files.certificate, reason);
}

Result<void> check_dates(ssl_ctx_st* context, const TlsFiles& files) {
  const X509* own = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) {
    return refuse_certificate(files, "has expired at " + text_of(*X509_get0_notAfter(own)));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
    return refuse_certificate(files,
                              "is valid from " + text_of(*X509_get0_notBefore(own)) + " only");
  }
  return {};
}

// What others would refuse in each handshake is refused here, once.
Result<void> check_certificate(ssl_ctx_st* context, const TlsFiles& files, TlsRole role) {
  X509* own = SSL_CTX_get0_certificate(context);
  const auto refuse_it = [&](const std::string& reason) {
    return refuse_certificate(files, reason);
  };
  if (auto dated = check_dates(context, files); !dated) return dated;
  if (role != TlsRole::kClient) {
    if (!is_of_server(own)) return refuse_it("is for clients only (extended key usage)");
    return {};
  }
  const std::string why = why_unbelievable(context, own);
  if (!why.empty()) return refuse_it("is not by the CA " + files.ca + ": " + why);
  return {};
}

bool expect_host(ssl_st* connection, const std::string& host) {
  // The addresses that a certificate can have; what else getaddrinfo() takes for one it has not.
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str()) == 1) return true;
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  return SSL_set1_host(connection, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(connection, host.c_str()) == 1;
}

}  // namespace

void FreeTls::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void FreeTls::operator()(ssl_st* connection) const { SSL_free(connection); }

TlsContext::TlsContext(std::unique_ptr<ssl_ctx_st, FreeTls> context, TlsRole role)
    : context_(std::move(context)), role_(role) {}

Result<std::shared_ptr<const TlsContext>> TlsContext::create(const TlsFiles& files, TlsRole role) {
  ERR_clear_error();
  const bool is_client = role == TlsRole::kClient;
  std::unique_ptr<ssl_ctx_st, FreeTls> context(
      SSL_CTX_new(is_client ? TLS_client_method() : TLS_server_method()));
  if (!context) return fail(ErrorCode::kInvalid, "TLS: {}", take_tls_error());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // An end without its notice is an end: no part of the protocol is as long as the connection.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
  // In the kernel a record may have left, whole, whose writing failed. What has left of frames for
  // nodes has to be known.
  if (!is_client) SSL_CTX_set_options(context.get(), SSL_OP_ENABLE_KTLS);
  // Idle connections hold no buffers; what is written may move and grow until it has left.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // A call of the kernel reads more than one record, or a part of one.
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_session_id_context(context.get(),
                                 reinterpret_cast<const unsigned char*>(kSessionContext.data()),
                                 static_cast<unsigned>(kSessionContext.size()));
  if (auto read = read_files(context.get(), files); !read) return fail(read.error());
  if (role != TlsRole::kServer) {
    if (auto read = believe(context.get(), files.ca, role); !read) return fail(read.error());
  }
  if (auto checked = check_certificate(context.get(), files, role); !checked) {
    return fail(checked.error());
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(context), role));
}

Result<void> check_client_files(const TlsFiles& files) {
  ERR_clear_error();
  const std::unique_ptr<ssl_ctx_st, FreeTls> context(SSL_CTX_new(TLS_client_method()));
  if (!context) return fail(ErrorCode::kInvalid, "TLS: {}", take_tls_error());
  if (!files.certificate.empty()) {
    if (auto read = read_files(context.get(), files); !read) return read;
    if (auto dated = check_dates(context.get(), files); !dated) return dated;
  }
  return files.ca.empty() ? Result<void>() : believe(context.get(), files.ca, TlsRole::kClient);
}

std::chrono::system_clock::time_point TlsContext::valid_until() const {
  std::tm end{};
  const X509* own = SSL_CTX_get0_certificate(context_.get());
  if (ASN1_TIME_to_tm(X509_get0_notAfter(own), &end) != 1) return {};
  return std::chrono::system_clock::from_time_t(timegm(&end));
}

bool TlsContext::is_of_server() const {
  return elastripe::is_of_server(SSL_CTX_get0_certificate(context_.get()));
}

TlsPtr TlsContext::connection(int socket, const std::string& host) const {
  TlsPtr connection(SSL_new(context_.get()));
  if (!connection || SSL_set_fd(connection.get(), socket) != 1) return nullptr;
  if (role_ != TlsRole::kClient) {
    SSL_set_accept_state(connection.get());
    return connection;
  }
  if (!expect_host(connection.get(), host)) return nullptr;
  SSL_set_connect_state(connection.get());
  return connection;
}

namespace {

std::string text_of(unsigned long code) {
  ERR_clear_error();
  if (code == 0) return "failed without a reason";
  // Errors of the system, like a file that is not there, have no text of their own.
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:#x}", code);
}

}  // namespace

std::string take_tls_error() { return text_of(ERR_get_error()); }

// The last error is that of TLS, those before it of what it is made of.
std::string take_tls_error(const ssl_st& connection) {
  std::string reason = text_of(ERR_peek_last_error());
  const long verified = SSL_get_verify_result(&connection);
  if (verified != X509_V_OK) {
    reason += fmt::format(" ({})", X509_verify_cert_error_string(verified));
  }
  return reason;
}

}  // namespace elastripe
