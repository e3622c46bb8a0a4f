// SPDX-License-Identifier: Apache-2.0
// Journal handles on a simulated store, and on time that only the test moves.
#pragma once

#include "../unit/unit.h"
#include "base/memory.h"
#include "bucket.h"
#include "journal/journal.h"
#include "register.h"

#define PUT_MS 40 // a put takes

struct shop {
    struct rng rng;
    struct bucket bucket;
    int64_t now;
    int64_t blur; // how well the handles know it
    uint64_t tickets;
};

struct hand {
    struct shop *shop;
    struct registers *registers;
    struct journal *journal;
};

struct interval shop_moment(const struct shop *s);
void shop_open(struct shop *s);
struct journal_config config_plain(uint64_t seed);
struct journal_config config_far(uint64_t seed);
// Performs the request, or answers so instead.
void hand_answer(struct hand *h, const struct request *q, enum err instead);
bool hand_take(struct hand *h, struct request *q);
void hand_take_none(struct hand *h);
struct request hand_take_append(struct hand *h);
void hand_expect_reads(struct hand *h, int count);
struct hand shop_hire(struct shop *s, const struct journal_config *c);
void hand_dismiss(struct hand *h);
uint64_t hand_ask_until(struct hand *h, int64_t deadline);
uint64_t hand_ask(struct hand *h);
void hand_heard(struct hand *h, uint64_t ticket, enum err err);
void hand_pass(struct hand *h, int64_t ms);
// To the moment at which the handle wants to be woken; returns how long that took.
int64_t hand_pass_until_woken(struct hand *h);
void hand_put(struct hand *h); // the append that is asked for, in PUT_MS
void hand_commit(struct hand *h);
void shop_close(struct shop *s);
void hand_catch_up(struct hand *h); // reads what others committed
