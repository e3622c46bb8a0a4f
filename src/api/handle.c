// SPDX-License-Identifier: Apache-2.0
// Opening a store by its URL, and closing it.
#include "api/inside.h"
#include "base/memory.h"
#include "store/file.h"
#include "store/mem.h"
#include "store/meter.h"
#include "store/probe.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS     30000
#define TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)

static enum sluice_code open_store(const char *url, struct store **out, struct sluice_error *error)
{
    char why[STORE_WHY_MAX] = "";
    if (!url || url[0] == 0)
        return refuse(error, ERR_INVALID, "store",
                      "the store's URL is empty; use a path, file:///path or mem:");
    if (strcmp(url, "mem:") == 0) {
        *out = store_mem_new();
        return SLUICE_OK;
    }
    const char *path = url;
    if (strncmp(url, "file://", 7) == 0) {
        path = url + 7;
        if (path[0] != '/')
            return refuse(error, ERR_INVALID, "store", "%s needs an absolute path: file:///path",
                          url);
    } else if (strstr(url, "://")) {
        return refuse(
            error, ERR_INVALID, "store",
            "%s is not a store this version can open: use a path, file:///path or mem:", url);
    }
    enum err err = store_file_open(path, NULL, out, why, sizeof why);
    if (err) return refuse(error, err, "store", "%s", why);
    return SLUICE_OK;
}

enum sluice_code sluice_open(const char *url, const struct sluice_options *options,
                             struct sluice **out, struct sluice_error *error)
{
    struct store *store = NULL;
    enum sluice_code code = open_store(url, &store, error);
    if (code) return code;
    store = store_meter_take(store);
    struct store_format format;
    char why[STORE_WHY_MAX] = "";
    enum err err = store_check(store, &format, why, sizeof why);
    if (err) {
        store_free(store);
        return refuse(error, err, "store", "%s: %s", url, why[0] ? why : err_text(err));
    }
    struct sluice *s = NEW(struct sluice);
    s->store = store;
    s->timeout_ms = options && options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    if (s->timeout_ms > TIMEOUT_MAX_MS) s->timeout_ms = TIMEOUT_MAX_MS;
    (void)pthread_mutex_init(&s->lock, NULL);
    porter_start(s);
    *out = s;
    return SLUICE_OK;
}

void sluice_close(struct sluice *s)
{
    if (!s) return;
    porter_stop(s);
    queues_close(s);
    store_free(s->store);
    (void)pthread_mutex_destroy(&s->lock);
    memory_free(s);
}
