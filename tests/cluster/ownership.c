// SPDX-License-Identifier: Apache-2.0
// The ownership of one shard: every combination of the facts, against rules. Exactly one rule
// applies to each combination.
#include "cluster/ownership.h"

#include "../unit/unit.h"
#include "base/interval.h"

#define NOW     ((int64_t)1000000)
#define EPOCH   7
#define LEASE   OWNERSHIP_LEASE_MS
#define FLAGS   12
#define BIT(n)  ((bool)(flags >> (n)&1))
#define SAME_MS INT64_MIN // the silence decides

// The moments at which the last entry of the owner was seen.
static const int64_t seen[] = {TIME_UNKNOWN, NOW, NOW - 1, NOW - LEASE + 1, NOW - LEASE, 0};

static struct ownership_facts facts_of(int kind, int journal, int answer, unsigned flags,
                                       int64_t seen_at)
{
    return (struct ownership_facts){
        .kind = (enum ownership_kind)kind,
        .journal = (enum ownership_journal)journal,
        .answer = (enum ownership_answer)answer,
        .wanted = BIT(0),
        .mine = BIT(1),
        .deleted = BIT(2),
        .epoch = BIT(3) ? EPOCH : 0,
        .named = BIT(4),
        .same_node = BIT(5),
        .knows = BIT(6),
        .knows_this = BIT(7),
        .first = BIT(8),
        .unserved = BIT(11),
        .known_away = BIT(10),
        .answer_age_ms = OWNERSHIP_MEMORY_MS + BIT(9),
        .seen_at = seen_at,
        .now = NOW,
    };
}

static bool is_client(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_CLIENT;
}

static bool joins(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_JOINING;
}

static bool has_no_claim(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_MEMBER && f->mine && f->unserved;
}

static bool needs_read(const struct ownership_facts *f)
{
    bool unread = f->journal == OWNERSHIP_FOLDED && !joins(f);
    bool node = !f->mine || f->wanted || has_no_claim(f);
    return unread && (is_client(f) ? f->first || f->knows : node);
}

static bool store_fails(const struct ownership_facts *f)
{
    return f->journal == OWNERSHIP_UNREADABLE && !joins(f);
}

static bool store_fails_knowing(const struct ownership_facts *f)
{
    return store_fails(f) && is_client(f) && f->knows;
}

static bool store_fails_unknowing(const struct ownership_facts *f)
{
    return store_fails(f) && !store_fails_knowing(f);
}

static bool is_read(const struct ownership_facts *f)
{
    return !joins(f) && !needs_read(f) && !store_fails(f);
}

static bool is_mine_or_deleted(const struct ownership_facts *f)
{
    return is_read(f) && (f->deleted || (f->mine && !has_no_claim(f)));
}

static bool is_mine_without_claim(const struct ownership_facts *f)
{
    return is_read(f) && !f->deleted && has_no_claim(f);
}

static bool is_free(const struct ownership_facts *f)
{
    return is_read(f) && !f->mine && !f->deleted && f->epoch == 0;
}

static bool is_owned(const struct ownership_facts *f)
{
    return is_read(f) && !f->mine && !f->deleted && f->epoch != 0;
}

// The client's connections prove the owner.
static bool is_known(const struct ownership_facts *f)
{
    return is_owned(f) && is_client(f) && f->named && f->knows_this && !f->known_away;
}

static bool is_other(const struct ownership_facts *f)
{
    return is_owned(f) && f->named && !f->same_node && !is_known(f);
}

static bool is_unasked(const struct ownership_facts *f)
{
    return is_other(f) && f->answer == OWNERSHIP_NOT_ASKED;
}

static bool is_proven_to_client(const struct ownership_facts *f)
{
    return is_known(f) || (is_other(f) && is_client(f) && f->answer == OWNERSHIP_PROVEN);
}

static bool is_proven_to_node(const struct ownership_facts *f)
{
    return is_other(f) && !is_client(f) && f->answer == OWNERSHIP_PROVEN;
}

