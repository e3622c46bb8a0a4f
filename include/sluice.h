// SPDX-License-Identifier: Apache-2.0
//
// Sluice: a durable work queue. All state is in a store: a directory, an S3 bucket or memory.
// docs/concepts.md explains the terms: store, queue, message, lock, token, dead letter.
//
// A handle (struct sluice) is one opened store, or a connection to a node that serves a store.
// sluice_open makes it, every call takes it, sluice_close frees it.
//
//   - Threads may share a handle, and use it at the same time.
//   - Any number of processes may use the same store at the same time.
//   - A child of fork must not use its parent's handle (SLUICE_INVALID). It opens its own.
//   - The library has no global state.
//
// Every call that can fail returns a code. Three codes need care:
//
//   SLUICE_UNAVAILABLE   The call was certainly not done. Try again later.
//   SLUICE_UNKNOWN       The call may have been done. Repeat it. If the call takes a request id,
//                        use the same one: the request then takes effect once.
//   SLUICE_FENCED        The lock is not yours any more. Stop working on the message.
//
// A call that fails also fills in a struct sluice_error, if you pass one. The error has one
// sentence for a person, and names the input at fault.
//
// A worker, in short (examples/ has complete programs):
//
//   struct sluice *s;
//   struct sluice_error error;
//   if (sluice_open("file:///var/lib/queues", NULL, &s, &error)) return complain(&error);
//   struct sluice_receive ask = {.max = 10, .wait_ms = 20000};
//   struct sluice_batch *batch;
//   while (!sluice_receive(s, "mail", &ask, &batch, &error)) {
//       for (size_t i = 0; i < batch->len; i++) {
//           const char *token = batch->messages[i].token;
//           if (do_job(&batch->messages[i]))
//               sluice_ack(s, "mail", &token, 1, NULL, &error);
//           else
//               sluice_fail(s, "mail", &token, 1, "the job failed", NULL, &error);
//       }
//       sluice_batch_free(batch);
//   }
//   sluice_close(s);
//
// Values and memory:
//
//   - Strings are UTF-8 and end with a zero byte. A body is any bytes.
//   - A time is in milliseconds since 1970, by the store's clock.
//   - A duration is in milliseconds. Its name ends in _ms.
//   - The library borrows what you pass only until the call returns.
//   - You own what a call returns through a struct **out. Free it with the function named after the
//     struct. All pointers inside it are valid until then.
//   - If a call fails, there is nothing to free.
//
// Every call on a queue can return SLUICE_NOT_FOUND: the queue does not exist. Every call can
// return SLUICE_INVALID (error->field names the argument), UNAVAILABLE, UNKNOWN, CORRUPT and
// DENIED. The comment of a call names only the codes that mean more there. A queue's name has 1 to
// 80 letters, digits, '_', '.' and '-'. It begins with a letter or a digit.
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

// One code for each action that a caller can take.
enum sluice_code {
    SLUICE_OK = 0,
    SLUICE_INVALID,     // The request is malformed. Correct it.
    SLUICE_NOT_FOUND,   // There is no such queue, message or object.
    SLUICE_CONFLICT,    // The present state does not allow it. Read the state, then decide.
    SLUICE_FENCED,      // A newer holder has this. Stop.
    SLUICE_LIMIT,       // A stated limit was reached. Wait before you try again.
    SLUICE_UNAVAILABLE, // It was not applied. Try again later.
    SLUICE_UNKNOWN,     // It may have been applied. Send it again with the same request id.
    SLUICE_CORRUPT,     // Stored bytes fail their check. Halt.
    SLUICE_DENIED       // The credentials or the scope do not allow this.
};

// What went wrong. The caller owns the struct. Every function accepts NULL in its place.
struct sluice_error {
    enum sluice_code code;
    char reason[32];   // A stable word for the refusal, such as "token-mismatch". May be empty.
    char field[64];    // The input at fault, such as "orderingMode". May be empty.
    char message[400]; // One sentence: the thing, the value, and what would be right.
};

