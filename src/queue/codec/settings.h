// SPDX-License-Identifier: Apache-2.0
// The one table of queue settings. The program reads it for the stored configuration, errors, JSON,
// help and completion. tools/check-settings makes the documents, the OpenAPI schema and the
// dashboard's form from it. This header includes nothing of ours, so that the tool can compile it
// alone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUE_NAME_MAX           80 // [A-Za-z0-9][A-Za-z0-9_.-]{0,79}

#define CONFIG_DAY_MS            INT64_C(86400000)
#define CONFIG_TIME_MAX_MS       (7 * CONFIG_DAY_MS) // limit of most durations
#define CONFIG_RETENTION_MAX_MS  (30 * CONFIG_DAY_MS)
#define CONFIG_PUBLISH_BYTES_MIN (UINT64_C(1) << 20)
#define CONFIG_PUBLISH_BYTES_MAX (UINT64_C(100) << 40)
#define CONFIG_RETRIES_MAX       1000000
#define CONFIG_MESSAGE_BYTES_MAX (UINT64_C(64) << 20)
#define CONFIG_SHARDS_MAX        1024

enum ordering_mode { ORDERING_FIFO, ORDERING_LIFO };
enum failure_mode { FAILURE_RETRY, FAILURE_DEAD_LETTER, FAILURE_HYBRID };
// BLOCK: after a refusal the caller waits and sends again.
enum backpressure { BACKPRESSURE_REJECT, BACKPRESSURE_BLOCK };
// OWNER: a claim counts only in an entry of the shard's owner.
enum consume { CONSUME_ANY, CONSUME_OWNER };
// To which registered workers the shard's owner grants tickets. AUTO: those that reach only the
// store. TICKETS: all. AFFINITY: all, and a group stays with its worker.
enum dispatch { DISPATCH_AUTO, DISPATCH_TICKETS, DISPATCH_AFFINITY };
// What happens to entries whose events are not on the bus yet. HOLD: they stay. SKIP: they stay up
// to a limit. OFF: the events of this queue go to no bus.
enum publish { PUBLISH_HOLD, PUBLISH_SKIP, PUBLISH_OFF };
// ON: the messages of a workflow are one scope of strict order.
enum workflow_order { WORKFLOW_ORDER_OFF, WORKFLOW_ORDER_ON };

struct backoff_config {
    int64_t initial_ms;
    uint32_t multiplier_1000; // 2000: doubles
    int64_t max_ms;
    uint32_t jitter_1000; // 200: plus or minus 20 %
};

// All numbers are integers. Ratios are in thousandths, so that every machine computes the same
// backoff.
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
    enum consume consume;
    enum dispatch dispatch;
    int64_t retention_ms; // 0: how messages ended is not kept
    enum publish publish;
    int64_t publish_keep_ms;
    uint64_t publish_keep_bytes;
    enum workflow_order workflow_order;
    bool retain_body; // finished messages keep their bodies for `retention`
    uint16_t rules;   // with which the queue begins (queue/core/rules.h)
};

