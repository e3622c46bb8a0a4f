// SPDX-License-Identifier: Apache-2.0
// An efficient client: no Nagle, buffered reads, and a batch of commands in one write, then its
// answers. The protocol itself has no batches.
#include "beanstalk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMMAND_MAX 64
#define LINE_BYTES  256
#define READ_BYTES  65536

struct link {
    const struct bench_settings *settings;
    int fd;
    char *out; // a batch of commands
    size_t out_len;
    char in[READ_BYTES];
    size_t in_at;
    size_t in_len;
    char *bodies; // of the last receive, concatenated
    const char **views;
    uint64_t *ids;
    size_t got;
};

static bool refuse(char *problem, const char *what, const char *why)
{
    (void)snprintf(problem, BENCH_PROBLEM_MAX, "beanstalkd: %s: %s", what, why);
    return false;
}

static int dial(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0) return -1;
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static bool flush(struct link *l, char *problem)
{
    for (size_t at = 0; at < l->out_len;) {
        ssize_t n = write(l->fd, l->out + at, l->out_len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return refuse(problem, "write", strerror(errno));
        at += (size_t)n;
    }
    l->out_len = 0;
    return true;
}

static bool fill(struct link *l, char *problem)
{
    ssize_t n;
    do
        n = read(l->fd, l->in, sizeof l->in);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return refuse(problem, "read", n == 0 ? "closed" : strerror(errno));
    l->in_at = 0;
    l->in_len = (size_t)n;
    return true;
}

static bool read_bytes(struct link *l, char *out, size_t len, char *problem)
{
    while (len > 0) {
        if (l->in_at == l->in_len && !fill(l, problem)) return false;
        size_t have = l->in_len - l->in_at;
        size_t part = have < len ? have : len;
        memcpy(out, l->in + l->in_at, part);
        l->in_at += part;
        out += part;
        len -= part;
    }
    return true;
}

// Reads a line without its end.
static bool read_line(struct link *l, char out[LINE_BYTES], char *problem)
{
    for (size_t len = 0; len + 1 < LINE_BYTES; len++) {
        if (l->in_at == l->in_len && !fill(l, problem)) return false;
        out[len] = l->in[l->in_at++];
        if (len > 0 && out[len - 1] == '\r' && out[len] == '\n') {
            out[len - 1] = 0;
            return true;
        }
    }
    return refuse(problem, "a line is too long", out);
}

static void *beanstalk_open(const struct bench_settings *s, char *problem)
{
    (void)problem;
    struct bench_settings *copy = malloc(sizeof *copy);
    if (copy) *copy = *s;
    return copy;
}

static void beanstalk_close(void *handle)
{
    free(handle);
}

static void beanstalk_unlink(void *link)
{
    struct link *l = link;
    if (l->fd >= 0) (void)close(l->fd);
    free(l->out);
    free(l->bodies);
    free(l->views);
    free(l->ids);
    free(l);
}

static void *beanstalk_link(void *handle, uint32_t client, char *problem)
{
    (void)client;
    const struct bench_settings *s = handle;
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->settings = s;
    l->out = malloc(s->batch * (s->size + COMMAND_MAX));
    l->bodies = malloc(s->batch * (s->size + 2));
    l->views = calloc(s->batch, sizeof *l->views);
    l->ids = calloc(s->batch, sizeof *l->ids);
    l->fd = dial(s->place);
    if (l->out && l->bodies && l->views && l->ids && l->fd >= 0) return l;
    (void)refuse(problem, "connect", strerror(errno));
    beanstalk_unlink(l);
    return NULL;
}

static void command(struct link *l, const char *words, unsigned long long value)
{
    l->out_len += (size_t)snprintf(l->out + l->out_len, COMMAND_MAX, "%s %llu\r\n", words, value);
}

static bool beanstalk_send(void *link, const char *bodies, size_t count, char *problem)
{
    struct link *l = link;
    size_t size = l->settings->size;
    for (size_t i = 0; i < count; i++) {
        command(l, "put 1024 0 120", size);
        memcpy(l->out + l->out_len, bodies + i * size, size);
        memcpy(l->out + l->out_len + size, "\r\n", 2);
        l->out_len += size + 2;
    }
    if (!flush(l, problem)) return false;
    char line[LINE_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (!read_line(l, line, problem)) return false;
        if (strncmp(line, "INSERTED ", 9) != 0) return refuse(problem, "put", line);
    }
    return true;
}

// Reads one answer to a reserve. A time-out adds nothing.
static bool take(struct link *l, char *problem)
{
    char line[LINE_BYTES];
    unsigned long long id;
    size_t size;
    if (!read_line(l, line, problem)) return false;
    if (strcmp(line, "TIMED_OUT") == 0) return true;
    if (sscanf(line, "RESERVED %llu %zu", &id, &size) != 2 || size != l->settings->size)
        return refuse(problem, "reserve", line);
    char *body = l->bodies + l->got * (l->settings->size + 2);
    if (!read_bytes(l, body, size + 2, problem)) return false;
    l->views[l->got] = body;
    l->ids[l->got++] = id;
    return true;
}

static bool beanstalk_receive(void *link, uint32_t max, int64_t wait_ms, struct bench_batch *got,
                              char *problem)
{
    struct link *l = link;
    l->got = 0;
    if (max > 1) {
        for (uint32_t i = 0; i < max; i++)
            command(l, "reserve-with-timeout", 0);
        if (!flush(l, problem)) return false;
        for (uint32_t i = 0; i < max; i++)
            if (!take(l, problem)) return false;
    }
    if (l->got == 0) { // the protocol knows only whole seconds
        command(l, "reserve-with-timeout", wait_ms > 0 ? 1 : 0);
        if (!flush(l, problem) || !take(l, problem)) return false;
    }
    *got = (struct bench_batch){.bodies = l->views, .len = l->got};
    return true;
}

static bool beanstalk_ack(void *link, char *problem)
{
    struct link *l = link;
    char line[LINE_BYTES];
    for (size_t i = 0; i < l->got; i++)
        command(l, "delete", l->ids[i]);
    if (!flush(l, problem)) return false;
    for (size_t i = 0; i < l->got; i++) {
        if (!read_line(l, line, problem)) return false;
        if (strcmp(line, "DELETED") != 0) return refuse(problem, "delete", line);
    }
    return true;
}

const struct bench_target bench_beanstalk = {
    .name = "beanstalkd",
    .open = beanstalk_open,
    .close = beanstalk_close,
    .link = beanstalk_link,
    .unlink = beanstalk_unlink,
    .send = beanstalk_send,
    .receive = beanstalk_receive,
    .ack = beanstalk_ack,
};
