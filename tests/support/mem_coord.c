// SPDX-License-Identifier: Apache-2.0
// Members and claims in two arrays under one mutex. A session is a number. Every change raises the
// revision, which is what a watch resumes from.
#include "mem_coord.h"

#include "base/check.h"
#include "base/memory.h"
#include "coord/backend.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <string.h>

struct mem_member {
    struct coord_member member;
    uint64_t session;
    int64_t ends_ms;
};

struct mem_claim {
    char what[COORD_WHAT_MAX];
    struct coord_holder holder;
    uint64_t session; // 0: free
    uint64_t last;    // token
};

struct mem_world {
    pthread_mutex_t lock; // guards everything below
    pthread_cond_t changed;
    unsigned handles;
    int64_t lease_ms;
    int64_t offset_ms; // time that the test let pass
    uint64_t revision;
    uint64_t sessions; // number of the last one
    struct mem_member *members;
    size_t members_len, members_cap;
    struct mem_claim *claims;
    size_t claims_len, claims_cap;
    uint64_t plan_epoch, plan_number;
    struct buf plan;
    enum err failure;
    bool failure_applied;
};

struct mem_coord {
    struct coord base;
    struct mem_world *world;
    uint64_t session; // 0: none; the world's lock guards it
    struct coord_member self;
};

static struct mem_coord *mem_of(struct coord *c)
{
    return (struct mem_coord *)c;
}

static int64_t mem_now(const struct mem_world *w)
{
    return clock_boot_ms() + w->offset_ms;
}

static void mem_note(struct mem_world *w)
{
    w->revision++;
    (void)pthread_cond_broadcast(&w->changed);
}

static void end_session(struct mem_world *w, size_t at)
{
    CHECK(at < w->members_len);
    uint64_t session = w->members[at].session;
    for (size_t i = 0; i < w->claims_len; i++)
        if (w->claims[i].session == session) w->claims[i].session = 0;
    w->members_len--;
    memmove(w->members + at, w->members + at + 1, (w->members_len - at) * sizeof *w->members);
    mem_note(w);
}

static struct mem_world *mem_enter(struct coord *c)
{
    struct mem_world *w = mem_of(c)->world;
    (void)pthread_mutex_lock(&w->lock);
    for (size_t i = w->members_len; i-- > 0;)
        if (w->members[i].ends_ms <= mem_now(w)) end_session(w, i);
    return w;
}

static void mem_leave_world(struct mem_world *w)
{
    (void)pthread_mutex_unlock(&w->lock);
}

// Returns whether the call is not to be made because of coord_mem_fail.
static bool fails_before(const struct mem_world *w, bool writes)
{
    if (w->failure == ERR_OK) return false;
    return !writes || w->failure != ERR_UNKNOWN || !w->failure_applied;
}

static enum err failed(const struct mem_world *w, bool writes, struct coord_answer *a)
{
    enum err e = writes ? w->failure : ERR_UNAVAILABLE;
    return coord_refuse(a, e, "the test lets coordination fail");
}

static enum err concluded(const struct mem_world *w, enum err e, struct coord_answer *a)
{
    return w->failure ? failed(w, true, a) : e;
}

static struct mem_member *find_member(struct mem_world *w, const char *name)
{
    for (size_t i = 0; i < w->members_len; i++)
        if (strcmp(w->members[i].member.name, name) == 0) return &w->members[i];
    return NULL;
}

// Returns the member of the handle's session; NULL: it has none.
static struct mem_member *self_of(struct mem_coord *m)
{
    struct mem_member *own = m->session ? find_member(m->world, m->self.name) : NULL;
    return own && own->session == m->session ? own : NULL;
}

static enum err no_session(struct mem_coord *m, struct coord_answer *a)
{
    bool had = m->session != 0;
    const struct mem_member *other = had ? find_member(m->world, m->self.name) : NULL;
    m->session = 0;
    if (!had) return coord_refuse_session(a);
    if (!other) return coord_refuse_lapsed(a, m->world->lease_ms);
    coord_holder_of(&a->holder, &other->member, 0);
    return coord_refuse_replaced(a, m->self.name);
}

