// SPDX-License-Identifier: Apache-2.0
// The shared record is written after the answer, never before: a row says what was promised.
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX     256
#define SEND_MAX        20
#define RECEIVE_MAX     4
#define BACKLOG_MAX     1500
#define BODY_MAX        400
#define WAIT_MS         100
#define VISIBILITY_MS   1500

#define FAIL_PERCENT    5
#define FAIL_MORE       25 // where retries are used up
#define RELEASE_PERCENT 2
#define ABANDON_PERCENT 1
#define GIVE_UP_PERCENT 50 // of sends without a clear answer

struct process {
    struct sluice *store;
    struct shared_record *shared;
};

struct actor {
    struct process *process;
    pthread_t thread;
    struct chance chance;
    uint32_t number;
    enum lane lane;
    char name[32];
};

static void nap_ms(uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

// A code after which the same is asked again.
static bool undecided(struct process *p, enum sluice_code code)
{
    if (code != SLUICE_UNKNOWN && code != SLUICE_UNAVAILABLE) return false;
    atomic_fetch_add(&p->shared->unknown, 1);
    nap_ms(5);
    return true;
}

static void complain(struct process *p, const char *what, enum sluice_code code,
                     const struct sluice_error *error)
{
    shared_record_fault(p->shared, "%s answers %s: %s", what, sluice_code_name(code),
                        error->message);
}

struct chaos_batch {
    uint64_t first; // number
    size_t len;
    char bodies[SEND_MAX][BODY_MAX];
    char groups[SEND_MAX][8];
    struct sluice_send sends[SEND_MAX];
    struct sluice_sent sent[SEND_MAX];
};

static bool pack(struct actor *a, struct chaos_batch *p)
{
    struct shared_record *shared = a->process->shared;
    enum lane lane = (enum lane)chance_under(&a->chance, LANES);
    p->len = 1 + chance_under(&a->chance, SEND_MAX);
    p->first = atomic_fetch_add(&shared->next, p->len);
    if (p->first + p->len > SHARED_RECORD_ROWS_MAX) return false;
    for (size_t i = 0; i < p->len; i++) {
        uint64_t number = p->first + i;
        struct row *row = &shared->rows[number];
        row->lane = (uint8_t)lane;
        row->group = (uint8_t)(number % GROUPS);
        memcpy(p->bodies[i], &number, sizeof number);
        p->sends[i] = (struct sluice_send){
            .body = p->bodies[i],
            .body_len = sizeof number + chance_under(&a->chance, BODY_MAX - sizeof number)};
        if (lane != LANE_STRICT) continue;
        (void)snprintf(p->groups[i], sizeof p->groups[i], "g%u", (unsigned)row->group);
        p->sends[i].group = p->groups[i];
    }
    return true;
}

// Not asked for again. What was never in doubt is not there, and never will be; the rest may be
// either.
static bool leave(struct shared_record *shared, const struct chaos_batch *p, bool unknown)
{
    atomic_fetch_add(unknown ? &shared->given_up : &shared->denied, 1);
    for (size_t i = 0; i < p->len && !unknown; i++)
        atomic_store(&shared->rows[p->first + i].refused, 1);
    atomic_fetch_add(&shared->ended, p->len);
    return true;
}

static bool post(struct actor *a, struct chaos_batch *p)
{
    struct shared_record *shared = a->process->shared;
    struct sluice_request request;
    for (size_t i = 0; i < sizeof request.bytes; i++)
        request.bytes[i] = (uint8_t)chance_next(&a->chance);
    const char *queue = lane_names[shared->rows[p->first].lane];
    struct sluice_error error;
    enum sluice_code code;
    bool unknown = false;
    for (;;) {
        code = sluice_send(a->process->store, queue, p->sends, p->len, &request, p->sent, &error);
        if (!undecided(a->process, code)) break;
        unknown = unknown || code == SLUICE_UNKNOWN;
        if (chance_percent(&a->chance, GIVE_UP_PERCENT)) return leave(shared, p, unknown);
    }
    if (code != SLUICE_OK) {
        complain(a->process, "send", code, &error);
        return false;
    }
    for (size_t i = 0; i < p->len; i++) {
        shared_record_id(shared, p->first + i, p->sent[i].id);
        atomic_store(&shared->rows[p->first + i].sent, 1);
    }
    return true;
}

// The place of this process among the senders. That of a killed one is free again.
static _Atomic int *enter_senders(struct shared_record *shared)
{
    for (size_t i = 0; i < SENDERS_MAX; i++) {
        int had = atomic_load(&shared->senders[i]);
        bool dead = had == 0 || (kill(had, 0) < 0 && errno == ESRCH);
        if (dead && atomic_compare_exchange_strong(&shared->senders[i], &had, getpid()))
            return &shared->senders[i];
    }
    abort();
}

static void *sender_main(void *ctx)
{
    struct actor *a = ctx;
    struct shared_record *shared = a->process->shared;
    _Atomic int *mine = enter_senders(shared);
    struct chaos_batch *p = calloc(1, sizeof *p);
    while (p && atomic_load(&shared->phase) == PHASE_RUN) {
        uint64_t next = atomic_load(&shared->next);
        uint64_t ended = atomic_load(&shared->ended);
        if (next > ended + BACKLOG_MAX) {
            nap_ms(5);
            continue;
        }
        if (!pack(a, p) || !post(a, p)) break;
    }
    atomic_store(mine, 0);
    free(p);
    return NULL;
}

static uint64_t number_of(const struct sluice_message *m)
{
    uint64_t number = UINT64_MAX;
    if (m->body_len >= sizeof number) memcpy(&number, m->body, sizeof number);
    return number;
}

static bool note_received(struct actor *a, const struct sluice_message *m)
{
    struct shared_record *shared = a->process->shared;
    uint64_t number = number_of(m);
    if (number >= atomic_load(&shared->next) || shared->rows[number].lane != a->lane) {
        shared_record_fault(shared, "%s has a body that was not sent", m->id);
        return false;
    }
    struct row *row = &shared->rows[number];
    shared_record_id(shared, number, m->id);
    // a lock that is older than the acked one may be looked at late; a younger one may not exist
    uint64_t acked = atomic_load(&row->acked_fence);
    if (acked > 0 && m->fence > acked)
        shared_record_fault(shared, "%s was given after its ack", m->id);
    atomic_fetch_add(&row->received, 1);
    uint64_t had = atomic_load(&row->fence);
    while (had < m->fence && !atomic_compare_exchange_weak(&row->fence, &had, m->fence))
        continue;
    if (had == m->fence) shared_record_fault(shared, "%s was given twice with one fence", m->id);
    return true;
}

static void word(struct actor *a, const struct sluice_message *m)
{
    struct process *p = a->process;
    struct shared_record *shared = p->shared;
    const char *queue = lane_names[a->lane];
    const char *token = m->token;
    struct sluice_outcome outcome = {.code = SLUICE_OK};
    struct sluice_error error;
    bool fails = chance_percent(&a->chance, a->lane == LANE_HYBRID ? FAIL_MORE : FAIL_PERCENT);
    bool releases = !fails && chance_percent(&a->chance, RELEASE_PERCENT);
    bool acks = !fails && !releases;
    bool asked_again = false;
    enum sluice_code code = SLUICE_OK;
    for (;;) {
        if (acks) code = sluice_ack(p->store, queue, &token, 1, &outcome, &error);
        if (fails) code = sluice_fail(p->store, queue, &token, 1, "on purpose", &outcome, &error);
        if (releases) code = sluice_release(p->store, queue, &token, 1, 0, &outcome, &error);
        if (!undecided(p, code)) break;
        asked_again = true;
    }
    if (code == SLUICE_FENCED || code == SLUICE_CONFLICT) {
        if (!asked_again) atomic_fetch_add(&shared->refused, 1);
        return;
    }
    if (code != SLUICE_OK) {
        complain(p, acks ? "ack" : fails ? "fail" : "release", code, &error);
        return;
    }
    bool dead = outcome.status && strcmp(outcome.status, "dead-lettered") == 0;
    if (acks || dead) atomic_fetch_add(&shared->ended, 1);
    if (!acks) return;
    struct row *row = &shared->rows[number_of(m)];
    atomic_store(&row->acked_fence, m->fence);
    // nothing is granted after an ack, so a younger lock was there before it
    if (atomic_load(&row->fence) > m->fence)
        shared_record_fault(shared, "%s: an old token acked", m->id);
    if (atomic_fetch_add(&row->acked, 1) > 0)
        shared_record_fault(shared, "%s was acked twice", m->id);
}

static void handle(struct actor *a, const struct sluice_batch *b)
{
    for (size_t i = 0; i < b->len; i++) {
        const struct sluice_message *m = &b->messages[i];
        if (!note_received(a, m)) continue;
        if (chance_percent(&a->chance, 10)) nap_ms(chance_under(&a->chance, 5));
        bool calm = atomic_load(&a->process->shared->phase) != PHASE_RUN;
        if (!calm && chance_percent(&a->chance, ABANDON_PERCENT)) {
            atomic_fetch_add(&a->process->shared->abandoned, 1);
            continue;
        }
        if (chance_percent(&a->chance, 2)) {
            const char *token = m->token;
            (void)sluice_renew(a->process->store, lane_names[a->lane], &token, 1, VISIBILITY_MS,
                               NULL, NULL);
        }
        word(a, m);
    }
}

static void *worker_main(void *ctx)
{
    struct actor *a = ctx;
    struct process *p = a->process;
    while (atomic_load(&p->shared->phase) != PHASE_STOP) {
        struct sluice_receive r = {.worker = a->name,
                                   .max = 1 + (uint32_t)chance_under(&a->chance, RECEIVE_MAX),
                                   .wait_ms = WAIT_MS,
                                   .visibility_ms = VISIBILITY_MS};
        struct sluice_batch *b = NULL;
        struct sluice_error error;
        enum sluice_code code = sluice_receive(p->store, lane_names[a->lane], &r, &b, &error);
        if (code == SLUICE_OK) {
            handle(a, b);
        } else if (!undecided(p, code)) {
            complain(p, "receive", code, &error);
            break;
        }
        sluice_batch_free(b);
    }
    return NULL;
}

int worker_process(const struct worker_settings *settings)
{
    static struct actor actors[WORKERS_MAX + 1];
    struct process p = {.shared = shared_record_open(settings->shared, false)};
    struct sluice_error error;
    if (!p.shared || settings->workers > WORKERS_MAX) return 2;
    const struct sluice_options options = {.timeout_ms = settings->timeout_ms};
    enum sluice_code code;
    do
        code = sluice_open(settings->store, &options, &p.store, &error);
    while (undecided(&p, code));
    if (code != SLUICE_OK) {
        complain(&p, "open", code, &error);
        return 1;
    }
    uint32_t started = 0;
    for (; started <= settings->workers; started++) {
        struct actor *a = &actors[started];
        a->process = &p;
        a->number = started;
        a->lane = (enum lane)(started % LANES);
        a->chance.state = settings->seed * 1000003 + started;
        (void)snprintf(a->name, sizeof a->name, "w%" PRIu64 "-%" PRIu32, settings->seed, started);
        bool sends = started == settings->workers;
        if (pthread_create(&a->thread, NULL, sends ? sender_main : worker_main, a) != 0) break;
    }
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(actors[i].thread, NULL);
    sluice_close(p.store);
    return started <= settings->workers ? 1 : 0;
}
