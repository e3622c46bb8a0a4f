// SPDX-License-Identifier: Apache-2.0
// receive: locks messages and prints them with the tokens that settle them.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>

#define FIELD_WIDTH 7
#define HOURS_24    (INT64_C(24) * 3600 * 1000)

enum { MAX, WAIT, VISIBILITY, WORKER };

static const struct cli_option options[] = {
    [MAX] = OPTION_OF(receive, "max", "N", "the most messages to lock; default 1"),
    [WAIT] = OPTION(DURATION, "wait", "D", "how long to wait if no message is ready; default 0",
                    .max = HOURS_24),
    [VISIBILITY] = OPTION_OF(receive, "visibility", "D",
                             "how long the lock lasts; default: the queue's\n"
                             "visibilityTimeout",
                             .min = 1),
    [WORKER] = OPTION_OF(receive, "worker", "ID", "the worker's name; default: host and process"),
};

static void print_message(const struct sluice_message *m, bool first)
{
    char time[TEXT_MAX];
    if (!first) (void)fputc('\n', stdout);
    field_print(stdout, FIELD_WIDTH, "id", "%s", m->id);
    field_print(stdout, FIELD_WIDTH, "token", "%s", m->token);
    field_print(stdout, FIELD_WIDTH, "attempt", "%u", m->attempt);
    field_print(stdout, FIELD_WIDTH, "lock", "%s", duration_text(m->lease_ms, time));
    if (m->signals_len > 0) field_print(stdout, FIELD_WIDTH, "signals", "%zu wait", m->signals_len);
    (void)fprintf(stdout, "%-*s  ", FIELD_WIDTH, "body");
    print_safe(stdout, m->body ? m->body : "", m->body_len, 0);
    (void)fputc('\n', stdout);
}

// The output failed, so no reader has the messages. Releases them now instead of when their locks
// expire.
static void release_unread(struct sluice *s, const char *queue, const struct sluice_batch *batch)
{
    const char **tokens = cli_alloc(batch->len * sizeof *tokens);
    for (size_t i = 0; i < batch->len; i++)
        tokens[i] = batch->messages[i].token;
    (void)sluice_release(s, queue, tokens, batch->len, 0, NULL, NULL);
    free(tokens);
}

// Empty output means that no message is ready. The reason is a remark on standard error.
static void say_if_paused(const struct cli *cli, struct sluice *s, const char *queue)
{
    struct sluice_queue_info *info = NULL;
    if (cli->quiet || cli->json) return;
    if (sluice_queue_show(s, queue, &info, NULL) == SLUICE_OK && info->paused)
        cli_say(cli,
                "queue %s is paused and delivers nothing; resume it with: sluice queue resume %s",
                queue, queue);
    sluice_queue_info_free(info);
}

static int run_receive(const struct cli *cli, const struct arguments *args)
{
    const char *queue = args->words[0];
    const struct cli_value *o = args->options;
    struct sluice_receive ask = {.worker = option_text(&o[WORKER]),
                                 .max = o[MAX].given ? (uint32_t)o[MAX].number : 1,
                                 .wait_ms = o[WAIT].number,
                                 .visibility_ms = o[VISIBILITY].number};
    int status = 0;
    struct cli waiting = *cli;
    waiting.deadline_ms += ask.wait_ms;
    struct sluice *s = cli_open(&waiting, &status);
    if (!s) return status;
    struct sluice_batch *batch = NULL;
    struct sluice_error error = {0};
    answer_watch_start(cli, ask.wait_ms);
    if (sluice_receive(s, queue, &ask, &batch, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    for (size_t i = 0; batch && i < batch->len; i++) {
        if (cli->json)
            json_print(json_message(queue, &batch->messages[i]), stdout);
        else
            print_message(&batch->messages[i], i == 0);
    }
    if (batch && batch->len == 0) say_if_paused(cli, s, queue);
    if (batch && batch->len > 0 && !cli_output_ok()) release_unread(s, queue, batch);
    sluice_batch_free(batch);
    sluice_close(s);
    return status;
}

const struct command command_receive = {
    .name = "receive",
    .words = "QUEUE",
    .summary = "Locks messages and prints them with their tokens",
    .details =
        "Pass the token to \"ack\", \"fail\", \"release\" or \"renew\". If the lock expires\n"
        "before that, another worker gets the message. For an empty queue it prints\n"
        "nothing and succeeds.\n"
        "JSON keys: id, queue, state, body (bodyBase64 if it is not UTF-8), attempt,\n"
        "token, fence, leaseMs, deadline, group, priority, headers, sentAt, and if they\n"
        "apply order, from (queue, id, reason, retries, diedAt, attempts and worker of a\n"
        "dead letter), and signals that wait, with the keys of \"signal\" without queue.",
    OPTIONS(options),
    .run = run_receive,
    .brief = true,
};
