#include "memcached.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "tls.h"

void elastripe_tls_start(void) {
    if (settings.ssl_enabled)
        SSL_CTX_set_purpose(settings.ssl_ctx, X509_PURPOSE_SSL_SERVER);
}

ssize_t elastripe_tls_result(conn *c, int result) {
    if (result > 0)
        return result;
    int failure = errno;
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        break;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (failure == 0 || failure == EAGAIN)
            failure = ECONNRESET;
        errno = failure;
        break;
    default:
        errno = EPROTO;
    }
    /* The next call on this thread, of whatever connection, would find it. */
    ERR_clear_error();
    return -1;
}

bool elastripe_tls_buffered(conn *c) { return c->ssl != NULL && SSL_pending(c->ssl) > 0; }

void elastripe_reload(void) {
    if (!settings.ssl_enabled)
        return;
    char *reason = NULL;
    if (refresh_certs(&reason)) {
        fprintf(stderr, "elastripe-node: the certificates have been read again\n");
    } else {
        fprintf(stderr, "elastripe-node: the certificates stay as they were: %s\n",
                reason == NULL ? "out of memory" : reason);
        free(reason);
    }
}
