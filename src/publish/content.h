// SPDX-License-Identifier: Apache-2.0
// An event as it goes to the bus: subject, message id, headers and body in one piece of memory.
#pragma once

#include "bus/bus.h"
#include "events/envelope.h"

// Appends the envelope's message. by_shard: its subject names the shard, also if the event is one
// of a workflow. INVALID, LIMIT: a name of it cannot be a subject.
MUST_USE enum err content_write(const struct envelope *e, bool by_shard, struct buf *to);
// Views into the content.
struct content {
    const char *subject;
    const char *id;
    struct bus_header headers[BUS_HEADERS_MAX];
    size_t headers_len;
    struct bytes body;
};
void content_read(struct bytes from, struct content *out);