static void tell_session(struct mem_world *w, struct mem_member *own, struct coord_answer *a)
{
    own->ends_ms = mem_now(w) + w->lease_ms;
    a->lease_ms = w->lease_ms;
    a->next_ms = w->lease_ms / 3;
    a->until_ms = clock_boot_ms() + w->lease_ms;
}

static struct mem_member *add_member(struct mem_world *w, const struct coord_member *m)
{
    if (w->members_len == w->members_cap) {
        w->members_cap = w->members_cap ? 2 * w->members_cap : 8;
        w->members = memory_resize(w->members, w->members_cap * sizeof *w->members);
    }
    struct mem_member *own = &w->members[w->members_len++];
    *own = (struct mem_member){.member = *m, .session = ++w->sessions};
    return own;
}

static enum err do_join(struct mem_coord *m, const struct coord_member *member, bool replace,
                        struct coord_answer *a)
{
    struct mem_world *w = m->world;
    struct mem_member *own = find_member(w, member->name);
    bool same = own && memcmp(own->member.incarnation, member->incarnation,
                              sizeof member->incarnation) == 0;
    if (own && !same && !replace) {
        coord_holder_of(&a->holder, &own->member, 0);
        return coord_refuse_name(a, member->name, own->member.url);
    }
    if (own && !same) end_session(w, (size_t)(own - w->members));
    if (!own || !same) own = add_member(w, member);
    own->member = *member;
    mem_note(w);
    m->session = own->session;
    m->self = *member;
    tell_session(w, own, a);
    return ERR_OK;
}

static enum err mem_join(struct coord *c, const struct coord_member *member, bool replace,
                         struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, true) ? failed(w, true, a)
                                       : concluded(w, do_join(mem_of(c), member, replace, a), a);
    mem_leave_world(w);
    return e;
}

static enum err mem_heartbeat(struct coord *c, struct coord_answer *a)
{
    struct mem_coord *m = mem_of(c);
    struct mem_world *w = mem_enter(c);
    enum err e = ERR_OK;
    struct mem_member *own = self_of(m);
    if (fails_before(w, true))
        e = failed(w, true, a);
    else if (own)
        tell_session(w, own, a);
    else
        e = no_session(m, a);
    e = concluded(w, e, a);
    mem_leave_world(w);
    return e;
}

static enum err mem_leave(struct coord *c, struct coord_answer *a)
{
    struct mem_coord *m = mem_of(c);
    struct mem_world *w = mem_enter(c);
    enum err e = ERR_OK;
    if (fails_before(w, true)) {
        e = failed(w, true, a);
    } else {
        struct mem_member *own = self_of(m);
        if (own) end_session(w, (size_t)(own - w->members));
        m->session = 0;
        e = concluded(w, ERR_OK, a);
    }
    mem_leave_world(w);
    return e;
}

static struct mem_claim *find_claim(struct mem_world *w, const char *what)
{
    for (size_t i = 0; i < w->claims_len; i++)
        if (strcmp(w->claims[i].what, what) == 0) return &w->claims[i];
    return NULL;
}

static void tell_list(struct mem_world *w, struct coord_answer *a)
{
    for (size_t i = 0; i < w->members_len; i++) {
        struct coord_member *m = coord_answer_member(a);
        int64_t left = w->members[i].ends_ms - mem_now(w);
        *m = w->members[i].member;
        m->age_ms = left < w->lease_ms ? w->lease_ms - left : 0;
    }
    coord_answer_sort(a);
    const struct mem_claim *leader = find_claim(w, COORD_LEADER);
    if (leader && leader->session) a->leader = leader->holder;
    a->plan_epoch = w->plan_epoch;
    a->plan_number = w->plan_number;
    a->at = w->revision + 1; // never 0
}

static enum err mem_list(struct coord *c, struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, false) ? failed(w, false, a) : ERR_OK;
    if (!e) tell_list(w, a);
    mem_leave_world(w);
    return e;
}

