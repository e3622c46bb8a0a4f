// SPDX-License-Identifier: Apache-2.0
// Many processes with many workers on one directory or bucket, killed and stopped at random;
// afterwards the event stream must show that nothing was lost, nothing ended twice, nothing had two
// holders, and strict groups stayed in order.
//   chaos [--seconds N] [--seed N] [--processes N] [--workers N] [--dir DIR] [--keep]
//   chaos --bucket [--faults] [--restarts] [--timeout MS]    under tests/servers/with-radosgw: the
//     bucket there; requests meet faults; its server is killed as well; calls give up so early
//   chaos --redis [--restarts]    under tests/servers/with-redis: the server there; it is killed
//     as well, during rewrites of its file, and forgets its scripts
//   chaos --node SLUICE    all processes ask a node over HTTP, which is killed every two seconds
//   and
//     started again at once under its own name
#define _GNU_SOURCE // nftw
#include "history.h"
#include "node_process.h"
#include "server.h"
#include "worker.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define DRAIN_MS      60000
#define EXTRA_MS      60000 // more for a busy machine, until something happened
#define ENOUGH        100   // processed
#define PAUSE_MS      2000  // a stopped process outlives its locks
#define NODE_LIFE_MS  2000
#define SLICE_MS      20
#define PATH_LEN      256

struct chaos {
    uint32_t seconds;
    uint64_t seed;
    uint32_t processes;
    uint32_t workers;
    bool keep;
    bool bucket;
    bool redis;
    bool faults;
    bool restarts;
    uint32_t timeout_ms;   // of a worker's call; 0: the library's
    struct server *server; // of the bucket, or the Redis server
    char dir[PATH_LEN];
    char store[PATH_LEN + 16];
    const char *place;        // what the processes open: the store, or the node
    struct node_process node; // program NULL: there is none
    int64_t node_ends_at;
    uint64_t node_kills;
    struct sluice *direct; // the store, beside the node
    char shared_record_path[PATH_LEN + 16];
    struct shared_record *shared;
    struct sluice *handle;
    struct recorder recorders[LANES];
    struct chance chance;
    pid_t children[PROCESSES_MAX];
    uint64_t started; // processes, ever: each has its own seed
    uint64_t kills;
    uint64_t pauses;
    int failed; // cases
    int cases;
};

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool spawn(struct chaos *c, uint32_t at)
{
    char seed[24];
    char workers[12];
    char timeout[12];
    (void)snprintf(seed, sizeof seed, "%" PRIu64, c->seed * 10007 + c->started++);
    (void)snprintf(workers, sizeof workers, "%" PRIu32, c->workers);
    (void)snprintf(timeout, sizeof timeout, "%" PRIu32, c->timeout_ms);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        (void)execl("/proc/self/exe", "chaos", "--as-process", c->place, "--shared-record",
                    c->shared_record_path, "--seed", seed, "--workers", workers, "--timeout",
                    timeout, (char *)NULL);
        _exit(127);
    }
    c->children[at] = pid;
    return pid > 0;
}

static int reap(struct chaos *c, uint32_t at)
{
    int status = 0;
    while (waitpid(c->children[at], &status, 0) < 0 && errno == EINTR)
        continue;
    c->children[at] = 0;
    return status;
}

// Away for a moment, or for longer than locks last.
static void restart_server(struct chaos *c)
{
    bool ok = server_kill(c->server);
    nap_ms((int64_t)chance_under(&c->chance, c->redis ? PAUSE_MS / 8 : PAUSE_MS));
    if (!ok || !server_start(c->server))
        shared_record_fault(c->shared, "the server was not restarted");
}

// Its clients have requests under way, some done and not answered.
static void restart_node(struct chaos *c)
{
    c->node_kills++;
    node_process_kill(&c->node);
    if (!node_process_start(&c->node)) shared_record_fault(c->shared, "%s", c->node.problem);
    c->node_ends_at = now_ms() + NODE_LIFE_MS;
}

