// SPDX-License-Identifier: Apache-2.0
// peek and show: print messages without locking them.
#include "cli/choose.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIELD_WIDTH    12
#define BODY_COLUMNS   60
#define REASON_COLUMNS 24 // at least; on a wide screen a third of it
#define PIPE_COLUMNS   180

enum { MAX, AFTER, ID, READ, FILTER };

static const struct cli_option options[] = {
    [MAX] = OPTION_OF(peek, "max", "N", "the most messages to print; default 10"),
    [AFTER] = OPTION_OF(peek, "after", "ID", "start after this message"),
    [ID] = OPTION_OF(peek, "id", "ID", "only this message, in any state"),
    [READ] = OPTION(COUNT, "read", "MIB", "with a filter: how many MiB to read at most; default 16",
                    .min = 1, .max = SLUICE_FIND_BYTES_MAX >> 20),
    FILTER_ROWS(FILTER, "ready (default), delayed, locked, dead, outbound or finished,\n"
                        "or how a finished one ended, such as cancelled"),
};

static const char *failure_text(const struct sluice_failure *f)
{
    if (strcmp(f->kind, "lock-expired") == 0) return "lock expired";
    if (!f->reason) return "(the reason is no longer kept)";
    return *f->reason ? f->reason : "(no reason was given)";
}

// Returns the reason of the last failure: in this queue, else in the queue where the message died.
// NULL without a failure.
static const char *last_reason(const struct sluice_message *m)
{
    if (m->reason && *m->reason) return m->reason; // of a cancel
    if (m->failures_len > 0) return failure_text(&m->failures[m->failures_len - 1]);
    return m->from.reason && *m->from.reason ? m->from.reason : NULL;
}

// A dead letter without a delivery in this queue shows the attempts of the queue where it died.
static uint32_t attempts_of(const struct sluice_message *m)
{
    if (m->finished_at != 0) return m->attempts;
    return m->attempt > 0 ? m->attempt : m->from.attempts;
}

// Columns without content are left out, so that bodies get more space.
struct columns {
    bool state, priority, group, reason, progress, result, due;
    size_t text; // of reasons and results
};

static bool has_progress(const struct sluice_message *m)
{
    return m->progress_at > 0 && m->percent >= 0;
}

static struct columns columns_of(const struct sluice_batch *batch)
{
    struct columns c = {0};
    for (size_t i = 0; i < batch->len; i++) {
        const struct sluice_message *m = &batch->messages[i];
        c.priority |= m->priority != 0;
        c.group |= m->group && *m->group;
        c.reason |= last_reason(m) != NULL;
        c.state |= m->finished_at != 0; // finished messages ended in different ways
        c.progress |= has_progress(m);
        c.result |= m->result != NULL;
        c.due |= strcmp(m->state, "delayed") == 0;
    }
    size_t screen = isatty(STDOUT_FILENO) ? (size_t)screen_size().columns : PIPE_COLUMNS;
    c.text = screen / 3 > REASON_COLUMNS ? screen / 3 : REASON_COLUMNS;
    return c;
}

static bool body_is_lost(const struct sluice_message *m)
{
    for (size_t i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i].name, "sluice-body-lost") == 0) return m->body_len == 0;
    return false;
}

static void add_progress(struct table *t, const struct sluice_message *m)
{
    if (has_progress(m))
        table_cellf(t, "%d%%", m->percent);
    else
        table_cell(t, "-");
}

// "show" prints the milliseconds.
static void add_moment(struct table *t, int64_t at)
{
    char text[TEXT_MAX];
    (void)moment_text(at, text);
    text[strcspn(text, ".")] = '\0';
    table_cell(t, text);
}

