// SPDX-License-Identifier: Apache-2.0
// Replies of a job's program. Any bytes leave a sound state, and the pieces in which they come do
// not matter.
#include "base/check.h"
#include "cli/work/talk.h"
#include "fuzz.h"

#include <string.h>

#define SIGNALS 3

static void begin(struct job_conversation *t)
{
    talk_init(t, 1000);
    for (uint32_t i = 1; i <= SIGNALS; i++) {
        struct sluice_signal_state s = {.kind = "ask", .number = i, .id = "0f"};
        talk_send(t, job_signal_new(&s), 0);
    }
}

static void is_sound(const struct job_conversation *t)
{
    CHECK(strlen(t->remark) < sizeof t->remark && strlen(t->progress) < sizeof t->progress);
    CHECK(t->result.len <= SLUICE_RESULT_MAX && strlen(t->result_type) < sizeof t->result_type);
    CHECK(!t->has_progress || (t->percent >= 0 && t->percent <= 100));
    CHECK(t->line.len <= TALK_LINE_MAX && !t->line.bad);
    for (const struct job_signal *s = t->first; s; s = s->next)
        CHECK(!s->done || s->answer_len <= SLUICE_ANSWER_MAX);
}

static void are_same(const struct job_conversation *a, const struct job_conversation *b)
{
    CHECK(a->has_result == b->has_result && bytes_equal(a->result, b->result));
    CHECK(a->has_progress == b->has_progress && a->percent == b->percent);
    CHECK(strcmp(a->progress, b->progress) == 0 && strcmp(a->result_type, b->result_type) == 0);
    const struct job_signal *s = a->first, *o = b->first;
    for (; s && o; s = s->next, o = o->next) {
        CHECK(s->done == o->done && s->decline == o->decline);
        CHECK(!s->done ||
              (s->answer_len == o->answer_len && memcmp(s->answer, o->answer, s->answer_len) == 0));
    }
    CHECK(!s && !o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct job_conversation whole, pieces;
    begin(&whole);
    begin(&pieces);
    talk_take(&whole, data, len);
    for (size_t at = 0, some; at < len; at += some) {
        some = 1 + data[at] % 16;
        if (some > len - at) some = len - at;
        talk_take(&pieces, data + at, some);
    }
    is_sound(&whole);
    is_sound(&pieces);
    are_same(&whole, &pieces);
    talk_done(&whole);
    talk_done(&pieces);
    return 0;
}