// These return constants; do not free them.
SLUICE_API const char *sluice_code_name(enum sluice_code code); // "NOT_FOUND"
SLUICE_API const char *sluice_code_text(enum sluice_code code); // a sentence
SLUICE_API int sluice_code_exit(enum sluice_code code);         // the command line's exit status
SLUICE_API const char *sluice_version(void);                    // SLUICE_VERSION of the library

struct sluice;

// Zero and NULL mean: the default.
struct sluice_options {
    // How long a call may take, beside the time it waits for messages. 0: 30 s. At most 24 h.
    int64_t timeout_ms;
    // The token for a node that requires one. NULL: the environment's SLUICE_TOKEN.
    const char *token;
    // Not 0: the handle always writes to the store itself. By default it forwards calls to the node
    // that owns the queue, if there is one. SLUICE_FORWARD=off does the same.
    int direct;
    // When sluice_open and all calls of the handle must have ended, counted from sluice_open. 0:
    // never. No request to the store begins later, and none lasts longer. It is for a handle that
    // makes a few calls, as a command does: if a bucket stalls, each request has a timeout of its
    // own, and several follow one another. A node's handle ignores it.
    int64_t deadline_ms;
};

// Opens a store, or a node that serves one. The URL is one of:
//
//   mem:                            memory; only this handle sees it
//   /path, file:///path             a directory; it is created if its parent exists
//   s3://bucket/prefix              a bucket
//   http://host:port, https://host  a node; every call means the same there
//   http://a:7333,b:7333            several nodes of one store, over which calls are spread
//
// Write a path with a colon in its first part as "./a:b": "localhost:7333" is refused.
//
// The first opening of a store probes it. A store that cannot keep the promises is refused. If a
// node is unavailable, sluice_open tries again for up to 3 s. Later calls try until their timeout.
// SLUICE_CA names a file of certificates to trust instead of the system's.
//
// options may be NULL. Free *out with sluice_close.
// SLUICE_INVALID: the URL or the token is not possible, or the server there is not a node.
SLUICE_API enum sluice_code sluice_open(const char *url, const struct sluice_options *options,
                                        struct sluice **out, struct sluice_error *error);

// Frees a handle. First end all calls on it and close its event streams. It waits for calls that
// the library itself makes, such as moving dead letters. NULL is allowed.
SLUICE_API void sluice_close(struct sluice *s);

// One setting, with the names of docs/queues.md: {"failureStrategy.maxRetries", "3"}.
struct sluice_setting {
    const char *key;
    const char *value;
};

// Creates a queue. Settings that are not given have their default. If the dead-letter queue does
// not exist, it is created too.
//
// If the queue exists with the same settings, the answer is SLUICE_OK and error->reason is
// "exists". After a creation it is empty.
//
//   SLUICE_CONFLICT   The queue exists with other settings. error->field names the first one.
//   SLUICE_INVALID    A setting is not possible. error->field names it.
SLUICE_API enum sluice_code sluice_queue_create(struct sluice *s, const char *queue,
                                                const struct sluice_setting *settings,
                                                size_t settings_len, struct sluice_error *error);

// Changes some settings of a queue, all or none. If the dead-letter queue does not exist, it is
// created.
//
//   SLUICE_CONFLICT   The setting is fixed, or it cannot change in the present state.
//   SLUICE_UNKNOWN    Perhaps only some of the shards have the change. Repeat the call.
SLUICE_API enum sluice_code sluice_queue_set(struct sluice *s, const char *queue,
                                             const struct sluice_setting *settings,
                                             size_t settings_len, struct sluice_error *error);

struct sluice_queue_info {
    char *name;
    char id[33]; // 32 hex digits. A queue that is deleted and created again has a new id.
    int paused;
    int64_t created;                 // ms since 1970; 0: the node does not tell
    struct sluice_setting *settings; // all of them
    size_t settings_len;
};

// Reads a queue's settings. Free *out with sluice_queue_info_free.
SLUICE_API enum sluice_code sluice_queue_show(struct sluice *s, const char *queue,
                                              struct sluice_queue_info **out,
                                              struct sluice_error *error);
