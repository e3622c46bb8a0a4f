// SPDX-License-Identifier: Apache-2.0
// audit: reads the event stream and keeps its own books, apart from the engine's counters: was a
// message ever held by two workers at once, or acked twice?
//
//            claimed                      outcome: processed, dead-lettered
//     FREE ------------> HELD ---------------------------------------------> ENDED
//      ^                  |
//      '-- released, expired, outcome: retrying
//
// A claim of a HELD message is a second holder. So is one after an expiry that came before the
// deadline the first holder was promised: he still believes in his lock.
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

#define EXAMPLES_MAX 10
#define FIELD_WIDTH  26
#define EXIT_FOUND   1

enum hold { FREE, HELD, TICKET, ENDED };

// One for every message that is seen, so it is kept small.
struct book {
    uint64_t key[2]; // of the message's id; both 0: an empty row
    int64_t until;   // what the last holder was promised
    uint32_t worker; // hash of its name
    uint8_t hold;
    bool expired; // FREE because the lock ran out, and until still counts
    bool acked;
    uint8_t found; // what was found before: a message is counted once
};

enum finding { TWO, TWICE, STRAY, LATE, FINDINGS };

static const char *const finding_names[] = {
    [TWO] = "held by two at once",
    [TWICE] = "acked twice",
    [STRAY] = "touched after its end",
    [LATE] = "refused late",
};

struct example {
    enum finding finding;
    char message[SLUICE_ID_MAX];
    uint64_t position;
};

struct audit {
    struct book *books;
    size_t cap; // a power of two
    size_t len;
    uint64_t events, claims, processed, expired;
    uint64_t found[FINDINGS];
    uint64_t first, last; // positions
    struct example examples[EXAMPLES_MAX];
    size_t examples_len;
};

// ---- the books, by message

