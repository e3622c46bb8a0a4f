// SPDX-License-Identifier: Apache-2.0
// The envelope of an event on the bus: one JSON object. docs/events.md has the fields, and
// schemas/v1/ has one JSON Schema for each event type.
//
// event_id is the same for every reading and every publication of the event. node_id names the node
// that published it. It is information only: two envelopes that differ in node_id are the same
// event.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "events/subject.h"

#include <sluice.h>
#include <sluice_cluster.h>

#define ENVELOPE_VERSION SUBJECT_VERSION // the newest schema_version
#define ENVELOPE_MAX     ((size_t)256 << 10)
#define ENVELOPE_KEY_MAX (2 * SUBJECT_TOKEN_MAX + 16) // an ordering key and its final zero
#define ENVELOPE_ID_MAX  160                          // an event_id and its final zero
#define ENVELOPE_WHY_MAX 384

// The origin of a message-enqueued event: a dead letter of another queue, or a redriven message.
struct envelope_origin {
    const char *queue; // "": there is no origin
    const char *task_id;
    const char *reason;
    const char *worker;
    uint64_t retries;
    uint64_t attempts;
    int64_t died_at; // 0: not known
};

// Texts that the event does not have are "", and numbers are 0. They are not printed.
struct envelope_payload {
    const char *status;
    const char *reason;
    const char *worker;
    uint64_t fence;
    int64_t until;
    uint64_t order;
    uint64_t count;
    uint64_t first; // gap: the first and the last sequence that is missing on the bus
    uint64_t last;
    uint64_t epoch;     // cluster: the leader's or the shard's
    const char *node;   // cluster: the leader, the member or the owner
    const char *signal; // its id
    const char *signal_kind;
    struct envelope_origin from;
};

// Views. The texts end with a zero. A text that does not apply is "".
struct envelope {
    const char *event_id;
    const char *event_type;
    uint32_t schema_version; // 0 is ENVELOPE_VERSION
    int64_t timestamp;       // ms since 1970, printed as in RFC 3339
    const char *node_id;
    const char *queue; // "" for most cluster events
    uint32_t shard;
    const char *task_id;
    const char *workflow_id;
    const char *ordering_key;
    uint64_t sequence; // in its shard, without gaps; 0: a cluster event
    uint32_t attempt;
    struct envelope_payload payload;
};

struct envelope envelope_empty(void); // all texts are "", and the version is the newest

// What an event does not know of itself.
struct envelope_place {
    const char *queue;
    const char *node;
};

// The key that envelope_gap and envelope_cluster make.
struct envelope_room {
    char key[ENVELOPE_KEY_MAX];
};

// Makes the envelope of an event. It borrows the texts of the event and of the place. The ordering
// key and the workflow are those of the event.
struct envelope envelope_of(const struct sluice_event *e, const struct envelope_place *place);

// The event that stands for events that were never published: sequences first to last of a shard.
// queue_id is 32 hex digits. The id is the same for every publication of the same gap.
#define ENVELOPE_GAP "gap"
struct envelope envelope_gap(const char *queue_id, const struct envelope_place *place,
                             uint32_t shard, uint64_t first, uint64_t last, int64_t now,
                             struct envelope_room *room, char id[ENVELOPE_ID_MAX]);

// The envelope of a cluster event that `node` publishes. Its ordering key is "cluster:<node>". It
// has no sequence, because the bus may lose it.
struct envelope envelope_cluster(const struct sluice_cluster_event *e, const char *node,
                                 struct envelope_room *room, char id[ENVELOPE_ID_MAX]);

// The subject of the envelope: cluster if its key is one of the cluster, else workflow if its type
// begins with "workflow-", else task. It borrows the envelope's texts.
struct subject envelope_subject(const struct envelope *e);

// Appends the envelope as one line of JSON without a newline. The order of the fields is fixed.
// Bytes that are not UTF-8 become U+FFFD. If the buffer is too small, it becomes bad.
void envelope_print(const struct envelope *e, struct buf *to);

// An envelope that was read, and what its texts lie in.
struct read_envelope {
    struct envelope envelope;
    struct json *tree; // NULL: nothing was read
};
// Reads an envelope of a known schema_version. Unknown fields are ignored, and so is an event_type
// that this program does not know. INVALID: `why` says what is wrong. If schema_version is another
// one, then out->envelope.schema_version has it, and is 0 otherwise. Call envelope_in_done in each
// case.
MUST_USE enum err envelope_read(struct bytes text, struct read_envelope *out,
                                char why[ENVELOPE_WHY_MAX]);
void envelope_in_done(struct read_envelope *in);

// Headers of the message on the bus: the CloudEvents 1.0 attributes ("ce-id", ...), by the NATS
// binding's binary mode. The value is percent-encoded as the binding asks.
typedef void envelope_header(void *ctx, const char *name, const char *value);
void envelope_headers(const struct envelope *e, envelope_header *put, void *ctx);

// The message id for the dedup of the bus: event_id for version 1, and "<event_id>.v<n>" for the
// others. So two versions of one event are two messages of the stream.
void envelope_message_id(const struct envelope *e, char out[ENVELOPE_ID_MAX]);

// The compatibility window: while it is open, each event is published in two versions.
struct envelope_window {
    uint32_t newest; // 0 is ENVELOPE_VERSION
    uint32_t also;   // the version before; 0: none
    int64_t until;   // `also` is published before this moment
};
// Writes the versions to publish at this moment, the oldest first, and returns how many.
size_t envelope_versions(const struct envelope_window *w, int64_t now, uint32_t out[2]);
