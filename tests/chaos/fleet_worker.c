// SPDX-License-Identifier: Apache-2.0
// The shared record is written after the answer, never before: a row says what was promised.
#include "fleet_worker.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CAPACITY 3
#define WAIT_MS  1000
// A job takes up to that long. All workers together must be slower than the sender: otherwise
// receives always wait, and workers that live on tickets alone get nothing.
#define JOB_MS   1000

struct fleet_worker {
    const struct fleet_settings *settings;
    struct shared_record *shared;
    struct sluice *handle;
    pthread_t thread;
    struct chance chance;
    uint32_t row;
    char name[48];
};

void fleet_name(char *out, size_t len, uint32_t row, uint64_t life)
{
    (void)snprintf(out, len, "worker-%03" PRIu32 "-%" PRIu64, row, life);
}

static void nap_ms(uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

static bool goes_on(const struct fleet_worker *w)
{
    return atomic_load(&w->shared->phase) != PHASE_STOP;
}

// A code after which the same is asked again.
static bool undecided(struct shared_record *shared, enum sluice_code code)
{
    if (code != SLUICE_UNKNOWN && code != SLUICE_UNAVAILABLE) return false;
    atomic_fetch_add(&shared->unknown, 1);
    nap_ms(20);
    return true;
}

static void complain(struct fleet_worker *w, const char *what, enum sluice_code code,
                     const struct sluice_error *error)
{
    shared_record_fault(w->shared, "%s of %s answers %s: %s", what, w->name, sluice_code_name(code),
                        error->message);
}

static bool join(struct fleet_worker *w)
{
    struct sluice_join join = {.worker = w->name,
                               .capacity = CAPACITY,
                               .labels = "kind=fleet",
                               .ttl_ms = w->settings->ttl_ms,
                               .mailbox_only = w->settings->mailbox};
    struct sluice_error error = {.message = ""};
    enum sluice_code code;
    do
        code = sluice_worker_join(w->handle, FLEET_QUEUE, &join, &error);
    while (undecided(w->shared, code) && goes_on(w));
    if (code == SLUICE_OK) atomic_store(&w->shared->fleet[w->row].joined, 1);
    if (code != SLUICE_OK && goes_on(w)) complain(w, "join", code, &error);
    return code == SLUICE_OK;
}

static struct row *note_received(struct fleet_worker *w, const struct sluice_message *m)
{
    uint64_t number = UINT64_MAX;
    if (m->body_len >= sizeof number) memcpy(&number, m->body, sizeof number);
    if (number >= atomic_load(&w->shared->next)) {
        shared_record_fault(w->shared, "%s has a body that was not sent", m->id);
        return NULL;
    }
    struct row *row = &w->shared->rows[number];
    shared_record_id(w->shared, number, m->id);
    uint64_t acked = atomic_load(&row->acked_fence);
    if (acked > 0 && m->fence > acked)
        shared_record_fault(w->shared, "%s was given after its ack", m->id);
    atomic_fetch_add(&row->received, 1);
    atomic_fetch_add(&w->shared->fleet[w->row].served, 1);
    return row;
}

static void note_acked(struct fleet_worker *w, const struct sluice_message *m, struct row *row)
{
    atomic_store(&row->acked_fence, m->fence);
    atomic_fetch_add(&w->shared->ended, 1);
    if (atomic_fetch_add(&row->acked, 1) > 0)
        shared_record_fault(w->shared, "%s was acked twice", m->id);
}

// All messages of a batch are acknowledged in one call. A lock that is over is no fault.
static void acknowledge(struct fleet_worker *w, const struct sluice_batch *b)
{
    const char *tokens[CAPACITY];
    struct row *rows[CAPACITY];
    struct sluice_outcome outcomes[CAPACITY];
    struct sluice_error error = {.message = ""};
    enum sluice_code code;
    for (size_t i = 0; i < b->len; i++) {
        tokens[i] = b->messages[i].token;
        rows[i] = note_received(w, &b->messages[i]);
    }
    nap_ms(chance_under(&w->chance, JOB_MS));
    do
        code = sluice_ack(w->handle, FLEET_QUEUE, tokens, b->len, outcomes, &error);
    while (undecided(w->shared, code) && goes_on(w));
    if (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE) return;
    for (size_t i = 0; i < b->len; i++) {
        if (outcomes[i].code == SLUICE_OK && rows[i])
            note_acked(w, &b->messages[i], rows[i]);
        else if (outcomes[i].code == SLUICE_FENCED || outcomes[i].code == SLUICE_CONFLICT)
            atomic_fetch_add(&w->shared->refused, 1);
        else if (outcomes[i].code != SLUICE_OK)
            complain(w, "ack", outcomes[i].code, &error);
    }
}

static void *worker_main(void *ctx)
{
    struct fleet_worker *w = ctx;
    bool joined = join(w);
    while (joined && goes_on(w)) {
        struct sluice_receive r = {.worker = w->name,
                                   .max = CAPACITY,
                                   .wait_ms = WAIT_MS,
                                   .visibility_ms = w->settings->lease_ms};
        struct sluice_batch *b = NULL;
        struct sluice_error error;
        enum sluice_code code = sluice_receive(w->handle, FLEET_QUEUE, &r, &b, &error);
        if (code == SLUICE_OK && b->len > 0) acknowledge(w, b);
        if (code != SLUICE_OK && !undecided(w->shared, code)) {
            complain(w, "receive", code, &error);
            break;
        }
        sluice_batch_free(b);
    }
    return NULL;
}

int fleet_process(const struct fleet_settings *settings)
{
    static struct fleet_worker workers[FLEET_MAX];
    struct shared_record *shared = shared_record_open(settings->shared, false);
    struct sluice *handle = NULL;
    struct sluice_error error;
    if (!shared || settings->first + settings->workers > FLEET_MAX) return 2;
    enum sluice_code code;
    do
        code = sluice_open(settings->place, NULL, &handle, &error);
    while (undecided(shared, code) && atomic_load(&shared->phase) != PHASE_STOP);
    if (code != SLUICE_OK) {
        shared_record_fault(shared, "open answers %s", error.message);
        return 1;
    }
    uint32_t started = 0;
    for (; started < settings->workers; started++) {
        struct fleet_worker *w = &workers[started];
        w->settings = settings;
        w->shared = shared;
        w->handle = handle;
        w->row = settings->first + started;
        w->chance.state = settings->life * 1000003 + w->row;
        fleet_name(w->name, sizeof w->name, w->row, settings->life);
        atomic_store(&shared->fleet[w->row].joined, 0);
        atomic_store(&shared->fleet[w->row].served, 0);
        atomic_store(&shared->fleet[w->row].life, settings->life);
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
    }
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    sluice_close(handle);
    return started < settings->workers ? 1 : 0;
}