// FNV-1a with a final mix. Chance makes two of ten million ids meet in 128 bits; nobody gains by
// choosing them.
static uint64_t hash_text(const char *text, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static struct book *slot_of(struct book *books, size_t cap, const uint64_t key[2])
{
    for (size_t i = key[0];; i++) {
        struct book *b = &books[i & (cap - 1)];
        bool empty = b->key[0] == 0 && b->key[1] == 0;
        if (empty || (b->key[0] == key[0] && b->key[1] == key[1])) return b;
    }
}

static void grow(struct audit *a)
{
    size_t cap = a->cap ? a->cap * 2 : 1024;
    struct book *books = cli_alloc(cap * sizeof *books);
    memset(books, 0, cap * sizeof *books);
    for (size_t i = 0; i < a->cap; i++)
        if (a->books[i].key[0] || a->books[i].key[1])
            *slot_of(books, cap, a->books[i].key) = a->books[i];
    free(a->books);
    a->books = books;
    a->cap = cap;
}

static struct book *book_of(struct audit *a, const char *message)
{
    uint64_t key[2] = {hash_text(message, 0), hash_text(message, 1) | 1};
    if (a->len * 4 >= a->cap * 3) grow(a);
    struct book *b = slot_of(a->books, a->cap, key);
    if (b->key[1] == 0) {
        b->key[0] = key[0];
        b->key[1] = key[1];
        a->len++;
    }
    return b;
}

// ---- what an event means

static void found(struct audit *a, struct book *b, enum finding finding,
                  const struct sluice_event *e)
{
    if (b->found & 1 << finding) return;
    b->found |= (uint8_t)(1 << finding);
    a->found[finding]++;
    if (a->examples_len == EXAMPLES_MAX) return;
    struct example *x = &a->examples[a->examples_len++];
    *x = (struct example){.finding = finding, .position = e->position};
    (void)snprintf(x->message, sizeof x->message, "%s", e->message);
}

static void on_grant(struct audit *a, struct book *b, const struct sluice_event *e, bool ticket)
{
    uint32_t worker = (uint32_t)hash_text(e->worker, 2);
    bool taken_up = b->hold == TICKET && !ticket && b->worker == worker;
    bool held = (b->hold == HELD || b->hold == TICKET) && !taken_up;
    bool early = b->hold == FREE && b->expired && e->time < b->until;
    if (held || early) found(a, b, TWO, e);
    if (b->hold == ENDED) found(a, b, STRAY, e);
    a->claims += !ticket;
    b->hold = ticket ? TICKET : HELD;
    b->worker = worker;
    b->until = e->until;
    b->expired = false;
}

static void on_end_of_lock(struct audit *a, struct book *b, bool expired)
{
    a->expired += expired;
    if (b->hold != ENDED) b->hold = FREE;
    b->expired = expired;
}

static void on_outcome(struct audit *a, struct book *b, const struct sluice_event *e, bool known)
{
    bool processed = strcmp(e->status, "processed") == 0;
    bool open = b->hold == HELD || b->hold == TICKET;
    a->processed += processed;
    if (processed && b->acked)
        found(a, b, TWICE, e);
    else if (processed && known && !open)
        found(a, b, STRAY, e);
    b->acked = b->acked || processed;
    b->expired = false;
    b->hold = strcmp(e->status, "retrying") == 0 ? FREE : ENDED;
}

static void on_event(struct audit *a, const struct sluice_event *e)
{
    a->events++;
    if (a->first == 0 || e->position < a->first) a->first = e->position;
    if (e->position > a->last) a->last = e->position;
    if (!*e->message) return;
    size_t before = a->len;
    struct book *b = book_of(a, e->message);
    bool known = a->len == before; // else what came before is no longer kept
    if (strcmp(e->type, "message-claimed") == 0) {
        on_grant(a, b, e, false);
    } else if (strcmp(e->type, "tickets-published") == 0) {
        on_grant(a, b, e, true);
    } else if (strcmp(e->type, "lock-renewed") == 0) {
        if (b->hold == ENDED) found(a, b, STRAY, e);
        b->hold = HELD;
        b->until = e->until;
    } else if (strcmp(e->type, "lock-expired") == 0) {
        on_end_of_lock(a, b, true);
    } else if (strcmp(e->type, "message-released") == 0 ||
               strcmp(e->type, "tickets-recovered") == 0) {
        on_end_of_lock(a, b, false);
    } else if (strcmp(e->type, "message-outcome") == 0) {
        on_outcome(a, b, e, known);
    } else if (strcmp(e->type, "lock-renewal-rejected") == 0) {
        found(a, b, LATE, e);
    }
}

// ---- the report

static void print_json(const char *queue, const struct audit *a)
{
    struct json *o = json_new(), *list = json_list_new();
    json_text(o, "queue", queue);
    json_number(o, "events", (int64_t)a->events);
    json_number(o, "messages", (int64_t)a->len);
    json_number(o, "claims", (int64_t)a->claims);
    json_number(o, "processed", (int64_t)a->processed);
    json_number(o, "expired", (int64_t)a->expired);
    json_number(o, "heldByTwo", (int64_t)a->found[TWO]);
    json_number(o, "ackedTwice", (int64_t)a->found[TWICE]);
    json_number(o, "strays", (int64_t)a->found[STRAY]);
    json_number(o, "refusedLate", (int64_t)a->found[LATE]);
    for (size_t i = 0; i < a->examples_len; i++) {
        struct json *x = json_new();
        json_text(x, "finding", finding_names[a->examples[i].finding]);
        json_text(x, "message", a->examples[i].message);
        json_number(x, "position", (int64_t)a->examples[i].position);
        json_list_take(list, x);
    }
    json_take(o, "examples", list);
    json_print(o, stdout);
}

static void print_count(const char *name, uint64_t n, const char *remark)
{
    char text[TEXT_MAX];
    (void)printf("%-*s  %12s%s%s\n", FIELD_WIDTH, name, number_text(n, text), *remark ? "  " : "",
                 remark);
}

static void print_report(const struct audit *a)
{
    char remark[80] = "";
    if (a->events > 0)
        (void)snprintf(remark, sizeof remark, "at positions %llu to %llu",
                       (unsigned long long)a->first, (unsigned long long)a->last);
    print_count("events", a->events, remark);
    print_count("messages", a->len, "");
    print_count("given out", a->claims, "");
    print_count("processed", a->processed, "");
    print_count("locks that ran out", a->expired, "");
    print_count("held by two at once", a->found[TWO], a->found[TWO] ? "WRONG" : "");
    print_count("acked twice", a->found[TWICE], a->found[TWICE] ? "WRONG" : "");
    print_count("touched after their end", a->found[STRAY], a->found[STRAY] ? "WRONG" : "");
    print_count("refused late", a->found[LATE],
                a->found[LATE] ? "a renewal came when the lock was gone" : "");
    for (size_t i = 0; i < a->examples_len; i++)
        (void)printf("  %-*s  %s  at position %llu\n", FIELD_WIDTH - 2,
                     finding_names[a->examples[i].finding], a->examples[i].message,
                     (unsigned long long)a->examples[i].position);
}

static enum sluice_code read_events(struct sluice *s, const char *queue, struct audit *a,
                                    struct sluice_error *error)
{
    struct sluice_events *events = NULL;
    struct sluice_event e;
    enum sluice_code code = sluice_events_open(s, queue, 0, &events, error);
    if (code != SLUICE_OK) return code;
    while ((code = sluice_events_next(events, 0, &e, error)) == SLUICE_OK)
        on_event(a, &e);
    sluice_events_close(events);
    return code == SLUICE_NOT_FOUND ? SLUICE_OK : code;
}

static int run_audit(const struct cli *cli, const struct arguments *args)
{
    const char *queue = args->words[0];
    struct audit a = {0};
    struct sluice_error error = {0};
    int status = 0;
    struct sluice *s = cli_open(cli, &status);
    if (!s) return status;
    if (read_events(s, queue, &a, &error) != SLUICE_OK) {
        status = cli_fail_queue(cli, queue, &error);
    } else {
        status = a.found[TWO] + a.found[TWICE] + a.found[STRAY] > 0 ? EXIT_FOUND : 0;
        if (cli->json)
            print_json(queue, &a);
        else if (!cli->quiet || status != 0)
            print_report(&a);
    }
    free(a.books);
    sluice_close(s);
    return status;
}

const struct command command_audit = {
    .name = "audit",
    .words = "QUEUE",
    .summary = "Looks for messages held by two workers or acked twice",
    .details = "Reads every event that is kept and keeps books of its own. Exit status 1 when a\n"
               "message was ever held by two workers at once, acked twice, or touched after its\n"
               "end. \"refused late\" counts messages whose holder came back when the lock was\n"
               "gone and was turned away: no fault, but a sign of short visibility timeouts.\n"
               "JSON keys: queue, events, messages, claims, processed, expired, heldByTwo,\n"
               "ackedTwice, strays, refusedLate, examples.",
    .run = run_audit,
};