static void add_row(struct table *t, const struct sluice_message *m, const struct columns *c)
{
    const char *reason = last_reason(m) ? last_reason(m) : "-";
    char *body = safe_text(m->body ? m->body : "", m->body_len, BODY_COLUMNS);
    char *why = safe_text(reason, strlen(reason), c->text);
    table_cell(t, m->id);
    if (c->state) table_cell(t, m->state);
    table_number(t, attempts_of(m));
    if (c->progress) add_progress(t, m);
    if (c->priority) table_number(t, (uint64_t)m->priority);
    if (c->group) table_cell(t, m->group && *m->group ? m->group : "-");
    add_moment(t, m->finished_at ? m->finished_at : m->sent_at);
    if (c->due) add_moment(t, m->deadline);
    if (c->reason) table_cell(t, why);
    if (c->result) {
        char *result =
            safe_text(m->result ? m->result : "-", m->result ? m->result_len : 1, c->text);
        table_cell(t, result);
        free(result);
    }
    table_cell(t, body_is_lost(m) ? "(missing or damaged)" : body);
    free(why);
    free(body);
}

static void print_table(const struct cli *cli, const struct sluice_batch *batch)
{
    const char *heads[11] = {"ID"}; // no STATE column if all rows have the requested state
    struct columns c = columns_of(batch);
    size_t len = 1;
    if (c.state) heads[len++] = "STATE";
    heads[len++] = ">ATTEMPT";
    if (c.progress) heads[len++] = ">PROGRESS";
    if (c.priority) heads[len++] = ">PRIORITY";
    if (c.group) heads[len++] = "GROUP";
    heads[len++] = c.state ? "FINISHED" : "SENT";
    if (c.due) heads[len++] = "DUE";
    if (c.reason) heads[len++] = "REASON";
    if (c.result) heads[len++] = "RESULT";
    heads[len++] = "BODY";
    struct table *t = table_new(heads, len);
    for (size_t i = 0; i < batch->len; i++)
        add_row(t, &batch->messages[i], &c);
    if (isatty(STDOUT_FILENO)) table_width(t, (size_t)screen_size().columns);
    table_print(t, cli, stdout);
    table_free(t);
}

// Says how far a search came, and how to continue.
static void print_found(const struct cli *cli, const char *queue, size_t len,
                        const struct sluice_found *found)
{
    char messages[TEXT_MAX], bytes[TEXT_MAX], matches[TEXT_MAX];
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "queue", queue);
        fields_put(o, &found_answer, found);
        json_print(o, stdout);
        return;
    }
    cli_say(cli, "read %s messages (%s); %s match%s%s%s", number_text(found->messages, messages),
            bytes_text(found->bytes, bytes), number_text(len, matches), len == 1 ? "es" : "",
            *found->next ? "; to continue: --after " : "; all were read", found->next);
}

static void print_messages(const struct cli *cli, const char *queue,
                           const struct sluice_batch *batch)
{
    if (!cli->json && batch->len > 0) print_table(cli, batch);
    for (size_t i = 0; cli->json && i < batch->len; i++)
        json_print(json_message(queue, &batch->messages[i]), stdout);
}

static int peek_at(const struct cli *cli, const struct arguments *args, struct sluice *s,
                   struct sluice_find *ask)
{
    const char *queue = args->words[0];
    const struct cli_value *o = args->options;
    bool filtered = filter_given(o + FILTER);
    struct sluice_batch *batch = NULL;
    struct sluice_found found = {0};
    struct sluice_error error = {0};
    ask->after_id = option_text(&o[AFTER]);
    ask->max = (uint32_t)o[MAX].number;
    ask->bytes_max = (uint64_t)o[READ].number << 20;
    enum sluice_code code = o[ID].given ? sluice_show(s, queue, o[ID].texts[0], &batch, &error)
                                        : sluice_find(s, queue, ask, &batch, &found, &error);
    if (code != SLUICE_OK) return cli_fail_queue(cli, s, queue, &error);
    print_messages(cli, queue, batch);
    if (filtered)
        print_found(cli, queue, batch->len, &found);
    else if (batch->len == 0)
        cli_say(cli, "queue %s has no %s messages", queue, ask->state ? ask->state : "ready");
    sluice_batch_free(batch);
    return 0;
}

static int run_peek(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const struct cli_value *o = args->options;
    struct sluice_find ask;
    int status = filter_read(cli, o + FILTER, &ask);
    if (status == 0 && o[ID].given && (filter_given(o + FILTER) || ask.state))
        status = cli_usage(cli, "--id", "--id and a filter exclude each other: give one of them");
    if (status == 0) status = peek_at(cli, args, s, &ask);
    filter_done(&ask);
    return status;
}

