// SPDX-License-Identifier: Apache-2.0
// A message bus with durable streams: the port behind which NATS JetStream is (nats.c).
//
// A *stream* stores the messages that are published to its subjects and numbers them from 1. A
// message has an id. Within the stream's duplicate window, a second message with the same id is not
// stored; the bus answers with the first one's number. The bus promises less than the journal: an
// acknowledged message can be lost when the bus's machine loses power. So the journal stays the
// truth, and a publisher compares the stream with it (events/publisher.h).
//
// Every function may be called by any thread. Functions that say so wait for the server; the others
// return at once. A secret is never part of a sentence in `why`.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUS_WHY_MAX     320
#define BUS_STREAM_MAX  256 // bytes of a stream's name, with the zero
#define BUS_SUBJECT_MAX 1024
#define BUS_HEADERS_MAX 16
#define BUS_STORE_MAX   32 // digits of the id of a store

struct bus;
struct bus_message;
struct bus_sender;
struct bus_subscription;

// "nats://host[:port][,host[:port]...][?settings]", or tls://. Settings are limits of the streams:
//   replicas=1      copies of each stream, 1 to 5
//   maxAge=7d       how long a stream keeps a message; 0: for ever
//   maxBytes=0      bytes that a stream keeps; 0: no limit. The oldest messages are deleted first
//   dedupWindow=2m  how long the server knows the ids of messages
//   streams=queue   a stream for each queue; shard: for each shard of a queue
//   prefix=         a name that each subject and stream begins with, at the server only: callers of
//                   this port do not see it. It keeps environments on one server apart
// Credentials are in the environment, or in files that it names (bus/credentials.h).
struct bus_limits {
    uint32_t replicas;
    int64_t max_age_ms;
    int64_t max_bytes;
    int64_t dedup_ms;
    bool by_shard; // streams=shard; no limit of a stream
};

struct bus_config {
    const char *url;
    const char *name; // of the connection, for the server's lists
    // The connection came up or went down. Called by a thread of the bus; must be quick. May be
    // NULL.
    void (*changed)(void *ctx, bool up);
    // Messages whose subject matches, as they are published. They are not read from a stream, so
    // those of an outage are lost. One thread of the bus calls it; its views are valid until it
    // returns. NULL: none.
    const char *listen;
    void (*on_message)(void *ctx, const struct bus_message *m);
    void *ctx;
};

// Reads the URL alone, without a connection. ERR_INVALID: why says what is wrong.
MUST_USE enum err bus_check_url(const char *url, struct bus_limits *limits,
                                char why[static BUS_WHY_MAX]);
// Returns at once and connects in the background, again and again, with growing random pauses.
// ERR_INVALID: the URL or a credential. ERR_LIMIT: no thread or no memory.
MUST_USE enum err bus_open(const struct bus_config *config, struct bus **out,
                           char why[static BUS_WHY_MAX]);
// Waits for the callbacks that run. All senders and subscriptions must be gone. NULL is allowed.
void bus_close(struct bus *b);
// Waits until the connection is up. ERR_UNAVAILABLE: not after wait_ms. ERR_DENIED: the server
// refuses the credentials.
MUST_USE enum err bus_wait(struct bus *b, int64_t wait_ms, char why[static BUS_WHY_MAX]);
bool bus_is_up(struct bus *b);
// How often the connection came up. Between two equal answers there was one connection.
uint64_t bus_connections(struct bus *b);
// The last thing that went wrong. "" if nothing did.
void bus_why(struct bus *b, char why[static BUS_WHY_MAX]);
struct bus_limits bus_limits(const struct bus *b); // of the URL

// A stream. Waits for the server.
//   ERR_UNAVAILABLE, ERR_UNKNOWN: try again.   ERR_CONFLICT: another limit; why names it.
//   ERR_DENIED: the account may not do this.   ERR_NOT_FOUND: there is no such stream.
#define BUS_STREAM_SUBJECTS_MAX 4
struct bus_stream {
    char name[BUS_STREAM_MAX];
    const char *const *subjects;
    size_t subjects_len;
    struct bus_limits limits;
    // The id of the store whose events it has, kept as the stream's description. A stream of
    // another store is ERR_CONFLICT. "": any store.
    char store[BUS_STORE_MAX + 1];
};