// Time goes by, and the node's life with it.
static void pass_ms(struct chaos *c, int64_t ms)
{
    int64_t end = now_ms() + ms;
    for (int64_t left = ms; left > 0; left = end - now_ms()) {
        if (c->node.program && now_ms() >= c->node_ends_at) restart_node(c);
        nap_ms(left < SLICE_MS ? left : SLICE_MS);
    }
}

// One that is stopped for longer than its locks last wakes up with tokens that are no longer good.
static void disturb(struct chaos *c)
{
    uint32_t at = (uint32_t)chance_under(&c->chance, c->processes);
    if (c->restarts && chance_percent(&c->chance, c->redis ? 50 : 15)) {
        restart_server(c);
        return;
    }
    if (chance_percent(&c->chance, 10)) {
        c->pauses++;
        (void)kill(c->children[at], SIGSTOP);
        pass_ms(c, PAUSE_MS);
        (void)kill(c->children[at], SIGCONT);
        return;
    }
    c->kills++;
    (void)kill(c->children[at], SIGKILL);
    (void)reap(c, at);
    (void)spawn(c, at);
}

// More than enough was processed, and something was delivered once more.
static bool something_happened(const struct chaos *c)
{
    uint64_t tried = atomic_load(&c->shared->next);
    uint64_t acked = 0;
    bool again = false;
    for (uint64_t i = 0; i < tried && i < SHARED_RECORD_ROWS_MAX; i++) {
        acked += atomic_load(&c->shared->rows[i].acked) > 0;
        again = again || atomic_load(&c->shared->rows[i].received) > 1;
    }
    return again && acked > ENOUGH;
}

static void run(struct chaos *c)
{
    int64_t end = now_ms() + (int64_t)c->seconds * 1000;
    for (uint32_t i = 0; i < c->processes; i++)
        (void)spawn(c, i);
    if (c->faults) server_trouble(c->server);
    while ((now_ms() < end || (now_ms() < end + EXTRA_MS && !something_happened(c))) &&
           atomic_load(&c->shared->faults) == 0) {
        pass_ms(c, 50 + (int64_t)chance_under(&c->chance, 300));
        disturb(c);
    }
    if (c->server) server_calm(c->server);
    atomic_store(&c->shared->phase, PHASE_DRAIN);
}

static void stop(struct chaos *c)
{
    atomic_store(&c->shared->phase, PHASE_STOP);
    for (uint32_t i = 0; i < c->processes; i++) {
        if (c->children[i] <= 0) continue;
        int status = reap(c, i);
        if (status != 0) shared_record_fault(c->shared, "a process ended with status %d", status);
    }
}

static bool find_place(struct chaos *c, const char *base)
{
    (void)snprintf(c->dir, sizeof c->dir, "%s/sluice-chaos-XXXXXX", base);
    if (!mkdtemp(c->dir)) return false;
    (void)snprintf(c->shared_record_path, sizeof c->shared_record_path, "%s/shared-record", c->dir);
    (void)snprintf(c->store, sizeof c->store, "%s/store", c->dir);
    c->place = c->store;
    c->shared = shared_record_open(c->shared_record_path, true);
    if (!c->shared || (!c->bucket && !c->redis)) return c->shared != NULL;
    const char *url = getenv(c->redis ? "SLUICE_TEST_REDIS" : "SLUICE_TEST_S3");
    c->server = c->redis ? server_of_redis() : server_new(c->seed);
    (void)snprintf(c->store, sizeof c->store, "%s%s%s", url ? url : "", c->redis ? "&prefix=" : "/",
                   strrchr(c->dir, '/') + 1);
    return url && c->server;
}

static bool start_node(struct chaos *c)
{
    struct sluice_error e = {.message = ""};
    c->node.store = c->place;
    bool ok =
        node_process_start(&c->node) && sluice_open(c->store, NULL, &c->direct, &e) == SLUICE_OK;
    if (!ok) printf("# %s%s\n", c->node.problem, e.message);
    c->place = c->node.url;
    c->node_ends_at = now_ms() + NODE_LIFE_MS;
    return ok;
}

