// SPDX-License-Identifier: Apache-2.0
// Threads that take turns from a line. While one of them is awake nobody else needs to be: it looks
// at the line and the clock before it sleeps. When it goes away into a turn that may block,
// somebody has to be awake instead, or sleep no longer than until the next member is due: the
// keeper.
//
// The lock is the innermost of all: members kick with their own locks held, turns are given without
// it. Nobody is woken under it: he would run into it.
#include "node/crew.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/fork_guard.h"
#include "os/futex.h"

#include <pthread.h>
#include <signal.h>

#define SLEEP_MAX_MS  60000
#define IDLE_MS       5000 // a thread that had nothing to do for so long goes
#define LINGERING_MAX 8
#define PACE_MIN_MS   16 // of those who may not linger; a power of two
#define PACE_MAX_MS   1024
#define LOOKS_PER_MS  4 // all of them together, as long as the pace allows

enum refusal { REFUSED_NOT, REFUSED, REFUSED_EAGER, REFUSALS };

// A thread, on its own stack.
struct hand {
    _Atomic uint32_t woken; // the futex
    struct hand *next;      // among the spare ones
    int64_t until;          // when it will look by itself
    bool asleep;
};

struct crew {
    struct fork_guard guard;
    struct company company;
    pthread_mutex_t lock;
    pthread_cond_t left; // a member's last turn is over, or a thread has gone
    size_t threads_max;
    size_t threads;
    size_t awake;                 // of them: neither asleep nor in a turn that may block
    struct hand *keeper;          // asleep, until the next member is due
    struct hand *spare;           // asleep, the last one first
    _Atomic uint32_t *woken;      // whose, as soon as the lock is free
    struct heap due;              // by ref
    struct crew_member **members; // by ref
    uint32_t *vacant;             // refs
    size_t vacant_len;
    size_t members_cap;
    struct crew_member *line; // whose turn it is, first come first served
    struct crew_member *line_last;
    size_t lingering;
    size_t lingering_max;
    size_t leaning;
    size_t refused[REFUSALS];
    pthread_t gone; // the last thread that went, to be joined
    bool any_gone;
    bool closing;
};

static void lock(struct crew *c)
{
    (void)pthread_mutex_lock(&c->lock);
}

// Answers whom to wake, or NULL. Its thread may have gone by then; the address does no harm.
static _Atomic uint32_t *unlock_quietly(struct crew *c)
{
    _Atomic uint32_t *woken = c->woken;
    c->woken = NULL;
    (void)pthread_mutex_unlock(&c->lock);
    return woken;
}

static void unlock(struct crew *c)
{
    _Atomic uint32_t *woken = unlock_quietly(c);
    if (woken) futex_wake_all(woken);
}

// ---- who is next, all under the lock

static void line_add(struct crew *c, struct crew_member *m)
{
    CHECK(!m->in_line && !m->inside);
    if (heap_has(&c->due, m->ref)) heap_remove(&c->due, m->ref);
    m->in_line = true;
    m->next = NULL;
    if (c->line) {
        c->line_last->next = m;
    } else {
        c->line = m;
    }
    c->line_last = m;
}

static void line_remove(struct crew *c, struct crew_member *m)
{
    struct crew_member *before = NULL, *at = c->line;
    for (; at != m; at = at->next)
        before = at;
    if (before) {
        before->next = m->next;
    } else {
        c->line = m->next;
    }
    if (c->line_last == m) c->line_last = before;
    m->in_line = false;
}

static void due_set(struct crew *c, struct crew_member *m, int64_t at)
{
    if (at == CREW_NEVER) return;
    if (heap_has(&c->due, m->ref)) {
        if (heap_get(&c->due, m->ref)->key <= at) return;
        heap_remove(&c->due, m->ref);
    }
    heap_push(&c->due, at, m->ref, m->ref);
}

static int64_t next_due(const struct crew *c)
{
    const struct heap_row *top = heap_top(&c->due);
    return top ? top->key : CREW_NEVER;
}

static struct crew_member *next_member(struct crew *c)
{
    int64_t now = clock_boot_ms();
    while (next_due(c) <= now)
        line_add(c, c->members[heap_top(&c->due)->ref]);
    struct crew_member *m = c->line;
    if (m) line_remove(c, m);
    return m;
}

// ---- threads

static void *hand_run(void *arg);

static bool spawn(struct crew *c)
{
    sigset_t all, before;
    pthread_t thread;
    if (c->threads == c->threads_max) return false;
    (void)sigfillset(&all); // signals are the program's own business
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool made = pthread_create(&thread, NULL, hand_run, c) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!made) return false;
    c->threads++;
    c->awake++;
    return true;
}

static void hand_rise(struct crew *c, struct hand *h)
{
    CHECK(h->asleep);
    if (h == c->keeper) {
        c->keeper = NULL;
    } else {
        struct hand **at = &c->spare;
        while (*at != h)
            at = &(*at)->next;
        *at = h->next;
    }
    h->asleep = false;
    c->awake++;
}