// It was away long ago, and is asked again.
static bool is_old(const struct ownership_facts *f)
{
    return f->answer == OWNERSHIP_AWAY && f->answer_age_ms > 10000;
}

static bool is_doubted(const struct ownership_facts *f)
{
    return is_other(f) && (f->answer == OWNERSHIP_DOUBTED || is_old(f));
}

// It proves nothing: it answers wrongly or not at all, or it cannot be asked.
static bool is_unproven(const struct ownership_facts *f)
{
    return is_owned(f) && !is_known(f) && !is_unasked(f) && !is_proven_to_client(f) &&
           !is_proven_to_node(f) && !is_doubted(f);
}

static bool is_silent(const struct ownership_facts *f)
{
    return f->seen_at != TIME_UNKNOWN && f->now - f->seen_at >= LEASE;
}

static bool alone_free(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_ALONE && (is_free(f) || (is_unproven(f) && f->same_node));
}

static bool alone_silent(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_ALONE && is_unproven(f) && !f->same_node && is_silent(f);
}

static bool alone_not_silent(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_ALONE && is_unproven(f) && !f->same_node && !is_silent(f);
}

static bool member_free(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_MEMBER && is_free(f);
}

static bool member_unproven(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_MEMBER && is_unproven(f);
}

static bool client_free(const struct ownership_facts *f)
{
    bool declined = is_unproven(f) && !(is_other(f) && f->answer == OWNERSHIP_AWAY);
    return is_client(f) && (is_free(f) || declined);
}

static bool client_away(const struct ownership_facts *f)
{
    return is_client(f) && is_unproven(f) && is_other(f) && f->answer == OWNERSHIP_AWAY;
}

static const struct rule {
    const char *name;
    bool (*applies)(const struct ownership_facts *f);
    struct ownership_decision decision;
} rules[] = {
    {"a node that joins changes nothing", joins, {OWNERSHIP_UNCHANGED, 100, false, false}},
    {"the journal is read first", needs_read, {OWNERSHIP_READ, 0, false, false}},
    {"a client keeps its owner while the store fails",
     store_fails_knowing,
     {OWNERSHIP_UNCHANGED, 5000, false, false}},
    {"the store is tried again", store_fails_unknowing, {OWNERSHIP_UNCHANGED, 1000, false, false}},
    {"an owner stays, and a deleted queue has none",
     is_mine_or_deleted,
     {OWNERSHIP_WAIT, 1000, false, false}},
    {"the cluster decides about an owner without a claim",
     is_mine_without_claim,
     {OWNERSHIP_ASK_CLUSTER, 1000, false, false}},
    {"another node is asked", is_unasked, {OWNERSHIP_ASK_PEER, 0, false, false}},
    {"a client goes to a proven owner", is_proven_to_client, {OWNERSHIP_LEAVE, 5000, false, false}},
    {"a proven owner is left alone", is_proven_to_node, {OWNERSHIP_LEAVE, 5000, false, false}},
    {"an owner in doubt is waited for", is_doubted, {OWNERSHIP_WAIT, 1000, false, false}},
    {"a free shard is taken", alone_free, {OWNERSHIP_TAKE, 1000, false, false}},
    {"an owner is replaced after its lease", alone_silent, {OWNERSHIP_TAKE, 1000, true, false}},
    {"an owner is not replaced before", alone_not_silent, {OWNERSHIP_WAIT, SAME_MS, true, false}},
    {"the cluster decides about a free shard",
     member_free,
     {OWNERSHIP_ASK_CLUSTER, 1000, false, false}},
    {"the cluster replaces an owner", member_unproven, {OWNERSHIP_ASK_CLUSTER, 1000, true, false}},
    {"a client writes itself", client_free, {OWNERSHIP_WAIT, 1000, false, false}},
    {"a client does not pause for an owner that is away",
     client_away,
     {OWNERSHIP_WAIT, 1000, true, false}},
};
#define RULES (sizeof rules / sizeof *rules)

