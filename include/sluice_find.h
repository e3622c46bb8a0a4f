// SPDX-License-Identifier: Apache-2.0
//
// Reading messages by state, content or id, and sending dead ones again. sluice.h includes this
// file.
#ifndef SLUICE_FIND_H
#define SLUICE_FIND_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_FIND_HEADERS_MAX 16
#define SLUICE_FIND_TEXT_MAX    1024
#define SLUICE_FIND_BYTES_MAX   (256 << 20)

struct sluice_peek {
    // "ready", "delayed", "locked", "dead" or "outbound"; NULL: "ready". "finished", or one of the
    // outcomes "processed", "dead-lettered", "purged", "redriven", "cancelled": messages that have
    // ended within the setting `retention`, those of a shard with the newest first.
    const char *state;
    const char *after_id; // continue after this message; NULL: from the beginning
    uint32_t max;         // at most 10,000; 0: 10
};

// Reads up to max messages of one state. It returns fewer if their bodies have more than 16 MiB
// together, but at least one message. options may be NULL. Free *out with sluice_batch_free.
//
// If the large body of a message is missing or damaged, the message comes without it and has the
// header "sluice-body-lost". The same holds for sluice_show.
SLUICE_API enum sluice_code sluice_peek(struct sluice *s, const char *queue,
                                        const struct sluice_peek *options,
                                        struct sluice_batch **out, struct sluice_error *error);

// Reads one message by its id, as a batch of one. A finished message has only its state, worker,
// finished_at, attempts, result and reason, for the queue's `retention`, and its body if the queue
// has `retainBody`; else body is NULL. Free *out with sluice_batch_free.
//
// `signals` has those of the message: pending ones by number, then those that have ended, the
// newest first, up to 256. Payloads and answers come up to 1 MiB, and are NULL after that:
// sluice_signals has more.
// SLUICE_NOT_FOUND: no such message was ever sent, or the queue does not exist.
SLUICE_API enum sluice_code sluice_show(struct sluice *s, const char *queue, const char *id,
                                        struct sluice_batch **out, struct sluice_error *error);

// What to find. Zero and NULL mean: not given. A message is found if it has all that is given.
struct sluice_find {
    const char *state;    // as in struct sluice_peek
    const char *after_id; // continue after this message: `next` of the search before
    uint32_t max;         // messages to return, at most 10,000; 0: 10
    int64_t before;       // it was sent before this time
    const char *contains; // its body contains this text, byte by byte; up to 1,024 bytes
    const struct sluice_header *headers; // it has each of these, with this value; up to 16
    size_t headers_len;
    uint64_t bytes_max; // how much to read, at most 256 MiB; 0: 16 MiB
};

// How far a search came. A search ends when it has read bytes_max, found max messages, or found
// messages with 16 MiB.
struct sluice_found {
    uint64_t messages;        // that were read
    uint64_t bytes;           // of their bodies and headers
    char next[SLUICE_ID_MAX]; // to go on, use it as after_id; "": all messages were read
};

// Reads messages of one state and returns those that were found. It locks none. found may be NULL.
// Free *out with sluice_batch_free.
SLUICE_API enum sluice_code sluice_find(struct sluice *s, const char *queue,
                                        const struct sluice_find *what, struct sluice_batch **out,
                                        struct sluice_found *found, struct sluice_error *error);

// Sends dead messages again, as new messages. At most max of them (0: all).
//
//   - Messages that died in this queue are sent again in this queue.
//   - Dead letters that came from other queues go to the queue `to`. If it is NULL, each one goes
//     to the queue it came from.
//
// *redriven is how many were sent, also if the call fails later; redriven may be NULL. If you
// repeat the call within ten minutes, no message is sent twice.
//
//   SLUICE_INVALID     `to` is the queue itself.
//   SLUICE_NOT_FOUND   A queue does not exist. error->field is "queue" or "to".
SLUICE_API enum sluice_code sluice_redrive(struct sluice *s, const char *queue, const char *to,
                                           uint32_t max, uint64_t *redriven,
                                           struct sluice_error *error);

// Sends chosen dead messages again, as new messages; see sluice_redrive. An id is that of a message
// that died in this queue, or of a dead letter of another queue that waits in this one. No other
// message is touched. A pause of this queue does not matter.
//
// outcomes, if not NULL, has room for len rows, one for each id. The status is "redriven". The call
// returns SLUICE_OK if all were redriven, else the first refusal.
//
//   SLUICE_CONFLICT    The message is not dead, or no dead letter ("not-dead").
//   SLUICE_NOT_FOUND   No such message was ever sent, or a queue does not exist.
SLUICE_API enum sluice_code sluice_redrive_messages(struct sluice *s, const char *queue,
                                                    const char *to, const char *const *ids,
                                                    size_t len, struct sluice_outcome *outcomes,
                                                    struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