// Waits at most until the next session may end.
static void mem_wait(struct mem_world *w, int64_t wait_ms)
{
    for (size_t i = 0; i < w->members_len; i++)
        if (w->members[i].ends_ms - mem_now(w) < wait_ms)
            wait_ms = w->members[i].ends_ms - mem_now(w);
    if (wait_ms < 1) wait_ms = 1;
    clock_wait(&w->changed, &w->lock, clock_boot_ms() + wait_ms);
}

static enum err mem_watch(struct coord *c, uint64_t at, int64_t wait_ms, struct coord_answer *a)
{
    int64_t end = clock_boot_ms() + wait_ms;
    for (;;) {
        struct mem_world *w = mem_enter(c);
        int64_t left = end - clock_boot_ms();
        bool changed = w->revision + 1 != at;
        enum err e = fails_before(w, false) ? failed(w, false, a) : ERR_OK;
        if (!e && changed) tell_list(w, a);
        if (!e && !changed && left > 0) mem_wait(w, left);
        mem_leave_world(w);
        if (e || changed) return e;
        if (left <= 0) return ERR_NOT_FOUND;
    }
}

static struct mem_claim *add_claim(struct mem_world *w, const char *what)
{
    if (w->claims_len == w->claims_cap) {
        w->claims_cap = w->claims_cap ? 2 * w->claims_cap : 8;
        w->claims = memory_resize(w->claims, w->claims_cap * sizeof *w->claims);
    }
    struct mem_claim *claim = &w->claims[w->claims_len++];
    *claim = (struct mem_claim){0};
    memcpy(claim->what, what, strlen(what) + 1);
    return claim;
}

static enum err do_claim(struct mem_coord *m, const char *what, uint64_t after,
                         struct coord_answer *a)
{
    struct mem_world *w = m->world;
    struct mem_member *own = self_of(m);
    if (!own) return no_session(m, a);
    struct mem_claim *claim = find_claim(w, what);
    if (claim && claim->session && claim->session != m->session) {
        a->holder = claim->holder;
        return coord_refuse_held(a, what);
    }
    if (!claim) claim = add_claim(w, what);
    bool again = claim->session && claim->holder.token > after && !m->base.release_doubt;
    uint64_t token = again ? claim->holder.token : coord_token_after(claim->last, after);
    if (token == 0) return coord_refuse(a, ERR_LIMIT, "no token is left for %.100s", what);
    claim->session = m->session;
    claim->last = token;
    coord_holder_of(&claim->holder, &own->member, token);
    if (!again) mem_note(w);
    a->holder = claim->holder;
    a->token = token;
    return ERR_OK;
}

static enum err mem_claim(struct coord *c, const char *what, uint64_t after, struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, true) ? failed(w, true, a)
                                       : concluded(w, do_claim(mem_of(c), what, after, a), a);
    mem_leave_world(w);
    return e;
}

static enum err do_release(struct mem_coord *m, const char *what, uint64_t token,
                           struct coord_answer *a)
{
    struct mem_claim *claim = find_claim(m->world, what);
    if (claim && claim->last > token) {
        a->holder = claim->holder;
        return coord_refuse(a, ERR_FENCED, "token %llu was given after token %llu",
                            (unsigned long long)claim->last, (unsigned long long)token);
    }
    if (!claim || !claim->session || claim->holder.token != token) return ERR_OK;
    if (claim->session != m->session)
        return coord_refuse(a, ERR_FENCED, "token %llu is held by node \"%.80s\"",
                            (unsigned long long)token, claim->holder.name);
    claim->session = 0;
    mem_note(m->world);
    return ERR_OK;
}

static enum err mem_release(struct coord *c, const char *what, uint64_t token,
                            struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, true) ? failed(w, true, a)
                                       : concluded(w, do_release(mem_of(c), what, token, a), a);
    mem_leave_world(w);
    return e;
}

static enum err mem_read(struct coord *c, const char *what, struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, false) ? failed(w, false, a) : ERR_OK;
    const struct mem_claim *claim = e ? NULL : find_claim(w, what);
    if (claim) a->token = claim->last;
    if (claim && claim->session) a->holder = claim->holder;
    if (!e && !a->holder.token) e = ERR_NOT_FOUND;
    mem_leave_world(w);
    return e;
}

