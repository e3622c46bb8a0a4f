// SPDX-License-Identifier: Apache-2.0
#include "cluster/ownership.h"

#include "base/check.h"
#include "base/interval.h"
#include "base/mutant.h"

static struct ownership_decision end(enum ownership_move move, int64_t again_ms)
{
    return (struct ownership_decision){.move = move, .again_ms = again_ms};
}

static struct ownership_decision ask(enum ownership_move move)
{
    return (struct ownership_decision){.move = move};
}

// If all its entries are older than the snapshot that this process loaded, the silence counts from
// the first check that found it so.
static int64_t silent_since(const struct ownership_facts *f, struct ownership_silence *s)
{
    if (f->seen_at != TIME_UNKNOWN) return f->seen_at;
    if (s->epoch != f->epoch || MUTANT(OWNERSHIP_WAITS_FOREVER))
        *s = (struct ownership_silence){f->epoch, f->now};
    return s->since;
}

// A node without a cluster replaces an owner that does not prove itself when its lease is over.
static struct ownership_decision replace(const struct ownership_facts *f,
                                         struct ownership_silence *s)
{
    int64_t left = silent_since(f, s) + OWNERSHIP_LEASE_MS - f->now;
    if (left <= 0) return end(OWNERSHIP_TAKE, OWNERSHIP_CHECK_MS);
    if (MUTANT(OWNERSHIP_WAKES_PAST)) left = -OWNERSHIP_RETRY_MS;
    bool soon = left < OWNERSHIP_OTHER_MS;
    return end(OWNERSHIP_WAIT, soon ? left + OWNERSHIP_RETRY_MS : OWNERSHIP_OTHER_MS);
}

// No live node owns the shard.
static struct ownership_decision decide_free(const struct ownership_facts *f)
{
    if (f->kind == OWNERSHIP_ALONE) return end(OWNERSHIP_TAKE, OWNERSHIP_CHECK_MS);
    if (f->kind == OWNERSHIP_MEMBER) return end(OWNERSHIP_ASK_CLUSTER, OWNERSHIP_CHECK_MS);
    return end(OWNERSHIP_WAIT, OWNERSHIP_CHECK_MS);
}

// The journal names an owner: another node, or an earlier start of this one.
static struct ownership_decision decide_owned(const struct ownership_facts *f,
                                              struct ownership_silence *s)
{
    struct ownership_decision d;
    bool client = f->kind == OWNERSHIP_CLIENT;
    enum ownership_answer answer = f->answer;
    if (!f->named || f->same_node) answer = OWNERSHIP_DECLINES;
    // It may be back: with an old answer, a new challenge is under way.
    bool old = f->answer_age_ms > OWNERSHIP_MEMORY_MS && !MUTANT(OWNERSHIP_OLD_ANSWER);
    if (answer == OWNERSHIP_AWAY && old) answer = OWNERSHIP_DOUBTED;
    // Each connection of a client proves the owner again.
    bool known = client && f->named && f->knows_this;
    if (known && (!f->known_away || MUTANT(OWNERSHIP_CLIENT_TRUSTS))) answer = OWNERSHIP_PROVEN;
    switch (answer) {
    case OWNERSHIP_NOT_ASKED:
        return ask(OWNERSHIP_ASK_PEER);
    case OWNERSHIP_PROVEN:
        if (MUTANT(OWNERSHIP_ASKS_OFTEN)) return end(OWNERSHIP_LEAVE, OWNERSHIP_JOIN_MS);
        return end(OWNERSHIP_LEAVE, client ? OWNERSHIP_SYNC_MS : OWNERSHIP_OTHER_MS);
    case OWNERSHIP_DOUBTED: // the thread that sends the challenge checks again
        return end(OWNERSHIP_WAIT, OWNERSHIP_CHECK_MS);
    default:
        break;
    }
    bool replaces = f->kind == OWNERSHIP_ALONE && !f->same_node;
    d = replaces ? replace(f, s) : decide_free(f);
    d.away = client ? answer == OWNERSHIP_AWAY : replaces || f->kind == OWNERSHIP_MEMBER;
    return d;
}

