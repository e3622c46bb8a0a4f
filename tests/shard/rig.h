// SPDX-License-Identifier: Apache-2.0
// A shard by hand: one or more handles on a store in memory, each request performed when the test
// says so, with the outcome the test says.
#pragma once

#include "../unit/unit.h"
#include "runner/perform.h"
#include "shard/shard.h"
#include "store/mem.h"

#define RIG_LIMIT 300 // steps after which a dialogue that goes on is one that hangs
#define RIG_TEXT  64

struct rig {
    struct store *store; // borrowed
    struct shard *shard;
    struct perform_buffer performance;
    struct interval now;
    size_t body_reads; // requests for entries that were folded before
    bool charges;      // the store takes something for each request
    struct cost charged;
};

struct shard_config rig_config(void); // the defaults; change it, then rig_on
struct rig rig_on(struct store *s, const struct shard_config *config);
struct rig rig_start(struct store *s, const struct shard_config *config); // not yet recovered
void rig_done(struct rig *r);
struct interval rig_time(struct rig *r); // the store's
void rig_pass(struct rig *r, int64_t ms);

enum fate {
    FATE_OK,
    FATE_UNAVAILABLE, // certainly not applied
    FATE_NOT_FOUND,
};

bool rig_take(struct rig *r, struct request *out);
void rig_serve(struct rig *r, const struct request *request, enum fate fate);
void rig_settle(struct rig *r); // performs everything that is asked
bool rig_is_body_read(struct rig *r, const struct request *request);
// Performs requests until one of this sort is asked for, and hands that one out unperformed.
struct request rig_until_append(struct rig *r);
struct request rig_until_body_read(struct rig *r);
// How many ops of this kind the entry of an append carries.
size_t rig_ops_in(const struct request *append, uint16_t kind);
void rig_look(struct rig *r); // folds what others did
// What a collector and a writer that slept leave behind: a floor object at slot; the slot dropped,
// and created again with an entry that sends `body`.
void rig_floor(struct rig *r, uint64_t slot);
void rig_create_again(struct rig *r, uint64_t slot, const char *body);
uint64_t rig_slot(struct rig *r);

struct rig_answer {
    enum err err;
    enum reason reason;
    size_t count; // deliveries
    uint64_t seqs[16];
    struct hash128 tokens[16];
    char bodies[16][RIG_TEXT];
    uint64_t seq; // send: of the first message
};

bool rig_answered(struct rig *r, uint64_t ticket, struct rig_answer *out); // false: it was not
struct rig_answer rig_answer(struct rig *r, uint64_t ticket);              // it must be there
void rig_no_answer(struct rig *r);

struct request_id rig_request(void);
uint64_t rig_send(struct rig *r, const char *body);
uint64_t rig_send_delayed(struct rig *r, const char *body, int64_t delay_ms);
uint64_t rig_send_as(struct rig *r, const struct request_id *request, const char *const *bodies,
                     uint32_t count, const char *dedup);
uint64_t rig_receive(struct rig *r, const char *worker, uint32_t max, int64_t wait_ms);
uint64_t rig_receive_as(struct rig *r, const struct request_id *request, const char *worker,
                        uint32_t max, int64_t wait_ms, int64_t patience_ms);
// An ack of what is held, and a receive behind it; answered by `ticket` and `ticket - 1`.
uint64_t rig_receive_acking(struct rig *r, const struct rig_answer *held, int64_t wait_ms);
uint64_t rig_fetch(struct rig *r, struct place place);
uint64_t rig_letters(struct rig *r);
uint64_t rig_word(struct rig *r, uint16_t kind, const struct rig_answer *held, const char *why);
// It joins.
uint64_t rig_worker(struct rig *r, const char *name, uint32_t capacity, int64_t ttl_ms);
uint64_t rig_plain(struct rig *r, uint16_t kind); // pause, resume, delete
uint64_t rig_purge(struct rig *r);                // pending messages
uint64_t rig_own(struct rig *r, uint64_t token);

// The whole way, for what is not the matter of the test.
uint64_t rig_sent(struct rig *r, const char *body);
struct rig_answer rig_claimed(struct rig *r, const char *worker, uint32_t max);
void rig_does(struct rig *r, uint64_t ticket); // settles, and it must be applied
