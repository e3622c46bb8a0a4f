// SPDX-License-Identifier: Apache-2.0
// Long polls, held by one node: what they cost while nothing happens, and that each gets its
// message when something does.
//   polls SLUICE [--polls N] [--idle MS] [--shards N]
#define _GNU_SOURCE // memmem
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLLS_MAX       25000
#define IDLE_MAX_MS     12000 // a poll lasts 20 s, and some go by while all are begun
#define PATIENCE_MS     20000
#define POLL_MAX_KIB    100 // resident, for each poll; the node itself is in the first 2,000
#define SPARE           100 // connections beside the polls
#define CPU_MAX_PERCENT 1
#define CPU_GRAIN_MS    20 // the system counts in hundredths of a second
#define SEND_BATCH      100
#define ANSWER_MAX      4096

struct line {
    int fd;
    bool closed; // by the node
    size_t len;
    char in[ANSWER_MAX];
};

struct polls {
    struct load load;
    uint32_t len;
    int64_t idle_ms;
    struct line *lines;
    struct pollfd *ready;
};

static int dial(const struct node_process *n)
{
    unsigned port = (unsigned)atoi(strchr(n->address, ':') + 1);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0) return fd;
    if (fd >= 0) (void)close(fd);
    return -1;
}

static bool ask(int fd, const char *method, const char *path, const char *body)
{
    char text[512];
    int len = snprintf(text, sizeof text,
                       "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       method, path, strlen(body), body);
    return send(fd, text, (size_t)len, MSG_NOSIGNAL) == len;
}

// Reads what there is. True: the answer is whole, by its Content-Length.
static bool hear(struct line *l)
{
    ssize_t got = recv(l->fd, l->in + l->len, sizeof l->in - 1 - l->len, 0);
    if (got > 0) l->len += (size_t)got;
    l->closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    l->in[l->len] = '\0';
    const char *end = strstr(l->in, "\r\n\r\n");
    const char *length = strcasestr(l->in, "\r\ncontent-length:");
    return end && length && length < end &&
           l->len >= (size_t)(end + 4 - l->in) + (size_t)atoi(length + 17);
}

// How many receives the node says it holds.
static uint64_t waiting(const struct node_process *n)
{
    struct line l = {.fd = dial(n)};
    uint64_t count = 0;
    if (l.fd < 0) return 0;
    struct pollfd p = {.fd = l.fd, .events = POLLIN};
    bool whole = false;
    if (ask(l.fd, "GET", "/v1/node", ""))
        while (!whole && !l.closed && poll(&p, 1, PATIENCE_MS) > 0)
            whole = hear(&l);
    const char *field = strstr(l.in, "\"waiting\":");
    if (whole && field) count = strtoull(field + 10, NULL, 10);
    (void)close(l.fd);
    return count;
}

// Those that come while a node is still opening their queue wait in another way, for their 20 s.
static bool open_queue(const struct polls *p)
{
    struct sluice *node = NULL;
    struct sluice_batch *none = NULL;
    bool ok = sluice_open(p->load.node.url, NULL, &node, NULL) == SLUICE_OK &&
              sluice_receive(node, LOAD_QUEUE, NULL, &none, NULL) == SLUICE_OK;
    sluice_batch_free(none);
    sluice_close(node);
    return ok;
}

static bool begin_polls(struct polls *p)
{
    if (!open_queue(p)) return false;
    for (uint32_t i = 0; i < p->len; i++) {
        p->lines[i].fd = dial(&p->load.node);
        if (p->lines[i].fd < 0 || !ask(p->lines[i].fd, "POST", "/v1/queues/" LOAD_QUEUE "/receive",
                                       "{\"wait\":20000,\"visibility\":\"1h\"}"))
            return false;
    }
    for (int64_t end = load_now_ms() + PATIENCE_MS; load_now_ms() < end; load_nap_ms(10))
        if (waiting(&p->load.node) == p->len) return true;
    return false;
}

static void stay_idle(struct polls *p)
{
    struct load *l = &p->load;
    uint64_t before = node_process_cpu_ms(&l->node);
    load_nap_ms(p->idle_ms);
    uint64_t cpu = node_process_cpu_ms(&l->node) - before;
    uint64_t kib = node_process_resident_kib(&l->node);
    printf("# %" PRIu32 " polls held: %.1f MiB resident, %" PRIu64 " ms of CPU in %" PRId64
           " ms (%.2f %% of a core), load %.2f\n",
           p->len, (double)kib / 1024, cpu, p->idle_ms, (double)cpu * 100 / (double)p->idle_ms,
           load_average());
    load_case(l, "they are all held", waiting(&l->node) == p->len, "%" PRIu64, waiting(&l->node));
    uint64_t most = (uint64_t)POLL_MAX_KIB * (p->len > 2000 ? p->len : 2000);
    load_case(l, "they cost under 100 KiB each", kib > 0 && kib < most, "%" PRIu64 " KiB", kib);
    load_case(l, "they cost no measurable CPU",
              cpu <= CPU_GRAIN_MS + (uint64_t)p->idle_ms * CPU_MAX_PERCENT / 100, "%" PRIu64 " ms",
              cpu);
}

static bool send_all(struct polls *p)
{
    struct sluice *node = NULL;
    struct sluice_error error;
    struct sluice_send sends[SEND_BATCH];
    bool ok = sluice_open(p->load.node.url, NULL, &node, &error) == SLUICE_OK;
    for (size_t i = 0; i < SEND_BATCH; i++)
        sends[i] = (struct sluice_send){.body = "x", .body_len = 1};
    for (uint32_t sent = 0; ok && sent < p->len; sent += SEND_BATCH) {
        size_t count = p->len - sent < SEND_BATCH ? p->len - sent : SEND_BATCH;
        ok = sluice_send(node, LOAD_QUEUE, sends, count, NULL, NULL, &error) == SLUICE_OK;
    }
    sluice_close(node);
    return ok;
}

// How many were answered in time.
static uint32_t hear_all(struct polls *p)
{
    uint32_t whole = 0;
    for (uint32_t i = 0; i < p->len; i++)
        p->ready[i] = (struct pollfd){.fd = p->lines[i].fd, .events = POLLIN};
    for (int64_t end = load_now_ms() + PATIENCE_MS; whole < p->len;) {
        int64_t left = end - load_now_ms();
        if (left <= 0 || poll(p->ready, p->len, (int)left) <= 0) break;
        for (uint32_t i = 0; i < p->len; i++) {
            if (p->ready[i].revents == 0) continue;
            bool done = hear(&p->lines[i]);
            whole += done;
            if (done || p->lines[i].closed) p->ready[i].fd = -1;
        }
    }
    return whole;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// How many different messages came.
static uint32_t count_messages(const struct polls *p)
{
    const char **ids = calloc(p->len, sizeof *ids);
    uint32_t len = 0, different = 0;
    for (uint32_t i = 0; ids && i < p->len; i++) {
        char *id = strstr(p->lines[i].in, "\"id\":\"");
        if (!id || strstr(id + 6, "\"id\":\"")) continue; // none, or more than its one
        id[6 + strcspn(id + 6, "\"")] = '\0';
        ids[len++] = id;
    }
    if (ids) qsort(ids, len, sizeof *ids, compare);
    for (uint32_t i = 0; i < len; i++)
        different += i == 0 || strcmp(ids[i], ids[i - 1]) != 0;
    free(ids);
    return different;
}

static void run(struct polls *p)
{
    struct load *l = &p->load;
    bool begun = begin_polls(p);
    load_case(l, "so many polls can begin", begun, "%s; %" PRIu64 " wait", strerror(errno),
              waiting(&l->node));
    if (!begun) return;
    stay_idle(p);
    int64_t start = load_now_ms();
    bool sent = send_all(p);
    uint32_t answered = hear_all(p);
    printf("# %" PRIu32 " messages to %" PRIu32 " polls in %" PRId64 " ms\n", p->len, answered,
           load_now_ms() - start);
    load_case(l, "each is answered when there is work", sent && answered == p->len,
              "%" PRIu32 " were", answered);
    uint32_t messages = count_messages(p);
    load_case(l, "each gets one message, and no other gets it", messages == p->len,
              "%" PRIu32 " messages", messages);
    for (uint32_t i = 0; i < p->len; i++)
        (void)close(p->lines[i].fd);
}

// A node uses half of its files for connections.
static bool allow_files(uint32_t count)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 >= count + SPARE;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"polls", required_argument, NULL, 'n'},
                                          {"idle", required_argument, NULL, 'i'},
                                          {"shards", required_argument, NULL, 's'},
                                          {0}};
    static struct polls p = {.len = 2000, .idle_ms = 10000};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 'n') p.len = (uint32_t)atoi(optarg);
        if (o == 'i') p.idle_ms = atoi(optarg);
        if (o == 's') p.load.shards = optarg;
        if (o == '?') return 2;
    }
    if (optind + 1 != argc || p.len < 1 || p.len > POLLS_MAX || p.idle_ms < 1 ||
        p.idle_ms > IDLE_MAX_MS)
        return 2;
    if (!allow_files(p.len)) {
        printf("1..0 # SKIP too few files may be open here: %" PRIu32 " polls need %" PRIu32 "\n",
               p.len, 2 * (p.len + SPARE));
        return 0;
    }
    // By default one client may have three quarters of the connections.
    static const char *const settings[] = {"limits.connections=1000000", "limits.perClient=1000000",
                                           "limits.waiting=1000000", NULL};
    p.load.node.settings = settings;
    p.lines = calloc(p.len, sizeof *p.lines);
    p.ready = calloc(p.len, sizeof *p.ready);
    if (!p.lines || !p.ready) return 2;
    if (load_start(&p.load, argv[optind])) run(&p);
    free(p.lines);
    free(p.ready);
    return load_end(&p.load);
}