SLUICE_API void sluice_queue_info_free(struct sluice_queue_info *info); // NULL is allowed

struct sluice_names {
    char **names;
    size_t len;
};

// The names of all queues, sorted. Free *out with sluice_names_free.
SLUICE_API enum sluice_code sluice_queue_list(struct sluice *s, struct sluice_names **out,
                                              struct sluice_error *error);
SLUICE_API void sluice_names_free(struct sluice_names *names); // NULL is allowed

// A paused queue accepts messages and delivers none. Locks that are held stay valid.
SLUICE_API enum sluice_code sluice_queue_pause(struct sluice *s, const char *queue,
                                               struct sluice_error *error);
SLUICE_API enum sluice_code sluice_queue_resume(struct sluice *s, const char *queue,
                                                struct sluice_error *error);

// Deletes all messages that wait: those that are ready or delayed. If dead is not 0, it deletes the
// dead messages instead. Locked messages stay. *purged is the number; purged may be NULL.
SLUICE_API enum sluice_code sluice_queue_purge(struct sluice *s, const char *queue, int dead,
                                               uint64_t *purged, struct sluice_error *error);

// Deletes a queue with its messages.
// SLUICE_CONFLICT: another queue has it as its dead-letter queue, or dead letters of this queue
// have not arrived yet.
SLUICE_API enum sluice_code sluice_queue_delete(struct sluice *s, const char *queue,
                                                struct sluice_error *error);

// What an upgrade of a queue changes. A program knows two versions of the rules (docs/upgrade.md).
struct sluice_upgrade {
    uint32_t version;        // before the call; the lowest of its shards
    uint32_t newest;         // that the program knows: this one, or the node
    uint32_t shards, raised; // raised: shards that have `newest` now
    // Writers of the last 24 hours (one for each shard and opening) that know `newest`, that are
    // too old for it, and that may be older than all versions.
    uint32_t current, old, unknown;
    int64_t old_ago_ms;     // how long ago the last old or unknown one wrote; 0: there is none
    uint32_t owner_version; // the newest version that the owner knows; 0: not known
    char owner[256];        // URL of the node that owns the queue; "": none
    char changes[400];      // a sentence: what `newest` changes
    char old_members[256];  // nodes of the cluster that are too old: "a, b"; "": none
};

#define SLUICE_UPGRADE_CHECK 1u // only report
#define SLUICE_UPGRADE_FORCE 2u // also if an old or unknown writer wrote lately, or is a member

// Raises a queue to the newest version of the rules. Programs that do not know it then stop working
// on the queue, with UNAVAILABLE and the reason "upgrade-needed". It is never lowered again. You
// may repeat the call. SLUICE_CONFLICT: an old or unknown writer wrote in the last 10 minutes, or a
// node of the cluster is too old (reasons "older-programs", "older-members").
SLUICE_API enum sluice_code sluice_queue_upgrade(struct sluice *s, const char *queue,
                                                 unsigned flags, struct sluice_upgrade *out,
                                                 struct sluice_error *error);

struct sluice_header {
    const char *name; // not empty
    const char *value;
};

// One message to send. Zero and NULL mean: not given. Texts have up to 256 bytes each.
struct sluice_send {
    const void *body; // up to the queue's maxMessageBytes, which is at most 64 MiB
    size_t body_len;
    const char *group; // in a queue with strict order, messages of a group are delivered one by one
    const char *dedup; // a second message with this key inside dedupWindow is not sent
    const char *content_type;
    const char *workflow; // messages with the same one are counted together, in one shard
    const char *needs;    // labels that its worker must have, "kind=gpu" (sluice_workers.h)
    int priority;         // 0 to 9, higher first
    // When it is ready: delay_ms after it was sent (up to 400 days), or at the time `due`. Do not
    // give both.
    int64_t delay_ms;
    int64_t due;
    const struct sluice_header *headers; // up to 64 KiB together
    size_t headers_len;
    int workflow_last; // not 0: the last message of its workflow
};