static void hand_wake(struct crew *c, struct hand *h)
{
    CHECK(!c->woken); // while one is awake nobody else needs to be
    hand_rise(c, h);
    atomic_store(&h->woken, 1);
    c->woken = &h->woken;
}

// Sees to it that somebody comes when the next turn is due. Whoever went to sleep last is woken
// first: its stack is warm, and those below it can go.
static void cover(struct crew *c)
{
    if (c->awake > 0 || c->closing) return;
    int64_t next = c->line ? 0 : next_due(c);
    if (next == CREW_NEVER || (c->keeper && c->keeper->until <= next)) return;
    struct hand *h = c->spare ? c->spare : c->keeper;
    if (h) {
        hand_wake(c, h);
    } else {
        (void)spawn(c); // where it cannot be, the first who comes back sees to it
    }
}

// Releases the lock meanwhile.
static void doze(struct crew *c, struct hand *h)
{
    atomic_store(&h->woken, 0);
    unlock(c);
    int64_t ms = h->until == CREW_NEVER ? SLEEP_MAX_MS : h->until - clock_boot_ms();
    if (ms > 0) futex_wait(&h->woken, 0, ms < SLEEP_MAX_MS ? ms : SLEEP_MAX_MS);
    lock(c);
}

static void spare_add(struct crew *c, struct hand *h)
{
    h->next = c->spare;
    c->spare = h;
}

// Sleeps as the keeper if there is none, or none that looks in time. False: it was spare, and not
// needed.
static bool hand_sleep(struct crew *c, struct hand *h)
{
    int64_t next = next_due(c), start = clock_boot_ms();
    bool keeps = !c->keeper || c->keeper->until > next;
    h->until = keeps ? next : start + IDLE_MS;
    if (keeps && c->keeper) spare_add(c, c->keeper);
    if (keeps) {
        c->keeper = h;
    } else {
        spare_add(c, h);
    }
    h->asleep = true;
    c->awake--;
    doze(c, h);
    if (!h->asleep) return true;
    bool spare = h != c->keeper;
    hand_rise(c, h);
    return !spare || clock_boot_ms() < start + IDLE_MS;
}

static void refusal_forget(struct crew *c, struct crew_member *m)
{
    c->refused[m->refused]--;
    m->refused = REFUSED_NOT;
    c->refused[REFUSED_NOT]++;
}

static void turn_begin(struct crew *c, struct crew_member *m)
{
    refusal_forget(c, m);
    m->inside = true;
    m->kicked = m->slow = m->lingers = m->leans = false;
    m->asked = CREW_NEVER;
}

static void turn_end(struct crew *c, struct crew_member *m, int64_t due)
{
    m->inside = false;
    if (m->slow) c->awake++;
    if (m->lingers) c->lingering--;
    if (m->leans) c->leaning--;
    if (m->leaving) {
        (void)pthread_cond_broadcast(&c->left); // and m is gone when the lock is free
        return;
    }
    if (m->asked < due) due = m->asked;
    if (m->kicked) {
        line_add(c, m);
    } else {
        due_set(c, m, due);
    }
}

static void give_turn(struct crew *c, struct crew_member *m)
{
    turn_begin(c, m);
    unlock(c);
    int64_t due = m->turn(m);
    lock(c);
    turn_end(c, m, due);
}

static void *hand_run(void *arg)
{
    struct crew *c = arg;
    struct hand h = {.asleep = false};
    lock(c);
    bool stays = true;
    while (stays && !c->closing) {
        struct crew_member *m = next_member(c);
        if (m) {
            give_turn(c, m);
        } else {
            stays = hand_sleep(c, &h);
        }
    }
    c->awake--;
    c->threads--;
    bool joins = c->any_gone; // each sees off the one before
    pthread_t before = c->gone;
    c->gone = pthread_self();
    c->any_gone = true;
    (void)pthread_cond_broadcast(&c->left);
    unlock(c);
    if (joins) (void)pthread_join(before, NULL);
    return NULL;
}

// ---- members

static uint32_t ref_new(struct crew *c)
{
    if (c->vacant_len == 0) {
        size_t cap = c->members_cap ? 2 * c->members_cap : 4;
        c->members = memory_resize(c->members, cap * sizeof(struct crew_member *));
        c->vacant = memory_resize(c->vacant, cap * sizeof *c->vacant);
        for (size_t ref = cap; ref > c->members_cap; ref--)
            c->vacant[c->vacant_len++] = (uint32_t)(ref - 1);
        c->members_cap = cap;
    }
    return c->vacant[--c->vacant_len];
}

enum err crew_add(struct crew *c, struct crew_member *m, int64_t (*turn)(struct crew_member *m))
{
    lock(c);
    bool manned = c->threads > 0 || spawn(c);
    if (manned) {
        *m = (struct crew_member){.crew = c, .turn = turn, .ref = ref_new(c)};
        c->members[m->ref] = m;
        c->refused[REFUSED_NOT]++;
    }
    unlock(c);
    return manned ? ERR_OK : ERR_LIMIT;
}