// The journal names this node, and its cluster gave the shard to no node since.
static bool is_unserved(const struct ownership_facts *f)
{
    return f->kind == OWNERSHIP_MEMBER && f->mine && f->unserved && !MUTANT(CLAIM_FORGOTTEN);
}

// Whether the last fold does for this check. A client that writes to the shard itself folds its
// journal anyway.
static bool fold_is_enough(const struct ownership_facts *f)
{
    if (f->kind == OWNERSHIP_CLIENT) return !f->first && !f->knows;
    return f->mine && !f->wanted && !is_unserved(f);
}

static struct ownership_decision decide(const struct ownership_facts *f,
                                        struct ownership_silence *s)
{
    bool knows = f->kind == OWNERSHIP_CLIENT && f->knows;
    if (f->kind == OWNERSHIP_JOINING) return end(OWNERSHIP_UNCHANGED, OWNERSHIP_JOIN_MS);
    if (f->journal == OWNERSHIP_FOLDED && !fold_is_enough(f)) return ask(OWNERSHIP_READ);
    // If the store is away, the owner is not known to have changed. The next call reports why.
    if (f->journal == OWNERSHIP_UNREADABLE)
        return end(OWNERSHIP_UNCHANGED, knows ? OWNERSHIP_SYNC_MS : OWNERSHIP_CHECK_MS);
    if (is_unserved(f) && !f->deleted) return end(OWNERSHIP_ASK_CLUSTER, OWNERSHIP_CHECK_MS);
    if (f->mine || f->deleted) return end(OWNERSHIP_WAIT, OWNERSHIP_CHECK_MS);
    struct ownership_decision d = f->epoch == 0 ? decide_free(f) : decide_owned(f, s);
    d.tell_cluster = f->kind == OWNERSHIP_MEMBER && f->epoch != 0 && d.again_ms != 0;
    return d;
}

// Without a rule, a decision is made as if other facts were true.
static void forget_answer(struct ownership_facts *f)
{
    bool proven = f->answer == OWNERSHIP_PROVEN && MUTANT(OWNERSHIP_PROVEN_TAKEN);
    bool unasked = f->answer == OWNERSHIP_NOT_ASKED && MUTANT(OWNERSHIP_UNASKED_TAKEN);
    bool doubted = f->answer == OWNERSHIP_DOUBTED && MUTANT(OWNERSHIP_DOUBT_TAKEN);
    bool away = f->answer == OWNERSHIP_AWAY && MUTANT(OWNERSHIP_SILENT_LEFT);
    if (proven || unasked || doubted) f->answer = OWNERSHIP_DECLINES;
    if (away) f->answer = OWNERSHIP_PROVEN;
}

static struct ownership_facts without_rule(const struct ownership_facts *facts)
{
    struct ownership_facts f = *facts;
    bool takes = (f.kind == OWNERSHIP_CLIENT && MUTANT(OWNERSHIP_CLIENT_TAKES)) ||
                 (f.kind == OWNERSHIP_JOINING && MUTANT(OWNERSHIP_JOINING_TAKES)) ||
                 (f.kind == OWNERSHIP_MEMBER && MUTANT(OWNERSHIP_MEMBER_TAKES));
    if (takes) f.kind = OWNERSHIP_ALONE;
    if (f.journal == OWNERSHIP_UNREADABLE && MUTANT(OWNERSHIP_UNREAD_TAKEN))
        f.journal = OWNERSHIP_CURRENT;
    if (MUTANT(OWNERSHIP_LEASE_OFF)) f.seen_at = f.now - OWNERSHIP_LEASE_MS;
    if (MUTANT(OWNERSHIP_DELETED_TAKEN)) f.deleted = false;
    if (MUTANT(OWNERSHIP_RESTART_WAITS)) f.same_node = false;
    if (MUTANT(OWNERSHIP_CLIENT_ASKS)) f.knows_this = false;
    forget_answer(&f);
    return f;
}

struct ownership_decision ownership_decide(const struct ownership_facts *f,
                                           struct ownership_silence *s)
{
    CHECK(f->kind <= OWNERSHIP_CLIENT);
    CHECK(f->answer <= OWNERSHIP_DOUBTED);
    struct ownership_facts facts = without_rule(f);
    return decide(&facts, s);
}
