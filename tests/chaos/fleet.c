// SPDX-License-Identifier: Apache-2.0
// A fleet of registered workers. Processes with many workers each are killed and stopped at random,
// and the coordinator (the node that owns the shard and dispatches) is killed every 5 s. After that
// no message is lost, none was acknowledged twice, every live worker is served, and the rows of
// dead workers are gone.
//   fleet --node SLUICE [--nodes N] [--bucket] [--workers N] [--processes N] [--seconds N]
//         [--ttl MS] [--lease MS] [--seed N] [--keep]
// The lease of a message must be longer than an exchange through a mailbox takes.
// One node: half of the processes ask it, the others open the store. On a bucket, half of those use
// mailboxes. Several nodes: every process knows all of them. --bucket: under
// tests/servers/with-radosgw.
#define _GNU_SOURCE // nftw
#include "fleet_worker.h"
#include "history.h"
#include "node_process.h"
#include "sluice_cluster.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
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
#define NODES_MAX     3
#define COORD_LIFE_MS 5000
#define PATIENCE_MS   90000
#define BACKLOG_EACH  20 // messages for each worker. Without a backlog, receives that wait get all.
#define SEND_MAX      200
#define LISTED_MAX    4096
#define PATH_LEN      256

struct fleet {
    const char *program;
    uint32_t nodes_len, workers, processes, seconds;
    int64_t ttl_ms, lease_ms;
    uint64_t seed;
    bool bucket, keep;
    char dir[PATH_LEN], store[PATH_LEN + 16], path[PATH_LEN + 16], url[200];
    struct node_process nodes[NODES_MAX];
    struct shared_record *shared;
    struct sluice *handle; // of the store
    struct recorder recorder;
    pthread_t sender;
    struct chance chance;
    pid_t children[PROCESSES_MAX];
    uint64_t lives[PROCESSES_MAX];
    int64_t resumes_at[PROCESSES_MAX]; // 0: it runs
    uint64_t started, kills, stops, coordinator_kills;
    int64_t expired_ms, served_ms; // how long it took, after the storm
    int failed, cases;
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

static double load_average(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

static void report(struct fleet *f, const char *name, bool ok, const char *detail)
{
    f->cases++;
    f->failed += !ok;
    printf("%sok %d - %s\n", ok ? "" : "not ", f->cases, name);
    if (!ok && *detail) printf("# %s\n", detail);
    (void)fflush(stdout);
}

static bool no_faults(const struct fleet *f)
{
    return atomic_load(&f->shared->faults) == 0;
}

static uint32_t first_row(const struct fleet *f, uint32_t process)
{
    return process * f->workers / f->processes;
}

static uint32_t rows_of(const struct fleet *f, uint32_t process)
{
    return first_row(f, process + 1) - first_row(f, process);
}

// A quarter of the processes on a bucket uses mailboxes.
static bool uses_store(const struct fleet *f, uint32_t at)
{
    return f->nodes_len == 1 && at % 2 == 1;
}

static void spawn(struct fleet *f, uint32_t at)
{
    char number[6][24];
    uint64_t life = f->lives[at] = ++f->started;
    bool mailbox = f->bucket && uses_store(f, at) && at % 4 == 1;
    (void)snprintf(number[0], sizeof number[0], "%" PRIu64, life);
    (void)snprintf(number[1], sizeof number[1], "%" PRIu32, first_row(f, at));
    (void)snprintf(number[2], sizeof number[2], "%" PRIu32, rows_of(f, at));
    (void)snprintf(number[3], sizeof number[3], "%" PRId64, f->ttl_ms);
    (void)snprintf(number[4], sizeof number[4], "%d", mailbox);
    (void)snprintf(number[5], sizeof number[5], "%" PRId64, f->lease_ms);
    const char *place = uses_store(f, at) ? f->store : f->url;
    pid_t parent = getpid();
    f->children[at] = fork();
    if (f->children[at] != 0) return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    (void)execl("/proc/self/exe", "fleet", "--as-process", place, "--shared-record", f->path,
                "--life", number[0], "--first", number[1], "--workers", number[2], "--ttl",
                number[3], "--mailbox", number[4], "--lease", number[5], (char *)NULL);
    _exit(127);
}

static int reap(struct fleet *f, uint32_t at)
{
    int status = 0;
    while (waitpid(f->children[at], &status, 0) < 0 && errno == EINTR)
        continue;
    f->children[at] = 0;
    return status;
}

static void resume(struct fleet *f, bool all)
{
    for (uint32_t i = 0; i < f->processes; i++) {
        if (f->resumes_at[i] == 0 || (!all && now_ms() < f->resumes_at[i])) continue;
        (void)kill(f->children[i], SIGCONT);
        f->resumes_at[i] = 0;
    }
}

// A process that is stopped for longer than its ttl wakes up without its rows.
static void disturb(struct fleet *f)
{
    uint32_t at = (uint32_t)chance_under(&f->chance, f->processes);
    if (f->resumes_at[at] > 0) return;
    if (chance_percent(&f->chance, 40)) {
        f->stops++;
        f->resumes_at[at] = now_ms() + (int64_t)chance_under(&f->chance, (uint64_t)f->ttl_ms * 2);
        (void)kill(f->children[at], SIGSTOP);
        return;
    }
    f->kills++;
    (void)kill(f->children[at], SIGKILL);
    (void)reap(f, at);
    spawn(f, at);
}

// The owner of a shard, as the journal says. If it is not known: any node.
static struct node_process *coordinator(struct fleet *f)
{
    struct sluice_cluster *c = NULL;
    struct node_process *found = &f->nodes[chance_under(&f->chance, f->nodes_len)];
    if (f->nodes_len == 1 || sluice_cluster_show(f->handle, NULL, &c, NULL)) return found;
    size_t skip = (size_t)chance_under(&f->chance, c->shards_len + 1);
    for (size_t i = 0; i < c->shards_len; i++)
        for (uint32_t n = 0; n < f->nodes_len; n++)
            if (strcmp(c->shards[(i + skip) % c->shards_len].owner, f->nodes[n].name) == 0)
                found = &f->nodes[n];
    sluice_cluster_free(c);
    return found;
}

static void kill_coordinator(struct fleet *f)
{
    struct node_process *n = coordinator(f);
    f->coordinator_kills++;
    node_process_kill(n);
    nap_ms((int64_t)chance_under(&f->chance, 500));
    if (!node_process_start(n)) shared_record_fault(f->shared, "%s", n->problem);
}

static void storm(struct fleet *f)
{
    int64_t end = now_ms() + (int64_t)f->seconds * 1000;
    int64_t kill_at = now_ms() + COORD_LIFE_MS;
    for (uint32_t i = 0; i < f->processes; i++)
        spawn(f, i);
    while (now_ms() < end && no_faults(f)) {
        nap_ms(100 + (int64_t)chance_under(&f->chance, 900));
        resume(f, false);
        disturb(f);
        if (now_ms() < kill_at) continue;
        kill_coordinator(f);
        kill_at = now_ms() + COORD_LIFE_MS;
    }
    resume(f, true);
}

static bool send_batch(struct fleet *f, struct sluice *s, struct chance *chance)
{
    char bodies[SEND_MAX][64] = {0};
    struct sluice_send sends[SEND_MAX];
    struct sluice_sent sent[SEND_MAX];
    struct sluice_request request;
    struct sluice_error error;
    enum sluice_code code;
    size_t len = 1 + chance_under(chance, SEND_MAX);
    uint64_t first = atomic_fetch_add(&f->shared->next, len);
    for (size_t i = 0; i < len; i++) {
        uint64_t number = first + i;
        memcpy(bodies[i], &number, sizeof number);
        sends[i] = (struct sluice_send){.body = bodies[i], .body_len = sizeof bodies[i]};
    }
    for (size_t i = 0; i < sizeof request.bytes; i++)
        request.bytes[i] = (uint8_t)chance_next(chance);
    do {
        code = sluice_send(s, FLEET_QUEUE, sends, len, &request, sent, &error);
        if (code) nap_ms(20);
    } while (code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE);
    if (code != SLUICE_OK) shared_record_fault(f->shared, "send answers %s", error.message);
    for (size_t i = 0; i < len && code == SLUICE_OK; i++) {
        shared_record_id(f->shared, first + i, sent[i].id);
        atomic_store(&f->shared->rows[first + i].sent, 1);
    }
    return code == SLUICE_OK;
}

static void *sender_main(void *ctx)
{
    struct fleet *f = ctx;
    struct chance chance = {.state = f->seed + 1};
    struct sluice *s = NULL;
    while (sluice_open(f->url, NULL, &s, NULL) && no_faults(f))
        nap_ms(50);
    while (atomic_load(&f->shared->phase) == PHASE_RUN && no_faults(f)) {
        struct sluice_stats stats = {0};
        (void)sluice_stats(s, FLEET_QUEUE, &stats, NULL); // the node may be away
        if (stats.ready > f->workers * BACKLOG_EACH)
            nap_ms(10);
        else if (!send_batch(f, s, &chance))
            break;
    }
    sluice_close(s);
    return NULL;
}

static bool find_place(struct fleet *f, const char *base)
{
    (void)snprintf(f->dir, sizeof f->dir, "%s/sluice-fleet-XXXXXX", base);
    if (!mkdtemp(f->dir)) return false;
    (void)snprintf(f->path, sizeof f->path, "%s/shared-record", f->dir);
    (void)snprintf(f->store, sizeof f->store, "%s/store", f->dir);
    const char *url = getenv("SLUICE_TEST_S3");
    if (f->bucket && !url) return false;
    if (f->bucket)
        (void)snprintf(f->store, sizeof f->store, "%s/%s", url, strrchr(f->dir, '/') + 1);
    f->shared = shared_record_open(f->path, true);
    return f->shared;
}

static bool start_nodes(struct fleet *f)
{
    static const char *const names[NODES_MAX] = {"one", "two", "three"};
    size_t len = 0;
    for (uint32_t i = 0; i < f->nodes_len; i++) {
        struct node_process *n = &f->nodes[i];
        *n = (struct node_process){.program = f->program, .store = f->store, .name = names[i]};
        if (f->nodes_len > 1) n->coord = "store:";
        if (!node_process_start(n)) {
            printf("# %s\n", n->problem);
            return false;
        }
        len += (size_t)snprintf(f->url + len, sizeof f->url - len, "%s%s", len ? "," : "",
                                len ? n->address : n->url);
    }
    return true;
}

static bool prepare(struct fleet *f, const char *base)
{
    struct sluice_setting settings[] = {{"dispatch", "tickets"},
                                        {"failureStrategy.maxRetries", "1000"},
                                        {"failureStrategy.backoff.initial", "20ms"},
                                        {"shards", f->nodes_len > 1 ? "3" : "1"}};
    struct sluice_error e = {.message = ""};
    struct sluice_upgrade done;
    bool ok = find_place(f, base) && sluice_open(f->store, NULL, &f->handle, &e) == SLUICE_OK &&
              start_nodes(f);
    // The setting needs the newer rules.
    ok = ok && sluice_queue_create(f->handle, FLEET_QUEUE, settings + 1, 3, &e) == SLUICE_OK &&
         sluice_queue_upgrade(f->handle, FLEET_QUEUE, SLUICE_UPGRADE_FORCE, &done, &e) ==
             SLUICE_OK &&
         sluice_queue_set(f->handle, FLEET_QUEUE, settings, 1, &e) == SLUICE_OK &&
         recorder_start(&f->recorder, f->handle, LANE_PLAIN);
    if (!ok) printf("# %s\n", e.message);
    return ok && pthread_create(&f->sender, NULL, sender_main, f) == 0;
}

// Whether every worker of the live processes got a message since `before`.
static bool all_served(const struct fleet *f, const uint64_t *before, char *why, size_t why_len)
{
    uint32_t missing = 0;
    for (uint32_t p = 0; p < f->processes; p++)
        for (uint32_t i = first_row(f, p); i < first_row(f, p + 1); i++) {
            const struct fleet_row *row = &f->shared->fleet[i];
            bool lives = atomic_load(&row->life) == f->lives[p] && atomic_load(&row->joined);
            if (lives && atomic_load(&row->served) > before[i]) continue;
            if (missing++ > 0) continue;
            char name[48];
            fleet_name(name, sizeof name, i, f->lives[p]);
            (void)snprintf(why, why_len, "%s %s", name, lives ? "gets nothing" : "has not joined");
        }
    if (missing > 0)
        (void)snprintf(why + strlen(why), why_len - strlen(why), "; %" PRIu32 " workers", missing);
    return missing == 0;
}

static bool serves_all(struct fleet *f)
{
    static uint64_t before[FLEET_MAX];
    char why[200] = "";
    int64_t begun = now_ms();
    // If a process has just replaced another one, its rows are still those of the other.
    for (uint32_t p = 0; p < f->processes; p++)
        for (uint32_t i = first_row(f, p); i < first_row(f, p + 1); i++) {
            const struct fleet_row *row = &f->shared->fleet[i];
            before[i] = atomic_load(&row->life) == f->lives[p] ? atomic_load(&row->served) : 0;
        }
    while (!all_served(f, before, why, sizeof why) && no_faults(f)) {
        if (now_ms() > begun + PATIENCE_MS) {
            printf("# %s\n", why);
            return false;
        }
        nap_ms(20);
    }
    f->served_ms = now_ms() - begun;
    return no_faults(f);
}

static bool drain(struct fleet *f)
{
    int64_t end = now_ms() + PATIENCE_MS;
    struct sluice_stats s = {0};
    struct sluice_error e = {.message = ""};
    while (no_faults(f) && now_ms() < end) {
        bool read = sluice_stats(f->handle, FLEET_QUEUE, &s, &e) == SLUICE_OK;
        if (read && s.ready + s.locked + s.delayed + s.outbound == 0) return true;
        nap_ms(50);
    }
    printf("# %" PRIu64 " ready, %" PRIu64 " locked, %" PRIu64 " delayed %s\n", s.ready, s.locked,
           s.delayed, e.message);
    return false;
}

static bool is_live(const struct fleet *f, const char *name)
{
    char one[48];
    for (uint32_t p = 0; p < f->processes; p++)
        for (uint32_t i = first_row(f, p); i < first_row(f, p + 1); i++) {
            fleet_name(one, sizeof one, i, f->lives[p]);
            if (strcmp(one, name) == 0) return true;
        }
    return false;
}

// Whether the registered workers are the live ones, and no others.
static bool rows_agree(struct fleet *f, char *why, size_t why_len)
{
    static struct sluice_worker rows[LISTED_MAX];
    struct sluice_error e = {.message = ""};
    size_t len = 0, live = 0, dead = 0;
    if (sluice_workers(f->handle, FLEET_QUEUE, rows, LISTED_MAX, &len, &e)) {
        (void)snprintf(why, why_len, "%s", e.message);
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (rows[i].capacity == 0) continue;
        bool lives = is_live(f, rows[i].name);
        live += lives;
        dead += !lives;
    }
    (void)snprintf(why, why_len, "%zu rows of %" PRIu32 " live workers, %zu of dead ones", live,
                   f->workers, dead);
    return live == f->workers && dead == 0;
}

static bool rows_expire(struct fleet *f)
{
    char why[420] = "";
    int64_t begun = now_ms();
    while (!rows_agree(f, why, sizeof why) && no_faults(f)) {
        if (now_ms() > begun + PATIENCE_MS) {
            printf("# %s\n", why);
            return false;
        }
        nap_ms(200);
    }
    f->expired_ms = now_ms() - begun;
    return no_faults(f);
}

static void stop(struct fleet *f)
{
    atomic_store(&f->shared->phase, PHASE_STOP);
    for (uint32_t i = 0; i < f->processes; i++) {
        if (f->children[i] <= 0) continue;
        int status = reap(f, i);
        if (status != 0) shared_record_fault(f->shared, "a process ended with status %d", status);
    }
}

static void describe(const struct fleet *f, const struct findings *v)
{
    uint64_t sent = atomic_load(&f->shared->next), again = 0, most = 0;
    for (uint64_t i = 0; i < sent; i++) {
        uint8_t received = atomic_load(&f->shared->rows[i].received);
        again += received > 1;
        if (received > most) most = received;
    }
    printf("# %" PRIu64 " messages, %" PRIu64 " processed, %" PRIu64
           " delivered more than once (at most %" PRIu64 " times), %" PRIu64
           " locks expired, %" PRIu64 " late acks refused, %" PRIu64 " calls repeated\n",
           sent, v->processed, again, most, v->expired, atomic_load(&f->shared->refused),
           atomic_load(&f->shared->unknown));
    printf("# %" PRIu64 " processes killed, %" PRIu64 " stopped, %" PRIu64
           " coordinators killed; all workers were served after %" PRId64
           " ms, dead rows were gone after %" PRId64 " ms; load %.1f\n",
           f->kills, f->stops, f->coordinator_kills, f->served_ms, f->expired_ms, load_average());
}

static void report_count(struct fleet *f, const char *name, uint64_t count, const char *first)
{
    char detail[300];
    (void)snprintf(detail, sizeof detail, "%" PRIu64 " times; first: %s", count, first);
    report(f, name, count == 0, detail);
}

static void decide(struct fleet *f, bool served, bool drained, bool expired)
{
    struct findings v = {0};
    uint64_t twice = 0;
    recorder_finish(&f->recorder);
    bool read = !*f->recorder.problem && history_check(&f->recorder, f->shared, &v);
    for (uint64_t i = 0; i < atomic_load(&f->shared->next); i++)
        twice += atomic_load(&f->shared->rows[i].acked) > 1;
    describe(f, &v);
    report(f, "every call answers as it should", no_faults(f), f->shared->fault);
    report(f, "the events can be read", read, f->recorder.problem);
    report(f, "every live worker is served after the faults", served, "");
    report(f, "every message is finished in the end", drained, "");
    report(f, "rows of dead workers expire, and live workers have theirs", expired, "");
    report_count(f, "no message is lost", v.lost, v.first[5]);
    report_count(f, "no message is acked twice or given after its end", v.two_ends + twice,
                 v.first[1]);
    report_count(f, "no message has two holders", v.two_holders, v.first[0]);
    report(f, "something happened", v.processed > 100 && f->kills > 0 && f->coordinator_kills > 0,
           "");
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
    (void)s, (void)kind, (void)ftw;
    return remove(path);
}

static int fleet(struct fleet *f, const char *base)
{
    printf("# seed %" PRIu64 ": %" PRIu32 " workers in %" PRIu32 " processes, %" PRIu32
           " nodes, %s, %" PRIu32 " s\n",
           f->seed, f->workers, f->processes, f->nodes_len, f->bucket ? "a bucket" : "a directory",
           f->seconds);
    f->chance.state = f->seed;
    bool ready = prepare(f, base);
    report(f, "the queue can be made", ready, strerror(errno));
    if (ready) {
        storm(f);
        bool served = serves_all(f);
        atomic_store(&f->shared->phase, PHASE_DRAIN);
        (void)pthread_join(f->sender, NULL);
        bool drained = drain(f), expired = rows_expire(f);
        stop(f);
        decide(f, served, drained, expired);
    }
    recorder_done(&f->recorder);
    sluice_close(f->handle);
    for (uint32_t i = 0; i < f->nodes_len; i++)
        node_process_kill(&f->nodes[i]);
    printf("1..%d\n", f->cases);
    if (!f->keep && f->failed == 0 && f->dir[0])
        (void)nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    else
        printf("# kept: %s\n", f->dir);
    return f->failed > 0;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"seconds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'r'},
                                          {"processes", required_argument, NULL, 'p'},
                                          {"workers", required_argument, NULL, 'w'},
                                          {"ttl", required_argument, NULL, 't'},
                                          {"lease", required_argument, NULL, 'e'},
                                          {"node", required_argument, NULL, 'n'},
                                          {"nodes", required_argument, NULL, 'N'},
                                          {"bucket", no_argument, NULL, 'b'},
                                          {"keep", no_argument, NULL, 'k'},
                                          {"as-process", required_argument, NULL, 'a'},
                                          {"shared-record", required_argument, NULL, 'l'},
                                          {"life", required_argument, NULL, 'L'},
                                          {"first", required_argument, NULL, 'f'},
                                          {"mailbox", required_argument, NULL, 'm'},
                                          {0}};
    static struct fleet f = {.seconds = 12,
                             .processes = 6,
                             .workers = 36,
                             .nodes_len = 1,
                             .ttl_ms = 6000,
                             .lease_ms = 5000};
    struct fleet_settings one = {.place = NULL};
    const char *base = getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp";
    f.seed = (uint64_t)time(NULL);
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 's') f.seconds = (uint32_t)atoi(optarg);
        if (o == 'r') f.seed = strtoull(optarg, NULL, 10);
        if (o == 'p') f.processes = (uint32_t)atoi(optarg);
        if (o == 'w') f.workers = (uint32_t)atoi(optarg);
        if (o == 't') f.ttl_ms = atoi(optarg);
        if (o == 'e') f.lease_ms = atoi(optarg);
        if (o == 'n') f.program = optarg;
        if (o == 'N') f.nodes_len = (uint32_t)atoi(optarg);
        if (o == 'b') f.bucket = true;
        if (o == 'k') f.keep = true;
        if (o == 'a') one.place = optarg;
        if (o == 'l') one.shared = optarg;
        if (o == 'L') one.life = strtoull(optarg, NULL, 10);
        if (o == 'f') one.first = (uint32_t)atoi(optarg);
        if (o == 'm') one.mailbox = atoi(optarg) != 0;
        if (o == '?') return 2;
    }
    one.workers = f.workers;
    one.ttl_ms = f.ttl_ms;
    one.lease_ms = f.lease_ms;
    if (one.place) return fleet_process(&one);
    if (!f.program || f.processes < 1 || f.processes > PROCESSES_MAX || f.nodes_len < 1 ||
        f.nodes_len > NODES_MAX || f.workers < f.processes || f.workers > FLEET_MAX)
        return 2;
    return fleet(&f, base);
}
