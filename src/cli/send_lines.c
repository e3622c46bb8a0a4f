// SPDX-License-Identifier: Apache-2.0
// Sends a file of messages, one per line. Reads large pieces and sends batches that point into the
// piece. So memory is bounded and no line is copied.
#include "cli/answer_watch.h"
#include "cli/progress.h"
#include "cli/send.h"
#include "cli/text.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES    ((size_t)1 << 20)
#define LINE_BYTES_MAX ((size_t)16 << 20)
#define BATCH_MAX      8192
#define IDLE_MS        50

struct line_reader {
    struct send_input *sending;
    int fd;
    const char *name; // for errors
    char *data;       // bytes that are read but not sent
    size_t len;
    size_t cap;
    bool ended;
    struct sluice_send *batch;
    struct sluice_sent *answers;
    struct progress progress;
    uint64_t sent;
    uint64_t bytes;
    uint64_t bytes_whole; // 0 if unknown
};

static int read_failed(const struct line_reader *l)
{
    return cli_fail_as(l->sending->cli, SLUICE_INVALID, "--lines",
                       "--lines: %s cannot be read: %s; %llu messages were sent", l->name,
                       strerror(errno), (unsigned long long)l->sent);
}

// Whether the writer of a pipe has nothing more for now.
static bool is_idle(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&one, 1, IDLE_MS);
    while (ready < 0 && errno == EINTR);
    return ready == 0;
}

// Reads until the piece is full, the file ends, or a line is there and the pipe is idle: a line of
// "tail -f" does not wait for the lines after it.
static int fill(struct line_reader *l)
{
    bool line = memchr(l->data, '\n', l->len) != NULL;
    answer_watch_stop(l->sending->cli); // it is the writer of the pipe that takes its time
    while (!l->ended && l->len < l->cap) {
        if (line && is_idle(l->fd)) return 0;
        ssize_t n = read(l->fd, l->data + l->len, l->cap - l->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return read_failed(l);
        if (n == 0) l->ended = true;
        line = line || memchr(l->data + l->len, '\n', (size_t)n);
        l->len += (size_t)n;
    }
    return 0;
}

// Reports which line was refused. The lines before it are sent.
static int refused(struct line_reader *l, size_t len, struct sluice_error *error)
{
    size_t taken = 0, at = 0;
    for (size_t i = 0; i < len; i++) {
        bool done = l->answers[i].code == SLUICE_OK && l->answers[i].id[0];
        taken += done;
        if (!done && at == 0) at = i + 1;
    }
    if (l->sent + taken == 0 && error->code == SLUICE_NOT_FOUND)
        return cli_fail_unsent(l->sending->cli, l->sending->s, l->sending->queue, error);
    char sentence[sizeof error->message];
    (void)snprintf(sentence, sizeof sentence, "line %llu: %.280s; %llu messages were sent",
                   (unsigned long long)(l->sent + at), error->message,
                   (unsigned long long)(l->sent + taken));
    memcpy(error->message, sentence, sizeof sentence);
    return cli_fail(l->sending->cli, error);
}

static int send_batch(struct line_reader *l, size_t len)
{
    struct sluice_error error = {0};
    if (len == 0) return 0;
    memset(l->answers, 0, len * sizeof *l->answers);
    answer_watch_start(l->sending->cli, 0);
    if (sending_batch(l->sending, l->batch, len, l->answers, &error) != SLUICE_OK) {
        progress_end(&l->progress);
        return refused(l, len, &error);
    }
    l->sent += len;
    return 0;
}

// Sends the complete lines of the piece. *used is their length in bytes.
static int send_piece(struct line_reader *l, size_t *used)
{
    size_t at = 0, len = 0;
    int status = 0;
    while (status == 0 && at < l->len) {
        const char *line = l->data + at, *end = memchr(line, '\n', l->len - at);
        if (!end && !l->ended) break;
        size_t body_len = end ? (size_t)(end - line) : l->len - at;
        l->batch[len] = l->sending->form;
        l->batch[len].body = line;
        l->batch[len++].body_len = body_len;
        at += body_len + (end ? 1 : 0);
        if (len < BATCH_MAX) continue;
        status = send_batch(l, len);
        len = 0;
    }
    *used = at;
    return status ? status : send_batch(l, len);
}

static int send_all(struct line_reader *l)
{
    for (;;) {
        size_t used = 0;
        int status = fill(l);
        if (status == 0) status = send_piece(l, &used);
        if (status != 0) return status;
        l->bytes += used;
        l->len -= used;
        memmove(l->data, l->data + used, l->len);
        progress_move(&l->progress, l->sent, l->bytes, l->bytes_whole);
        if (l->ended) return 0;
        if (used > 0) continue;
        if (l->cap >= LINE_BYTES_MAX)
            return cli_usage(l->sending->cli, "--lines",
                             "line %llu is over the limit of %zu bytes; %llu messages were sent",
                             (unsigned long long)l->sent + 1, LINE_BYTES_MAX,
                             (unsigned long long)l->sent);
        l->data = cli_realloc(l->data, l->cap *= 2);
    }
}

static void print_counts(struct line_reader *l)
{
    const struct cli *cli = l->sending->cli;
    int64_t elapsed = progress_elapsed_ms(&l->progress);
    char count[TEXT_MAX], time[TEXT_MAX], rate[TEXT_MAX];
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "queue", l->sending->queue);
        json_number(o, "sent", (int64_t)l->sent);
        json_number(o, "elapsedMs", elapsed);
        json_print(o, stdout);
        return;
    }
    uint64_t per_second = l->sent * 1000 / (uint64_t)(elapsed > 0 ? elapsed : 1);
    cli_say(cli, "sent %s message%s to %s in %s, %s/s", number_text(l->sent, count),
            l->sent == 1 ? "" : "s", l->sending->queue, duration_text(elapsed, time),
            number_text(per_second, rate));
}

int send_lines(struct send_input *sending, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    struct line_reader l = {.sending = sending,
                            .name = standard ? "standard input" : path,
                            .fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC),
                            .cap = PIECE_BYTES};
    struct stat about;
    if (l.fd < 0 || fstat(l.fd, &about) != 0) return read_failed(&l);
    if (S_ISREG(about.st_mode)) l.bytes_whole = (uint64_t)about.st_size;
    l.data = cli_alloc(l.cap);
    l.batch = cli_alloc(BATCH_MAX * sizeof *l.batch);
    l.answers = cli_alloc(BATCH_MAX * sizeof *l.answers);
    progress_begin(&l.progress, sending->cli, "sent", "messages");
    int status = send_all(&l);
    progress_end(&l.progress);
    if (status == 0) print_counts(&l);
    if (!standard) (void)close(l.fd);
    free(l.data);
    free(l.batch);
    free(l.answers);
    return status;
}
