// SPDX-License-Identifier: Apache-2.0
// Senders: batches of a few messages, each with what a sender may say about it.
#include "life.h"

#include <stdio.h>

static const char *const groups[] = {"g1", "g2", "g3"};
static const char *const keys[DEDUP_KEYS] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"};

static void draw_when(struct world *w, struct message *m)
{
    m->when = rng_chance(&w->rng, 5000) ? WHEN_DELAY : WHEN_DUE;
    m->when_ms = rng_range(&w->rng, 0, 6 * SECOND);
    if (m->when == WHEN_DUE) m->when_ms += w->now - SECOND;
}

static void draw_message(struct world *w, const struct lane *l, struct message *m)
{
    bool strict = l->reference.config.ordering_guarantee;
    if (l->mixed_groups && rng_chance(&w->rng, 7000))
        m->group = bytes_str(groups[rng_below(&w->rng, 3)]);
    if (rng_chance(&w->rng, 3000)) m->dedup = bytes_str(keys[rng_below(&w->rng, DEDUP_KEYS)]);
    if (rng_chance(&w->rng, strict ? 200 : 3000)) draw_when(w, m);
    if (rng_chance(&w->rng, strict ? 200 : 3000)) m->priority = (uint8_t)rng_below(&w->rng, 4);
}

// The text says which message it is; the length varies, so that caches and reads end anywhere.
static struct bytes draw_body(struct world *w, uint32_t ask, uint32_t k, struct buf *out)
{
    char text[48];
    size_t at = out->len;
    (void)snprintf(text, sizeof text, "message %u of ask %u ", k, ask);
    buf_put(out, bytes_str(text));
    uint64_t more = rng_chance(&w->rng, 1000) ? 3000 : 60;
    for (uint64_t i = rng_below(&w->rng, more); i > 0; i--)
        buf_put_u8(out, (uint8_t)('a' + i % 26));
    return bytes_of(out->data + at, out->len - at);
}

void sender_send(struct world *w)
{
    if (w->now < w->quiet_until) return;
    struct lane *l = lane_pick(w);
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_SEND, l->index);
    struct sim_call *a = &w->life->calls[ask];
    uint32_t count = rng_chance(&w->rng, 300) ? 12 : 1 + (uint32_t)rng_below(&w->rng, 3);
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf body;
    buf_init(&payload, (size_t)1 << 20);
    buf_init(&body, (size_t)1 << 16);
    send_begin(&payload, &a->request);
    bool uploaded = false;
    for (uint32_t k = 0; k < count; k++) {
        struct message m = {0};
        char name[BODY_NAME_LEN + 1];
        buf_clear(&body);
        draw_message(w, l, &m);
        m.requires = bytes_str(fleet_requires(w));
        char workflow[4];
        workflows_name(w, l, &m, workflow);
        m.body = draw_body(w, ask, k, &body);
        if (rng_chance(&w->rng, w->life->uploads)) {
            m.reference = upload_body(w, l, m.body, name);
            m.body = BYTES_EMPTY;
            uploaded = true;
        }
        send_add(&payload, &m);
    }
    send_end(&payload, 0, count);
    a->payload = buf_take(&payload);
    if (uploaded && rng_chance(&w->rng, 1500)) {
        a->closed = true; // it died before it sent
    } else if (uploaded && rng_chance(&w->rng, 3000)) {
        life_after(w, rng_range(&w->rng, SECOND, 90 * SECOND), LIFE_UPLOADED, ask, 0);
    } else {
        (void)sim_call_submit(w, ask);
    }
}
