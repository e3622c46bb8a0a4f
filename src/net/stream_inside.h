// SPDX-License-Identifier: Apache-2.0
// What the files of a stream share.
#pragma once

#include "net/stream.h"

// The TLS half of a stream. The functions are those of stream.h.
struct stream_session;
struct stream_session *stream_session_open(struct stream_tls *t, int fd, const char *host,
                                           int64_t until, bool *refused, char *why, size_t why_len);
void stream_session_free(struct stream_session *s, bool ours); // accepts NULL
ssize_t stream_session_read(struct stream_session *s, void *to, size_t len);
ssize_t stream_session_write(struct stream_session *s, const void *from, size_t len);
short stream_session_events(const struct stream_session *s, short events);
