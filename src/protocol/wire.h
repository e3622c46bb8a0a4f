// SPDX-License-Identifier: Apache-2.0
// Encodes messages, receives and outcomes between a node and a client ("application/x-sluice").
// Integers are little-endian. Each encoding begins with a version byte, which is 1. A text has a
// length and a final zero, so it is usable in place. Decoders trust no input. On false, the input
// is malformed and the caller has nothing to release.
//
//     text      u32 length, the bytes (no zero among them), a zero
//     body      u32 length, any bytes, a zero
//     headers   u16 count, then a text for each name and value
//     sends     u8 version, u32 count, each: body, group, dedup, content type, workflow (texts),
//               u8 priority, i64 delay, i64 due, required labels (text), u8 1 if it is the last of
//               its workflow, headers
//     sent      u8 version, u32 count, each: u8 code, u8 duplicate, id (text); then the fields of
//               an error
//     receive   u8 version, worker (text), u32 max, i64 wait, i64 visibility, u32 count, tokens to
//               acknowledge (texts), then what they carry. The answer to a receive with acks is a
//               batch, then outcomes; the error of these outcomes is the error of the receive
//     messages  u8 version, u32 count, each: id, token, state (texts), body, group, dedup, content
//               type, workflow, worker (texts), u8 priority, u32 attempt, u32 retries, u64 fence,
//               i64 lease, i64 deadline, i64 sent at, u64 order; for a dead letter u8 1 and its
//               origin (queue, id, reason (texts), u32 retries, i64 died at), else u8 0; headers
//     batch     messages, then for each u16 count, each: a signal as below. The answer of a receive
//     looked    messages, then for each: u8 1 if it has a body, i64 finished at, u32 attempts,
//               required labels (text), result (data), content type, reason (texts), u8 percent of
//               its progress or 255, its text, i64 its time; u8 count of failures, each: u32
//               attempt, i64 at, u8 1 if the lock expired, worker (text), u8 1 if the reason is
//               kept, reason (text); then the signals as in a batch. The answer of a peek or show
//     settle    u8 version, i64 delay or visibility, reason (text), u32 count, tokens (texts), then
//               what they carry
//     carry     u8 0: nothing; u8 1, and for each token: result (data), content type (text); u8 2,
//               and for each token: u8 1 if it has a progress, u8 percent, text
//     outcomes  u8 version, u32 count, each: u8 code, reason, status (texts), i64 until, u32 how
//               many signals wait; then the fields of an error
//     data      u8 1 and a body, or u8 0 and an empty body: not given
//     signals   u8 version, u32 count, each: u8 code, reason, id, message, token (texts), u32
//               number, kind, state (texts), u32 deliveries, i64 sent at, i64 until, i64 ended at,
//               payload, answer (data); then the fields of an error, and the id of the signal
//               (text)
//     poll      u8 version, i64 wait, u32 count, tokens (texts), u32 for each token: the last
//     number
//               that it has
//     collected u8 version, u32 count, each: id, state, reason, worker (texts), u32 attempts, i64
//               finished at, result (data), result type (text); then u64 how many have not ended,
//               u8 1 if more have, i64 position; then three lists, each u32 count, ids (texts):
//               messages of a workflow that are left, questions, messages that were asked; then the
//               answers: u32 count, each a signal as above
//     error     u8 version, then its fields: u8 code, reason, field, message (texts)
#pragma once

#include "base/bytes.h"
#include "protocol/compact.h"
#include "sluice.h"

#define WIRE_TYPE "application/x-sluice"

struct wire_sends {
    struct sluice_send *messages; // owned; the texts are views into the input
    size_t len;
    struct sluice_header *headers; // owned; the headers of all messages
};
void wire_put_sends(struct buf *to, const struct sluice_send *messages, size_t len);
bool wire_read_sends(struct bytes from, struct wire_sends *out); // release with wire_sends_done
void wire_sends_done(struct wire_sends *s);

// `first` is the error of the first refused message. It is NULL, or its code is SLUICE_OK, if none
// was refused.
void wire_put_sent(struct buf *to, const struct sluice_sent *sent, size_t len,
                   const struct sluice_error *first);
bool wire_read_sent(struct bytes from, struct sluice_sent *sent, size_t len, // exactly len
                    struct sluice_error *first);

// What the tokens of a settle or a receive carry, one row for each. At most one of the lists is
// there.
struct settle_lists {
    struct sluice_ack *acks;         // owned if it was read; the texts are views
    struct sluice_renewal *renewals; // the same
};
void wire_carried_done(struct settle_lists *carried);

// acks: what the acks carry, one row for each; NULL: nothing.
void wire_put_receive(struct buf *to, const struct receive_in *in, const struct sluice_ack *acks);
// Release `acks` with compact_texts_done, and `carried`; the other texts are views.
bool wire_read_receive(struct bytes from, struct receive_in *out, struct settle_lists *carried);

void wire_put_batch(struct buf *to, const struct sluice_batch *b);
// free with sluice_batch_free
bool wire_read_batch(struct bytes from, struct sluice_batch **out);

// With what a peek or a show tells of messages.
void wire_put_looked(struct buf *to, const struct sluice_batch *b);
bool wire_read_looked(struct bytes from, struct sluice_batch **out);

// The list of tokens is written, even if it has one. acks, renewals: what the tokens carry, one row
// for each. At most one of them is there.
void wire_put_settle(struct buf *to, const struct settle_in *s, const struct sluice_ack *acks,
                     const struct sluice_renewal *renewals);
bool wire_read_settle(struct bytes from, struct settle_in *out, // release `tokens` and `carried`
                      struct settle_lists *carried);

void wire_put_outcomes(struct buf *to, const struct sluice_outcome *outcomes, size_t len,
                       const struct sluice_error *first);
bool wire_read_outcomes(struct bytes from, struct sluice_outcome *outcomes, size_t len,
                        struct sluice_error *first);
// Reads the answer to a receive with acks. `why` is the error of the receive; its code is SLUICE_OK
// if the receive succeeded.
bool wire_read_batch_acked(struct bytes from, struct sluice_batch **out,
                           struct sluice_outcome *outcomes, size_t len, struct sluice_error *why);

// The signals of a list. The error is that of the first one that was refused; may be NULL.
void wire_put_signals(struct buf *to, const struct sluice_signals *list,
                      const struct sluice_error *first);
// free with sluice_signals_free
bool wire_read_signals(struct bytes from, struct sluice_signals **out, struct sluice_error *first);

// A poll for signals. Release what was read with wire_poll_done.
struct signals_receive_in;
void wire_put_poll(struct buf *to, const struct signals_receive_in *in);
bool wire_read_poll(struct bytes from, struct signals_receive_in *out);
void wire_poll_done(struct signals_receive_in *in);

struct collected_list; // ops/collect.h
void wire_put_collected(struct buf *to, const struct collected_list *c);
bool wire_read_collected(struct bytes from,
                         struct collected_list **out); // free with collected_free

void wire_put_error(struct buf *to, const struct sluice_error *e);
bool wire_read_error(struct bytes from, struct sluice_error *out);