#define SLUICE_ID_MAX    64
#define SLUICE_TOKEN_MAX 96

// A request id: 16 random bytes that the caller draws for one request. If the same request comes
// again with the same id within ten minutes, it has no second effect and gets the same answer.
//
// A repeated receive differs in two ways:
//
//   - It leaves out messages that are finished, were released, or are locked by another worker.
//   - If the first receive still waits, the first one ends empty.
//
// After SLUICE_UNKNOWN, the answers SLUICE_LIMIT, SLUICE_UNAVAILABLE and SLUICE_DENIED say only
// that the repeat had no effect. The first attempt may still take effect: repeat with the same id.
//
// SLUICE_INVALID with the reason "request-reused": the id was used for another request.
struct sluice_request {
    uint8_t bytes[16];
};

struct sluice_sent {
    enum sluice_code code; // of this message
    char id[SLUICE_ID_MAX];
    int duplicate; // not 0: the dedup key is known, and id is that of the first message
};

// Sends len messages. A message is durable when its code is SLUICE_OK.
//
// sent, if not NULL, has room for len answers, one for each message. The call returns SLUICE_OK if
// all were accepted, else the first refusal. request may be NULL.
//
//   SLUICE_UNKNOWN    Send the same messages again with the same request.
//   SLUICE_LIMIT      The queue has as many messages or dedup keys as its capacity allows.
//   SLUICE_INVALID    A message is too large or not possible.
SLUICE_API enum sluice_code sluice_send(struct sluice *s, const char *queue,
                                        const struct sluice_send *messages, size_t len,
                                        const struct sluice_request *request,
                                        struct sluice_sent *sent, struct sluice_error *error);

// The dead message that another message continues. A sender can forge a header, but not this.
struct sluice_origin {
    const char *queue; // where it died; "": this message continues no other
    const char *id;
    const char *reason; // why it died; "" if it was redriven in its own queue
    uint32_t retries;
    int64_t died_at;
    uint32_t attempts;  // how often it was delivered there; 0: not known
    const char *worker; // the worker that failed it last; "": not known
};

// One attempt that failed.
struct sluice_failure {
    uint32_t attempt;   // its number, from 1
    int64_t at;         // when. For a lock that expired: its deadline.
    const char *worker; // the worker that held the lock; "": not known
    const char *reason; // as the worker reported it, or "lock-expired"; NULL: not kept any more
    const char *kind;   // "failed": the worker reported it. "lock-expired": no answer in time.
};

// A message, as a receive, a peek or a show returns it. The batch owns all that it points to.
struct sluice_message {
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX]; // proves the lock; empty if this call did not lock the message
    // "ready", "delayed", "locked", "dead", "outbound"; finished: "processed", "dead-lettered",
    // "purged", "redriven", or "finished" if it is not known any more how it ended
    const char *state;
    const void *body; // body_len bytes, then a zero byte
    size_t body_len;
    const char *group; // "": none. So are the texts below.
    const char *dedup;
    const char *content_type;
    const char *workflow;
    const struct sluice_header *headers;
    size_t headers_len;
    int priority;
    uint32_t attempt; // deliveries, this one included
    uint32_t retries; // failures that count for maxRetries
    uint64_t fence;   // rises with every lock of the shard: others can refuse a stale worker by it
    // How long the lock still lasts, by the store's clock. A receive subtracts 1/128 and 10 ms: by
    // this machine's clock, which may run slower, the lock surely lasts that long.
    int64_t lease_ms;
    int64_t deadline;          // when the lock ends. For a delayed message: when it is due.
    int64_t sent_at;           // when it was sent
    const char *worker;        // peek and show: the worker that holds the lock, or had the last one
    uint64_t order;            // the number of the ticket that granted it; 0: it was claimed
    struct sluice_origin from; // for a dead letter, or a message that was redriven
    // Failures in this queue, the oldest first: sluice_show has the newest 8, sluice_peek the
    // newest one. The newest keeps its reason as long as the message exists, others for at least an
    // hour.
    const struct sluice_failure *failures;
    size_t failures_len;
    int64_t finished_at; // when it ended; 0: it is not finished, or this is not known any more
    uint32_t attempts;   // finished: how often it was delivered
    const char *needs;   // peek and show: labels that its worker must have; "": none
    // Since version 6 of the rules (sluice_signals.h):
    // receive: what waits for the holder of this lock. sluice_show: all that is known
    const struct sluice_signal_state *signals;
    size_t signals_len;
    const void *result; // show, collect: of a processed message, then a zero byte; NULL: none
    size_t result_len;
    const char *result_type; // its content type; "": none
    const char *reason;      // finished: why it was cancelled; "": not given
    const char *progress;    // locked: the text of its last progress; "": none
    int percent;             // ... and the number; -1: no progress was reported
    int64_t progress_at;
};

