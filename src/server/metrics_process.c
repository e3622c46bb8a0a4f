// SPDX-License-Identifier: Apache-2.0
// The metrics of the process, under the names that every Prometheus client library uses. They come
// from /proc. What cannot be read is omitted.
#include "server/inside.h"
#include "server/metrics_text.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void show(struct buf *to, const char *name, enum metric_kind kind, const char *help,
                 double value)
{
    metric_family(to, name, kind, help);
    metric_value(to, name, NULL, value);
}

static void show_memory(struct buf *to)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return;
    int got = fscanf(f, "%lu %lu", &size, &resident);
    (void)fclose(f);
    if (got != 2) return;
    double page = (double)sysconf(_SC_PAGESIZE);
    show(to, "process_virtual_memory_bytes", METRIC_GAUGE, "Virtual memory.", (double)size * page);
    show(to, "process_resident_memory_bytes", METRIC_GAUGE, "Resident memory.",
         (double)resident * page);
}

static void show_files(struct buf *to)
{
    struct rlimit limit;
    size_t open = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        open += e->d_name[0] != '.';
    (void)closedir(d);
    show(to, "process_open_fds", METRIC_GAUGE, "Open file descriptors.", (double)open - 1);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        show(to, "process_max_fds", METRIC_GAUGE, "Files that may be open.",
             (double)limit.rlim_cur);
}

// Field 22 of /proc/self/stat. It follows the name, which may contain any characters.
static void show_start(struct buf *to)
{
    char text[1024] = "";
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f) return;
    size_t len = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[len] = '\0';
    const char *at = strrchr(text, ')');
    for (int i = 0; at && i < 20; i++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    struct timespec now, up;
    if (!at || sscanf(at, " %" SCNu64, &ticks) != 1) return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    double booted = (double)(now.tv_sec - up.tv_sec) + (double)(now.tv_nsec - up.tv_nsec) / 1e9;
    show(to, "process_start_time_seconds", METRIC_GAUGE, "When it was started, since 1970.",
         booted + (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

void metrics_process(struct buf *to)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        show(to, "process_cpu_seconds_total", METRIC_COUNTER, "Processor time spent.",
             (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    show_memory(to);
    show_files(to);
    show_start(to);
}
