// SPDX-License-Identifier: Apache-2.0
// Functions that the codecs of this folder share.
#pragma once

#include "queue/codec/layouts.h"
#include "queue/codec/ops.h"

void op_head_put(struct buf *out, const struct request_id *request);
bool op_head_read(struct reader *r, struct request_id *request); // false: another version
bool message_read(struct reader *r, struct message *out);        // one message; false on damage

// The codec of an op that is no more than its fields.
#define OP_CODEC(name)                                                                             \
    void name##_encode(struct buf *out, const struct op_##name *op)                                \
    {                                                                                              \
        layout_put(&op_##name##_layout, out, op);                                                  \
    }                                                                                              \
    enum err name##_decode(struct bytes payload, struct op_##name *out)                            \
    {                                                                                              \
        return layout_read_all(&op_##name##_layout, payload, out) ? ERR_OK : ERR_INVALID;          \
    }

// The same for an op of the hot path (base/layout_inline.h).
#define OP_CODEC_INLINE(name)                                                                      \
    void name##_encode(struct buf *out, const struct op_##name *op)                                \
    {                                                                                              \
        LAYOUT_PUT(op_##name##_fields, out, op);                                                   \
    }                                                                                              \
    enum err name##_decode(struct bytes payload, struct op_##name *out)                            \
    {                                                                                              \
        struct reader r = reader_of(payload);                                                      \
        return LAYOUT_READ(op_##name##_fields, &r, out) && reader_end(&r) ? ERR_OK : ERR_INVALID;  \
    }