void crew_remove(struct crew_member *m)
{
    struct crew *c = m->crew;
    if (!fork_guard_same(&c->guard)) return; // whatever its threads did, they do it elsewhere
    lock(c);
    m->leaving = true;
    while (m->inside)
        (void)pthread_cond_wait(&c->left, &c->lock);
    if (m->in_line) line_remove(c, m);
    if (heap_has(&c->due, m->ref)) heap_remove(&c->due, m->ref);
    c->refused[m->refused]--;
    c->members[m->ref] = NULL;
    c->vacant[c->vacant_len++] = m->ref;
    unlock(c);
}

_Atomic uint32_t *crew_kick_quietly(struct crew_member *m)
{
    struct crew *c = m->crew;
    lock(c);
    if (m->inside) {
        m->kicked = true;
    } else if (!m->in_line && !m->leaving) {
        line_add(c, m);
        cover(c);
    }
    return unlock_quietly(c);
}

void crew_kick(struct crew_member *m)
{
    _Atomic uint32_t *woken = crew_kick_quietly(m);
    if (woken) futex_wake_all(woken);
}

_Atomic uint32_t *crew_due_quietly(struct crew_member *m, int64_t boot_ms)
{
    struct crew *c = m->crew;
    lock(c);
    if (m->inside) {
        if (boot_ms < m->asked) m->asked = boot_ms;
    } else if (!m->in_line && !m->leaving) {
        due_set(c, m, boot_ms);
        cover(c);
    }
    return unlock_quietly(c);
}

void crew_due(struct crew_member *m, int64_t boot_ms)
{
    _Atomic uint32_t *woken = crew_due_quietly(m, boot_ms);
    if (woken) futex_wake_all(woken);
}

// ---- in a turn

static void go_slow(struct crew *c, struct crew_member *m)
{
    CHECK(m->inside);
    if (m->slow) return;
    m->slow = true;
    c->awake--;
    cover(c);
}

void crew_slow(struct crew_member *m)
{
    struct crew *c = m->crew;
    if (m->slow) return; // nobody else changes it during the turn
    lock(c);
    go_slow(c, m);
    unlock(c);
}

bool crew_lean(struct crew_member *m)
{
    struct crew *c = m->crew;
    lock(c);
    CHECK(!m->leans);
    m->leans = c->leaning < c->threads_max / 2;
    if (m->leans) {
        c->leaning++;
        go_slow(c, m);
    }
    unlock(c);
    return m->leans;
}

// The moments of a longer pace are moments of every shorter one.
static int64_t next_moment(size_t looking)
{
    int64_t pace = PACE_MIN_MS;
    while (pace < PACE_MAX_MS && (int64_t)looking > pace * LOOKS_PER_MS)
        pace *= 2;
    return (clock_boot_ms() / pace + 1) * pace;
}

int64_t crew_linger(struct crew_member *m, bool eager)
{
    struct crew *c = m->crew;
    int64_t again = 0;
    lock(c);
    CHECK(!m->lingers && m->refused == REFUSED_NOT);
    if (c->lingering < c->lingering_max && (eager || c->refused[REFUSED_EAGER] == 0)) {
        m->lingers = true;
        c->lingering++;
        go_slow(c, m);
    } else {
        c->refused[REFUSED_NOT]--;
        m->refused = eager ? REFUSED_EAGER : REFUSED;
        c->refused[m->refused]++;
        again = next_moment(c->refused[REFUSED_EAGER] + (eager ? 0 : c->refused[REFUSED]));
    }
    unlock(c);
    return again;
}

// ---- the crew

struct crew *crew_new(size_t threads_max)
{
    CHECK(threads_max > 0);
    struct crew *c = NEW(struct crew);
    c->threads_max = threads_max;
    c->lingering_max = threads_max / 4 < LINGERING_MAX ? threads_max / 4 : LINGERING_MAX;
    if (c->lingering_max == 0) c->lingering_max = 1;
    fork_guard_init(&c->guard);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->left, NULL);
    heap_init(&c->due);
    return c;
}

struct company *crew_company(struct crew *c)
{
    return &c->company;
}

static void dismiss(struct crew *c)
{
    lock(c);
    CHECK(c->vacant_len == c->members_cap);
    c->closing = true;
    while (c->keeper || c->spare) {
        hand_wake(c, c->keeper ? c->keeper : c->spare);
        unlock(c);
        lock(c);
    }
    while (c->threads > 0)
        (void)pthread_cond_wait(&c->left, &c->lock);
    unlock(c);
    if (c->any_gone) (void)pthread_join(c->gone, NULL);
    (void)pthread_cond_destroy(&c->left);
    (void)pthread_mutex_destroy(&c->lock);
}

void crew_free(struct crew *c)
{
    if (!c) return;
    if (fork_guard_same(&c->guard)) dismiss(c); // a child of fork has no such threads
    fork_guard_done(&c->guard);
    heap_done(&c->due);
    memory_free(c->members);
    memory_free(c->vacant);
    memory_free(c);
}
