// SPDX-License-Identifier: Apache-2.0
// Sends the items of an import. The record tells which were sent. The dedup key of an item, which
// is the same in every run, decides about a batch that an earlier run left open.
#include "base/duration.h"
#include "cli/import.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>

#define STATES_LEN 5

struct import_sends {
    struct sluice_send messages[IMPORT_BATCH_MAX];
    struct sluice_sent answers[IMPORT_BATCH_MAX];
    char keys[IMPORT_BATCH_MAX][IMPORT_KEY_LEN + 1];
    uint64_t numbers[IMPORT_BATCH_MAX];
    size_t len;
    struct ids known; // items that the queue has for certain, and the record does not know yet
};

static const char *setting(const struct sluice_queue_info *info, const char *key)
{
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, key) == 0) return info->settings[i].value;
    return "";
}

static void read_settings(struct import_run *run, const struct sluice_queue_info *info)
{
    memcpy(run->queue_id, info->id, sizeof run->queue_id);
    run->max_bytes = strtoll(setting(info, "maxMessageBytes"), NULL, 10);
    (void)duration_read(setting(info, "dedupWindow"), &run->window_ms);
    (void)duration_read(setting(info, "visibilityTimeout"), &run->visibility_ms);
    run->strict = strcmp(setting(info, "orderingGuarantee"), "true") == 0;
}

int import_queue(struct import_run *run)
{
    struct sluice_queue_info *info = NULL;
    struct sluice_error error = {0};
    struct send_input *to = &run->sending;
    if (sluice_queue_show(to->s, to->queue, &info, &error) != SLUICE_OK)
        return cli_fail_unsent(to->cli, to->s, to->queue, &error);
    read_settings(run, info);
    sluice_queue_info_free(info);
    if (run->window_ms == 0)
        return cli_fail_as(to->cli, SLUICE_INVALID, "dedupWindow",
                           "the queue's dedupWindow is 0, so an import that is interrupted could "
                           "send twice; allow it with: sluice queue set %s dedupWindow=1h",
                           to->queue);
    if (sluice_stats(to->s, to->queue, &run->before, &error) != SLUICE_OK)
        return cli_fail_queue(to->cli, to->s, to->queue, &error);
    return 0;
}

// Marks the open items whose keys are among these messages.
static void mark(struct import_run *run, const struct sluice_batch *page)
{
    char key[IMPORT_KEY_LEN + 1];
    for (size_t r = 0; r < run->earlier_open.len; r++) {
        struct id_range range = run->earlier_open.ranges[r];
        for (uint64_t id = range.first; id <= range.last; id++) {
            import_key(run->record.lineage, run->scope, id, key);
            for (size_t i = 0; i < page->len; i++)
                if (strcmp(page->messages[i].dedup, key) == 0) ids_add(&run->found, id);
        }
    }
}

static int look_at(struct import_run *run, const char *state)
{
    struct sluice_error error = {0};
    struct send_input *to = &run->sending;
    char after[SLUICE_ID_MAX] = "";
    for (;;) {
        struct sluice_peek ask = {.state = state, .after_id = *after ? after : NULL, .max = 1000};
        struct sluice_batch *page = NULL;
        if (sluice_peek(to->s, to->queue, &ask, &page, &error) != SLUICE_OK)
            return cli_fail_queue(to->cli, to->s, to->queue, &error);
        size_t len = page->len;
        mark(run, page);
        if (len) memcpy(after, page->messages[len - 1].id, sizeof after);
        sluice_batch_free(page);
        if (len == 0) return 0;
    }
}

uint64_t messages_gone(const struct sluice_stats *s)
{
    return s->processed + s->moved + s->redriven + s->purged + s->cancelled;
}

// Looks for the open items of an earlier run among the messages of the queue.
static int import_lookup(struct import_run *run)
{
    static const char *const states[STATES_LEN] = {"ready", "delayed", "locked", "dead",
                                                   "outbound"};
    struct sluice_stats now;
    struct sluice_error error = {0};
    struct send_input *to = &run->sending;
    run->looked_up = true;
    for (size_t i = 0; i < STATES_LEN; i++) {
        int status = look_at(run, states[i]);
        if (status) return status;
    }
    if (sluice_stats(to->s, to->queue, &now, &error) != SLUICE_OK)
        return cli_fail_queue(to->cli, to->s, to->queue, &error);
    run->nothing_left = messages_gone(&now) == run->record.open_gone;
    return 0;
}

static int ask_what_to_do(const struct import_run *run, uint64_t id)
{
    return cli_fail_as(
        run->sending.cli, SLUICE_CONFLICT, "--unsure",
        "an interrupted run may have sent %s %llu and up to %llu more, the queue's dedupWindow has "
        "passed, and messages have left the queue since; --unsure send repeats them, --unsure skip "
        "takes them as sent",
        run->noun, (unsigned long long)id, (unsigned long long)run->earlier_open.count - 1);
}