static enum err do_plan_write(struct mem_world *w, uint64_t epoch, uint64_t number,
                              struct bytes plan, struct coord_answer *a)
{
    a->plan_epoch = w->plan_epoch;
    a->plan_number = w->plan_number;
    if (coord_plan_compare(w->plan_epoch, w->plan_number, epoch, number) >= 0)
        return coord_refuse_plan(a, epoch, number);
    a->plan_epoch = w->plan_epoch = epoch;
    a->plan_number = w->plan_number = number;
    buf_clear(&w->plan);
    buf_put(&w->plan, plan);
    mem_note(w);
    return ERR_OK;
}

static enum err mem_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                               struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, true) ? failed(w, true, a)
                                       : concluded(w, do_plan_write(w, epoch, number, plan, a), a);
    mem_leave_world(w);
    return e;
}

static enum err mem_plan_read(struct coord *c, struct buf *out, struct coord_answer *a)
{
    struct mem_world *w = mem_enter(c);
    enum err e = fails_before(w, false) ? failed(w, false, a) : ERR_OK;
    if (!e && w->plan_epoch == 0) e = ERR_NOT_FOUND;
    if (!e) {
        a->plan_epoch = w->plan_epoch;
        a->plan_number = w->plan_number;
        buf_put(out, buf_bytes(&w->plan));
    }
    mem_leave_world(w);
    return e;
}

static void mem_free(struct coord *c)
{
    struct mem_world *w = mem_of(c)->world;
    (void)pthread_mutex_lock(&w->lock);
    bool last = --w->handles == 0;
    (void)pthread_mutex_unlock(&w->lock);
    memory_free(c);
    if (!last) return;
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->changed);
    memory_free(w->members);
    memory_free(w->claims);
    buf_done(&w->plan);
    memory_free(w);
}

static const struct coord_ops mem_ops = {
    .name = "mem",
    .join = mem_join,
    .heartbeat = mem_heartbeat,
    .leave = mem_leave,
    .list = mem_list,
    .watch = mem_watch,
    .claim = mem_claim,
    .release = mem_release,
    .read = mem_read,
    .plan_write = mem_plan_write,
    .plan_read = mem_plan_read,
    .free = mem_free,
};

static struct coord *handle_new(struct mem_world *w, const uint8_t id[COORD_ID_LEN])
{
    struct mem_coord *m = NEW(struct mem_coord);
    const struct coord_config config = {.lease_ms = w->lease_ms};
    coord_init(&m->base, &mem_ops, &config, w->lease_ms);
    memcpy(m->base.id, id, COORD_ID_LEN);
    m->world = w;
    return &m->base;
}

struct coord *coord_mem_new(const struct coord_config *config)
{
    struct mem_world *w = NEW(struct mem_world);
    uint8_t id[COORD_ID_LEN];
    clock_cond_init(&w->changed);
    (void)pthread_mutex_init(&w->lock, NULL);
    buf_init(&w->plan, COORD_PLAN_MAX);
    w->lease_ms = config && config->lease_ms ? config->lease_ms : COORD_LEASE_MS;
    w->handles = 1;
    entropy_fill(id, sizeof id);
    return handle_new(w, id);
}

struct coord *coord_mem_again(struct coord *c)
{
    struct mem_world *w = mem_of(c)->world;
    (void)pthread_mutex_lock(&w->lock);
    w->handles++;
    (void)pthread_mutex_unlock(&w->lock);
    return handle_new(w, c->id);
}

void coord_mem_pass(struct coord *c, int64_t ms)
{
    struct mem_world *w = mem_of(c)->world;
    (void)pthread_mutex_lock(&w->lock);
    w->offset_ms += ms;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

void coord_mem_fail(struct coord *c, enum err e, bool applied)
{
    struct mem_world *w = mem_of(c)->world;
    (void)pthread_mutex_lock(&w->lock);
    w->failure = e;
    w->failure_applied = applied;
    (void)pthread_mutex_unlock(&w->lock);
}
