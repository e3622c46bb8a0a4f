// SPDX-License-Identifier: Apache-2.0
// Collects the outcomes of messages: polls for those that are left, and hands out what came. It is
// the same on a store and through a node. While many messages are left, it polls less often, so
// that each poll brings several outcomes.
#include "api/collector.h"
#include "api/handle.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_PART_MS COLLECT_WAIT_MAX_MS
#define PAUSE_PER_ID 400 // a poll for so many messages is worth a pause of 1 ms ...
#define PAUSE_MAX_MS 250 // ... but never of more than this
#define POSITION_MAX 24

struct sluice_collector {
    struct sluice *handle;
    char queue[QUEUE_NAME_MAX + 2];
    char (*ids)[SLUICE_ID_MAX];
    const char **left; // the ids that are missing; pointers into ids
    size_t left_len;
    struct map at; // hash of an id -> its place in `left`
    struct collected_list *came;
    size_t next;   // the row of `came` that is returned next
    int64_t given; // the position that the caller gave; 0: none
    int64_t from;  // the position of the last poll whose rows were all returned
    char position[POSITION_MAX];
    size_t next_answer; // ... the answer
    int64_t polled_at;
    struct sluice_collected returned;
};

static uint64_t key_of(const char *id)
{
    return hash64_of(bytes_str(id), 0);
}

static void keep_ids(struct sluice_collector *c, const char *const *ids, size_t len)
{
    c->ids = memory_zeroed(len, sizeof *c->ids);
    c->left = memory_zeroed(len, sizeof *c->left);
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(c->ids[i], sizeof *c->ids, "%s", ids[i]);
        c->left[i] = c->ids[i];
        map_add(&c->at, key_of(ids[i]), (uint32_t)i);
    }
    c->left_len = len;
}

// Returns whether it was among those that are left.
static bool take_id(struct sluice_collector *c, const char *id)
{
    uint64_t key = key_of(id);
    uint32_t v;
    for (size_t at = map_first(&c->at, key); (v = map_value(&c->at, key, &at)) != MAP_NONE;) {
        if (strcmp(c->left[v], id) != 0) continue;
        uint32_t last = (uint32_t)c->left_len - 1;
        map_remove(&c->at, key, v);
        if (v != last) {
            map_remove(&c->at, key_of(c->left[last]), last);
            map_add(&c->at, key_of(c->left[last]), v);
            c->left[v] = c->left[last];
        }
        c->left_len--;
        return true;
    }
    return false;
}

// The first poll of a workflow tells its messages. Those that are not known any more are left out.
static void keep_members(struct sluice_collector *c)
{
    const struct collected_list *came = c->came;
    size_t len = 0;
    const char **ids = memory_zeroed(came->len + came->left.len + 1, sizeof *ids);
    for (size_t i = 0; i < came->len; i++)
        ids[len++] = came->rows[i].id;
    for (size_t i = 0; i < came->left.len; i++)
        ids[len++] = came->left.rows[i];
    keep_ids(c, ids, len);
    memory_free(ids);
}

// It brings what has ended, and refuses a queue or a workflow that cannot be collected.
static enum sluice_code first_poll(struct sluice_collector *c, const struct collect_poll *first,
                                   struct sluice_error *error)
{
    enum sluice_code code = dispatch_collect_poll(c->handle, c->queue, first, &c->came, error);
    if (code) return code;
    c->polled_at = clock_boot_ms();
    if (first->workflow)
        keep_members(c);
    else
        keep_ids(c, first->ids, first->len);
    return SLUICE_OK;
}

enum sluice_code collector_position(const char *text, int64_t *out, struct sluice_error *error)
{
    char *end = NULL;
    *out = 0;
    if (!text || !*text) return SLUICE_OK;
    long long value = strtoll(text, &end, 10);
    if (value < 0 || *end)
        return refuse(error, ERR_INVALID, "position",
                      "position \"%.40s\" is not one that a collect gave", text);
    *out = value;
    return SLUICE_OK;
}

enum sluice_code collector_open(struct sluice *s, const char *queue,
                                const struct collect_poll *first, struct sluice_collector **out,
                                struct sluice_error *error)
{
    *out = NULL;
    enum sluice_code code = collect_check(first, error);
    if (code) return code;
    struct sluice_collector *c = NEW(struct sluice_collector);
    c->handle = s;
    map_init(&c->at);
    if (queue) memcpy(c->queue, queue, strnlen(queue, sizeof c->queue - 1));
    c->from = c->given = first->position;
    code = first_poll(c, first, error);
    if (code)
        sluice_collect_close(c);
    else
        *out = c;
    return code;
}

enum sluice_code sluice_collect_open(struct sluice *s, const char *queue,
                                     const struct sluice_collect *what,
                                     struct sluice_collector **out, struct sluice_error *error)
{
    bool named = what->workflow && *what->workflow;
    struct collect_poll first = {.ids = what->ids,
                                 .len = what->ids_len,
                                 .workflow = named ? what->workflow : NULL,
                                 .running = what->running,
                                 .ask = what->running ? what->ask : NULL};
    *out = NULL;
    enum sluice_code code = collector_position(what->position, &first.position, error);
    return code ? code : collector_open(s, queue, &first, out, error);
}