// Decides about an item that an earlier run left open. *send: it must be sent.
static int decide(struct import_run *run, uint64_t id, bool *send)
{
    *send = true;
    if (resume_keys_live(&run->record, clock_realtime_ms(), run->window_ms)) return 0;
    int status = run->looked_up ? 0 : import_lookup(run);
    if (status) return status;
    *send = !ids_has(&run->found, id);
    if (!*send || run->nothing_left || run->unsure == UNSURE_SEND) return 0;
    if (run->unsure == UNSURE_ASK) return ask_what_to_do(run, id);
    *send = false;
    return 0;
}

static int other_items(const struct import_run *run, uint64_t id)
{
    return cli_fail_as(
        run->sending.cli, SLUICE_CONFLICT, "--record",
        "%s %llu is younger than the run that copied a %s of this number: the source "
        "lost its %ss since; remove %s to begin a new import",
        run->noun, (unsigned long long)id, run->noun, run->noun, run->path);
}

// Adds an item to the batch, unless the queue has it.
static int choose(struct import_run *run, const struct import_item *item, struct import_sends *b)
{
    bool is_done = ids_has(&run->record.done, item->id), send = true;
    bool is_open = ids_has(&run->earlier_open, item->id);
    if ((is_done || is_open) && run->earlier_at && item->created_at > run->earlier_at + 2000)
        return other_items(run, item->id);
    if (is_done) return 0;
    int status = is_open ? decide(run, item->id, &send) : 0;
    if (status) return status;
    if (!send) {
        ids_add(&b->known, item->id);
        return 0;
    }
    import_key(run->record.lineage, run->scope, item->id, b->keys[b->len]);
    b->numbers[b->len] = item->id;
    b->messages[b->len] = item->message;
    if (run->strict) b->messages[b->len].priority = 0;
    b->messages[b->len].dedup = b->keys[b->len];
    b->len++;
    return 0;
}

static int write_begin(struct import_run *run, const struct import_sends *b)
{
    struct ids all CLEANUP(ids_done) = {0};
    LOCAL(buf, line, RESUME_LINE_MAX);
    for (size_t i = 0; i < b->len; i++)
        ids_add(&all, b->numbers[i]);
    resume_begin(&run->record, clock_realtime_ms(), &all, &line);
    return import_record_write(run, &line, true);
}

// Records what the queue accepted.
static int write_sent(struct import_run *run, struct import_sends *b)
{
    struct ids all CLEANUP(ids_done) = {0};
    uint64_t sent = 0, known = b->known.count;
    LOCAL(buf, line, RESUME_LINE_MAX);
    for (size_t i = 0; i < b->known.len; i++)
        ids_add_range(&all, b->known.ranges[i].first, b->known.ranges[i].last);
    for (size_t i = 0; i < b->len; i++) {
        if (b->answers[i].code != SLUICE_OK || !b->answers[i].id[0]) continue;
        ids_add(&all, b->numbers[i]);
        *(b->answers[i].duplicate ? &known : &sent) += 1;
    }
    if (all.len == 0) return 0;
    resume_sent(&run->record, sent, known, &all, &line);
    return import_record_write(run, &line, false);
}

static int send_failed(struct import_run *run, struct sluice_error *error)
{
    char sentence[sizeof error->message];
    progress_end(&run->progress);
    (void)snprintf(sentence, sizeof sentence,
                   "%.240s; %llu %ss are copied, the same command goes on from there",
                   error->message, (unsigned long long)(run->record.sent + run->record.known),
                   run->noun);
    memcpy(error->message, sentence, sizeof sentence);
    return cli_fail(run->sending.cli, error);
}

static int send_chosen(struct import_run *run, struct import_sends *b)
{
    struct sluice_error error = {0};
    enum sluice_code code = SLUICE_OK;
    int status = b->len ? write_begin(run, b) : 0;
    if (status) return status;
    memset(b->answers, 0, b->len * sizeof *b->answers);
    if (b->len) code = sending_batch(&run->sending, b->messages, b->len, b->answers, &error);
    status = write_sent(run, b);
    return code == SLUICE_OK ? status : send_failed(run, &error);
}

static int too_large(struct import_run *run, const struct import_item *item)
{
    progress_end(&run->progress);
    return cli_fail_as(run->sending.cli, SLUICE_LIMIT, "maxMessageBytes",
                       "%s %llu has %zu bytes, and the queue's maxMessageBytes is %lld; raise it "
                       "with: sluice queue set %s maxMessageBytes=%zu",
                       run->noun, (unsigned long long)item->id, item->message.body_len,
                       (long long)run->max_bytes, run->sending.queue, item->message.body_len);
}

int import_batch(struct import_run *run, const struct import_item *items, size_t len)
{
    struct import_sends *b = cli_alloc(sizeof *b);
    size_t fitting = 0;
    int status = 0;
    b->len = 0;
    b->known = (struct ids){0};
    while (fitting < len && (int64_t)items[fitting].message.body_len <= run->max_bytes)
        fitting++;
    for (size_t i = 0; i < fitting && status == 0; i++)
        status = choose(run, &items[i], b);
    if (status == 0 && (b->len || b->known.len)) status = send_chosen(run, b);
    ids_done(&b->known);
    free(b);
    if (status) return status;
    run->copied += fitting;
    progress_move(&run->progress, run->copied, run->copied, run->whole);
    return fitting < len ? too_large(run, &items[fitting]) : 0;
}