const struct command command_peek = {
    .name = "peek",
    .words = "QUEUE",
    .summary = "Prints messages without locking them",
    .details = "The column REASON shows the reason of the last failure. For a dead letter it is\n"
               "the failure in the queue where it died. \"show\" prints every failure. JSON keys\n"
               "are those of \"receive\", and failures: the newest one (attempt, at, worker,\n"
               "reason, kind). A message whose large body is missing or damaged is shown\n"
               "without it, with the header sluice-body-lost.\n"
               "With a filter the command reads messages until it has enough, or until it has\n"
               "read --read. It then says how far it came. In JSON that is the last line:\n"
               "queue, messagesRead, bytesRead, and next unless all were read.",
    OPTIONS(options),
    .run_on = run_peek,
    .brief = true,
};

static void print_text(const char *name, const char *value)
{
    if (!value || !*value) return;
    char *text = safe_text(value, strlen(value), 0);
    field_print(stdout, FIELD_WIDTH, name, "%s", text);
    free(text);
}

static void print_failures(const struct sluice_message *m)
{
    char time[TEXT_MAX];
    for (size_t i = 0; i < m->failures_len; i++) {
        const struct sluice_failure *f = &m->failures[i];
        const char *worker = *f->worker ? f->worker : "unknown worker", *why = failure_text(f);
        char *name = safe_text(worker, strlen(worker), 0), *text = safe_text(why, strlen(why), 0);
        field_print(stdout, FIELD_WIDTH, i == 0 ? "failures" : "", "attempt %u at %s by %s: %s",
                    f->attempt, moment_text(f->at, time), name, text);
        free(name);
        free(text);
    }
}

static void print_origin(const struct sluice_origin *from)
{
    char time[TEXT_MAX];
    if (!from->queue || !*from->queue) return;
    print_text("diedIn", from->queue);
    print_text("diedAs", from->id);
    print_text("diedFor", from->reason);
    if (from->died_at > 0)
        field_print(stdout, FIELD_WIDTH, "diedAt", "%s", moment_text(from->died_at, time));
    print_text("diedBy", from->worker);
    if (from->attempts > 0)
        field_print(stdout, FIELD_WIDTH, "diedAfter", "%u attempt%s", from->attempts,
                    from->attempts == 1 ? "" : "s");
}

// All that is kept of a finished message.
static void print_finished(const struct sluice_message *m)
{
    char time[TEXT_MAX];
    field_print(stdout, FIELD_WIDTH, "finished", "%s", moment_text(m->finished_at, time));
    print_text("reason", m->reason);
    print_text("worker", m->worker);
    field_print(stdout, FIELD_WIDTH, "attempts", "%u", m->attempts);
    if (!m->result) return;
    print_text("resultType", m->result_type);
    char *result = safe_text(m->result, m->result_len, 0);
    field_print(stdout, FIELD_WIDTH, "result", "%s", result);
    free(result);
}

// The body comes last.
static void print_body(const struct sluice_message *m)
{
    char size[TEXT_MAX];
    if (!m->body) return;
    field_print(stdout, FIELD_WIDTH, "size", "%s", bytes_text(m->body_len, size));
    (void)fprintf(stdout, "%-*s  ", FIELD_WIDTH, "body");
    print_safe(stdout, m->body, m->body_len, 0);
    (void)fputc('\n', stdout);
}

static void print_progress(const struct sluice_message *m)
{
    char time[TEXT_MAX];
    if (!has_progress(m)) return;
    const char *words = m->progress ? m->progress : "";
    char *text = safe_text(words, strlen(words), 0);
    field_print(stdout, FIELD_WIDTH, "progress", "%d%%%s%s, at %s", m->percent, *text ? " " : "",
                text, moment_text(m->progress_at, time));
    free(text);
}