void sluice_collect_close(struct sluice_collector *c)
{
    if (!c) return;
    collected_free(c->came);
    map_done(&c->at);
    memory_free(c->left);
    memory_free(c->ids);
    memory_free(c);
}

static void tell_row(struct sluice_collector *c, const struct sluice_message *row)
{
    bool unknown = strcmp(row->state, "unknown") == 0;
    c->returned =
        (struct sluice_collected){.kind = unknown ? "unknown" : "outcome", .message = *row};
    c->returned.answer = (struct sluice_signal_state){.kind = "", .state = ""};
}

// The next row that came. False: there is none any more.
static bool next_row(struct sluice_collector *c)
{
    while (c->came && c->next < c->came->len) {
        const struct sluice_message *row = &c->came->rows[c->next++];
        if (!take_id(c, row->id)) continue;
        if (row->finished_at > 0 && row->finished_at < c->given) continue; // collected earlier
        tell_row(c, row);
        return true;
    }
    // All that a poll brought was returned, so the next collect may begin behind it.
    if (c->came && c->came->position > c->from) c->from = c->came->position;
    return false;
}

static bool next_answer(struct sluice_collector *c)
{
    const struct sluice_signals *answers = c->came ? c->came->answers : NULL;
    while (answers && c->next_answer < answers->len) {
        const struct sluice_signal_state *row = &answers->rows[c->next_answer++];
        if (row->code) continue; // it is not known any more how the question ended
        c->returned = (struct sluice_collected){.kind = "answer", .answer = *row};
        (void)snprintf(c->returned.message.id, sizeof c->returned.message.id, "%s", row->message);
        c->returned.message.state = "locked";
        return true;
    }
    return false;
}

const struct sluice_collected *collector_tell(struct sluice_collector *c)
{
    return next_answer(c) || next_row(c) ? &c->returned : NULL;
}

void collector_poll(const struct sluice_collector *c, struct collect_poll *out)
{
    *out = (struct collect_poll){.ids = c->left, .len = c->left_len, .position = c->given};
    collect_go_on(out, c->came);
}

void collector_take(struct sluice_collector *c, struct collected_list *came)
{
    collected_free(c->came);
    c->came = came;
    c->next = c->next_answer = 0;
    c->polled_at = clock_boot_ms();
}

// By the number of messages that a poll has to look at.
int64_t collector_pause_ms(const struct sluice_collector *c)
{
    int64_t pause = (int64_t)c->left_len / PAUSE_PER_ID;
    if (pause > PAUSE_MAX_MS) pause = PAUSE_MAX_MS;
    int64_t left = c->polled_at + pause - clock_boot_ms();
    return left > 0 && !c->came->more ? left : 0;
}

static enum sluice_code poll(struct sluice_collector *c, int64_t until, struct sluice_error *error)
{
    int64_t pause = collector_pause_ms(c), left = until - clock_boot_ms();
    if (pause > 0 && left > 0) clock_sleep(pause < left ? pause : left);
    struct collect_poll next;
    struct collected_list *came = NULL;
    left = until - clock_boot_ms();
    collector_poll(c, &next);
    next.wait_ms = left < 0 ? 0 : left < WAIT_PART_MS ? left : WAIT_PART_MS;
    enum sluice_code code = dispatch_collect_poll(c->handle, c->queue, &next, &came, error);
    if (!code) collector_take(c, came); // else all was returned, and the questions stay open
    return code;
}

enum sluice_code sluice_collect_next(struct sluice_collector *c, int64_t wait_ms,
                                     const struct sluice_collected **out,
                                     struct sluice_error *error)
{
    int64_t until = clock_boot_ms() + (wait_ms > 0 ? wait_ms : 0);
    *out = NULL;
    for (bool last = false;;) {
        *out = collector_tell(c);
        if (*out) return SLUICE_OK;
        if (c->left_len == 0) return SLUICE_OK;
        if (last) return refuse(error, ERR_NOT_FOUND, "", "no outcome came in this time");
        last = clock_boot_ms() >= until;
        enum sluice_code code = poll(c, until, error);
        if (code) return code;
        bool came = c->came->len > 0 || (c->came->answers && c->came->answers->len > 0);
        last = last || (clock_boot_ms() >= until && !came);
    }
}

size_t sluice_collect_missing(const struct sluice_collector *c, const char *const **ids)
{
    *ids = c->left;
    return c->left_len;
}

const char *sluice_collect_position(const struct sluice_collector *c)
{
    struct sluice_collector *w = (struct sluice_collector *)(uintptr_t)c;
    (void)snprintf(w->position, sizeof w->position, "%" PRId64, c->from);
    return c->position;
}
