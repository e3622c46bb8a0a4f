// SPDX-License-Identifier: Apache-2.0
// What the tests of large bodies share: a library on a store, messages with bodies that can be
// recognised, and a look at what lies in the store.
#pragma once

#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "queues/bodies.h"

#define KIB        ((size_t)1024)
#define MIB        (KIB * KIB)
#define BIG        (300 * KIB)
#define PATIENT_MS 20000

struct rig {
    struct sluice *s;
    struct store *fault; // memory only: in front of mem
    struct store *mem;
    char dir[SCRATCH_MAX];
};

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

void rig_memory(struct rig *r, int64_t timeout_ms);
void rig_open(struct rig *r, const char *backend); // mem, file or s3
void rig_close(struct rig *r);

void create(struct rig *r, const char *queue, const char *mode); // 64 MiB, no retries
enum sluice_code try_send(struct rig *r, const char *queue, uint64_t seed, size_t len);
void send_body(struct rig *r, const char *queue, uint64_t seed, size_t len);
struct sluice_batch *receive(struct rig *r, const char *queue, uint32_t max, int64_t wait_ms);
struct sluice_batch *receive_letter(struct rig *r); // of the dead-letter queue "dlq"
void assert_body(const struct sluice_message *m, uint64_t seed, size_t len);
void ack(struct rig *r, const char *queue, const struct sluice_message *m);
void fail_it(struct rig *r, const char *queue, const struct sluice_message *m);

// Keys under the prefix that contain the text; the first is copied to key, unless that is NULL.
#define RIG_KEY_MAX 512
size_t count_keys(struct rig *r, const char *prefix, const char *text, char *key);
size_t count_bodies(struct rig *r);
