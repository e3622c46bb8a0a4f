// SPDX-License-Identifier: Apache-2.0
/*
 * Sluice: a durable work queue whose whole state lives in a store (a directory, later a bucket).
 *
 * Every function may be called from any thread. Any number of processes may work on the same store
 * at once. There is no global state. A handle must not be used in a child after fork
 * (SLUICE_INVALID).
 *
 * Every call answers a code. With a struct sluice_error (may be NULL) it also says, in one
 * sentence, what went wrong, and which field of the input was at fault. Three codes deserve
 * attention: SLUICE_UNAVAILABLE  certainly not done; try again later SLUICE_UNKNOWN      perhaps
 * done; send it again with the same request id, which cannot do it twice SLUICE_FENCED       the
 * lock is not yours any more; stop working on the message
 *
 * Strings are UTF-8, bodies any bytes, times milliseconds since 1970 by the store's clock,
 * durations milliseconds. What a call hands out in a struct belongs to it until the matching _free.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#define SLUICE_VERSION "0.1.0"

/* ---- errors */

enum sluice_code {
    SLUICE_OK = 0,
    SLUICE_INVALID,     /* the request is malformed; fix it */
    SLUICE_NOT_FOUND,   /* no such queue, message or object */
    SLUICE_CONFLICT,    /* precondition failed; reload and decide */
    SLUICE_FENCED,      /* a newer holder has this; stop */
    SLUICE_LIMIT,       /* a stated limit was reached; back off */
    SLUICE_UNAVAILABLE, /* not applied; try again later */
    SLUICE_UNKNOWN,     /* may have been applied; send it again */
    SLUICE_CORRUPT,     /* stored bytes fail their check; halt */
    SLUICE_DENIED       /* credentials or scope do not allow this */
};

struct sluice_error {
    enum sluice_code code;
    char reason[32];   /* a stable word for the refusal, "token-mismatch"; may be empty */
    char field[64];    /* the input at fault, "orderingMode"; may be empty */
    char message[400]; /* one sentence: the thing, the value, what would be right */
};

SLUICE_API const char *sluice_code_name(enum sluice_code code); /* "NOT_FOUND" */
SLUICE_API const char *sluice_code_text(enum sluice_code code); /* a sentence */
SLUICE_API int sluice_code_exit(enum sluice_code code);         /* the command line's exit status */
SLUICE_API const char *sluice_version(void);

/* ---- a store */

struct sluice;

struct sluice_options {
    int64_t timeout_ms; /* how long a call may take beside waiting for messages; 0: 30 s */
    const char *token;  /* of a node that wants one; NULL: the environment's SLUICE_TOKEN */
    /* Not 0: never ask the node that owns a queue, always write to the store. So does the
     * environment's SLUICE_FORWARD=off. */
    int direct;
    /* When opening the handle and all its calls shall have ended, counted from sluice_open; 0: no
     * such end. For a handle that makes a few calls, as a command does: on a bucket whose server
     * stalls each request has a timeout of its own, and several come one after another. No request
     * begins later, and none lasts longer. Of a node: not used. */
    int64_t deadline_ms;
};

/*
 * Opens a store: "mem:" (this process only), "file:///path", or a plain path; the directory is
 * created when its parent exists. Or a bucket: "s3://bucket/prefix". A path whose first part has a
 * colon is written "./a:b": "localhost:7333" is refused, for it was meant to be a node. The first
 * opening probes the store and refuses one that cannot keep the promises. options may be NULL.
 *
 * Or a node that serves one: "http://host:port", "https://host". Every call means the same there.
 * A node that is away is asked again until the timeout has passed. The environment's SLUICE_CA
 * names a file of certificates to trust instead of the system's.
 */
SLUICE_API enum sluice_code sluice_open(const char *url, const struct sluice_options *options,
                                        struct sluice **out, struct sluice_error *error);
/* Waits for calls of the library's own (dead letters on their way), not for yours: there must be
 * none. NULL is fine. */
SLUICE_API void sluice_close(struct sluice *s);

