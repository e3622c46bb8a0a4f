// SPDX-License-Identifier: Apache-2.0
// Settles a message until the outcome is known. The call is bound to the lock's token, so a
// repetition cannot take effect twice. If the first call was applied and its answer was lost, the
// second is refused. Then the state of the message shows what happened.
#include "base/text.h"
#include "cli/work/pool.h"

#include "cli/cli.h"
#include "os/clock.h"

#include <string.h>

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 2000

static struct sluice_ack result_of(const struct slot *s, const struct job_conversation *t)
{
    return (struct sluice_ack){.token = s->token,
                               .result = t->result.len > 0 ? (const void *)t->result.data : "",
                               .result_len = t->result.len,
                               .content_type = *t->result_type ? t->result_type : NULL};
}

// Acks the message and receives the next one: one request and one commit per job. The receive does
// not wait, so that the outcome is known at once. result: of the job; NULL: none.
static enum sluice_code ack_and_ask(struct slot *s, const struct sluice_ack *result,
                                    struct sluice_outcome *outcome, struct sluice_error *error)
{
    const struct work_options *o = &s->pool->options;
    const char *token = s->token;
    struct sluice_receive r = {.worker = o->worker,
                               .max = 1,
                               .visibility_ms = o->visibility_ms,
                               .request = &s->request,
                               .acks = &token,
                               .acks_len = 1,
                               .acked = outcome,
                               .results = result};
    s->next_asked_ms = clock_boot_ms();
    enum sluice_code code =
        sluice_receive(atomic_load(&s->pool->store), o->queue, &r, &s->next, error);
    s->unanswered = code == SLUICE_UNKNOWN;
    if (s->next && s->next->len == 0) {
        sluice_batch_free(s->next);
        s->next = NULL;
    }
    bool other = code != outcome->code && !work_undecided(code); // an error of the receive alone
    if (code && other) pool_fail(s->pool, code, error->message);
    if (outcome->code && !code)
        (void)text_copy(error->message, sizeof error->message, sluice_code_text(outcome->code));
    return outcome->code;
}

// True if the slot needs another message and no earlier receive may bring one.
static bool asks_for_next(const struct slot *s)
{
    return atomic_load(&s->pool->order) == WORK_GO && !s->pool->options.once && !s->next;
}

static enum sluice_code ack_once(struct slot *s, const struct sluice_ack *result,
                                 struct sluice_outcome *outcome, struct sluice_error *error)
{
    struct sluice *store = atomic_load(&s->pool->store);
    const char *queue = s->pool->options.queue, *token = s->token;
    if (asks_for_next(s) || s->unanswered) return ack_and_ask(s, result, outcome, error);
    if (result) return sluice_ack_with(store, queue, result, 1, outcome, error);
    return sluice_ack(store, queue, &token, 1, outcome, error);
}

static enum sluice_code ack(struct slot *s, const struct job_conversation *talk,
                            struct sluice_outcome *outcome, struct sluice_error *error)
{
    if (!talk || !talk->has_result) return ack_once(s, NULL, outcome, error);
    struct sluice_ack result = result_of(s, talk);
    return ack_once(s, &result, outcome, error);
}

static enum sluice_code settle_once(struct slot *s, enum settle_word word, const char *reason,
                                    const struct job_conversation *talk,
                                    struct sluice_outcome *outcome, struct sluice_error *error)
{
    struct sluice *store = atomic_load(&s->pool->store);
    const char *queue = s->pool->options.queue;
    const char *token = s->token;
    switch (word) {
    case WORD_ACK:
        return ack(s, talk, outcome, error);
    case WORD_FAIL:
        return sluice_fail(store, queue, &token, 1, reason, outcome, error);
    case WORD_RELEASE:
        break;
    }
    return sluice_release(store, queue, &token, 1, 0, outcome, error);
}

static enum work_end end_of(enum settle_word word, const struct sluice_outcome *outcome)
{
    // After an interrupt, a release is what the interrupt says.
    const char *status = outcome->status ? outcome->status : "";
    if (strcmp(status, "cancelled") == 0) return END_CANCELLED;
    if (strcmp(status, "dead-lettered") == 0) return END_DEAD;
    if (word == WORD_RELEASE && strcmp(status, "retrying") != 0) return END_RELEASED;
    return word == WORD_ACK ? END_PROCESSED : END_RETRYING;
}

