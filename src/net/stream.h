// SPDX-License-Identifier: Apache-2.0
// A byte stream to a server: TCP or a Unix socket, with or without TLS. The calls with an `until`
// (clock_boot_ms) block, the others do not. One thread at a time may use a stream.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stream;
struct stream_tls; // the certificates that streams share

// host and port, or path. The strings are borrowed for the call.
struct stream_place {
    const char *host;
    const char *port;
    const char *path;       // of a Unix socket; NULL: TCP
    struct stream_tls *tls; // NULL: plain
};

// Reads PEM files: the authorities of the server's certificate (NULL: the system's), and the
// client's certificate and key (both NULL: none). Returns NULL with the reason in `why`.
struct stream_tls *stream_tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                                  char *why, size_t why_len);
void stream_tls_free(struct stream_tls *t); // accepts NULL

// Connects, and completes the TLS handshake, until `until`. Returns NULL with the reason in `why`.
// *refused: the server's certificate does not fit, or the server does not speak TLS. Waiting does
// not help then.
struct stream *stream_open(const struct stream_place *p, int64_t until, bool *refused, char *why,
                           size_t why_len);
void stream_free(struct stream *s); // closes it; accepts NULL
// In a child of fork the connection belongs to the parent: closes the descriptor, sends nothing.
void stream_abandon(struct stream *s);

// Returns the number of bytes, 0 if none can be read or written now, or -1 if the stream ended or
// failed.
ssize_t stream_read(struct stream *s, void *to, size_t len);
ssize_t stream_write(struct stream *s, const void *from, size_t len);
// Sends both whole. False: the stream ended, or the time was over.
bool stream_send(struct stream *s, struct bytes first, struct bytes second, int64_t until);
// As stream_read; waits for the first byte. 0: none came; the wait may end a second after its
// start.
ssize_t stream_receive(struct stream *s, void *to, size_t len, int64_t until);
bool stream_is_idle(struct stream *s); // it is open, and no byte waits to be read
// After a write that returned 0 or -1: whether it is certain that none of its bytes were sent. With
// TLS it is not.
bool stream_is_exact(const struct stream *s);
int stream_fd(const struct stream *s);
short stream_events(const struct stream *s, bool writes); // what to poll for