/* ---- queues */

/* A setting, by the names of docs/queues.md: {"failureStrategy.maxRetries", "3"}. */
struct sluice_setting {
    const char *key;
    const char *value;
};

/*
 * Creates a queue. SLUICE_CONFLICT: it exists (with other settings). Creating one that exists with
 * the same settings is SLUICE_OK, and error->reason is "exists" then; it is empty after a creation.
 * SLUICE_INVALID names the setting that is not possible. A dead-letter queue that does not exist is
 * created too.
 */
SLUICE_API enum sluice_code sluice_queue_create(struct sluice *s, const char *queue,
                                                const struct sluice_setting *settings,
                                                size_t settings_len, struct sluice_error *error);
/* Changes some settings of a queue, all or none. */
SLUICE_API enum sluice_code sluice_queue_set(struct sluice *s, const char *queue,
                                             const struct sluice_setting *settings,
                                             size_t settings_len, struct sluice_error *error);

struct sluice_queue_info {
    char *name;
    char id[33]; /* 32 hex digits; another one after the queue was deleted and created again */
    int paused;
    struct sluice_setting *settings; /* all of them */
    size_t settings_len;
};

SLUICE_API enum sluice_code sluice_queue_show(struct sluice *s, const char *queue,
                                              struct sluice_queue_info **out,
                                              struct sluice_error *error);
SLUICE_API void sluice_queue_info_free(struct sluice_queue_info *info);

/* Names of all queues, sorted. */
struct sluice_names {
    char **names;
    size_t len;
};
SLUICE_API enum sluice_code sluice_queue_list(struct sluice *s, struct sluice_names **out,
                                              struct sluice_error *error);
SLUICE_API void sluice_names_free(struct sluice_names *names);

/* A paused queue takes messages and gives none out; locks that are held stay valid. */
SLUICE_API enum sluice_code sluice_queue_pause(struct sluice *s, const char *queue,
                                               struct sluice_error *error);
SLUICE_API enum sluice_code sluice_queue_resume(struct sluice *s, const char *queue,
                                                struct sluice_error *error);
/* Drops every message that waits (ready or delayed), or with dead != 0 the dead ones. purged may be
 * NULL. */
SLUICE_API enum sluice_code sluice_queue_purge(struct sluice *s, const char *queue, int dead,
                                               uint64_t *purged, struct sluice_error *error);
/* SLUICE_CONFLICT: another queue uses it for its dead letters, or its own are still on their way.
 */
SLUICE_API enum sluice_code sluice_queue_delete(struct sluice *s, const char *queue,
                                                struct sluice_error *error);

/* ---- messages */

struct sluice_header {
    const char *name;
    const char *value;
};

/* What a sender says of a message. Zero and NULL mean: not given. */
struct sluice_send {
    const void *body; /* up to the queue's maxMessageBytes, 64 MiB at most */
    size_t body_len;
    const char *group;
    const char *dedup;
    const char *content_type;
    const char *workflow;
    int priority;     /* 0 .. 9, higher first */
    int64_t delay_ms; /* from now */
    int64_t due;      /* or a moment */
    const struct sluice_header *headers;
    size_t headers_len;
};

#define SLUICE_ID_MAX    64
#define SLUICE_TOKEN_MAX 96

/* A request id: 16 random bytes of the caller's, for one request. The same id sent again does
 * nothing again and gets the same answer; a receive's without what was finished or given back
 * since, or is somebody else's. A receive that still waits ends empty then. Used for something else
 * it is SLUICE_INVALID, reason request-reused. */
struct sluice_request {
    uint8_t bytes[16];
};

struct sluice_sent {
    enum sluice_code code; /* of this message */
    char id[SLUICE_ID_MAX];
    int duplicate; /* the dedup key is known: id is the first message's */
};

/*
 * Sends messages; each has its own answer in sent (may be NULL). SLUICE_OK when all were taken;
 * else the first refusal. request may be NULL. On SLUICE_UNKNOWN send the same messages with the
 * same request again.
 */
