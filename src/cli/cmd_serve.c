// SPDX-License-Identifier: Apache-2.0
// serve: runs a node that offers all queues of the store over HTTP until a signal stops it.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/serve.h"
#include "server/log.h"
#include "json/json.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define VALUE_COLUMNS 60

enum {
    LISTEN,
    NODE,
    COORD,
    BUS,
    CAPACITY,
    OBSERVE_ONLY,
    CONFIG,
    TOKENS,
    CERTIFICATE,
    KEY,
    SET,
    INSECURE,
    ACCESS_LOG,
    CHECK
};

static const struct cli_option options[] = {
    [LISTEN] = OPTION(TEXT, "listen", "ADDRESS",
                      "address to listen on; default " SERVER_LISTEN ";\n"
                      "port 0 chooses a free one"),
    [NODE] = OPTION(TEXT, "node", "NAME", "the node's name; default: host and port"),
    [COORD] = OPTION(TEXT, "coord", "URL",
                     "coordination service of the cluster: store: (default),\n"
                     "etcd://h1,h2, consul://host; none: no cluster"),
    [BUS] = OPTION(TEXT, "bus", "URL", "message bus for events: nats://h1,h2 or tls://host"),
    [CAPACITY] =
        OPTION(TEXT, "capacity", "N", "share of the shards, relative to other nodes: 1 to 64"),
    [OBSERVE_ONLY] =
        FLAG_OPTION("observe-only", 0, "show plans of the cluster, but claim no shard"),
    [CONFIG] = OPTION(TEXT, "config", "FILE",
                      "read settings from a file; the environment and the\noptions override it"),
    [TOKENS] =
        OPTION(TEXT, "tokens", "FILE", "file of tokens and their scopes; see sluice token new"),
    [CERTIFICATE] = OPTION(TEXT, "tls-certificate", "FILE",
                           "use TLS with this certificate and its chain (PEM)"),
    [KEY] = OPTION(TEXT, "tls-key", "FILE", "the certificate's key (PEM)"),
    [SET] = OPTION(TEXTS, "set", "KEY=VALUE", "any setting of the file; may be repeated"),
    [INSECURE] = FLAG_OPTION("insecure", 0,
                             "listen beyond this machine without tokens, so that\n"
                             "every client that reaches the node may do everything"),
    [ACCESS_LOG] = FLAG_OPTION("access-log", 0, "print a line on standard error for every request"),
    [CHECK] = FLAG_OPTION("check", 0, "print the settings and their sources, then exit"),
};

static const struct {
    int option;
    enum conf_key key;
    const char *value; // value for a flag; NULL: that of the option
} given[] = {
    {LISTEN, CONF_LISTEN, NULL},
    {NODE, CONF_NODE, NULL},
    {COORD, CONF_COORD, NULL},
    {BUS, CONF_BUS, NULL},
    {CAPACITY, CONF_CAPACITY, NULL},
    {OBSERVE_ONLY, CONF_OBSERVE_ONLY, "yes"},
    {TOKENS, CONF_TOKENS, NULL},
    {CERTIFICATE, CONF_TLS_CERTIFICATE, NULL},
    {KEY, CONF_TLS_KEY, NULL},
    {INSECURE, CONF_INSECURE, "yes"},
    {ACCESS_LOG, CONF_LOG_REQUESTS, "yes"},
};

static const char *environment(const char *name)
{
    return getenv(name);
}

static bool set_options(struct conf *c, const struct arguments *args, struct sluice_error *error)
{
    const struct cli_value *o = args->options;
    for (size_t i = 0; i < o[SET].texts_len; i++)
        if (!conf_set_pair(c, o[SET].texts[i], "--set", error)) return false;
    for (size_t i = 0; i < COUNT_OF(given); i++) {
        const struct cli_value *v = &o[given[i].option];
        char where[64];
        if (!v->given) continue;
        (void)snprintf(where, sizeof where, "--%s", options[given[i].option].name);
        if (!conf_set(c, given[i].key, given[i].value ? given[i].value : v->texts[0], where, error))
            return false;
    }
    return true;
}

static bool set_store(struct conf *c, const struct cli *cli, struct sluice_error *error)
{
    if (cli->store_given) return conf_set(c, CONF_STORE, cli->store, "--store", error);
    if (*conf_text(c, CONF_STORE)) return true;
    return conf_set(c, CONF_STORE, cli->store, "default", error);
}

struct conf *serve_settings(const struct cli *cli, const struct arguments *args,
                            struct sluice_error *error)
{
    const struct cli_value *file = &args->options[CONFIG];
    const char *path = file->given ? file->texts[0] : getenv("SLUICE_CONFIG");
    struct conf *c = conf_new();
    bool good = (!path || !*path || conf_read_file(c, path, error)) &&
                conf_read_environment(c, environment, error) && set_options(c, args, error) &&
                set_store(c, cli, error) && conf_check(c, error);
    if (good) return c;
    conf_free(c);
    return NULL;
}

// Returns the column width for values, so that the comments align. A very long value does not
// count.
static int value_width(const struct conf *c)
{
    int widest = 16;
    for (enum conf_key i = 0; i < CONF_KEYS; i++) {
        char shown[1100];
        int len = (int)strlen(conf_shown(c, i, shown, sizeof shown));
        if (len > widest && len <= VALUE_COLUMNS) widest = len;
    }
    return widest;
}

