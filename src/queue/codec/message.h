// SPDX-License-Identifier: Apache-2.0
// A message as ops carry it: its fields, its body or the reference to one, and its place in the
// journal.
#pragma once

#include "base/bytes.h"
#include "base/hash.h"

struct queue_id {
    uint8_t bytes[16];
};

struct request_id {
    uint8_t bytes[16]; // all zero: none
};

bool request_id_set(const struct request_id *id);

#define MESSAGE_GROUP_MAX        256
#define MESSAGE_DEDUP_MAX        256
#define MESSAGE_CONTENT_TYPE_MAX 256
#define MESSAGE_WORKFLOW_MAX     256
#define MESSAGE_HEADERS_MAX      ((size_t)64 << 10)
#define MESSAGE_BODY_MAX         ((size_t)8 << 20) // inside an entry
#define MESSAGE_PRIORITY_MAX     9
#define WORKER_NAME_MAX          128

// Where a message's bytes are. Read the journal's entries forward from slot, count their messages
// (ops_messages), and take the message after `skip` others. It lies in the PLACE_SPAN slots from
// slot on. There are no void entries among them.
struct place {
    uint64_t slot;
    uint32_t skip;
};

#define PLACE_SPAN 64

enum message_when { WHEN_NOW, WHEN_DELAY, WHEN_DUE };

// A body that was uploaded before. The machine stores only its name (queue/codec/body_name.h) and
// size.
struct body_reference {
    struct bytes name;
    uint64_t len;
    int64_t uploaded_at; // from the name
};

// Views. The code that fills it in owns the bytes.
struct message {
    struct bytes group;
    struct bytes dedup;
    struct bytes content_type;
    struct bytes workflow;
    struct bytes headers;  // pairs as headers_put writes them
    struct bytes requires; // canonical labels (queue/codec/labels.h) that its worker must have
    struct bytes body;     // empty if reference.name is set
    struct body_reference reference;
    uint8_t priority;       // 0 (default) .. 9, higher first
    enum message_when when; // delay: milliseconds after the send; due: a moment
    int64_t when_ms;
    bool workflow_last; // the last message of its workflow, so far
};

// A message's id for users: "3f9a01cc-0-17", the first eight digits of the queue's id, the shard
// and the number.
#define MESSAGE_ID_MAX 64
void message_id_print(const struct queue_id *queue, uint32_t shard, uint64_t seq,
                      char out[MESSAGE_ID_MAX]);

void headers_put(struct buf *b, struct bytes name, struct bytes value);
// False: end or damage.
bool headers_next(struct reader *r, struct bytes *name, struct bytes *value);
bool headers_ok(struct bytes headers);
// All except that name.
void headers_put_others(struct buf *b, struct bytes headers, struct bytes name);
uint64_t message_body_len(const struct message *m);
