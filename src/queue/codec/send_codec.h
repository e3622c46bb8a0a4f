// SPDX-License-Identifier: Apache-2.0
// Functions that the codecs of this folder share.
#pragma once

#include "queue/codec/ops.h"

void op_head_put(struct buf *out, const struct request_id *request);
void op_head_read(struct reader *r, struct request_id *request); // sets r bad for another version
bool message_read(struct reader *r, struct message *out);        // one message; false on damage