static bool prepare(struct chaos *c, const char *base)
{
    if (!find_place(c, base) || (c->node.program && !start_node(c))) return false;
    static const struct sluice_setting plain[] = {{"failureStrategy.maxRetries", "1000"},
                                                  {"failureStrategy.backoff.initial", "20ms"}};
    static const struct sluice_setting strict[] = {{"orderingGuarantee", "true"},
                                                   {"failureStrategy.maxRetries", "1000"},
                                                   {"failureStrategy.backoff.initial", "5ms"},
                                                   {"failureStrategy.backoff.max", "50ms"}};
    static const struct sluice_setting hybrid[] = {{"failureStrategy.mode", "hybrid"},
                                                   {"failureStrategy.maxRetries", "2"},
                                                   {"failureStrategy.deadLetterQueue", DEAD_QUEUE},
                                                   {"failureStrategy.backoff.initial", "20ms"}};
    struct sluice_error e;
    bool ok = sluice_open(c->place, NULL, &c->handle, &e) == SLUICE_OK;
    struct sluice *s = c->handle;
    ok = ok && sluice_queue_create(s, lane_names[LANE_PLAIN], plain, 2, &e) == SLUICE_OK &&
         sluice_queue_create(s, lane_names[LANE_STRICT], strict, 4, &e) == SLUICE_OK &&
         sluice_queue_create(s, lane_names[LANE_HYBRID], hybrid, 4, &e) == SLUICE_OK;
    if (!ok) printf("# %s\n", e.message);
    for (int lane = 0; lane < LANES && ok; lane++)
        ok = recorder_start(&c->recorders[lane], s, (enum lane)lane);
    return ok;
}

static bool is_empty(struct sluice *s, char *why, size_t why_len)
{
    for (int lane = 0; lane < LANES; lane++) {
        struct sluice_stats stats;
        struct sluice_error e;
        if (sluice_stats(s, lane_names[lane], &stats, &e) != SLUICE_OK) {
            (void)snprintf(why, why_len, "%s", e.message);
            return false;
        }
        if (stats.ready + stats.locked + stats.delayed + stats.outbound == 0) continue;
        (void)snprintf(why, why_len,
                       "%s: %" PRIu64 " ready, %" PRIu64 " locked, %" PRIu64 " delayed, %" PRIu64
                       " outbound",
                       lane_names[lane], stats.ready, stats.locked, stats.delayed, stats.outbound);
        return false;
    }
    return true;
}

// A send that is in doubt is repeated, and may arrive when the queues were empty for a moment.
static bool senders_ended(const struct chaos *c)
{
    for (size_t i = 0; i < SENDERS_MAX; i++)
        for (uint32_t k = 0; k < c->processes; k++)
            if (c->children[k] > 0 && atomic_load(&c->shared->senders[i]) == c->children[k])
                return false;
    return true;
}

static bool drain(struct chaos *c)
{
    char why[400] = "";
    int64_t end = now_ms() + DRAIN_MS;
    while (atomic_load(&c->shared->faults) == 0) {
        if (!senders_ended(c))
            (void)snprintf(why, sizeof why, "a sender has not ended");
        else if (is_empty(c->handle, why, sizeof why))
            return true;
        if (now_ms() > end) break;
        nap_ms(20);
    }
    printf("# not drained: %s\n", why);
    return false;
}

static void note_dead(struct shared_record *shared, const struct sluice_message *m)
{
    uint64_t number = UINT64_MAX;
    if (m->body_len >= sizeof number) memcpy(&number, m->body, sizeof number);
    const char *id = "";
    for (size_t i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i].name, "sluice-dead-id") == 0) id = m->headers[i].value;
    if (number >= atomic_load(&shared->next) || shared->rows[number].lane != LANE_HYBRID)
        shared_record_fault(shared, "dead letter %s has a body that was not sent", m->id);
    else
        shared_record_id(shared, number, id);
}

// A message may die unseen: three answers that delivered it were lost, and so was the answer that
// had its id. Its dead letter says which it was.
static void read_dead_letters(struct chaos *c)
{
    const struct sluice_receive r = {.max = 100, .visibility_ms = 3600000};
    for (size_t len = 1; len > 0;) {
        struct sluice_batch *b = NULL;
        struct sluice_error e = {.message = ""};
        enum sluice_code code = sluice_receive(c->handle, DEAD_QUEUE, &r, &b, &e);
        if (code) shared_record_fault(c->shared, "receive of dead letters answers %s", e.message);
        len = b ? b->len : 0;
        for (size_t i = 0; i < len; i++)
            note_dead(c->shared, &b->messages[i]);
        sluice_batch_free(b);
    }
}