// Prints the settings in the format of the settings file.
static int print_settings(const struct cli *cli, const struct conf *c)
{
    struct server_config config;
    struct sluice_error error;
    conf_peek(c, &config);
    if (server_try_tls(&config, &error)) return cli_fail(cli, &error);
    // The default store is created together with its parents.
    if (strcmp(conf_source(c, CONF_STORE), "default") != 0 && !conf_check_folder(c, &error))
        return cli_fail(cli, &error);
    int width = value_width(c);
    struct json *o = json_new(), *rows = json_list_new();
    for (enum conf_key i = 0; i < CONF_KEYS; i++) {
        char shown[1100], will_be[200];
        (void)conf_shown(c, i, shown, sizeof shown);
        (void)conf_default(c, i, will_be, sizeof will_be);
        if (!cli->json)
            (void)printf("%-24s = %-*s # %s%s%s\n", conf_name(i), width, shown, conf_source(c, i),
                         *will_be ? ": " : "", will_be);
        struct json *row = json_new();
        json_text(row, "key", conf_name(i));
        json_text(row, "value", shown);
        json_text(row, "source", conf_source(c, i));
        if (*will_be) json_text(row, "willBe", will_be);
        json_list_take(rows, row);
    }
    json_take(o, "settings", rows);
    json_number(o, "tokens", (int64_t)conf_tokens_len(c));
    if (cli->json) {
        json_print(o, stdout);
    } else {
        (void)printf("# tokens: %zu\n", conf_tokens_len(c));
        json_free(o);
    }
    return 0;
}

static void print_started(const struct serve_process *s)
{
    const char *scheme = *conf_text(s->conf, CONF_TLS_CERTIFICATE) ? "https" : "http";
    char store[1100];
    (void)conf_shown(s->conf, CONF_STORE, store, sizeof store);
    if (s->cli->json) {
        struct json *o = json_new();
        json_text(o, "address", server_address(s->server));
        json_text(o, "node", server_node(s->server));
        json_text(o, "store", store);
        json_text(o, "scheme", scheme);
        json_print(o, stdout);
    } else {
        (void)printf("sluice: node %s serves %s at %s://%s\n", server_node(s->server), store,
                     scheme, server_address(s->server));
    }
    (void)fflush(stdout);
    LOG(server_log(s->server), LOG_INFO, "started", LOG_TEXT("node", server_node(s->server)),
        LOG_TEXT("address", server_address(s->server)), LOG_TEXT("scheme", scheme),
        LOG_TEXT("store", store), LOG_NUMBER("tokens", (int64_t)conf_tokens_len(s->conf)),
        LOG_TEXT("version", sluice_version()));
}

// Each connection needs a file descriptor, and the default limit is low.
static void allow_many_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); // on an error the limit is unchanged
}

// By default glibc has a heap for every few threads and keeps the memory of large bodies. After a
// load peak the node would stay five times as large as it needs to be.
static void return_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, 8);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 20);
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

// As if an operator had sent SIGTERM. A second signal would end the process at once, so a repeated
// request sends none.
static void leave(void *ctx)
{
    struct serve_process *s = ctx;
    if (!atomic_exchange(&s->leaving, true)) (void)kill(getpid(), SIGTERM);
}

static int serve_on(struct serve_process *s)
{
    int status = 0;
    struct cli own = *s->cli;
    struct server_config config;
    struct sluice_error error = {0};
    own.store = conf_text(s->conf, CONF_STORE);
    allow_many_files();
    return_memory();
    // Neither a core file nor another program of the same user gets the tokens and passwords.
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    serve_watch_start(s);
    struct sluice *store = cli_open_making(&own, &status);
    answer_watch_stop(&own); // the server reports problems itself from here on
    if (!store) return status;
    conf_server(s->conf, &config);
    config.leave = leave;
    config.leave_ctx = s;
    enum sluice_code code = server_start(&config, store, &s->server, &error);
    serve_watch_end(s);
    if (!code) {
        print_started(s);
        status = serve_loop(s);
    } else {
        status = cli_fail(s->cli, &error);
    }
    sluice_close(store);
    return status;
}

static int run_serve(const struct cli *cli, const struct arguments *args)
{
    struct sluice_error error = {0};
    struct serve_process s = {.cli = cli, .args = args};
    s.conf = serve_settings(cli, args, &error);
    if (!s.conf) return cli_fail(cli, &error);
    int status;
    if (args->options[CHECK].given)
        status = print_settings(cli, s.conf);
    else if (serve_take_signals(&s))
        status = serve_on(&s);
    else
        status = cli_fail_as(cli, SLUICE_UNAVAILABLE, "", "cannot receive signals");
    conf_free(s.now);
    conf_free(s.conf);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "Serves the store's queues over HTTP",
    .details = "Runs until SIGTERM or SIGINT. Then it accepts no more requests and finishes the\n"
               "current ones within shutdown.deadline (10 s). A second signal ends it at once.\n"
               "The node holds no state, so it may be killed at any time. SIGHUP reads the\n"
               "settings again: tokens, limits.requestsPerSecond, log.*, shutdown.* and the\n"
               "certificate change at once. Without tokens the node listens only on this\n"
               "machine. docs/serve.md has the settings, docs/http.md the protocol.\n"
               "JSON keys of the first line: address, node, store, scheme. JSON keys of\n"
               "--check: settings (key, value, source, and willBe for an empty value that gets\n"
               "a default), tokens.",
    OPTIONS(options),
    .run = run_serve,
};