// The first check counts the silence of an owner without entries from now.
static int64_t rest_of_lease(const struct ownership_facts *f)
{
    int64_t left = f->seen_at == TIME_UNKNOWN ? LEASE : f->seen_at + LEASE - f->now;
    return left < LEASE ? left + OWNERSHIP_RETRY_MS : LEASE;
}

static void compare(const struct ownership_facts *f, const struct rule *rule)
{
    struct ownership_silence silence = {0};
    struct ownership_decision d = ownership_decide(f, &silence), want = rule->decision;
    if (want.again_ms == SAME_MS) want.again_ms = rest_of_lease(f);
    want.tell_cluster = f->kind == OWNERSHIP_MEMBER && is_owned(f) && !is_unasked(f);
    bool same = d.move == want.move && d.again_ms == want.again_ms && d.away == want.away &&
                d.tell_cluster == want.tell_cluster;
    if (!same)
        fail_msg("%s: move %d in %lld ms, away %d, told %d", rule->name, (int)d.move,
                 (long long)d.again_ms, d.away, d.tell_cluster);
}

static void every_combination_of_facts_has_the_decision_of_one_rule(void **state)
{
    (void)state;
    uint32_t uses[RULES] = {0};
    for (int kind = 0; kind <= OWNERSHIP_CLIENT; kind++)
        for (int journal = 0; journal <= OWNERSHIP_UNREADABLE; journal++)
            for (int answer = 0; answer <= OWNERSHIP_DOUBTED; answer++)
                for (unsigned flags = 0; flags < 1u << FLAGS; flags++)
                    for (size_t k = 0; k < sizeof seen / sizeof *seen; k++) {
                        struct ownership_facts f = facts_of(kind, journal, answer, flags, seen[k]);
                        uint32_t found = 0;
                        for (size_t i = 0; i < RULES; i++) {
                            if (!rules[i].applies(&f)) continue;
                            compare(&f, &rules[i]);
                            uses[i]++;
                            found++;
                        }
                        assert_int_equal(found, 1);
                    }
    for (size_t i = 0; i < RULES; i++)
        if (uses[i] == 0) fail_msg("%s: it never applies", rules[i].name);
}

static struct ownership_facts away_at(int64_t now, uint64_t epoch)
{
    return (struct ownership_facts){.kind = OWNERSHIP_ALONE,
                                    .journal = OWNERSHIP_CURRENT,
                                    .epoch = epoch,
                                    .named = true,
                                    .answer = OWNERSHIP_AWAY,
                                    .seen_at = TIME_UNKNOWN,
                                    .now = now};
}

static void an_owner_without_entries_has_a_lease_from_the_first_check(void **state)
{
    (void)state;
    struct ownership_silence silence = {0};
    struct ownership_facts f = away_at(NOW, EPOCH);
    assert_int_equal(ownership_decide(&f, &silence).move, OWNERSHIP_WAIT);
    f = away_at(NOW + LEASE - 1, EPOCH);
    struct ownership_decision d = ownership_decide(&f, &silence);
    assert_int_equal(d.move, OWNERSHIP_WAIT);
    assert_int_equal(d.again_ms, 1 + OWNERSHIP_RETRY_MS);
    f = away_at(NOW + LEASE, EPOCH);
    assert_int_equal(ownership_decide(&f, &silence).move, OWNERSHIP_TAKE);
}

static void the_silence_of_one_owner_does_not_count_for_the_next(void **state)
{
    (void)state;
    struct ownership_silence silence = {0};
    struct ownership_facts f = away_at(NOW, EPOCH);
    (void)ownership_decide(&f, &silence);
    f = away_at(NOW + LEASE, EPOCH + 1);
    assert_int_equal(ownership_decide(&f, &silence).move, OWNERSHIP_WAIT);
    f = away_at(NOW + 2 * LEASE, EPOCH + 1);
    assert_int_equal(ownership_decide(&f, &silence).move, OWNERSHIP_TAKE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_of_facts_has_the_decision_of_one_rule),
        cmocka_unit_test(an_owner_without_entries_has_a_lease_from_the_first_check),
        cmocka_unit_test(the_silence_of_one_owner_does_not_count_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