SLUICE_API enum sluice_code sluice_send(struct sluice *s, const char *queue,
                                        const struct sluice_send *messages, size_t len,
                                        const struct sluice_request *request,
                                        struct sluice_sent *sent, struct sluice_error *error);

/* The dead message that another continues. Who sends cannot make it up, as he can a header. */
struct sluice_origin {
    const char *queue; /* where it died; "": there is none */
    const char *id;
    const char *reason; /* what it died for; "" for one that was redriven in place */
    uint32_t retries;
    int64_t died_at;
    uint32_t attempts;  /* how often it was delivered there; 0: not known */
    const char *worker; /* that failed it last; "" when it is not known */
};

/* One attempt that failed. */
struct sluice_failure {
    uint32_t attempt;   /* which one, from 1 */
    int64_t at;         /* when, by the store's clock; of a lock that expired: its deadline */
    const char *worker; /* that held the lock; "" when it is not known */
    const char *reason; /* what the worker said, perhaps ""; "lock-expired"; NULL: not kept any
                           more */
    const char *kind;   /* "failed": the worker said so; "lock-expired": it said nothing in time */
};

/* A message as it is handed out. */
struct sluice_message {
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX]; /* empty when it is not locked by this call */
    const char *state;            /* "ready", "delayed", "locked", "dead", "outbound", "finished" */
    const void *body;             /* body_len bytes, and a zero after them */
    size_t body_len;
    const char *group; /* "" when there is none */
    const char *dedup;
    const char *content_type;
    const char *workflow;
    const struct sluice_header *headers;
    size_t headers_len;
    int priority;
    uint32_t attempt; /* deliveries, this one included */
    uint32_t retries; /* failures counted against maxRetries */
    uint64_t fence; /* rises with every lock of the queue's shard: for use against other systems */
    int64_t lease_ms; /* how long the lock lasts from now, measured from before it was asked for */
    int64_t deadline; /* when it ends, by the store's clock; when a delayed one is due */
    int64_t sent_at;
    const char *worker;        /* who holds it */
    uint64_t order;            /* of the ticket it was granted by; 0: it was claimed */
    struct sluice_origin from; /* of a dead letter */
    /*
     * Failures in this queue, the oldest first. sluice_show: the newest 8; sluice_peek: the newest
     * one; sluice_receive: none. The newest has its reason for as long as the message is there, an
     * older one for as long as its journal entry is kept (an hour at least).
     */
    const struct sluice_failure *failures;
    size_t failures_len;
};

struct sluice_batch {
    struct sluice_message *messages;
    size_t len;
};
SLUICE_API void sluice_batch_free(struct sluice_batch *b);

struct sluice_receive {
    const char *worker;    /* who asks; NULL: a name made from host and process */
    uint32_t max;          /* 0: 1 */
    int64_t wait_ms;       /* how long to wait when there is nothing */
    int64_t visibility_ms; /* 0: the queue's visibilityTimeout */
    const struct sluice_request *request;
    /* Locks whose messages are done: acknowledged at once, as by sluice_ack, whatever the receive
     * waits for; mostly in the commit of the claim. */
    const char *const *acks;
    size_t acks_len;
    struct sluice_outcome *acked; /* what became of each, whatever the call answers; may be NULL */
};

/* Locks up to max messages. An empty batch is SLUICE_OK. Waiting costs no CPU. options may be NULL.
 */
SLUICE_API enum sluice_code sluice_receive(struct sluice *s, const char *queue,
                                           const struct sluice_receive *options,
                                           struct sluice_batch **out, struct sluice_error *error);

/* What became of one lock. */
struct sluice_outcome {
    enum sluice_code code;
    char reason[32]; /* why it was refused, "lock-expired"; empty when it was not */
    const char
        *status;   /* "processed", "retrying", "dead-lettered", "released", "renewed"; a constant */
    int64_t until; /* renewed: the new deadline; retrying, released: when it is ready again */
};

