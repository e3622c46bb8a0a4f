// SPDX-License-Identifier: Apache-2.0
// Errors and output of commands. An error is one sentence, and the exit status gives its kind.
#include "cli/cli.h"

#include "cli/answer_watch.h"
#include "cli/table.h"
#include "cli/text.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// The node's message is about a header. Here the token comes from the environment.
static void describe_token(const struct cli *cli, const struct sluice_error *error, char *out,
                           size_t len)
{
    const char *token = getenv("SLUICE_TOKEN");
    bool expired = strstr(error->message, "expired") != NULL;
    if (token && *token)
        (void)snprintf(out, len, "the node rejected the token in SLUICE_TOKEN%s",
                       expired ? ": it has expired" : "");
    else
        (void)snprintf(out, len, "%.200s requires a token: put it into SLUICE_TOKEN", cli->store);
}

int cli_fail(const struct cli *cli, const struct sluice_error *error)
{
    const char *sentence = error->message[0] ? error->message : sluice_code_text(error->code);
    char text[sizeof error->message + 64];
    if (strcmp(error->reason, "unauthenticated") == 0) {
        describe_token(cli, error, text, sizeof text);
        sentence = text;
    }
    answer_watch_stop(cli);
    (void)fflush(stdout);
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "error", sluice_code_name(error->code));
        json_text(o, "message", sentence);
        json_text(o, "field", error->field);
        json_print(o, stderr);
    } else {
        print_line(stderr, "sluice: %s", sentence);
    }
    return sluice_code_exit(error->code);
}

static int fail_with(const struct cli *cli, enum sluice_code code, const char *field,
                     const char *format, va_list args)
{
    struct sluice_error error = {.code = code};
    (void)snprintf(error.field, sizeof error.field, "%s", field);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)vsnprintf(error.message, sizeof error.message, format, args);
#pragma GCC diagnostic pop
    return cli_fail(cli, &error);
}

int cli_usage(const struct cli *cli, const char *field, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fail_with(cli, SLUICE_INVALID, field, format, args);
    va_end(args);
    return EXIT_USAGE;
}

int cli_fail_as(const struct cli *cli, enum sluice_code code, const char *field, const char *format,
                ...)
{
    va_list args;
    va_start(args, format);
    int status = fail_with(cli, code, field, format, args);
    va_end(args);
    return status;
}

void cli_say(const struct cli *cli, const char *format, ...)
{
    if (cli->quiet || cli->json) return;
    va_list args;
    va_start(args, format);
    vprint_line(stderr, format, args);
    va_end(args);
}

void cli_count(const struct cli *cli, const char *queue, const char *verb, uint64_t count)
{
    char text[TEXT_MAX];
    if (!cli->json) {
        cli_say(cli, "%s %s message%s of %s", verb, number_text(count, text), count == 1 ? "" : "s",
                queue);
        return;
    }
    struct json *o = json_new();
    json_text(o, "queue", queue);
    json_number(o, verb, (int64_t)count);
    json_print(o, stdout);
}

bool cli_output_ok(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

// True if standard output is a pipe whose reader has closed it.
static bool output_unread(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

int cli_end(const struct cli *cli, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    // A reader that closes early (head, q in less) is not an error.
    if (output_unread()) return status ? status : EXIT_BROKEN_PIPE;
    return cli_fail_as(cli, SLUICE_UNAVAILABLE, "",
                       "standard output cannot be written; is its disk full?");
}

int cli_confirm(const struct cli *cli, bool yes, const char *command, const char *question)
{
    char warning[100];
    (void)snprintf(warning, sizeof warning, "%.50s deletes messages permanently", command);
    return cli_confirm_as(cli, yes, warning, question);
}

int cli_confirm_as(const struct cli *cli, bool yes, const char *warning, const char *question)
{
    if (yes) return 0;
    if (cli->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return cli_usage(cli, "--yes", "%s; add --yes to confirm", warning);
    char answer[16] = "";
    (void)fprintf(stderr, "%s [y/N] ", question);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y')) return 0;
    (void)fprintf(stderr, "nothing was changed\n");
    return 1;
}

void *cli_alloc(size_t len)
{
    return cli_realloc(NULL, len);
}

void *cli_realloc(void *old, size_t len)
{
    void *p = realloc(old, len ? len : 1);
    if (p) return p;
    (void)fprintf(stderr, "sluice: out of memory (%zu bytes)\n", len);
    exit(sluice_code_exit(SLUICE_LIMIT));
}

struct sluice_request cli_request(void)
{
    struct sluice_request r;
    while (getrandom(r.bytes, sizeof r.bytes, 0) != (ssize_t)sizeof r.bytes) {
    }
    return r;
}

static char *read_up_to(int fd, size_t max, size_t *len)
{
    size_t cap = 64 << 10;
    char *data = cli_alloc(cap + 1);
    for (*len = 0; *len <= max;) {
        if (*len == cap) data = cli_realloc(data, (cap *= 2) + 1);
        ssize_t n = read(fd, data + *len, cap - *len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            free(data);
            return NULL;
        }
        if (n == 0) break;
        *len += (size_t)n;
    }
    data[*len] = '\0';
    return data;
}

char *cli_read_all(const struct cli *cli, const char *path, const char *what, size_t max,
                   size_t *len, int *status)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *data = fd < 0 ? NULL : read_up_to(fd, max, len);
    int why = errno;
    if (fd >= 0 && !standard) (void)close(fd);
    if (!data) {
        *status = cli_usage(cli, what, "%s: %s cannot be read: %s", what,
                            standard ? "standard input" : path, strerror(why));
        return NULL;
    }
    if (*len <= max) return data;
    free(data);
    *status = cli_usage(cli, what, "%s: %s is over the limit of %zu bytes", what,
                        standard ? "standard input" : path, max);
    return NULL;
}

char *cli_read_text(const struct cli *cli, const char *text, const char *what, size_t max,
                    size_t *len, int *status)
{
    if (*text == '@') return cli_read_all(cli, text + 1, what, max, len, status);
    *len = strlen(text);
    if (*len <= max) return memcpy(cli_alloc(*len + 1), text, *len + 1);
    *status = cli_usage(cli, what, "%s has %zu bytes; at most %zu are possible", what, *len, max);
    return NULL;
}
