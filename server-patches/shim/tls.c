#include "memcached.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls.h"

void elastripe_tls_start(void) {
    if (elastripe_enabled && settings.ssl_enabled)
        SSL_CTX_set_purpose(settings.ssl_ctx, X509_PURPOSE_SSL_SERVER);
}

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

/* As memcached's ssl_init does. */
static bool takes_files(SSL_CTX *context) {
    STACK_OF(X509_NAME) *names = NULL;
    SSL_CTX_set_min_proto_version(context, settings.ssl_min_version);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_CTX_get_options(settings.ssl_ctx));
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
        return false;
    SSL_CTX_set_client_CA_list(context, names);
    return true;
}

void elastripe_reload(void) {
    if (!elastripe_enabled || !settings.ssl_enabled)
        return;
    /* Into a context of its own: memcached would change the one that is in use, half of it if the
     * files do not fit together, and go on believing what is no longer in them. */
    SSL_CTX *next = SSL_CTX_new(TLS_server_method());
    if (next != NULL && takes_files(next)) {
        SSL_LOCK();
        SSL_CTX *before = settings.ssl_ctx;
        settings.ssl_ctx = next;
        settings.ssl_last_cert_refresh_time = current_time;
        SSL_UNLOCK();
        SSL_CTX_free(before); /* connections keep theirs */
        fprintf(stderr, "elastripe-node: the certificates have been read again\n");
        return;
    }
    fprintf(stderr, "elastripe-node: the certificates stay as they were: %s\n", first_reason());
    SSL_CTX_free(next);
}
