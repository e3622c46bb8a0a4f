// SPDX-License-Identifier: Apache-2.0
// The environment of a job: ours, without what an outer worker put there, and what the message
// says. A header's name is folded to the letters that shells can read and gets a prefix, so no
// sender can set PATH.
#define _GNU_SOURCE // asprintf
#include "cli/work_spawn.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_PREFIX "SLUICE_HEADER_"

static const char *const ours[] = {"SLUICE_ID",    "SLUICE_ATTEMPT", "SLUICE_FENCE", "SLUICE_QUEUE",
                                   "SLUICE_GROUP", "SLUICE_WORKER",  "SLUICE_STORE", "SLUICE_TYPE"};

static bool is_ours(const char *entry)
{
    if (strncmp(entry, HEADER_PREFIX, strlen(HEADER_PREFIX)) == 0) return true;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        size_t len = strlen(ours[i]);
        if (strncmp(entry, ours[i], len) == 0 && entry[len] == '=') return true;
    }
    return false;
}

struct list {
    char **rows;
    size_t len;
    bool failed;
};

static void add(struct list *l, const char *name, const char *value)
{
    char *entry = NULL;
    if (l->failed || asprintf(&entry, "%s=%s", name, value) < 0) {
        l->failed = true;
        return;
    }
    l->rows[l->len++] = entry;
}

static void add_number(struct list *l, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    add(l, name, text);
}

// Two headers whose names fold to the same letters: the first one stays.
static bool known(const struct list *l, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < l->len; i++)
        if (strncmp(l->rows[i], name, len) == 0 && l->rows[i][len] == '=') return true;
    return false;
}

static void add_header(struct list *l, const struct sluice_header *h)
{
    char *name = NULL;
    if (asprintf(&name, HEADER_PREFIX "%s", h->name) < 0) {
        l->failed = true;
        return;
    }
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    if (!known(l, name)) add(l, name, h->value);
    free(name);
}

char **spawn_env(const struct spawn_spec *spec, const struct sluice_message *m)
{
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    size_t room = inherited + sizeof ours / sizeof *ours + m->headers_len + 1;
    struct list l = {.rows = calloc(room, sizeof *l.rows)};
    if (!l.rows) return NULL;
    add(&l, "SLUICE_ID", m->id);
    add_number(&l, "SLUICE_ATTEMPT", m->attempt);
    add_number(&l, "SLUICE_FENCE", m->fence);
    add(&l, "SLUICE_QUEUE", spec->queue);
    add(&l, "SLUICE_WORKER", spec->worker);
    add(&l, "SLUICE_STORE", spec->store);
    if (m->group && *m->group) add(&l, "SLUICE_GROUP", m->group);
    if (m->content_type && *m->content_type) add(&l, "SLUICE_TYPE", m->content_type);
    for (size_t i = 0; i < m->headers_len; i++)
        add_header(&l, &m->headers[i]);
    for (size_t i = 0; i < inherited && !l.failed; i++) {
        if (is_ours(environ[i])) continue;
        char *copy = strdup(environ[i]);
        l.failed = !copy;
        if (copy) l.rows[l.len++] = copy;
    }
    if (!l.failed) return l.rows;
    spawn_env_free(l.rows);
    return NULL;
}

void spawn_env_free(char **env)
{
    if (!env) return;
    for (char **e = env; *e; e++)
        free(*e);
    free(env);
}