// "steer 1 acked at 12:01:07 (sent 12:01:05, delivered once): faster now"
static void print_signal(const char *name, const struct sluice_signal_state *s)
{
    char sent[TEXT_MAX], ended[TEXT_MAX], number[TEXT_MAX] = "", given[TEXT_MAX] = "";
    const void *words = s->answer_len > 0 ? s->answer : s->payload;
    size_t len = s->answer_len > 0 ? s->answer_len : s->payload_len;
    char *text = safe_text(words ? words : "", len, BODY_COLUMNS);
    if (s->number > 0) (void)snprintf(number, sizeof number, "%u ", s->number);
    if (s->deliveries > 0)
        (void)snprintf(given, sizeof given, ", delivered %u time%s", s->deliveries,
                       s->deliveries == 1 ? "" : "s");
    (void)moment_text(s->sent_at, sent);
    if (s->ended_at > 0)
        field_print(stdout, FIELD_WIDTH, name, "%s%s %s at %s, sent at %s%s%s%s", number, s->kind,
                    s->state, moment_text(s->ended_at, ended), sent, given, *text ? ": " : "",
                    text);
    else
        field_print(stdout, FIELD_WIDTH, name, "%s%s %s until %s, sent at %s%s%s%s", number,
                    s->kind, s->state, moment_text(s->until, ended), sent, given, *text ? ": " : "",
                    text);
    free(text);
}

static void print_signals(const struct sluice_message *m)
{
    for (size_t i = 0; i < m->signals_len; i++)
        print_signal(i == 0 ? "signals" : "", &m->signals[i]);
}

static void print_message(const struct sluice_message *m)
{
    char time[TEXT_MAX];
    print_text("id", m->id);
    print_text("state", m->state);
    if (m->finished_at != 0) print_finished(m);
    if (m->finished_at != 0 || strcmp(m->state, "finished") == 0) {
        print_signals(m);
        if (m->body_len > 0) print_body(m); // the queue has retainBody
        return;
    }
    field_print(stdout, FIELD_WIDTH, "attempt", "%u", m->attempt);
    field_print(stdout, FIELD_WIDTH, "retries", "%u", m->retries);
    if (m->priority > 0) field_print(stdout, FIELD_WIDTH, "priority", "%d", m->priority);
    print_text("worker", m->worker);
    print_progress(m);
    if (m->deadline > 0)
        field_print(stdout, FIELD_WIDTH, strcmp(m->state, "delayed") == 0 ? "due" : "deadline",
                    "%s", moment_text(m->deadline, time));
    if (m->sent_at > 0)
        field_print(stdout, FIELD_WIDTH, "sent", "%s", moment_text(m->sent_at, time));
    print_text("group", m->group);
    print_text("dedup", m->dedup);
    print_text("contentType", m->content_type);
    print_text("workflow", m->workflow);
    print_text("requires", m->needs);
    print_origin(&m->from);
    print_failures(m);
    print_signals(m);
    for (size_t i = 0; i < m->headers_len; i++) {
        char *name = safe_text(m->headers[i].name, strlen(m->headers[i].name), 0);
        char *value = safe_text(m->headers[i].value, strlen(m->headers[i].value), 0);
        field_print(stdout, FIELD_WIDTH, i == 0 ? "headers" : "", "%s: %s", name, value);
        free(name);
        free(value);
    }
    print_body(m);
}

static int run_show(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0];
    struct sluice_batch *batch = NULL;
    struct sluice_error error = {0};
    if (sluice_show(s, queue, args->words[1], &batch, &error) != SLUICE_OK)
        return cli_fail_queue(cli, s, queue, &error);
    if (cli->json)
        json_print(json_message(queue, &batch->messages[0]), stdout);
    else
        print_message(&batch->messages[0]);
    sluice_batch_free(batch);
    return 0;
}

const struct command command_show = {
    .name = "show",
    .words = "QUEUE ID",
    .summary = "Shows one message by its id",
    .details =
        "\"failures\" lists the newest 8 failed attempts, each with time, worker and\n"
        "reason. An expired lock is a failed attempt, too. Of a finished message it shows\n"
        "how it ended (processed, dead-lettered, purged or redriven), when, the last\n"
        "worker and the number of attempts, for as long as the setting retention says.\n"
        "\"signals\" lists up to 256 signals: pending ones, then those that have ended, the\n"
        "newest first.\n"
        "JSON keys are those of \"receive\", and worker, finishedAt, attempts, failures\n"
        "(attempt, at, worker, reason, kind); body and attempt of a finished message are\n"
        "null. The keys of signals are those of \"signal\", without queue.",
    .run_on = run_show,
    .brief = true,
};
