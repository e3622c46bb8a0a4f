// SPDX-License-Identifier: Apache-2.0
// A stream of Server-Sent Events: its place among the streams of all clients, its thread, and how
// it is written. The events of a queue (events.c) and of the cluster (cluster_events.c) are such
// streams.
#pragma once

#include "server/inside.h"

#define SSE_BEAT_MS   15000 // between comments, which keep proxies from closing the connection
#define SSE_SLICE_MS  250   // delay until a disconnect or the end of the node is noticed

// The last event of a stream whose token was removed or has expired.
#define SSE_TOKEN_END "event: end\ndata: {\"reason\":\"token\"}\n\n"

enum sse_end {
    SSE_ENDED,
    SSE_CUT,   // a write failed
    SSE_WAITS, // sse_resume calls `feed` again, perhaps already: the stream needs no thread until
               // then
};

struct event_stream {
    struct share share; // first; under the server's lock
    struct server *server;
    atomic_bool lost; // another client took its place
    struct httpd_stream *http;
    struct exchange *exchange;
    uint64_t token_changes; // of the server, when the token was last checked
    int64_t token_at;       // when it is checked again
    bool denied;            // the token was removed or has expired
    struct pool_job job;    // writes the stream
    // Writes the stream until sse_is_over, or until there is nothing to write.
    enum sse_end (*feed)(struct event_stream *e);
    void (*free)(struct event_stream *e);
};

// Takes the filter for one message. INVALID: the text is no id.
enum sluice_code filter_message(const char *id, char out[SLUICE_ID_MAX],
                                struct sluice_error *error);
// Takes a place for the stream. Returns false if there is none: the request is answered, and the
// stream must be freed by the caller.
bool sse_begin(struct event_stream *e, struct exchange *x);
// Runs the stream on a thread. Returns false, with an error, if there is no thread.
bool sse_run(struct event_stream *e, struct sluice_error *error);
// A stream that waits has something to write. It does not block. The stream may be freed.
void sse_resume(struct event_stream *e);
// Gives the place back and frees the stream.
void sse_over(struct event_stream *e);
bool sse_is_over(struct event_stream *e); // the client, the node or the end of the token ends it
// Waits for a slow client, but not past the end of the stream. Returns false if it failed.
bool sse_write(struct event_stream *e, const struct buf *text);
