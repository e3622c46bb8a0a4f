// SPDX-License-Identifier: Apache-2.0
// audit: reads the event stream and checks, independently of the engine's counters, whether a
// message was ever locked by two workers at once or acked twice.
#include "cli/audit.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "json/json.h"

#define FIELD_WIDTH 26
#define EXIT_FOUND  1

static void print_json(const char *queue, const struct audit *a)
{
    struct json *o = json_new(), *list = json_list_new();
    json_text(o, "queue", queue);
    json_number(o, "events", (int64_t)a->events);
    json_number(o, "messages", (int64_t)a->messages);
    json_number(o, "claims", (int64_t)a->claims);
    json_number(o, "processed", (int64_t)a->processed);
    json_number(o, "cancelled", (int64_t)a->cancelled);
    json_number(o, "expired", (int64_t)a->expired);
    json_number(o, "heldByTwo", (int64_t)a->found[FINDING_TWO]);
    json_number(o, "ackedTwice", (int64_t)a->found[FINDING_TWICE]);
    json_number(o, "strays", (int64_t)a->found[FINDING_STRAY]);
    json_number(o, "refusedLate", (int64_t)a->found[FINDING_LATE]);
    for (size_t i = 0; i < a->examples_len; i++) {
        struct json *x = json_new();
        json_text(x, "finding", audit_finding_name(a->examples[i].finding));
        json_text(x, "message", a->examples[i].message);
        json_number(x, "position", (int64_t)a->examples[i].position);
        json_list_take(list, x);
    }
    json_take(o, "examples", list);
    json_print(o, stdout);
}

static void print_report(const struct audit *a)
{
    char remark[80] = "";
    if (a->events > 0)
        (void)snprintf(remark, sizeof remark, "at positions %llu to %llu",
                       (unsigned long long)a->first, (unsigned long long)a->last);
    count_print(FIELD_WIDTH, "events", a->events, remark);
    count_print(FIELD_WIDTH, "messages", a->messages, "");
    count_print(FIELD_WIDTH, "claims", a->claims, "");
    count_print(FIELD_WIDTH, "processed", a->processed, "");
    if (a->cancelled) count_print(FIELD_WIDTH, "cancelled", a->cancelled, "");
    count_print(FIELD_WIDTH, "expired locks", a->expired, "");
    count_print(FIELD_WIDTH, "held by two at once", a->found[FINDING_TWO],
                a->found[FINDING_TWO] ? "WRONG" : "");
    count_print(FIELD_WIDTH, "acked twice", a->found[FINDING_TWICE],
                a->found[FINDING_TWICE] ? "WRONG" : "");
    count_print(FIELD_WIDTH, "touched after their end", a->found[FINDING_STRAY],
                a->found[FINDING_STRAY] ? "WRONG" : "");
    count_print(FIELD_WIDTH, "refused late", a->found[FINDING_LATE],
                a->found[FINDING_LATE] ? "a worker's lock had expired" : "");
    for (size_t i = 0; i < a->examples_len; i++)
        print_line(stdout, "  %-*s  %s  at position %llu", FIELD_WIDTH - 2,
                   audit_finding_name(a->examples[i].finding), a->examples[i].message,
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
        audit_event(a, &e);
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
        status = cli_fail_queue(cli, s, queue, &error);
    } else {
        status = audit_wrong(&a) ? EXIT_FOUND : 0;
        if (cli->json)
            print_json(queue, &a);
        else if (!cli->quiet || status != 0)
            print_report(&a);
    }
    audit_done(&a);
    sluice_close(s);
    return status;
}

const struct command command_audit = {
    .name = "audit",
    .words = "QUEUE",
    .summary = "Finds messages held by two workers or acked twice",
    .details = "Reads every event that is kept, and checks the history of each message. The\n"
               "exit status is 1 if a message was held by two workers at once, acked twice, or\n"
               "changed after its end. \"refused late\" counts messages whose worker was refused\n"
               "because its lock had expired. That is no violation, but a sign of short\n"
               "visibility timeouts.\n"
               "JSON keys: queue, events, messages, claims, processed, cancelled, expired,\n"
               "heldByTwo, ackedTwice, strays, refusedLate, examples.",
    .run = run_audit,
};
