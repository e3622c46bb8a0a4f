// SPDX-License-Identifier: Apache-2.0
// Builds the environment of a job: our own environment without the variables of an outer worker,
// and the message's fields.
//
// A header's name is folded to characters that shells accept and gets a prefix, so no sender can
// set PATH. Only the worker sets the names that tell the origin of a dead letter. Secrets are left
// out unless --keep-env names them.
#define _GNU_SOURCE // asprintf
#include "cli/work/spawn.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER_PREFIX "SLUICE_HEADER_"
#define DEAD_HEADER   HEADER_PREFIX "SLUICE_DEAD_" // "sluice-dead-queue", folded
#define DEAD_PREFIX   "SLUICE_DEAD_"
#define DEAD_FIELDS   5
#define COUNT_OF(a)   (sizeof(a) / sizeof *(a))

static const char *const ours[] = {
    "SLUICE_ID",     "SLUICE_ATTEMPT", "SLUICE_FENCE", "SLUICE_QUEUE",      "SLUICE_GROUP",
    "SLUICE_WORKER", "SLUICE_STORE",   "SLUICE_TYPE",  "SLUICE_SIGNALS_FD", "SLUICE_REPLY_FD"};
// These variables give access to a store or a node. A sender controls the input of a job, so a job
// does not get them by default.
static const char *const secrets[] = {"SLUICE_TOKEN",          "AWS_ACCESS_KEY_ID",
                                      "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                      "AWS_SECURITY_TOKEN",    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                      "SLUICE_REDIS_USER",     "SLUICE_REDIS_PASSWORD"};

static bool begins(const char *entry, const char *prefix)
{
    return strncmp(entry, prefix, strlen(prefix)) == 0;
}

// True if the entry is "NAME=value" with one of these names.
static bool is_one_of(const char *entry, const char *const *names, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (begins(entry, names[i]) && entry[strlen(names[i])] == '=') return true;
    return false;
}

static bool is_ours(const char *entry)
{
    return begins(entry, HEADER_PREFIX) || begins(entry, DEAD_PREFIX) ||
           is_one_of(entry, ours, COUNT_OF(ours));
}

static bool is_kept(const struct spawn_spec *spec, const char *entry)
{
    return !is_one_of(entry, secrets, COUNT_OF(secrets)) ||
           is_one_of(entry, spec->keep, spec->keep_len);
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

// If two headers fold to the same name, the first one counts.
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
    // Only add_origin sets the origin of a dead letter.
    if (!begins(name, DEAD_HEADER) && !known(l, name)) add(l, name, h->value);
    free(name);
}

// Adds the true origin of a dead letter, under its own names and as headers.
static void add_origin(struct list *l, const struct sluice_origin *from)
{
    char retries[24], died_at[24];
    if (!from->queue || !*from->queue) return;
    (void)snprintf(retries, sizeof retries, "%" PRIu32, from->retries);
    (void)snprintf(died_at, sizeof died_at, "%" PRId64, from->died_at);
    const struct {
        const char *name, *header, *value;
    } rows[DEAD_FIELDS] = {
        {DEAD_PREFIX "QUEUE", DEAD_HEADER "QUEUE", from->queue},
        {DEAD_PREFIX "ID", DEAD_HEADER "ID", from->id},
        {DEAD_PREFIX "REASON", DEAD_HEADER "REASON", from->reason},
        {DEAD_PREFIX "RETRIES", DEAD_HEADER "RETRIES", retries},
        {DEAD_PREFIX "AT", DEAD_HEADER "AT", died_at},
    };
    for (size_t i = 0; i < DEAD_FIELDS; i++) {
        add(l, rows[i].name, rows[i].value ? rows[i].value : "");
        add(l, rows[i].header, rows[i].value ? rows[i].value : "");
    }
}

char **spawn_env(const struct spawn_spec *spec, const struct sluice_message *m)
{
    size_t inherited = 0;
    while (environ[inherited])
        inherited++;
    size_t room = inherited + COUNT_OF(ours) + 2 * DEAD_FIELDS + m->headers_len + 1;
    struct list l = {.rows = calloc(room, sizeof *l.rows)};
    if (!l.rows) return NULL;
    add(&l, "SLUICE_ID", m->id);
    add_number(&l, "SLUICE_ATTEMPT", m->attempt);
    add_number(&l, "SLUICE_FENCE", m->fence);
    add(&l, "SLUICE_QUEUE", spec->queue);
    add(&l, "SLUICE_WORKER", spec->worker);
    add(&l, "SLUICE_STORE", spec->store);
    add_number(&l, "SLUICE_SIGNALS_FD", (uint64_t)spec->signals_fd);
    add_number(&l, "SLUICE_REPLY_FD", (uint64_t)spec->reply_fd);
    if (m->group && *m->group) add(&l, "SLUICE_GROUP", m->group);
    if (m->content_type && *m->content_type) add(&l, "SLUICE_TYPE", m->content_type);
    for (size_t i = 0; i < m->headers_len; i++)
        add_header(&l, &m->headers[i]);
    add_origin(&l, &m->from);
    for (size_t i = 0; i < inherited && !l.failed; i++) {
        if (is_ours(environ[i]) || !is_kept(spec, environ[i])) continue;
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