// In the order of storage; a new setting comes last. The columns: key, kind, field of struct
// queue_config, least value, greatest value, default, group and label in the dashboard, the other
// members of struct setting.
#define QUEUE_SETTINGS(X)                                                                          \
    X("orderingMode", CHOICE, ordering_mode, 0, ORDERING_LIFO, ORDERING_FIFO, "Delivery", "Order", \
      .choices = "fifo, lifo", .labels = "oldest first (fifo)|newest first (lifo)",                \
      .meaning =                                                                                   \
          "Which ready message is delivered first: the oldest (fifo) or the newest (lifo).")       \
    X("orderingGuarantee", FLAG, ordering_guarantee, false, true, false, "Delivery",               \
      "Strict order", .choices = "false, true", .labels = "no|yes, in each group",                 \
      .meaning = "Strict order: a message waits until the one before it in its group ends.")       \
    X("visibilityTimeout", DURATION, visibility_timeout_ms, 1, CONFIG_DAY_MS, 30000, "Delivery",   \
      "Lock time",                                                                                 \
      .meaning = "A worker must finish or renew within this time, else the message returns.")      \
    X("failureStrategy.mode", CHOICE, failure_mode, 0, FAILURE_HYBRID, FAILURE_RETRY, "Failures",  \
      "When a message fails", .choices = "retry, dead-letter, hybrid",                             \
      .labels =                                                                                    \
          "retry, then keep as dead|dead-letter queue at once|retry, then dead-letter queue",      \
      .meaning =                                                                                   \
          "Whether a failed message is retried, and whether it ends in the dead-letter queue.")    \
    X("failureStrategy.maxRetries", NUMBER, retries_max, 0, CONFIG_RETRIES_MAX, 5, "Failures",     \
      "Retries", .unit = "retries",                                                                \
      .meaning = "How many attempts a message gets after the first one.")                          \
    X("failureStrategy.deadLetterQueue", NAME, dead_letter_queue, 0, 0, 0, "Failures",             \
      "Dead-letter queue",                                                                         \
      .meaning = "Where dead letters go: the modes dead-letter and hybrid need it.")               \
    X("failureStrategy.backoff.initial", DURATION, backoff.initial_ms, 0, CONFIG_TIME_MAX_MS,      \
      1000, "Failures", "First wait", .meaning = "The wait before the first retry.")               \
    X("failureStrategy.backoff.multiplier", RATIO, backoff.multiplier_1000, 1000, 1000000, 2000,   \
      "Failures", "Growth of the wait", .unit = "times",                                           \
      .meaning = "The factor by which the wait grows with each retry.")                            \
    X("failureStrategy.backoff.max", DURATION, backoff.max_ms, 0, CONFIG_TIME_MAX_MS, 300000,      \
      "Failures", "Longest wait", .meaning = "The longest wait before a retry.")                   \
    X("failureStrategy.backoff.jitter", RATIO, backoff.jitter_1000, 0, 1000, 200, "Failures",      \
      "Spread of the wait", .unit = "of the wait",                                                 \
      .meaning = "How far the wait varies: 0.2 is up to 20 % shorter or longer.")                  \
    X("dedupWindow", DURATION, dedup_window_ms, 0, CONFIG_TIME_MAX_MS, 300000, "Limits",           \
      "Deduplication time",                                                                        \
      .meaning =                                                                                   \
          "A second message with the same dedup key is dropped within this time (0: never).")      \
    X("maxMessageBytes", BYTES, message_bytes_max, 1, CONFIG_MESSAGE_BYTES_MAX, 1 << 20, "Limits", \
      "Largest body", .meaning = "The largest body: a larger message is refused.")                 \
    X("maxDeliveries", NUMBER, deliveries_max, 0, CONFIG_RETRIES_MAX, 0, "Failures",               \
      "Delivery limit", .unit = "deliveries",                                                      \
      .meaning =                                                                                   \
          "A message that was delivered this often and not finished is given up (0: no limit).")   \
    X("capacity", NUMBER, capacity, 1, 1000000000, 10000000, "Limits", "Capacity",                 \
      .unit = "messages", .meaning = "How many messages each shard holds at most.")                \
    X("backpressure", CHOICE, backpressure, 0, BACKPRESSURE_BLOCK, BACKPRESSURE_REJECT, "Limits",  \
      "When the queue is full", .choices = "reject, block",                                        \
      .labels = "refuse the message|wait for space",                                               \
      .meaning = "What a send to a full queue does: it is refused, or it waits for space.")        \
    X("shards", NUMBER, shards, 1, CONFIG_SHARDS_MAX, 1, "Limits", "Shards", .unit = "shards",     \
      .fixed = true,                                                                               \
      .meaning = "How many journals share the load: the number is fixed at creation.")             \
    X("consume", CHOICE, consume, 0, CONSUME_OWNER, CONSUME_ANY, "Delivery", "Handed out by",      \
      .choices = "any, owner", .labels = "any process|only the node that owns the shard",          \
      .meaning = "Which processes may hand out messages: any, or only the shard's owner.")         \
    X("dispatch", CHOICE, dispatch, 0, DISPATCH_AFFINITY, DISPATCH_AUTO, "Delivery",               \
      "Tickets for workers", .choices = "auto, tickets, affinity",                                 \
      .labels = "only workers that reach no node|all registered workers|a group stays with its "   \
                "worker",                                                                          \
      .meaning = "Which registered workers get tickets from the shard's owner.")                   \
    X("retention", DURATION, retention_ms, 0, CONFIG_RETENTION_MAX_MS, 3600000, "Limits",          \
      "Finished messages",                                                                         \
      .meaning = "How long Sluice keeps how a message ended, for sluice show (0: not at all).")    \
    X("publish", CHOICE, publish, 0, PUBLISH_OFF, PUBLISH_HOLD, "Events", "Unpublished events",    \
      .choices = "hold, skip, off", .labels = "keep them|keep them for a while|publish none",      \
      .meaning = "Whether journal entries stay until their events are on the bus.")                \
    X("publishKeep", DURATION, publish_keep_ms, 1000, CONFIG_RETENTION_MAX_MS, CONFIG_DAY_MS,      \
      "Events", "Age limit",                                                                       \
      .meaning = "Entries unpublished for so long: hold raises an alarm, skip may collect "        \
                 "them.")                                                                          \
    X("publishKeepBytes", BYTES, publish_keep_bytes, CONFIG_PUBLISH_BYTES_MIN,                     \
      CONFIG_PUBLISH_BYTES_MAX, UINT64_C(10) << 30, "Events", "Size limit",                        \
      .meaning = "The same limit for the size of all unpublished entries of a shard.")             \
    X("workflowOrder", CHOICE, workflow_order, 0, WORKFLOW_ORDER_ON, WORKFLOW_ORDER_OFF,           \
      "Delivery", "Order of workflows", .choices = "off, on",                                      \
      .labels = "no|yes, in each workflow",                                                        \
      .meaning = "Strict order of the messages of a workflow, as of a group.")                     \
    X("retainBody", FLAG, retain_body, false, true, false, "Limits",                               \
      "Bodies of finished messages", .choices = "false, true",                                     \
      .labels = "deleted|kept for the retention",                                                  \
      .meaning = "Whether the body of a finished message stays for the time of retention.")

