// SPDX-License-Identifier: Apache-2.0
// What the files of a random stream share.
#pragma once

#include "base/rng.h"
#include "model.h"
#include "queue/codec/body_name.h"
#include "rig.h"
#include "stream.h"

#define GRANTS_KEPT  48
#define UPLOADS_KEPT 24

// A body that was uploaded, and whether it was seen to be free.
struct upload {
    char name[BODY_NAME_LEN + 1];
    int64_t uploaded_at;
    bool freed;
};

struct stream {
    struct rng rng;
    struct rig rig;
    struct model *model;
    struct machine *other; // loaded from a snapshot, then fed the same tail
    struct grant grants[GRANTS_KEPT];
    size_t grants_len;
    uint64_t bodies;
    struct upload uploads[UPLOADS_KEPT];
    size_t uploads_len;
    uint64_t arrivals;
    uint64_t fingerprint;
    char *trouble;
};

static inline uint64_t below(struct stream *s, uint64_t n)
{
    return rng_below(&s->rng, n);
}

static inline bool chance(struct stream *s, uint32_t percent)
{
    return below(s, 100) < percent;
}

static inline struct buf payload(void)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    return b;
}

// Writes down what differs. Returns false.
__attribute__((format(printf, 2, 3))) bool stream_differs(struct stream *s, const char *format,
                                                          ...);

struct request_id stream_request(struct stream *s);
void stream_ask_signals(struct stream *s); // into the next entry
// What the refs of an ack or renew carry, if this one carries anything.
struct bytes stream_extras(struct stream *s, uint16_t kind, uint32_t count, struct buf *out);
int64_t stream_ticket_ms(struct stream *s);
void stream_ask_workers(struct stream *s, struct buf *b);
void stream_ask_dispatch(struct stream *s, struct buf *b);
bool stream_same_workers(struct stream *s);
bool stream_same_signals(struct stream *s);
bool stream_same_kept(struct stream *s, uint64_t seq, const struct finished_view *v);
bool stream_same_progress(struct stream *s, uint64_t seq);

// The machine, the second machine and the model agree after an entry: results, events, state,
// bodies, snapshots.
bool stream_agrees(struct stream *s, const struct rig_entry *e, const struct bytes *bodies);