static bool has_state(const struct sluice_message *m, const char *state)
{
    return strcmp(m->state, state) == 0;
}

// Returns the end that the message's state proves. If it is not known how a message ended, then
// after an ack it was processed, after a failure it is in the dead-letter queue.
static enum work_end end_shown(const struct slot *s, enum settle_word word,
                               const struct sluice_message *m)
{
    bool finished = has_state(m, "finished"),
         ours = strcmp(m->worker, s->pool->options.worker) == 0;
    if (has_state(m, "cancelled") && word != WORD_ACK && ours) return END_CANCELLED;
    switch (word) {
    case WORD_ACK:
        return finished || (has_state(m, "processed") && ours) ? END_PROCESSED : END_LOST;
    case WORD_FAIL:
        if (finished || has_state(m, "dead") || has_state(m, "outbound") ||
            (has_state(m, "dead-lettered") && ours))
            return END_DEAD;
        return m->retries > s->retries ? END_RETRYING : END_LOST;
    case WORD_RELEASE:
        break;
    }
    // An expired lock counts an attempt, a released one does not.
    bool waits = has_state(m, "ready") || has_state(m, "delayed");
    return waits && m->attempt < s->attempt ? END_RELEASED : END_LOST;
}

// A refusal after a lost answer: finds out whether the lost call was applied.
static enum work_end look_up(struct slot *s, enum settle_word word,
                             const struct sluice_outcome *outcome)
{
    struct sluice *store = atomic_load(&s->pool->store);
    struct sluice_batch *b = NULL;
    enum work_end end = END_LOST;
    if (strcmp(outcome->reason, "lock-expired") == 0) return END_LOST;
    if (sluice_show(store, s->pool->options.queue, s->id, &b, NULL) == SLUICE_OK && b->len == 1)
        end = end_shown(s, word, &b->messages[0]);
    sluice_batch_free(b);
    return end;
}

enum work_end slot_interrupted(struct slot *s)
{
    struct sluice *store = atomic_load(&s->pool->store);
    struct sluice_batch *b = NULL;
    enum work_end end = END_LOST;
    if (sluice_show(store, s->pool->options.queue, s->id, &b, NULL) == SLUICE_OK && b->len == 1) {
        const struct sluice_message *m = &b->messages[0];
        if (has_state(m, "cancelled")) end = END_CANCELLED;
        if (has_state(m, "dead") || has_state(m, "outbound") || has_state(m, "dead-lettered"))
            end = END_DEAD;
        if (has_state(m, "ready") || has_state(m, "delayed")) end = END_RETRYING;
    }
    sluice_batch_free(b);
    return end;
}

static void set_quiet(struct slot *s, bool quiet)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    s->quiet = quiet;
    (void)pthread_mutex_unlock(&s->pool->lock);
    if (!quiet) heartbeat_wake(s->pool);
}

enum work_end slot_settle(struct slot *s, enum settle_word word, const char *reason,
                          const struct job_conversation *talk)
{
    bool asked_before = false;
    int64_t since = clock_boot_ms();
    s->request = cli_request();
    s->unanswered = false;
    set_quiet(s, true);
    for (int64_t pause = PAUSE_MIN_MS;;
         pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS) {
        struct sluice_outcome outcome = {.code = SLUICE_UNKNOWN};
        struct sluice_error error = {.code = SLUICE_OK};
        enum sluice_code code = settle_once(s, word, reason, talk, &outcome, &error);
        if (code == SLUICE_OK) return end_of(word, &outcome);
        if (!work_undecided(code)) return asked_before ? look_up(s, word, &outcome) : END_LOST;
        asked_before |= code == SLUICE_UNKNOWN;
        work_ui_trouble(s->pool, "%s is not settled yet: %s", s->id, error.message);
        if (atomic_load(&s->pool->order) == WORK_AT_ONCE) return END_LOST;
        set_quiet(s, false); // the next attempts may take long, so the lock is renewed again
        pool_reopen(s->pool, since);
        slot_sleep(s, pause);
    }
}
