// SPDX-License-Identifier: Apache-2.0
#include "cli/signal_print.h"

#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct json *signal_json(const char *queue, const struct sluice_signal_state *row)
{
    struct json *o = json_new();
    json_text(o, "queue", queue);
    fields_put(o, &signal_answer, row);
    return o;
}

void signal_print(const struct cli *cli, const char *queue, const struct sluice_signal_state *row)
{
    if (cli->json) {
        json_print(signal_json(queue, row), stdout);
        return;
    }
    if (cli->quiet) return;
    // A signal that is withdrawn has no kind any more, and one that ended at once no number.
    char about[2 * TEXT_MAX] = "", number[TEXT_MAX] = "";
    if (row->number > 0) (void)snprintf(number, sizeof number, "number %u, ", row->number);
    (void)snprintf(about, sizeof about, "%s%s%s", row->kind ? row->kind : "",
                   row->kind && *row->kind ? ", " : "", number);
    char *answer = safe_text(row->answer ? row->answer : "", row->answer_len, 0);
    print_line(stdout, "%s  %s  (%ssignal %s)%s%s", row->message, row->state, about, row->id,
               *answer ? "  " : "", answer);
    free(answer);
}

void signal_print_answer(const struct cli *cli, const struct sluice_signal_state *row)
{
    char *answer = safe_text(row->answer ? row->answer : "", row->answer_len, 0);
    bool acked = strcmp(row->state, "acked") == 0;
    if (acked && row->answer_len > 0) {
        print_safe(stdout, row->answer, row->answer_len, 0);
        (void)fputc('\n', stdout);
    } else if (acked) {
        cli_say(cli, "acked");
    } else if (strcmp(row->state, "pending") == 0) {
        cli_say(cli, "still pending: signal %s", row->id);
    } else {
        cli_say(cli, "%s%s%s", row->state, *answer ? ": " : "", answer);
    }
    free(answer);
}

static void print_table(const struct cli *cli, const struct sluice_signals *list, bool one)
{
    static const char *const heads[] = {"MESSAGE", ">NUMBER", "KIND",   "STATE",
                                        "SENT",    "UNTIL",   "SIGNAL", "CONTENT"};
    struct table *t = table_new(heads + one, COUNT_OF(heads) - one);
    for (size_t i = 0; i < list->len; i++) {
        const struct sluice_signal_state *row = &list->rows[i];
        char sent[TEXT_MAX], until[TEXT_MAX];
        (void)moment_text(row->sent_at, sent);
        (void)moment_text(row->ended_at ? 0 : row->until, until);
        sent[strcspn(sent, ".")] = until[strcspn(until, ".")] = '\0';
        bool answered = row->answer_len > 0;
        const void *text = answered ? row->answer : row->payload;
        char *content =
            safe_text(text ? text : "", answered ? row->answer_len : row->payload_len, 60);
        if (!one) table_cell(t, row->message);
        table_number(t, row->number);
        table_cell(t, row->kind);
        table_cell(t, row->state);
        table_cell(t, sent);
        table_cell(t, until);
        table_cell(t, row->id);
        table_cell(t, content);
        free(content);
    }
    if (isatty(STDOUT_FILENO)) table_width(t, (size_t)screen_size().columns);
    table_print(t, cli, stdout);
    table_free(t);
}

void signal_print_rows(const struct cli *cli, const char *queue, const struct sluice_signals *list,
                       bool one)
{
    for (size_t i = 0; cli->json && i < list->len; i++)
        signal_print(cli, queue, &list->rows[i]);
    if (!cli->json && list->len > 0) print_table(cli, list, one);
}
