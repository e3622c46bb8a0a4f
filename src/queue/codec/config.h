// SPDX-License-Identifier: Apache-2.0
// The configuration of a queue as a whole. queue/codec/settings.h has the settings; docs/queues.md
// describes them for users.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "queue/codec/settings.h"

// A sentence for the user: the setting, its value and a right value.
struct config_error {
    char text[480];
};

void config_defaults(struct queue_config *c);

// Sets one key, as docs/queues.md names it ("failureStrategy.maxRetries"), from its text ("3").
// Returns ERR_INVALID for an unknown key or a value that is not allowed. error then names it, and c
// is unchanged. error may be NULL.
MUST_USE enum err config_set(struct queue_config *c, const char *key, const char *value,
                             struct config_error *error);

// Checks the settings together. name is the queue's own name, or NULL if it has none yet.
MUST_USE enum err config_check(const struct queue_config *c, const char *name,
                               struct config_error *error);

// Follows the dead-letter queues from name on and refuses a cycle. next returns the dead-letter
// queue of a queue, or NULL if that queue has none or does not exist yet.
typedef const char *config_next_fn(void *ctx, const char *queue);
MUST_USE enum err config_check_cycle(const struct queue_config *c, const char *name,
                                     config_next_fn *next, void *ctx, struct config_error *error);

bool queue_name_ok(const char *name);

// Returns key number `index`, in the order of docs/queues.md, with its value, as config_set accepts
// them. False past the last key.
struct config_pair {
    const char *key;
    char value[QUEUE_NAME_MAX + 1];
};
bool config_print(const struct queue_config *c, size_t index, struct config_pair *out);
// The same with readable values, which config_set accepts too: "1MiB", "1.5".
bool config_show(const struct queue_config *c, size_t index, struct config_pair *out);

// Writes all settings.
void config_encode(const struct queue_config *c, struct buf *out);
// ERR_INVALID on damage. ERR_UNAVAILABLE for a version of a later release.
MUST_USE enum err config_decode(struct reader *r, struct queue_config *out);
