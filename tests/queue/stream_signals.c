// SPDX-License-Identifier: Apache-2.0
// The ops of version 6 of the rules in a random stream.
#include "stream_parts.h"

static void ask_cancel(struct stream *s)
{
    struct buf b = payload(), seqs = payload();
    struct op_cancel op = {.request = stream_request(s), .reason = bytes_str("not needed")};
    op.count = (uint32_t)below(s, 4);
    for (uint32_t i = 0; i < op.count; i++) {
        bool recent = s->model->sent > 12 && chance(s, 80);
        uint64_t back = recent ? s->model->sent - 12 : 0;
        buf_put_u64(&seqs, back + below(s, s->model->sent - back + 2));
    }
    op.seqs = buf_bytes(&seqs);
    cancel_encode(&b, &op);
    buf_done(&seqs);
    if (chance(s, 1)) b.len -= 1 + below(s, b.len); // damaged
    rig_op(&s->rig, OP_CANCEL, &b);
}

void stream_ask_signals(struct stream *s)
{
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 12)) ask_cancel(s);
}
