// SPDX-License-Identifier: Apache-2.0
// TLS of a stream, by OpenSSL. The server's certificate is always checked against the authorities
// and the host's name. The oldest version is TLS 1.2.
#include "net/stream_inside.h"

#include "base/memory.h"
#include "net/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct stream_tls {
    SSL_CTX *context;
    BIO_METHOD *socket;
};

struct stream_session {
    SSL *ssl;
    short wants; // what the last call waits for; 0: nothing
};

// A socket whose writes raise no SIGPIPE: OpenSSL's own raises it in the program of our user.
static int socket_write(BIO *b, const char *from, int len)
{
    ssize_t n = send((int)(intptr_t)BIO_get_data(b), from, (size_t)len, MSG_NOSIGNAL);
    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(b);
    return (int)n;
}

static int socket_read(BIO *b, char *to, int len)
{
    ssize_t n = recv((int)(intptr_t)BIO_get_data(b), to, (size_t)len, 0);
    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(b);
    return (int)n;
}

static long socket_control(BIO *b, int command, long number, void *more)
{
    (void)b, (void)number, (void)more;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
    if (!m) return NULL;
    (void)BIO_meth_set_write(m, socket_write);
    (void)BIO_meth_set_read(m, socket_read);
    (void)BIO_meth_set_ctrl(m, socket_control);
    return m;
}

static void say(char *why, size_t why_len, const char *file, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    (void)snprintf(why, why_len, "%.150s %s: %s", file, what,
                   reason ? reason : "not in PEM format");
}

static bool load(SSL_CTX *c, const char *ca, const char *cert, const char *key, char *why,
                 size_t why_len)
{
    int good =
        ca ? SSL_CTX_load_verify_locations(c, ca, NULL) : SSL_CTX_set_default_verify_paths(c);
    if (good != 1) {
        say(why, why_len, ca ? ca : "the system's list", "has no certificate of an authority");
        return false;
    }
    if (!cert) return true;
    if (SSL_CTX_use_certificate_chain_file(c, cert) != 1) {
        say(why, why_len, cert, "is not a certificate");
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_check_private_key(c) == 1)
        return true;
    say(why, why_len, key, "is not the certificate's key");
    return false;
}

struct stream_tls *stream_tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                                  char *why, size_t why_len)
{
    ERR_clear_error();
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c) {
        (void)snprintf(why, why_len, "TLS cannot be set up");
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
    (void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    if (!load(c, ca_file, cert_file, key_file, why, why_len)) {
        SSL_CTX_free(c);
        return NULL;
    }
    struct stream_tls *t = NEW(struct stream_tls);
    t->context = c;
    t->socket = socket_method();
    return t;
}

void stream_tls_free(struct stream_tls *t)
{
    if (!t) return;
    SSL_CTX_free(t->context);
    BIO_meth_free(t->socket);
    memory_free(t);
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool expect_name(SSL *ssl, const char *host)
{
    if (is_address(host)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

// Returns what to poll for: POLLIN, POLLOUT, or 0 if the call failed for good.
static short wanted(SSL *ssl, int result)
{
    int e = SSL_get_error(ssl, result);
    if (e == SSL_ERROR_WANT_READ) return POLLIN;
    return e == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
}

static void say_handshake(SSL *ssl, const char *host, int number, char *why, size_t why_len)
{
    long bad = SSL_get_verify_result(ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (bad != X509_V_OK)
        (void)snprintf(why, why_len, "the certificate of %.100s is refused: %s", host,
                       X509_verify_cert_error_string(bad));
    else
        (void)snprintf(why, why_len, "TLS with %.100s failed: %s", host,
                       reason   ? reason
                       : number ? strerror(number)
                                : "the server closed the connection; does it speak TLS?");
}

static bool handshake(SSL *ssl, int fd, const char *host, int64_t until, bool *refused, char *why,
                      size_t why_len)
{
    for (;;) {
        errno = 0;
        ERR_clear_error();
        int result = SSL_connect(ssl);
        if (result == 1) return true;
        short events = wanted(ssl, result);
        if (events == 0) {
            int number = errno;
            // A reason of OpenSSL's own means that bytes came and were wrong.
            *refused = ERR_peek_last_error() != 0 || SSL_get_verify_result(ssl) != X509_V_OK;
            say_handshake(ssl, host, number, why, why_len);
            return false;
        }
        if (!dial_poll(fd, events, until)) {
            (void)snprintf(why, why_len,
                           "%.100s did not answer the TLS handshake; does it speak TLS?", host);
            return false;
        }
    }
}

static bool set_socket(SSL *ssl, const struct stream_tls *t, int fd)
{
    BIO *b = t->socket ? BIO_new(t->socket) : NULL;
    if (!b) return false;
    BIO_set_data(b, (void *)(intptr_t)fd);
    BIO_set_init(b, 1);
    SSL_set_bio(ssl, b, b);
    return true;
}

struct stream_session *stream_session_open(struct stream_tls *t, int fd, const char *host,
                                           int64_t until, bool *refused, char *why, size_t why_len)
{
    struct stream_session *s = NEW(struct stream_session);
    s->ssl = SSL_new(t->context);
    if (s->ssl && set_socket(s->ssl, t, fd) && expect_name(s->ssl, host)) {
        if (handshake(s->ssl, fd, host, until, refused, why, why_len)) return s;
    } else {
        (void)snprintf(why, why_len, "TLS with %.100s cannot be set up", host);
    }
    stream_session_free(s, false);
    return NULL;
}

void stream_session_free(struct stream_session *s, bool ours)
{
    if (!s) return;
    ERR_clear_error();
    if (s->ssl && ours) (void)SSL_shutdown(s->ssl);
    SSL_free(s->ssl);
    memory_free(s);
}

static ssize_t result_of(struct stream_session *s, int result)
{
    s->wants = result > 0 ? 0 : wanted(s->ssl, result);
    if (result > 0) return result;
    return s->wants ? 0 : -1;
}

static int int_of(size_t len)
{
    return len > (size_t)1 << 30 ? 1 << 30 : (int)len;
}

ssize_t stream_session_read(struct stream_session *s, void *to, size_t len)
{
    ERR_clear_error();
    return result_of(s, SSL_read(s->ssl, to, int_of(len)));
}

ssize_t stream_session_write(struct stream_session *s, const void *from, size_t len)
{
    ERR_clear_error();
    return result_of(s, SSL_write(s->ssl, from, int_of(len)));
}

short stream_session_events(const struct stream_session *s, short events)
{
    return (short)(events | s->wants);
}
