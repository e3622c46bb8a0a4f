// SPDX-License-Identifier: Apache-2.0
// The subjects of the event bus. docs/events.md has the grammar.
//
//   sluice.v1.task.<queue>.<shard>.<event>
//   sluice.v1.workflow.<queue>.<workflow>.<event>
//   sluice.v1.cluster.<event>
//
// A name from outside is one token. In a token, [A-Za-z0-9_-] stand for themselves. Every other
// byte is "=HH" with upper-case hex digits. So a name contains no dot, no wildcard and no space,
// and two names never have the same token.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#define SUBJECT_VERSION    1   // the newest version of subjects and envelopes
#define SUBJECT_NAME_MAX   256 // bytes of a queue's name, a workflow's id or an event's type
#define SUBJECT_TOKEN_MAX  (3 * SUBJECT_NAME_MAX)
// The longest subject has three tokens and the word "workflow". The final zero is counted.
#define SUBJECT_MAX        (3 * SUBJECT_TOKEN_MAX + 40)
#define SUBJECT_STREAM_MAX (SUBJECT_TOKEN_MAX + 24) // a token after "SLUICE_" or "SLUICE-<shard>_"
#define SUBJECT_WHY_MAX    256

enum subject_kind { SUBJECT_TASK, SUBJECT_WORKFLOW, SUBJECT_CLUSTER, SUBJECT_KINDS };

// Views. A field that the kind does not have is empty.
struct subject {
    enum subject_kind kind;
    uint32_t version; // 0 is SUBJECT_VERSION
    struct bytes queue;
    uint32_t shard;        // task
    struct bytes workflow; // workflow
    struct bytes event;
};

// Writes the subject and a final zero. INVALID: a name that the kind needs is empty. LIMIT: a name
// is longer than SUBJECT_NAME_MAX.
MUST_USE enum err subject_print(const struct subject *s, char out[SUBJECT_MAX]);

// Reads exactly what subject_print writes. The names of *out are in `room`. INVALID: `why` says
// what is wrong, and *out is zero.
MUST_USE enum err subject_read(struct bytes text, char room[SUBJECT_MAX], struct subject *out,
                               char why[SUBJECT_WHY_MAX]);

// The name of the queue's stream: "SLUICE_<token>". LIMIT and INVALID as above.
MUST_USE enum err subject_stream(struct bytes queue, char out[SUBJECT_STREAM_MAX]);
// With a stream for each shard: "SLUICE-<shard>_<token>". A queue has at most so many.
#define SUBJECT_SHARD_STREAMS_MAX 16
MUST_USE enum err subject_shard_stream(struct bytes queue, uint32_t shard,
                                       char out[SUBJECT_STREAM_MAX]);
#define SUBJECT_CLUSTER_STREAM "SLUICE-CLUSTER" // no stream of a queue has this name

// What a consumer subscribes to. An empty name matches every name.
struct subject_filter {
    uint32_t version; // 0 is SUBJECT_VERSION
    bool every_kind;  // task and workflow, instead of `kind`; no workflow may be given
    bool every_shard; // task
    uint32_t shard;   // task
    enum subject_kind kind;
    struct bytes queue;
    struct bytes workflow;
    struct bytes event;
};
// Writes a filter of NATS. "*" matches one token, and ">" matches the rest.
MUST_USE enum err subject_filter_print(const struct subject_filter *f, char out[SUBJECT_MAX]);