struct sluice_batch {
    struct sluice_message *messages;
    size_t len;
};
SLUICE_API void sluice_batch_free(struct sluice_batch *b); // NULL is allowed

struct sluice_ack; // sluice_signals.h

struct sluice_receive {    // zero and NULL mean: the default
    const char *worker;    // the worker's name, 1 to 128 bytes; NULL: made from host and process
    uint32_t max;          // how many messages at most, up to 10,000; 0: 1
    int64_t wait_ms;       // how long to wait if there is no message; at most 24 h
    int64_t visibility_ms; // how long the locks last, up to 24 h; 0: the queue's visibilityTimeout
    const struct sluice_request *request;
    // Tokens of finished messages. They are acknowledged at once, as by sluice_ack, even if the
    // receive then waits. In most cases the acks and the claim share one commit.
    const char *const *acks;
    size_t acks_len;
    // What became of each ack, whatever the receive returns; acks_len rows. May be NULL.
    struct sluice_outcome *acked;
    // The results of the acks (sluice_signals.h), acks_len rows whose tokens are not read. NULL:
    // none. If a result is refused, the whole call is, and no message is acknowledged.
    const struct sluice_ack *results;
};

// Locks up to max messages for a worker. If there is none, it waits, which costs no CPU. An empty
// batch is SLUICE_OK; a paused queue gives one too. options may be NULL. Free *out with
// sluice_batch_free.
SLUICE_API enum sluice_code sluice_receive(struct sluice *s, const char *queue,
                                           const struct sluice_receive *options,
                                           struct sluice_batch **out, struct sluice_error *error);

// What became of one token.
struct sluice_outcome {
    enum sluice_code code;
    char reason[32]; // why it was refused, such as "lock-expired"; else empty
    // A constant: "processed", "retrying", "dead-lettered", "released", "renewed", "cancelled",
    // "purged", of signals "acked", "declined"; "": refused.
    const char *status;
    int64_t until;    // renewed: the new deadline. retrying, released: when it is ready again.
    uint32_t signals; // renewed: how many signals wait for the holder (sluice_signals.h)
};

// The next four calls settle or extend locks. Each takes len tokens of one queue, of any shards.
// Any process may make the call: the token is the proof.
//
// outcomes, if not NULL, has room for len rows, one for each token. The call returns SLUICE_OK if
// all tokens were accepted, else the first refusal.
//
//   SLUICE_FENCED      The lock expired, was released, or another worker has the message.
//   SLUICE_CONFLICT    The message is finished, or it is not locked.
//   SLUICE_NOT_FOUND   The token is that of another queue.
//   SLUICE_INVALID     This is not a token.
//   SLUICE_UNKNOWN     Repeat the call. If the first one ended the lock, the repeat is refused.

// Finishes messages: their jobs are done. They are never delivered again.
SLUICE_API enum sluice_code sluice_ack(struct sluice *s, const char *queue,
                                       const char *const *tokens, size_t len,
                                       struct sluice_outcome *outcomes, struct sluice_error *error);

// Reports that jobs failed. The queue's failureStrategy decides: retry, dead, or dead letter.
// reason may be NULL; only its first 4,096 bytes are used.
SLUICE_API enum sluice_code sluice_fail(struct sluice *s, const char *queue,
                                        const char *const *tokens, size_t len, const char *reason,
                                        struct sluice_outcome *outcomes,
                                        struct sluice_error *error);

