// SPDX-License-Identifier: Apache-2.0
// Counted by the kernel.
#include "census.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir) (void)closedir(dir);
    return count;
}

static size_t status_number(const char *name)
{
    char line[200];
    size_t number = 0, len = strlen(name);
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, len) == 0) number = strtoul(line + len, NULL, 10);
    if (f) (void)fclose(f);
    return number;
}

// A sanitizer keeps what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_COUNTS 0
#endif
#endif
#ifndef MEMORY_COUNTS
#define MEMORY_COUNTS 1
#endif

struct census census_take(void)
{
    return (struct census){.files = count_entries("/proc/self/fd"),
                           .threads = status_number("Threads:"),
                           .memory_kb = MEMORY_COUNTS ? status_number("VmRSS:") : 0};
}