struct bus_stream_state {
    uint64_t first; // number of the oldest message; last + 1 if there is none
    uint64_t last;  // number of the newest message; 0 if there never was one
    uint64_t messages;
    int64_t created_at; // ms since 1970; another time means another stream of that name
};

// Creates the stream, or compares it with the one that exists. Neither changes nor deletes one.
MUST_USE enum err bus_stream_ensure(struct bus *b, const struct bus_stream *s,
                                    struct bus_stream_state *out, char why[static BUS_WHY_MAX]);
MUST_USE enum err bus_stream_state(struct bus *b, const char *stream, struct bus_stream_state *out,
                                   char why[static BUS_WHY_MAX]);

// A stored message. Views are valid until the message is released, or until the next bus_next.
struct bus_message {
    uint64_t sequence; // in the stream
    int64_t at;        // when it was stored, ms since 1970
    const char *subject;
    const char *id; // "" if it has none
    struct bytes body;
    void *inside; // of the bus
};
void bus_message_done(struct bus_message *m); // an all-zero message is allowed
// NULL if the message has no such header. Names are exact.
const char *bus_message_header(const struct bus_message *m, const char *name);
// The newest message whose subject matches the filter, which may have wildcards. Waits for the
// server. ERR_NOT_FOUND: none, or no such stream. Release out with bus_message_done.
MUST_USE enum err bus_stream_last(struct bus *b, const char *stream, const char *filter,
                                  struct bus_message *out, char why[static BUS_WHY_MAX]);

// Publishing. A sender is where acknowledgements go. They can come in any order, and they can be
// missing: the bus has no timeout for them.
struct bus_ack {
    uint64_t tag; // of the publish
    // ERR_OK: stored, at `sequence`.   ERR_CONFLICT: the fence or the stream is another.
    // ERR_LIMIT: the stream is full.   ERR_UNAVAILABLE: not stored; try again.
    // Every error means that this attempt was not stored.
    enum err err;
    uint64_t sequence;
    bool duplicate; // the message was stored before
    const char *why;
};
// Called by threads of the bus, after a reconnect perhaps by two at once; must be quick.
typedef void bus_ack_fn(void *ctx, const struct bus_ack *ack);
MUST_USE enum err bus_sender_new(struct bus *b, bus_ack_fn *acked, void *ctx,
                                 struct bus_sender **out);
// Waits for a callback that runs. None comes afterwards. Not inside a callback. NULL is allowed.
void bus_sender_free(struct bus_sender *s);

struct bus_header {
    const char *name;
    const char *value;
};

#define BUS_NO_FENCE UINT64_MAX
struct bus_publish {
    const char *stream; // the message is refused if another stream has the subject; NULL: any
    const char *subject;
    const char *id;
    const struct bus_header *headers;
    size_t headers_len;
    struct bytes body;
    // The message is stored only if this is the number of the stream's newest message, or of the
    // newest one with this subject. BUS_NO_FENCE: no condition. A duplicate is found before the
    // fence is looked at.
    uint64_t last_of_stream;
    uint64_t last_of_subject;
    uint64_t tag;
};
// Copies everything. ERR_OK: on its way, and the answer comes to the sender, or never.
// ERR_UNAVAILABLE: there is no connection; nothing was sent. ERR_LIMIT: too large.
MUST_USE enum err bus_publish(struct bus_sender *s, const struct bus_publish *p);

// Reading. The messages come in the stream's order, each once, also after a reconnect.
struct bus_start {
    const char *stream;
    const char *filter; // NULL: everything
    uint64_t sequence;  // the first message; 0: only messages that are stored from now on
};
// Waits for the server. ERR_NOT_FOUND: there is no such stream.
MUST_USE enum err bus_subscribe(struct bus *b, const struct bus_start *from,
                                struct bus_subscription **out, char why[static BUS_WHY_MAX]);
// Waits for the next message. Its views are valid until the next call for this subscription.
// ERR_NOT_FOUND: none came for wait_ms. ERR_UNAVAILABLE: no connection, or the stream has no
// leader; call again. ERR_FENCED: the stream was deleted, or another one has its name now, or it
// lost its tail and its newest number is under the position; open another subscription.
MUST_USE enum err bus_next(struct bus_subscription *s, int64_t wait_ms, struct bus_message *out,
                           char why[static BUS_WHY_MAX]);
void bus_unsubscribe(struct bus_subscription *s); // NULL is allowed