// Gives messages back. No attempt is counted. They are ready again after delay_ms (0 to 24 h).
SLUICE_API enum sluice_code sluice_release(struct sluice *s, const char *queue,
                                           const char *const *tokens, size_t len, int64_t delay_ms,
                                           struct sluice_outcome *outcomes,
                                           struct sluice_error *error);

// Extends locks: they last visibility_ms from now, up to 24 h. 0: the queue's visibilityTimeout.
SLUICE_API enum sluice_code sluice_renew(struct sluice *s, const char *queue,
                                         const char *const *tokens, size_t len,
                                         int64_t visibility_ms, struct sluice_outcome *outcomes,
                                         struct sluice_error *error);

// Requests to a store that charges for them (a bucket), by price. All are 0 in another store.
struct sluice_requests {
    uint64_t writes;  // PUT, POST, LIST
    uint64_t reads;   // GET, HEAD
    uint64_t deletes; // DELETE
};

// The requests that this handle has made so far, for all queues. For a node: those that the node
// has made for all its clients.
SLUICE_API void sluice_requests(const struct sluice *s, struct sluice_requests *out);

struct sluice_stats {
    uint64_t ready;
    uint64_t delayed;
    uint64_t locked;
    uint64_t processed;
    uint64_t dead;     // in this queue
    uint64_t outbound; // not yet arrived in the dead-letter queue
    uint64_t moved;    // arrived there
    uint64_t redriven;
    uint64_t purged;
    uint64_t cancelled;
    uint64_t sent;         // ever; the sum of the above
    uint64_t duplicates;   // sends that were not added: their dedup key was known
    uint64_t workers;      // workers that hold locks, or are registered
    uint64_t waiting;      // workers that wait in a receive at a node
    int64_t oldest_age_ms; // how long the oldest ready message has been ready; 0: none is ready
    uint64_t entries;      // entries that were committed to the journal
    uint64_t requests;     // requests that this handle made to the store, for all queues
    // Requests to the store that all processes together made for this queue. A process reports them
    // in its journal entries. The last seconds are therefore missing, and so are the requests after
    // a process's last entry.
    struct sluice_requests spent;
    struct sluice_requests spent_this_hour; // hours of the store's clock
    struct sluice_requests spent_last_hour;
    int64_t hour_ms;       // how much of this hour has passed
    uint64_t signals;      // pending (sluice_signals.h)
    uint64_t results;      // of finished messages, that are kept
    uint64_t result_bytes; // of these
    uint64_t bodies;       // of finished messages, that are kept (retainBody)
    int paused;
    // A dead letter of another queue has arrived here: this is a dead-letter queue. Its messages
    // wait for an operator, so a missing worker is no problem.
    int takes_letters;
    int64_t outbound_age_ms; // how long the oldest outbound message has been dead; 0: there is none
};

// Counts the messages of a queue.
SLUICE_API enum sluice_code sluice_stats(struct sluice *s, const char *queue,
                                         struct sluice_stats *out, struct sluice_error *error);

// What sluice_queues_status reads; combine with |.
#define SLUICE_STATUS_INFO  1u // as sluice_queue_show
#define SLUICE_STATUS_STATS 2u // as sluice_stats
struct sluice_queue_status {
    struct sluice_error error;      // code is SLUICE_OK if the queue could be read
    struct sluice_queue_info *info; // NULL: not asked for, or the queue could not be read
    struct sluice_stats stats;
};

// Reads many queues, several at the same time. This is faster than one call for each queue if the
// store has a high latency. out has room for len rows, one for each queue. A queue that cannot be
// read has the reason in the error of its row, and the other queues are still read.
// sluice_queues_status_done frees what the rows hold, not the rows.
SLUICE_API void sluice_queues_status(struct sluice *s, const char *const *queues, size_t len,
                                     unsigned what, struct sluice_queue_status *out);
SLUICE_API void sluice_queues_status_done(struct sluice_queue_status *rows, size_t len);