static void report(struct chaos *c, const char *name, bool ok, const char *detail)
{
    c->cases++;
    c->failed += !ok;
    printf("%sok %d - %s\n", ok ? "" : "not ", c->cases, name);
    if (!ok && *detail) printf("# %s\n", detail);
}

static void report_count(struct chaos *c, const char *name, uint64_t count, const char *first)
{
    char detail[300];
    (void)snprintf(detail, sizeof detail, "%" PRIu64 " times; first: %s", count, first);
    report(c, name, count == 0, detail);
}

// What the workers saw: rows that were answered, and how often a message came.
static void describe(const struct chaos *c, const struct findings *v)
{
    uint64_t tried = atomic_load(&c->shared->next);
    uint64_t sent = 0;
    uint64_t duplicates = 0;
    for (uint64_t i = 0; i < tried && i < SHARED_RECORD_ROWS_MAX; i++) {
        sent += atomic_load(&c->shared->rows[i].sent);
        duplicates += atomic_load(&c->shared->rows[i].received) > 1;
    }
    printf("# %" PRIu64 " sends answered, %" PRIu64 " enqueued, %" PRIu64 " processed, %" PRIu64
           " dead-lettered, %" PRIu64 " claims (%" PRIu64 " again, %" PRIu64 " locks expired)\n",
           sent, v->enqueued, v->processed, v->dead, v->claims, v->again, v->expired);
    printf("# %" PRIu64 " messages were delivered more than once (at least once is the promise), "
           "%" PRIu64 " late words refused, %" PRIu64 " answers asked for again\n",
           duplicates, atomic_load(&c->shared->refused), atomic_load(&c->shared->unknown));
    printf("# %" PRIu64 " sends given up without an answer, %" PRIu64 " answered as not done\n",
           atomic_load(&c->shared->given_up), atomic_load(&c->shared->denied));
    printf("# %" PRIu64 " kills, %" PRIu64 " pauses, %" PRIu64 " processes, %" PRIu64 " events\n",
           c->kills, c->pauses, c->started, v->events);
    if (c->node.program) printf("# the node was killed %" PRIu64 " times\n", c->node_kills);
}

static uint64_t came_all_the_same(const struct chaos *c)
{
    uint64_t tried = atomic_load(&c->shared->next);
    uint64_t count = 0;
    for (uint64_t i = 0; i < tried && i < SHARED_RECORD_ROWS_MAX; i++) {
        const struct row *row = &c->shared->rows[i];
        count += atomic_load(&row->refused) && atomic_load(&row->received) > 0;
    }
    return count;
}

static void describe_server(const struct chaos *c)
{
    uint64_t commits = 0;
    for (int lane = 0; lane < LANES; lane++) {
        struct sluice_stats stats = {0};
        (void)sluice_stats(c->handle, lane_names[lane], &stats, NULL);
        commits += stats.entries;
    }
    server_describe(c->server, commits);
}

