// SPDX-License-Identifier: Apache-2.0
// The states of a message, as far as the events show them:
//
// clang-format off
//            claimed                outcome: processed, dead-lettered, cancelled
//     FREE ------------> HELD ---------------------------------------------> ENDED
//      ^ |                |                                                   ^
//      | '----------------|------------------- outcome: cancelled ------------'
//      '-- released, expired, outcome: retrying
// clang-format on
//
// A claim of a HELD message means two holders. So does a claim after an expiry that came before the
// promised deadline, because the first holder still relies on its lock.
#include "cli/audit.h"

#include <stdlib.h>
#include <string.h>

enum hold { FREE, HELD, TICKET, ENDED };

// One row per message, so it is small.
struct audit_row {
    uint64_t key[2]; // hash of the message's id; both 0: an empty row
    int64_t until;   // deadline that the last holder was promised
    uint32_t worker; // hash of the worker's name
    uint8_t hold;
    bool expired; // FREE because the lock expired; until is still valid
    bool acked;
    uint8_t found; // bit set of findings, so that a message counts once per finding
};

const char *audit_finding_name(enum audit_finding finding)
{
    static const char *const names[FINDINGS] = {
        [FINDING_TWO] = "held by two at once",
        [FINDING_TWICE] = "acked twice",
        [FINDING_STRAY] = "touched after its end",
        [FINDING_LATE] = "refused late",
    };
    return names[finding];
}

// FNV-1a with a final mix. Two of them give 128 bits, so collisions of ids are not expected.
static uint64_t hash_text(const char *text, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static struct audit_row *slot_of(struct audit_row *rows, size_t cap, const uint64_t key[2])
{
    for (size_t i = key[0];; i++) {
        struct audit_row *b = &rows[i & (cap - 1)];
        bool empty = b->key[0] == 0 && b->key[1] == 0;
        if (empty || (b->key[0] == key[0] && b->key[1] == key[1])) return b;
    }
}

static void grow_rows(struct audit *a)
{
    size_t cap = a->rows_cap ? a->rows_cap * 2 : 1024;
    struct audit_row *rows = cli_alloc(cap * sizeof *rows);
    memset(rows, 0, cap * sizeof *rows);
    for (size_t i = 0; i < a->rows_cap; i++)
        if (a->rows[i].key[0] || a->rows[i].key[1])
            *slot_of(rows, cap, a->rows[i].key) = a->rows[i];
    free(a->rows);
    a->rows = rows;
    a->rows_cap = cap;
}

static struct audit_row *row_of(struct audit *a, const char *message)
{
    uint64_t key[2] = {hash_text(message, 0), hash_text(message, 1) | 1};
    if (a->messages * 4 >= a->rows_cap * 3) grow_rows(a);
    struct audit_row *b = slot_of(a->rows, a->rows_cap, key);
    if (b->key[1] == 0) {
        b->key[0] = key[0];
        b->key[1] = key[1];
        a->messages++;
    }
    return b;
}

static void found(struct audit *a, struct audit_row *b, enum audit_finding finding,
                  const struct sluice_event *e)
{
    if (b->found & 1 << finding) return;
    b->found |= (uint8_t)(1 << finding);
    a->found[finding]++;
    if (a->examples_len == AUDIT_EXAMPLES_MAX) return;
    struct audit_example *x = &a->examples[a->examples_len++];
    *x = (struct audit_example){.finding = finding, .position = e->position};
    (void)snprintf(x->message, sizeof x->message, "%s", e->message);
}

static void on_grant(struct audit *a, struct audit_row *b, const struct sluice_event *e,
                     bool ticket)
{
    uint32_t worker = (uint32_t)hash_text(e->worker, 2);
    bool taken_up = b->hold == TICKET && !ticket && b->worker == worker;
    bool held = (b->hold == HELD || b->hold == TICKET) && !taken_up;
    bool early = b->hold == FREE && b->expired && e->time < b->until;
    if (held || early) found(a, b, FINDING_TWO, e);
    if (b->hold == ENDED) found(a, b, FINDING_STRAY, e);
    a->claims += !ticket;
    b->hold = ticket ? TICKET : HELD;
    b->worker = worker;
    b->until = e->until;
    b->expired = false;
}

static void on_end_of_lock(struct audit *a, struct audit_row *b, bool expired)
{
    a->expired += expired;
    if (b->hold != ENDED) b->hold = FREE;
    b->expired = expired;
}

static void on_outcome(struct audit *a, struct audit_row *b, const struct sluice_event *e,
                       bool known)
{
    bool processed = strcmp(e->status, "processed") == 0;
    bool open = b->hold == HELD || b->hold == TICKET;
    a->processed += processed;
    a->cancelled += strcmp(e->status, "cancelled") == 0;
    if (processed && b->acked)
        found(a, b, FINDING_TWICE, e);
    else if (processed && known && !open)
        found(a, b, FINDING_STRAY, e);
    b->acked = b->acked || processed;
    b->expired = false;
    b->hold = strcmp(e->status, "retrying") == 0 ? FREE : ENDED;
}

void audit_event(struct audit *a, const struct sluice_event *e)
{
    a->events++;
    if (a->first == 0 || e->position < a->first) a->first = e->position;
    if (e->position > a->last) a->last = e->position;
    if (!*e->message) return;
    size_t before = a->messages;
    struct audit_row *b = row_of(a, e->message);
    bool known = a->messages == before; // false: earlier events of the message are no longer kept
    if (strcmp(e->type, "message-claimed") == 0) {
        on_grant(a, b, e, false);
    } else if (strcmp(e->type, "tickets-published") == 0) {
        on_grant(a, b, e, true);
    } else if (strcmp(e->type, "lock-renewed") == 0) {
        if (b->hold == ENDED) found(a, b, FINDING_STRAY, e);
        b->hold = HELD;
        b->until = e->until;
    } else if (strcmp(e->type, "lock-expired") == 0) {
        on_end_of_lock(a, b, true);
    } else if (strcmp(e->type, "message-released") == 0 ||
               strcmp(e->type, "tickets-recovered") == 0) {
        on_end_of_lock(a, b, false);
    } else if (strcmp(e->type, "message-outcome") == 0) {
        on_outcome(a, b, e, known);
    } else if (strcmp(e->type, "lock-renewal-rejected") == 0 ||
               strcmp(e->type, "outcome-rejected") == 0) {
        found(a, b, FINDING_LATE, e);
    }
}

bool audit_wrong(const struct audit *a)
{
    return a->found[FINDING_TWO] + a->found[FINDING_TWICE] + a->found[FINDING_STRAY] > 0;
}

void audit_done(struct audit *a)
{
    free(a->rows);
    *a = (struct audit){0};
}
