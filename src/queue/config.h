// SPDX-License-Identifier: Apache-2.0
// The settings of a queue: their keys, defaults and allowed values. All numbers are integers.
// Fractions are in thousandths, so that every machine computes the same backoff. docs/queues.md
// describes the settings for users.
#pragma once

#include "base/bytes.h"
#include "base/err.h"

#define QUEUE_NAME_MAX             80 // [A-Za-z0-9][A-Za-z0-9_.-]{0,79}

#define CONFIG_TIME_MAX_MS         (INT64_C(7) * 24 * 3600 * 1000) // limit of every duration
#define CONFIG_RETRIES_MAX         1000000
#define CONFIG_MESSAGE_BYTES_MAX   (UINT64_C(64) << 20)
#define CONFIG_CAPACITY_MAX        UINT64_C(1000000000)
#define CONFIG_SHARDS_MAX          1024
#define CONFIG_MULTIPLIER_MAX_1000 1000000

enum ordering_mode { ORDERING_FIFO, ORDERING_LIFO };
enum failure_mode { FAILURE_RETRY, FAILURE_DEAD_LETTER, FAILURE_HYBRID };
// BLOCK: after a refusal the caller waits and sends again.
enum backpressure { BACKPRESSURE_REJECT, BACKPRESSURE_BLOCK };

struct backoff_config {
    int64_t initial_ms;
    uint32_t multiplier_1000; // 2000: doubles
    int64_t max_ms;
    uint32_t jitter_1000; // 200: plus or minus 20 %
};

struct queue_config {
    enum ordering_mode ordering_mode;
    bool ordering_guarantee;
    int64_t visibility_timeout_ms;
    enum failure_mode failure_mode;
    uint32_t retries_max;
    char dead_letter_queue[QUEUE_NAME_MAX + 1]; // "": none
    struct backoff_config backoff;
    int64_t dedup_window_ms; // 0: dedup keys are ignored
    uint64_t message_bytes_max;
    uint32_t deliveries_max; // 0: no limit
    uint64_t capacity;
    enum backpressure backpressure;
    uint32_t shards;
};

// A sentence for the user: the setting, its value and a right value.
struct config_error {
    char text[320];
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
// The same with readable values, which config_set accepts too: "30s", "1MiB", "1.5".
bool config_show(const struct queue_config *c, size_t index, struct config_pair *out);

void config_encode(const struct queue_config *c, struct buf *out);
// ERR_INVALID on damage.
MUST_USE enum err config_decode(struct reader *r, struct queue_config *out);