// One transition of a queue or a message. docs/queues.md lists the types. Texts that do not apply
// are "", numbers are 0.
struct sluice_event {
    const char *id;      // the same for every reader, and for every reading
    const char *type;    // "message-enqueued", "message-claimed", "message-outcome", ...
    const char *message; // the message's id; "" if the event is about the queue
    // message-outcome: "processed", "retrying", "dead-lettered", "cancelled" or "purged". Of a
    // signal: its state, such as "pending", "acked" or "missed".
    const char *status;
    // lock-renewal-rejected, outcome-rejected: why. message-outcome: what the worker reported, or
    // "lock-expired" if it reported nothing in time, or why it was cancelled. signal-sent: why it
    // interrupts. signal-ended: why it was declined.
    const char *reason;
    const char *worker;
    uint32_t attempt;
    uint64_t fence;
    int64_t time;
    int64_t until;             // the deadline of a lock, or when the message is due
    uint64_t count;            // of a signal: its number in the message; 0: it ended at once
    uint64_t order;            // the number of a ticket; 0: none
    struct sluice_origin from; // message-enqueued: for a dead letter or a redriven message
    uint64_t position;         // of its journal entry; to continue, use the next one
    uint32_t shard;
    uint64_t sequence;    // in its shard, without gaps
    const char *workflow; // of the message, or the one that the event is about; "": none
    // Events with the same key are in the order of their sequence. docs/queues.md has the forms.
    const char *ordering_key;
    const char *signal;      // signal-sent, -delivered, -acked, -ended: its id; else ""
    const char *signal_kind; // ... "steer", "ask" or "interrupt"; else ""
};

struct sluice_events;

// Opens the event stream of a queue at a position of the journal. 0 is the oldest event that is
// kept. Events are kept as long as the journal entries, which is at least an hour. Free *out with
// sluice_events_close, before you close the handle. Use a stream in one thread at a time.
SLUICE_API enum sluice_code sluice_events_open(struct sluice *s, const char *queue,
                                               uint64_t position, struct sluice_events **out,
                                               struct sluice_error *error);

// Reads the next event. It waits up to wait_ms for one. The stream owns the event's strings, which
// are valid until the next call on the stream.
//
//   SLUICE_NOT_FOUND   No event came in this time. Call again.
//   SLUICE_FENCED      The queue was deleted, and you have read all its events. If a queue of that
//                      name exists now, it is another one.
SLUICE_API enum sluice_code sluice_events_next(struct sluice_events *e, int64_t wait_ms,
                                               struct sluice_event *out,
                                               struct sluice_error *error);
SLUICE_API void sluice_events_close(struct sluice_events *e); // NULL is allowed

enum sluice_health { SLUICE_FAILED, SLUICE_PASSED, SLUICE_WARNING };

// Called for each check, with the ctx of sluice_doctor. The texts are valid during the call.
typedef void sluice_report(void *ctx, const char *check, enum sluice_health health,
                           const char *detail);

// Examines a store or a node, and reports each check as soon as it is done.
//
//   - A store: can it be opened, written, read and deleted in? Does it keep its promises (the
//     probe)? It also checks the clock, the latency, and every queue's journal.
//   - A node: can it be reached, and how long does a request take? Does it accept the token? Does
//     its store make progress? It also checks every queue.
//
// It returns SLUICE_OK if no check failed. Warnings are not failures.
SLUICE_API enum sluice_code sluice_doctor(const char *url, sluice_report *report, void *ctx,
                                          struct sluice_error *error);

// Measures the median time of a durable write of len bytes (up to 8 MiB) in the store, apart from
// any queue. Every commit consists of such writes. It uses about a hundred objects and deletes
// them.
// SLUICE_INVALID: the handle is that of a node, or len is too large.
SLUICE_API enum sluice_code sluice_measure(struct sluice *s, size_t len, double *median_us,
                                           struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#include "sluice_find.h"
#include "sluice_signals.h"
#include "sluice_workers.h"
#include "sluice_workflows.h"

#endif
