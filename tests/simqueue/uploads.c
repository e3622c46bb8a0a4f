// SPDX-License-Identifier: Apache-2.0
// Large bodies: a sender puts an object into the bucket and refers to it, now, much later, or
// never; a put that was given up may still land long after. Movers of dead
// letters copy the object into the other queue's bucket.
//
// A body may be an hour old when it is sent, and worlds last for minutes: names say that the upload
// was almost an hour ago, which is any writer's right.
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"

#include <stdio.h>
#include <string.h>

void upload_key(const struct lane *l, struct bytes name, char out[UPLOAD_KEY_MAX])
{
    (void)snprintf(out, UPLOAD_KEY_MAX, "%s/data/%.*s", l->prefix, (int)name.len,
                   (const char *)name.data);
}

const struct bucket_object *upload_find(const struct lane *l, struct bytes name)
{
    char key[UPLOAD_KEY_MAX];
    upload_key(l, name, key);
    return bucket_object(&l->bucket, key);
}

static void put(struct world *w, struct lane *l, struct bytes name, struct bytes body)
{
    char key[UPLOAD_KEY_MAX];
    upload_key(l, name, key);
    struct request q = {.kind = REQUEST_PUT_NEW, .key = key, .body = body};
    struct bucket_answer a;
    bucket_answer_init(&a);
    bucket_perform(&l->bucket, &q, w->now, &a);
    bucket_answer_done(&a);
    trace_line(&w->trace, w->now, "lane %u: uploaded %s", l->index, key);
}

static struct body_name draw_name(struct world *w, struct bytes body)
{
    int64_t left = rng_range(&w->rng, 2 * SECOND, 60 * SECOND);
    return (struct body_name){.uploaded_at = w->now - BODY_AGE_MAX_MS + left,
                              .random = {rng_next(&w->rng), 1},
                              .hash = hash128_of(body)};
}

static struct body_reference upload(struct world *w, struct lane *l, struct bytes body,
                                    char text[BODY_NAME_LEN + 1])
{
    struct body_name name = draw_name(w, body);
    body_name_print(&name, text);
    put(w, l, bytes_of(text, BODY_NAME_LEN), body);
    return (struct body_reference){bytes_of(text, BODY_NAME_LEN), body.len, name.uploaded_at};
}

struct body_reference upload_body(struct world *w, struct lane *l, struct bytes body,
                                  char text[BODY_NAME_LEN + 1])
{
    struct life *life = w->life;
    struct body_reference r = upload(w, l, body, text);
    if (!rng_chance(&w->rng, 1000)) return r;
    // It is put a second time, and that one takes long.
    if (life->lates_len % 16 == 0)
        life->lates = memory_resize(life->lates, (life->lates_len + 16) * sizeof *life->lates);
    struct late_upload *late = &life->lates[life->lates_len];
    *late = (struct late_upload){.lane = l->index, .body = bytes_copy(body)};
    memcpy(late->name, text, sizeof late->name);
    life_after(w, rng_range(&w->rng, SECOND, 2 * MINUTE), LIFE_LATE_UPLOAD, life->lates_len++, 0);
    return r;
}

void upload_lands(struct world *w, uint32_t index)
{
    const struct late_upload *late = &w->life->lates[index];
    if (w->phase != WORLD_FAULTY) return;
    put(w, &w->life->lanes[late->lane], bytes_of(late->name, BODY_NAME_LEN), late->body);
}

void uploads_done(struct world *w)
{
    for (uint32_t i = 0; i < w->life->lates_len; i++)
        bytes_free(w->life->lates[i].body);
    memory_free(w->life->lates);
}

// A letter's op for the other lane: refers to a copy there.
struct bytes upload_copy(struct world *w, struct lane *from, struct lane *to, struct bytes payload)
{
    struct op_arrive a;
    char text[BODY_NAME_LEN + 1];
    CHECK(!arrive_decode(payload, &a));
    if (a.message.reference.name.len == 0) return bytes_copy(payload);
    const struct bucket_object *o = upload_find(from, a.message.reference.name);
    if (o) {
        CLEANUP(buf_done) struct buf body; // the bucket's own moves when it grows
        buf_init(&body, SIZE_MAX);
        buf_put(&body, o->body);
        a.message.reference = upload(w, to, buf_bytes(&body), text);
    }
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, SIZE_MAX);
    arrive_encode(&out, &a);
    return buf_take(&out);
}