static void decide(struct chaos *c, bool drained)
{
    struct findings v = {0};
    bool read = true;
    const char *problem = "";
    for (int lane = 0; lane < LANES && read; lane++) {
        struct recorder *r = &c->recorders[lane];
        recorder_finish(r);
        if (c->direct) r->store = c->direct; // what the node told is what the store has
        read = !*r->problem && history_check(r, c->shared, &v) && recorder_agrees(r);
        problem = r->problem;
    }
    describe(c, &v);
    if (c->server) describe_server(c);
    report(c, "every call answers as it should", atomic_load(&c->shared->faults) == 0,
           c->shared->fault);
    report(c, "every reader hears the same events", read, problem);
    report(c, "everything ends after the faults", drained, "");
    report_count(c, "nothing that was sent is lost", v.lost, v.first[5]);
    report_count(c, "nothing is acked twice or given after its end", v.two_ends, v.first[1]);
    report_count(c, "nothing has two holders", v.two_holders, v.first[0]);
    report_count(c, "strict groups stay in order", v.disorder, v.first[2]);
    report_count(c, "nothing comes that was not sent", v.never_sent, v.first[3]);
    report_count(c, "nothing comes that was answered as not done", came_all_the_same(c), "");
    report_count(c, "every event is told once, in order", v.twice_told, v.first[4]);
    struct sluice_stats dead = {0};
    (void)sluice_stats(c->handle, DEAD_QUEUE, &dead, NULL);
    char detail[100];
    (void)snprintf(detail, sizeof detail, "%" PRIu64 " arrived of %" PRIu64, dead.sent, v.dead);
    report(c, "every dead letter arrives once", dead.sent == v.dead, detail);
    report(c, "something happened", v.processed > ENOUGH && v.again > 0, "");
    if (c->node.program)
        report(c, "the node stops when it is told to", node_process_stop(&c->node), "");
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
    (void)s, (void)kind, (void)ftw;
    return remove(path);
}

static int chaos(struct chaos *c, const char *base)
{
    printf("# seed %" PRIu64 ": %" PRIu32 " processes x %" PRIu32 " workers, %" PRIu32 " s\n",
           c->seed, c->processes, c->workers, c->seconds);
    c->chance.state = c->seed;
    bool ready = prepare(c, base);
    report(c, "the queues can be made", ready, strerror(errno));
    if (ready) {
        run(c);
        bool drained = drain(c);
        stop(c);
        read_dead_letters(c);
        decide(c, drained);
    }
    for (int lane = 0; lane < LANES; lane++) {
        recorder_finish(&c->recorders[lane]);
        recorder_done(&c->recorders[lane]);
    }
    sluice_close(c->handle);
    sluice_close(c->direct);
    node_process_kill(&c->node);
    server_free(c->server);
    printf("1..%d\n", c->cases);
    if (!c->keep && c->failed == 0 && c->dir[0])
        (void)nftw(c->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    else
        printf("# kept: %s\n", c->dir);
    return c->failed > 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"seconds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"workers", required_argument, NULL, 'w'},
                                          {"dir", required_argument, NULL, 'd'},
                                          {"keep", no_argument, NULL, 'k'},
                                          {"bucket", no_argument, NULL, 'b'},
                                          {"redis", no_argument, NULL, 'R'},
                                          {"faults", no_argument, NULL, 'f'},
                                          {"restarts", no_argument, NULL, 't'},
                                          {"timeout", required_argument, NULL, 'm'},
                                          {"node", required_argument, NULL, 'n'},
                                          {"as-process", required_argument, NULL, 'a'},
                                          {"shared-record", required_argument, NULL, 'l'},
                                          {0}};
    static struct chaos c = {.seconds = 10, .processes = 8, .workers = 25};
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    const char *store = NULL;
    const char *shared = NULL;
    c.seed = (uint64_t)time(NULL);
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 's') c.seconds = (uint32_t)atoi(optarg);
        if (o == 'r') c.seed = strtoull(optarg, NULL, 10);
        if (o == 'p') c.processes = (uint32_t)atoi(optarg);
        if (o == 'w') c.workers = (uint32_t)atoi(optarg);
        if (o == 'd') base = optarg;
        if (o == 'k') c.keep = true;
        if (o == 'b') c.bucket = true;
        if (o == 'R') c.redis = true;
        if (o == 'f') c.bucket = c.faults = true;
        if (o == 'm') c.timeout_ms = (uint32_t)atoi(optarg);
        if (o == 'n') c.node.program = optarg;
        if (o == 't') c.restarts = true;
        if (o == 'a') store = optarg;
        if (o == 'l') shared = optarg;
        if (o == '?') return 2;
    }
    c.bucket = !c.redis && (c.bucket || c.restarts);
    if (c.processes < 1 || c.processes > PROCESSES_MAX) return 2;
    if (store)
        return worker_process(&(struct worker_settings){.store = store,
                                                        .shared = shared,
                                                        .seed = c.seed,
                                                        .workers = c.workers,
                                                        .timeout_ms = c.timeout_ms});
    return chaos(&c, base);
}
