#include "memcached.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "tls.h"

void elastripe_tls_end(SSL *ssl) {
    if (SSL_is_init_finished(ssl))
        SSL_shutdown(ssl);
    ERR_clear_error();
}

/* What read() and write() would return, and errno. */
static ssize_t outcome_of(SSL *ssl, int result) {
    if (result > 0)
        return result;
    int failure = errno;
    ssize_t outcome = -1;
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        break;
    case SSL_ERROR_ZERO_RETURN:
        outcome = 0;
        break;
    case SSL_ERROR_SYSCALL:
        if (failure == 0 || failure == EAGAIN)
            failure = ECONNRESET;
        errno = failure;
        break;
    default:
        errno = EPROTO;
    }
    ERR_clear_error();
    return outcome;
}

ssize_t elastripe_tls_read(conn *c, void *bytes, size_t count) {
    ERR_clear_error();
    errno = 0;
    return outcome_of(c->ssl, SSL_read(c->ssl, bytes, count));
}

ssize_t elastripe_tls_write(conn *c, const void *bytes, size_t count) {
    ERR_clear_error();
    errno = 0;
    ssize_t written = outcome_of(c->ssl, SSL_write(c->ssl, bytes, count));
    if (written == 0) {
        errno = EPIPE;
        written = -1;
    }
    return written;
}

bool elastripe_tls_buffered(conn *c) { return c->ssl != NULL && SSL_pending(c->ssl) > 0; }

/* Without it OpenSSL would ask at the terminal. */
static int no_pass_phrase(char *buffer, int size, int writes, void *unused) { return -1; }

/* The first error of those that came about: the cause of the others. */
static const char *first_reason(void) {
    unsigned long code = ERR_get_error();
    const char *reason = NULL;
    if (code != 0) /* those of the system have no text of their own */
        reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    ERR_clear_error();
    return reason == NULL ? "the files do not fit together" : reason;
}

/* NULL if proxies, which believe the same CA, would believe the certificate of this context. */
static const char *why_unbelievable(SSL_CTX *context) {
    const char *reason = NULL;
    STACK_OF(X509) *chain = NULL;
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    SSL_CTX_get0_chain_certs(context, &chain);
    if (check == NULL ||
        X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context), SSL_CTX_get0_certificate(context), chain) != 1 ||
        X509_STORE_CTX_set_purpose(check, X509_PURPOSE_SSL_SERVER) != 1)
        reason = first_reason();
    else if (X509_verify_cert(check) != 1)
        reason = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check));
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return reason;
}

/* NULL if the context has taken the files. Who connects must show a certificate of a server, as
 * proxies have: those of clients are by the same CA, and are for the proxy only. Nobody may go on with
 * a session of before: its certificate would not be looked at again. */
static const char *take_files(SSL_CTX *context) {
    STACK_OF(X509_NAME) *names = NULL;
    SSL_CTX_set_min_proto_version(context, settings.ssl_min_version);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_CTX_get_options(settings.ssl_ctx) | SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context, settings.ssl_verify_mode, NULL);
    SSL_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER);
    SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, settings.ssl_chain_cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, settings.ssl_key, settings.ssl_keyformat) != 1 ||
        SSL_CTX_check_private_key(context) != 1 ||
        SSL_CTX_load_verify_locations(context, settings.ssl_ca_cert, NULL) != 1 ||
        (names = SSL_load_client_CA_file(settings.ssl_ca_cert)) == NULL)
        return first_reason();
    SSL_CTX_set_client_CA_list(context, names);
    return why_unbelievable(context);
}

/* NULL if new connections use the files from now on. Into a context of its own: memcached would
 * change the one that is in use, half of it if the files do not fit together, and go on believing what
 * is no longer in them. */
static const char *use_files(void) {
    SSL_CTX *next = SSL_CTX_new(TLS_server_method());
    const char *reason = next == NULL ? first_reason() : take_files(next);
    if (reason != NULL) {
        SSL_CTX_free(next);
        return reason;
    }
    SSL_LOCK();
    SSL_CTX *before = settings.ssl_ctx;
    settings.ssl_ctx = next;
    settings.ssl_last_cert_refresh_time = current_time;
    SSL_UNLOCK();
    SSL_CTX_free(before); /* connections keep theirs */
    return NULL;
}

void elastripe_tls_start(void) {
    if (!elastripe_enabled || !settings.ssl_enabled)
        return;
    const char *reason = use_files();
    if (reason == NULL)
        return;
    fprintf(stderr, "elastripe-node: %s: %s\n", settings.ssl_chain_cert, reason);
    exit(EX_USAGE);
}

void elastripe_reload(void) {
    if (!elastripe_enabled || !settings.ssl_enabled)
        return;
    const char *reason = use_files();
    if (reason == NULL)
        fprintf(stderr, "elastripe-node: the certificates have been read again\n");
    else
        fprintf(stderr, "elastripe-node: the certificates stay as they were: %s\n", reason);
}

int64_t elastripe_tls_valid_until(void) {
    struct tm end;
    if (!elastripe_enabled || !settings.ssl_enabled)
        return 0;
    SSL_LOCK();
    const int known = ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(settings.ssl_ctx)), &end);
    SSL_UNLOCK();
    return known == 1 ? (int64_t)timegm(&end) : 0;
}
