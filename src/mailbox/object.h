// SPDX-License-Identifier: Apache-2.0
// A mailbox object: what a worker that reaches only the store writes for the owner of a shard, or
// the reverse. Objects are named by the worker's box, which is its instance and its name, and by a
// number that counts from 1:
//
//     <prefix>/box/out/<box>/<number>   from the worker: ops
//     <prefix>/box/in/<box>/<number>    from the owner: answers and tickets
//     <prefix>/box/mark                 the owner's mark, without bytes: it lives, but is slow
//
// docs/format.md has the bytes. Decoders return ERR_CORRUPT on any damage.
#pragma once

#include "base/err.h"
#include "base/layout_table.h"
#include "base/op.h"
#include "queue/codec/message.h"
#include "queue/codec/ops.h"

#define MAILBOX_MAGIC      UINT32_C(0x58424c53) // "SLBX"
#define MAILBOX_FORMAT     1
#define MAILBOX_OBJECT_MAX ((size_t)32 << 20)
#define MAILBOX_ROWS_MAX   10000
#define MAILBOX_SEEN_MAX   UINT64_C(9999999999999999999) // a key has no greater number
// What a row takes beside its body.
#define MAILBOX_ROW_BYTES  8
#define MAILBOX_NAME_MAX   64 // of the worker's name in a key; the rest is cut
#define MAILBOX_BOX_MAX    (16 + 1 + MAILBOX_NAME_MAX)
#define MAILBOX_KEY_MAX    512

enum mailbox_way { MAILBOX_OUT = 1, MAILBOX_IN = 2 };

// The owner does not know the worker, or its registration is over: it joins again.
#define MAILBOX_UNKNOWN_WORKER 1

enum mailbox_row_kind {
    MAILBOX_OP = 1,     // out: code is the kind of the op, body its payload
    MAILBOX_ANSWER = 2, // in: code is the enum err; body: the request id, then the fold's result
    MAILBOX_TICKET = 3, // in: body: seq, token, deadline, then the message (opaque)
    // in: body: the request id of a renewal whose answer comes after it, then its locks with
    // signals that wait: the index of each, and how many
    MAILBOX_SIGNALS = 4,
};

struct mailbox_row {
    enum mailbox_row_kind kind;
    uint16_t code;
    struct bytes body;
};

struct mailbox_object {
    enum mailbox_way way;
    uint8_t flags;   // in: MAILBOX_UNKNOWN_WORKER
    uint32_t length; // of the whole object, once it is encoded
    struct queue_id queue;
    uint32_t shard;
    uint64_t instance; // of the worker
    uint64_t number;   // as in its key
    // out: the worker has read every object up to this number of its `in`.
    // in: the newest object of `out` that the owner has handled.
    uint64_t seen;
    struct bytes worker;
    uint32_t count;
    struct bytes rows; // read with mailbox_row_next
};

void mailbox_row_put(struct buf *rows, const struct mailbox_row *row);
// Fills `out` with the whole object. CHECKs the limits.
void mailbox_encode(struct buf *out, const struct mailbox_object *o);
// *out has views into from. ERR_UNAVAILABLE: a newer format, which this program does not know.
MUST_USE enum err mailbox_decode(struct bytes from, struct mailbox_object *out);
bool mailbox_row_next(struct reader *rows, struct mailbox_row *out);

struct mailbox_answer {
    struct request_id request;
    enum err err;
    struct bytes result;
};
void mailbox_answer_put(struct buf *rows, const struct mailbox_answer *a);
bool mailbox_answer_read(const struct mailbox_row *row, struct mailbox_answer *out);

struct mailbox_signals {
    struct request_id request;
    struct bytes rows; // read with mailbox_signal_next
};
void mailbox_signal_put(struct buf *rows, uint32_t index, uint32_t waiting);
bool mailbox_signal_next(struct reader *rows, uint32_t *index, uint32_t *waiting);
void mailbox_signals_put(struct buf *rows, const struct mailbox_signals *s);
bool mailbox_signals_read(const struct mailbox_row *row, struct mailbox_signals *out);

struct mailbox_ticket {
    struct lock_ref ref;
    int64_t deadline;     // store time
    struct bytes message; // the shell's encoding of the delivery
};
void mailbox_ticket_put(struct buf *rows, const struct mailbox_ticket *t);
bool mailbox_ticket_read(const struct mailbox_row *row, struct mailbox_ticket *out);

#define MAILBOX_LAYOUTS(X)                                                                         \
    X(mailbox_answer)                                                                              \
    X(mailbox_object)                                                                              \
    X(mailbox_row)                                                                                 \
    X(mailbox_signal)                                                                              \
    X(mailbox_signals)                                                                             \
    X(mailbox_ticket)
MAILBOX_LAYOUTS(LAYOUT_DECLARE)

// The box of a worker, as a part of keys.
void mailbox_box(char out[static MAILBOX_BOX_MAX + 1], uint64_t instance, struct bytes worker);
// "<prefix>/box/out/" or "<prefix>/box/in/".
void mailbox_folder(char out[static MAILBOX_KEY_MAX], const char *prefix, enum mailbox_way way);
void mailbox_mark_key(char out[static MAILBOX_KEY_MAX], const char *prefix);
void mailbox_key(char out[static MAILBOX_KEY_MAX], const char *prefix, enum mailbox_way way,
                 const char *box, uint64_t number);
// Reads the box and the number of a key in that folder. False: it is no key of a mailbox object.
bool mailbox_key_read(const char *key, const char *prefix, enum mailbox_way way,
                      char box[static MAILBOX_BOX_MAX + 1], uint64_t *number);