/*
 * Each takes tokens and gives every one its own outcome (may be NULL). SLUICE_OK when all were
 * done, else the first refusal. Tokens may be of different shards.
 */
SLUICE_API enum sluice_code sluice_ack(struct sluice *s, const char *queue,
                                       const char *const *tokens, size_t len,
                                       struct sluice_outcome *outcomes, struct sluice_error *error);
SLUICE_API enum sluice_code sluice_fail(struct sluice *s, const char *queue,
                                        const char *const *tokens, size_t len, const char *reason,
                                        struct sluice_outcome *outcomes,
                                        struct sluice_error *error);
/* Gives back without counting an attempt, to be ready again after delay_ms. */
SLUICE_API enum sluice_code sluice_release(struct sluice *s, const char *queue,
                                           const char *const *tokens, size_t len, int64_t delay_ms,
                                           struct sluice_outcome *outcomes,
                                           struct sluice_error *error);
/* Extends to visibility_ms from now (0: the queue's visibilityTimeout). */
SLUICE_API enum sluice_code sluice_renew(struct sluice *s, const char *queue,
                                         const char *const *tokens, size_t len,
                                         int64_t visibility_ms, struct sluice_outcome *outcomes,
                                         struct sluice_error *error);

/* ---- looking, without touching */

struct sluice_peek {
    const char *state;    /* NULL: "ready" */
    const char *after_id; /* go on after this one */
    uint32_t max;         /* 0: 10 */
};
/* Fewer than max when their bodies would be more than 16 MiB together; one comes whatever its
 * size. A message whose large body is missing or damaged comes without it, with the header
 * "sluice-body-lost". So does that of sluice_show. */
SLUICE_API enum sluice_code sluice_peek(struct sluice *s, const char *queue,
                                        const struct sluice_peek *options,
                                        struct sluice_batch **out, struct sluice_error *error);
/* One message by its id. SLUICE_NOT_FOUND: never sent. One that is finished is shown without a
 * body. */
SLUICE_API enum sluice_code sluice_show(struct sluice *s, const char *queue, const char *id,
                                        struct sluice_batch **out, struct sluice_error *error);

/* Requests to a store that charges for them (a bucket), by price. All zero elsewhere. */
struct sluice_requests {
    uint64_t writes; /* PUT, POST, LIST */
    uint64_t reads;  /* GET, HEAD */
    uint64_t deletes;
};
/* What this handle has made so far, for all queues; of a node: what the node has, for everybody. */
SLUICE_API void sluice_requests(const struct sluice *s, struct sluice_requests *out);

struct sluice_stats {
    uint64_t ready;
    uint64_t delayed;
    uint64_t locked;
    uint64_t processed;
    uint64_t dead;     /* in this queue */
    uint64_t outbound; /* on their way to the dead-letter queue */
    uint64_t moved;    /* arrived there */
    uint64_t redriven;
    uint64_t purged;
    uint64_t sent;         /* ever; the sum of the above */
    uint64_t duplicates;   /* sends answered by their dedup key */
    uint64_t workers;      /* holding locks, or registered */
    int64_t oldest_age_ms; /* how long the oldest ready message is ready; 0: none is */
    uint64_t entries;      /* committed to the journal */
    uint64_t requests;     /* made to the store by this handle, all queues */
    /*
     * What all processes together asked the store for this queue's sake. Each reports with its
     * entries, so the last seconds are missing, and what a process asked after its last entry.
     */
    struct sluice_requests spent;
    struct sluice_requests spent_this_hour; /* hours of the store's clock */
    struct sluice_requests spent_last_hour;
    int64_t hour_ms; /* how much of this hour has passed */
};
SLUICE_API enum sluice_code sluice_stats(struct sluice *s, const char *queue,
                                         struct sluice_stats *out, struct sluice_error *error);

/*
 * What sluice_queue_show and sluice_stats say of many queues, several of which are looked at at a
 * time: where the store is far that is most of the difference. One row per queue; one that cannot
 * be read says why in its error, and hides no other. sluice_sights_done frees what the rows hold.
 */