enum setting_kind {
    SETTING_CHOICE, // the number of a word
    SETTING_FLAG,
    SETTING_DURATION, // milliseconds
    SETTING_NUMBER,
    SETTING_BYTES,
    SETTING_RATIO, // thousandths
    SETTING_NAME   // of a queue, or ""; min, max and initial are 0
};

struct setting {
    const char *key; // "failureStrategy.maxRetries"
    enum setting_kind kind;
    size_t offset; // in struct queue_config
    size_t size;
    uint64_t min;
    uint64_t max;
    uint64_t initial;
    const char *choices; // CHOICE and FLAG: the words, as a sentence lists them
    bool fixed;          // at creation
    const char *meaning; // one sentence
    // The dashboard:
    const char *group;
    const char *label;
    const char *labels; // of the choices, with | between them
    const char *unit;   // after the number
};

// Makes a row of the table an initializer of struct setting.
#define SETTING_ROW(key_, kind_, field, min_, max_, initial_, group_, label_, ...)                 \
    {.key = key_,                                                                                  \
     .kind = SETTING_##kind_,                                                                      \
     .offset = offsetof(struct queue_config, field),                                               \
     .size = sizeof((struct queue_config *)0)->field,                                              \
     .min = min_,                                                                                  \
     .max = max_,                                                                                  \
     .initial = initial_,                                                                          \
     .group = group_,                                                                              \
     .label = label_,                                                                              \
     __VA_ARGS__},

#define SETTING_ONE(...) +1
enum { QUEUE_SETTINGS_LEN = 0 QUEUE_SETTINGS(SETTING_ONE) };
extern const struct setting queue_settings[QUEUE_SETTINGS_LEN];

// Returns NULL for an unknown key.
const struct setting *setting_find(const char *key);

// Reads and writes the setting in c. The number of a NAME is 0.
uint64_t setting_get(const struct setting *s, const struct queue_config *c);
void setting_put(const struct setting *s, struct queue_config *c, uint64_t v);

// Reads the text of a number. It does not check the range. A NAME has no number: returns false.
bool setting_parse(const struct setting *s, const char *text, uint64_t *v);

// Writes a number as setting_parse reads it: "30s", "1048576", "1.500", or for people "1MiB",
// "1.5".
#define SETTING_TEXT_MAX 32
void setting_print(const struct setting *s, uint64_t v, bool people,
                   char out[static SETTING_TEXT_MAX]);
