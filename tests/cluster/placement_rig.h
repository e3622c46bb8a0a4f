// SPDX-License-Identifier: Apache-2.0
// Members, shards and the plan that rounds of placement make of them, for tests of placement.
#pragma once

#include "../unit/unit.h"
#include "base/memory.h"
#include "cluster/placement.h"
#include "fixture.h"

#define MEMBERS 201
#define SHARDS  4096
#define NOW     ((int64_t)1000000)

struct setup {
    struct placement_member members[MEMBERS];
    struct shard_key shards[SHARDS];
    struct placement_input in;
    struct plan plan;
    uint32_t loads[MEMBERS];
};

static inline struct setup *setup_new(size_t members_len, size_t shards_len)
{
    struct setup *s = NEW(struct setup);
    for (uint32_t i = 0; i < MEMBERS; i++)
        s->members[i] = (struct placement_member){.id = test_member(i, 1), .capacity = 1};
    for (uint32_t i = 0; i < SHARDS; i++)
        s->shards[i] = test_shard(i);
    s->in = (struct placement_input){.members = s->members,
                                     .members_len = members_len,
                                     .shards = s->shards,
                                     .shards_len = shards_len,
                                     .now = NOW};
    placement_options_defaults(&s->in.options, shards_len);
    plan_init(&s->plan);
    return s;
}

static inline void setup_free(struct setup *s)
{
    plan_done(&s->plan);
    memory_free(s);
}

// Makes the next plan from the current one and returns its moves.
static inline uint32_t next(struct setup *s)
{
    struct plan previous = s->plan;
    plan_init(&s->plan);
    s->in.previous = previous.rows ? &previous : NULL;
    placement_plan(&s->plan, &s->in);
    plan_done(&previous);
    memset(s->loads, 0, sizeof s->loads);
    for (size_t i = 0; i < s->plan.rows_len; i++) {
        uint32_t owner = s->plan.rows[i].owner;
        if (owner != SHARD_NONE) s->loads[owner]++;
    }
    return s->plan.moves;
}

static inline void no_cap(struct setup *s)
{
    s->in.options.moves_max = UINT32_MAX;
    s->in.options.round_ms = s->in.options.cool_down_ms = 0;
}

static inline void insert_member(struct setup *s, size_t at, struct placement_member m)
{
    memmove(&s->members[at + 1], &s->members[at], (s->in.members_len - at) * sizeof m);
    s->members[at] = m;
    s->in.members_len++;
}

static inline void remove_member(struct setup *s, size_t at)
{
    s->in.members_len--;
    memmove(&s->members[at], &s->members[at + 1], (s->in.members_len - at) * sizeof s->members[at]);
}

static inline uint32_t count_reason(const struct setup *s, enum move_reason reason)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->plan.rows_len; i++)
        count += s->plan.rows[i].reason == reason;
    return count;
}

static inline void assert_balanced(const struct setup *s)
{
    for (size_t i = 0; i < s->in.members_len; i++) {
        assert_true(s->loads[i] <= placement_largest(&s->in, i));
        assert_true(s->loads[i] >= placement_least(&s->in, i));
    }
}

static inline uint32_t queue_number(const struct shard_key *shard)
{
    return (uint32_t)shard->queue[0] << 8 | shard->queue[1];
}

static inline uint32_t queue_count(const struct setup *s, uint32_t queue, uint32_t member)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->plan.rows_len; i++)
        count += queue_number(&s->plan.rows[i].shard) == queue && s->plan.rows[i].owner == member;
    return count;
}

static inline uint32_t queue_len(const struct setup *s, uint32_t queue)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->in.shards_len; i++)
        count += queue_number(&s->shards[i]) == queue;
    return count;
}

// No member has more shards of a queue than its share of it, rounded up.
static inline void assert_queues_even(const struct setup *s)
{
    uint32_t queues = queue_number(&s->shards[s->in.shards_len - 1]) + 1;
    for (uint32_t q = 0; q < queues; q++) {
        uint32_t len = queue_len(s, q);
        for (uint32_t k = 0; k < s->in.members_len; k++)
            assert_true(queue_count(s, q, k) <= placement_largest_of(&s->in, k, len));
    }
}