#define SLUICE_SEE_INFO  1u
#define SLUICE_SEE_STATS 2u
struct sluice_sight {
    struct sluice_error error;
    struct sluice_queue_info *info; /* NULL unless asked for and there */
    struct sluice_stats stats;
};
SLUICE_API void sluice_look(struct sluice *s, const char *const *queues, size_t len, unsigned what,
                            struct sluice_sight *out);
SLUICE_API void sluice_sights_done(struct sluice_sight *sights, size_t len);

struct sluice_worker {
    char name[129];
    uint32_t open;     /* locks and tickets */
    uint32_t capacity; /* 0: not registered */
};
/* Up to max workers by name; *len is how many. */
SLUICE_API enum sluice_code sluice_workers(struct sluice *s, const char *queue,
                                           struct sluice_worker *out, size_t max, size_t *len,
                                           struct sluice_error *error);

/* ---- events */

struct sluice_event {
    const char *id; /* stable: the same event has the same id for every reader */
    const char
        *type; /* "message-enqueued", "message-claimed", "message-outcome", "lock-expired" ... */
    const char *message; /* id of the message; "" when it is about the queue */
    const char *status;  /* message-outcome: "processed", "retrying", "dead-lettered"; else "" */
    const char *reason;  /* lock-renewal-rejected, outcome-rejected: why. message-outcome: what the
                            worker said it failed for; "lock-expired" if nobody said anything */
    const char *worker;
    uint32_t attempt;
    uint64_t fence;
    int64_t time;
    int64_t until;
    uint64_t count;
    uint64_t order;            /* of a ticket; 0: none */
    struct sluice_origin from; /* message-enqueued: a dead letter's, or that of one redriven */
    uint64_t position;         /* of the journal entry it came from; continue with the next one */
    uint32_t shard;
};

struct sluice_events;

/*
 * Opens the event stream of a queue at a position (0: the oldest that is kept). Events of old
 * entries are kept as long as the entries (an hour at least).
 */
SLUICE_API enum sluice_code sluice_events_open(struct sluice *s, const char *queue,
                                               uint64_t position, struct sluice_events **out,
                                               struct sluice_error *error);
/*
 * The next event; waits up to wait_ms for one. SLUICE_NOT_FOUND: none came. SLUICE_FENCED: the
 * queue was deleted and all its events were handed out; what has its name now is another queue. The
 * event's strings live until the next call.
 */
SLUICE_API enum sluice_code sluice_events_next(struct sluice_events *e, int64_t wait_ms,
                                               struct sluice_event *out,
                                               struct sluice_error *error);
SLUICE_API void sluice_events_close(struct sluice_events *e);

/* ---- dead letters */

/*
 * Sends dead messages again: those that died in this queue, in place; those that came here as dead
 * letters, to the queue `to` (NULL: the one each came from). At most max (0: all). redriven may be
 * NULL.
 */
SLUICE_API enum sluice_code sluice_redrive(struct sluice *s, const char *queue, const char *to,
                                           uint32_t max, uint64_t *redriven,
                                           struct sluice_error *error);

/* ---- health */

enum sluice_health { SLUICE_FAILED, SLUICE_PASSED, SLUICE_WARNING };
typedef void sluice_report(void *ctx, const char *check, enum sluice_health health,
                           const char *detail);
/*
 * Examines a store: can it be opened, written, read and deleted in, does it keep its promises (the
 * probe), its clock, its latency, every queue's journal. Or a node: is it there, how far away, does
 * it let us in, can it work, and every queue. Reports each check as it goes; SLUICE_OK when none
 * failed.
 */
SLUICE_API enum sluice_code sluice_doctor(const char *url, sluice_report *report, void *ctx,
                                          struct sluice_error *error);

/*
 * The median time of a durable write of len bytes in the store itself, beside any queue: what every
 * commit is made of. Some hundred small objects are created and deleted. SLUICE_INVALID on a node.
 */
SLUICE_API enum sluice_code sluice_measure(struct sluice *s, size_t len, double *median_us,
                                           struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
