// SPDX-License-Identifier: Apache-2.0
// Journal handles on a simulated store, and on time that only the test moves.
#pragma once

#include "../unit/unit.h"
#include "base/memory.h"
#include "bucket.h"
#include "journal/journal.h"
#include "register.h"

#define PUT_MS 40 // a put takes

struct fixture {
    struct rng rng;
    struct bucket bucket;
    int64_t now;
    int64_t blur; // how well the handles know it
    uint64_t tickets;
};

struct writer {
    struct fixture *fixture;
    struct registers *registers;
    struct journal *journal;
};

struct interval fixture_instant(const struct fixture *s);
void fixture_open(struct fixture *s);
struct journal_config config_plain(uint64_t seed);
struct journal_config config_high_latency(uint64_t seed);
// Performs the request, or answers so instead.
void writer_answer(struct writer *h, const struct request *q, enum err instead);
bool writer_take(struct writer *h, struct request *q);
void writer_take_none(struct writer *h);
struct request writer_take_append(struct writer *h);
void writer_expect_reads(struct writer *h, int count);
struct writer fixture_writer(struct fixture *s, const struct journal_config *c);
void writer_dismiss(struct writer *h);
uint64_t writer_ask_until(struct writer *h, int64_t deadline);
uint64_t writer_ask(struct writer *h);
void writer_heard(struct writer *h, uint64_t ticket, enum err err);
void writer_pass(struct writer *h, int64_t ms);
// To the moment at which the handle wants to be woken; returns how long that took.
int64_t writer_pass_until_woken(struct writer *h);
void writer_put(struct writer *h); // the append that is asked for, in PUT_MS
void writer_commit(struct writer *h);
void fixture_close(struct fixture *s);
void writer_catch_up(struct writer *h); // reads what others committed
