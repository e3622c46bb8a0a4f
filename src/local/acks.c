// SPDX-License-Identifier: Apache-2.0
// The caller's thread performs the commits of the acks and the receive. The receive can end first,
// when its request id has an earlier answer. The thread then sleeps until the acks end too.
#include "local/acks.h"

#include "base/check.h"
#include "local/async.h"

#include <string.h>

#define ACKS_PART (UINT64_C(1) << 62) // a part number of the request that no other part reaches

struct settle acks_of(const struct sluice_receive *o, struct sluice_request *id)
{
    if (o->request) {
        struct request_id part = request_part(o->request->bytes, ACKS_PART);
        memcpy(id->bytes, part.bytes, sizeof id->bytes);
    }
    return (struct settle){.kind = SETTLE_ACK,
                           .tokens = o->acks,
                           .len = o->acks_len,
                           .request = o->request ? id : NULL};
}

void acks_first(struct sluice *s, const char *queue, const struct sluice_receive *o)
{
    struct sluice_request id;
    struct settle what = acks_of(o, &id);
    enum sluice_code code = direct_settle(s, queue, &what, o->acked, NULL);
    acks_fill(o->acked, o->acks_len, code);
}

void acks_fill(struct sluice_outcome *acked, size_t len, enum sluice_code code)
{
    for (size_t i = 0; i < len; i++)
        if (!acked[i].status) acked[i] = (struct sluice_outcome){.code = code, .status = ""};
}

static void acks_answered(struct runner_async *l, enum err err, struct runner_answer *answer)
{
    struct acks *a = (struct acks *)l;
    (void)pthread_mutex_lock(&a->lock);
    a->done = true;
    a->err = err;
    a->answer = *answer; // taken
    runner_answer_init(answer);
    (void)pthread_cond_signal(&a->ended);
    (void)pthread_mutex_unlock(&a->lock);
}

bool acks_init(struct acks *a, struct open_queue *q, struct shard_runner *const *runners,
               const struct sluice_receive *o)
{
    struct sluice_request id;
    struct settle what = acks_of(o, &id);
    uint32_t shard;
    *a = (struct acks){.at_runner.then = acks_answered};
    buf_init(&a->payload, JOURNAL_OP_MAX);
    if (!settle_as_one_op(q, &what, runners, &shard, &a->op, &a->payload)) {
        buf_done(&a->payload);
        return false;
    }
    CHECK(shard == 0);
    runner_answer_init(&a->answer);
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->ended, NULL);
    return true;
}

void acks_done(struct acks *a)
{
    (void)pthread_cond_destroy(&a->ended);
    (void)pthread_mutex_destroy(&a->lock);
    runner_answer_done(&a->answer);
    buf_done(&a->payload);
}

enum err acks_receive(struct acks *a, struct open_queue *q, struct shard_runner *d,
                      const struct op_claim *claim, int64_t wait_ms, const struct sluice_receive *o,
                      struct runner_answer *answer)
{
    enum err err = runner_receive_after(d, a->op, &a->at_runner, claim, wait_ms, answer);
    (void)pthread_mutex_lock(&a->lock);
    while (!a->done)
        (void)pthread_cond_wait(&a->ended, &a->lock);
    (void)pthread_mutex_unlock(&a->lock);
    // Repeat the op with the same request id: it cannot be applied twice.
    if (a->err == ERR_UNKNOWN && runner_do(d, a->op, &a->answer) == ERR_OK) a->err = ERR_OK;
    (void)settle_concluded(q, a->op.kind, o->acks_len, a->err, &a->answer, o->acked, NULL);
    return err;
}
