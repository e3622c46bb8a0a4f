// SPDX-License-Identifier: Apache-2.0
// Refusals: each names the thing, the value, and what would be right. Also the checks of names that
// every surface makes.
#pragma once

#include "queue/codec/config.h"
#include "queue/codec/reason.h"
#include "shard/kept_reply.h"
#include "sluice.h"

enum sluice_code refuse(struct sluice_error *error, enum err err, const char *field,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
enum sluice_code refuse_reason(struct sluice_error *error, enum reason reason, const char *thing);
// A call failed because of the store. why: the store's message; may be empty. If the queue needs
// another version of this program, the reason is UPGRADE_NEEDED.
#define UPGRADE_NEEDED "upgrade-needed"
// The reason of a receive from a queue with consume=owner that no owner can serve.
#define NO_OWNER       "no-owner"
enum sluice_code refuse_why(struct sluice_error *error, enum err err, const char *queue,
                            const char *why);
// If a call was applied to some of its parts, UNAVAILABLE ("not applied") is not true. It becomes
// UNKNOWN, and the message says how many parts were done. Other codes stay.
enum sluice_code refuse_partly(struct sluice_error *error, enum sluice_code code, size_t done,
                               size_t all, const char *parts);
// After a successful sluice_queue_create: sets the reason "exists" if the queue existed before.
void note_existed(struct sluice_error *error, bool existed);
// A stream of events has ended, because its queue was deleted.
enum sluice_code refuse_ended(struct sluice_error *error, const char *queue);
// The outcome of an op: SLUICE_OK, or a refusal with the reason that the op's result gives.
enum sluice_code refuse_op(struct sluice_error *error, enum err err, uint16_t kind,
                           const struct kept_reply *a, const char *queue);

// The result of a repeated call while an earlier attempt with the same id may still take effect
// (err_repeated). A row with a reason was decided by an entry and stays. The rows may be NULL.
enum sluice_code code_repeated(enum sluice_code code);
void sent_repeated(struct sluice_sent *sent, size_t len);
void outcomes_repeated(struct sluice_outcome *outcomes, size_t len);

enum sluice_code queue_check_name(const char *name, struct sluice_error *error);
// INVALID unless the name of a worker has 1 to WORKER_NAME_MAX bytes of plain text.
enum sluice_code worker_check(const char *name, struct sluice_error *error);
void worker_default(char name[static WORKER_NAME_MAX + 1]); // the host and the process
enum sluice_code queue_change_config(struct queue_config *c, const struct sluice_setting *settings,
                                     size_t len, struct sluice_error *error);
// The body's length of message `index` of an OP_SEND.
size_t op_body_len(struct bytes op, size_t index);
