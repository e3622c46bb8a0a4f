// SPDX-License-Identifier: Apache-2.0
// A table of keys. A value has its text, the number that the text means, and its source.
#include "server/config.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/memory.h"
#include "base/nearly.h"
#include "coord/coord.h"
#include "net/listen.h"
#include "os/file.h"
#include "server/log.h"
#include "server/tokens.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define SOURCE_MAX     320
#define VALUE_MAX      1024
#define WHAT_MAX       400
#define NODE_MAX       128

enum kind { TEXT, URL, NUMBER, SIZE, DURATION, BOOL, LOG_FORMAT, LOG_LEVEL, ROLLOUT };

static const struct key {
    const char *name;
    enum kind kind;
    const char *value;
    int64_t min;
    int64_t max;
    bool live;
} keys[CONF_KEYS] = {
#define CONF_ROW(id, key, kind, value, min, max, live, help) {key, kind, value, min, max, live},
    CONF_LIST(CONF_ROW)
#undef CONF_ROW
};

struct value {
    char text[VALUE_MAX];
    int64_t number;
    char source[SOURCE_MAX];
    bool in_file; // the file that is being read has set it
};

struct conf {
    struct value values[CONF_KEYS];
    struct tokens *tokens; // of the config file, then of all sources; NULL: there are none
    bool taken;            // conf_server passed the tokens on
};

static bool refuse(struct sluice_error *error, enum sluice_code code, const char *field,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
static bool refuse(struct sluice_error *error, enum sluice_code code, const char *field,
                   const char *format, ...)
{
    *error = (struct sluice_error){.code = code};
    (void)snprintf(error->field, sizeof error->field, "%s", field);
    va_list words;
    va_start(words, format);
    (void)vsnprintf(error->message, sizeof error->message, format, words);
    va_end(words);
    return false;
}

static bool read_size(const char *text, int64_t *out)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text + digits, units[i].name) != 0) continue;
        *out = strtoll(text, NULL, 10) << units[i].shift;
        return true;
    }
    return false;
}

static bool read_word(const char *text, const char *const *words, int64_t *out)
{
    for (*out = 0; words[*out]; ++*out)
        if (strcmp(text, words[*out]) == 0) return true;
    return false;
}

static bool read_bool(const char *text, int64_t *out)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1", NULL};
    if (!read_word(text, words, out)) return false;
    *out %= 2;
    return true;
}

static bool read_number(const char *text, int64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 12 || text[digits] != '\0') return false;
    *out = strtoll(text, NULL, 10);
    return true;
}

static const char *const format_words[] = {"logfmt", "json", NULL};
static const char *const rollout_words[] = {"on", "shadow", "off", NULL}; // enum rollout
static const char *const level_words[] = {"debug", "info", "warning", "error", NULL};

static const char *read_value(enum kind kind, const char *text, int64_t *out)
{
    switch (kind) {
    case TEXT:
    case URL:
        return NULL;
    case NUMBER:
        return read_number(text, out) ? NULL : "a whole number";
    case SIZE:
        return read_size(text, out) ? NULL : "a number of bytes, such as 65536, 512KiB or 12MiB";
    case DURATION:
        return duration_read(text, out) ? NULL : "a number and its unit, such as 500ms, 30s or 5m";
    case BOOL:
        return read_bool(text, out) ? NULL : "yes or no";
    case LOG_FORMAT:
        return read_word(text, format_words, out) ? NULL : "one of logfmt, json";
    case LOG_LEVEL:
        return read_word(text, level_words, out) ? NULL : "one of debug, info, warning, error";
    case ROLLOUT:
        return read_word(text, rollout_words, out) ? NULL : "one of off, shadow, on";
    }
    CHECK(false); // not a kind
    return NULL;
}

static bool set_value(struct conf *c, enum conf_key key, const char *text, const char *source,
                      char *what)
{
    const struct key *k = &keys[key];
    struct value *v = &c->values[key];
    int64_t number = 0;
    const char *wanted = read_value(k->kind, text, &number);
    if (strlen(text) >= VALUE_MAX)
        return say_wrong(what, WHAT_MAX, "%s is longer than %d bytes", k->name, VALUE_MAX - 1);
    if (wanted) return say_wrong(what, WHAT_MAX, "%s \"%.80s\" is not %s", k->name, text, wanted);
    if (k->max > 0 && (number < k->min || number > k->max))
        return say_wrong(what, WHAT_MAX, "%s %.80s is not between %" PRId64 " and %" PRId64 "%s",
                         k->name, text, k->min, k->max, k->kind == DURATION ? " ms" : "");
    (void)snprintf(v->text, sizeof v->text, "%s", text);
    (void)snprintf(v->source, sizeof v->source, "%s", source);
    v->number = number;
    return true;
}

struct conf *conf_new(void)
{
    struct conf *c = NEW(struct conf);
    char what[WHAT_MAX];
    for (enum conf_key i = 0; i < CONF_KEYS; i++)
        CHECK(set_value(c, i, keys[i].value, "default", what));
    return c;
}

void conf_free(struct conf *c)
{
    if (!c) return;
    if (!c->taken) tokens_free(c->tokens);
    memory_free(c);
}

static enum conf_key find_key(const char *name)
{
    enum conf_key i = 0;
    while (i < CONF_KEYS && strcmp(keys[i].name, name) != 0)
        i++;
    return i;
}

static void say_unknown(const char *name, char *what)
{
    for (enum conf_key i = 0; i < CONF_KEYS; i++) {
        if (!nearly_same(keys[i].name, name)) continue;
        (void)snprintf(what, WHAT_MAX, "there is no setting %.120s; did you mean %s?", name,
                       keys[i].name);
        return;
    }
    (void)snprintf(what, WHAT_MAX, "there is no setting %.120s; docs/serve.md lists them", name);
}

bool conf_set(struct conf *c, enum conf_key key, const char *value, const char *where,
              struct sluice_error *error)
{
    char what[WHAT_MAX];
    if (set_value(c, key, value, where, what)) return true;
    return refuse(error, SLUICE_INVALID, keys[key].name, "%s: %s", where, what);
}

bool conf_set_pair(struct conf *c, const char *pair, const char *where, struct sluice_error *error)
{
    char name[64];
    const char *equals = strchr(pair, '=');
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(pair, "="), pair);
    enum conf_key key = find_key(name);
    if (equals && key < CONF_KEYS) return conf_set(c, key, equals + 1, where, error);
    char what[WHAT_MAX];
    say_unknown(name, what);
    if (equals) return refuse(error, SLUICE_INVALID, name, "%s: %s", where, what);
    return refuse(error, SLUICE_INVALID, name, "%s: \"%.80s\" is not KEY=VALUE", where, pair);
}

static void conf_environment_name(enum conf_key key, char out[CONF_ENV_MAX])
{
    size_t at = (size_t)snprintf(out, CONF_ENV_MAX, "SLUICE_");
    for (const char *p = keys[key].name; *p && at + 2 < CONF_ENV_MAX; p++) {
        if (isupper((unsigned char)*p)) out[at++] = '_';
        out[at++] = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
    }
    out[at] = '\0';
}

bool conf_read_environment(struct conf *c, const char *(*get)(const char *name),
                           struct sluice_error *error)
{
    for (enum conf_key i = 0; i < CONF_KEYS; i++) {
        char name[CONF_ENV_MAX], where[CONF_ENV_MAX + 16];
        conf_environment_name(i, name);
        const char *value = get(name);
        if (!value || !*value) continue;
        (void)snprintf(where, sizeof where, "environment %s", name);
        if (!conf_set(c, i, value, where, error)) return false;
    }
    return true;
}

struct conf_reader {
    struct conf *conf;
    const char *where;
    char section[32];
    int line;
};

static bool read_section(struct conf_reader *r, char *line, char *what)
{
    static const char *const sections[] = {"cluster", "limits", "log", "shutdown",
                                           "tls",     "tokens", NULL};
    size_t len = strlen(line);
    int64_t at;
    if (line[len - 1] == ']') {
        line[len - 1] = '\0';
        const char *name = text_trimmed(line + 1);
        (void)snprintf(r->section, sizeof r->section, "%s", name);
        if (read_word(name, sections, &at)) return true;
        (void)snprintf(what, WHAT_MAX,
                       "[%.40s] is not one of cluster, limits, log, shutdown, tls, tokens", name);
    } else {
        (void)snprintf(what, WHAT_MAX, "a section looks like [limits]");
    }
    return false;
}

static bool read_setting(struct conf_reader *r, const char *name, const char *value, char *what)
{
    char full[128], source[SOURCE_MAX];
    (void)snprintf(full, sizeof full, "%s%s%.80s", r->section, *r->section ? "." : "", name);
    enum conf_key key = find_key(full);
    if (key == CONF_KEYS) {
        say_unknown(full, what);
        return false;
    }
    if (r->conf->values[key].in_file)
        return say_wrong(what, WHAT_MAX, "%s was set before: %s", full,
                         r->conf->values[key].source);
    (void)snprintf(source, sizeof source, "%.300s:%d", r->where, r->line);
    r->conf->values[key].in_file = true;
    return set_value(r->conf, key, value, source, what);
}

// A # begins a comment at the start of a line or after a space. A value may contain one.
static void cut_comment(char *line)
{
    for (char *p = line; *p; p++) {
        if (*p != '#' || (p > line && p[-1] != ' ' && p[-1] != '\t')) continue;
        *p = '\0';
        return;
    }
}

static bool read_line(struct conf_reader *r, char *line, char *what)
{
    cut_comment(line);
    line = text_trimmed(line);
    if (!*line) return true;
    if (*line == '[') return read_section(r, line, what);
    char *equals = strchr(line, '=');
    if (!equals)
        return say_wrong(what, WHAT_MAX, "\"%.20s\" is not a line such as: key = value", line);
    *equals = '\0';
    char *name = text_trimmed(line), *value = text_trimmed(equals + 1);
    if (strcmp(r->section, "tokens") != 0) return read_setting(r, name, value, what);
    if (!r->conf->tokens) r->conf->tokens = tokens_new();
    return tokens_add(r->conf->tokens, name, value, what, WHAT_MAX);
}

bool conf_read_text(struct conf *c, const char *text, size_t len, const char *where,
                    struct sluice_error *error)
{
    struct conf_reader r = {.conf = c, .where = where};
    char what[WHAT_MAX] = "the file has a NUL byte, so it is not text";
    bool good = len == 0 || !memchr(text, 0, len);
    char *copy = memory_new(len + 1), *rest = copy;
    if (len > 0) memcpy(copy, text, len);
    copy[len] = '\0';
    for (size_t i = 0; i < CONF_KEYS; i++)
        c->values[i].in_file = false;
    while (good && rest) {
        r.line++;
        good = read_line(&r, strsep(&rest, "\n"), what);
    }
    if (!good) (void)refuse(error, SLUICE_INVALID, "config", "%.200s:%d: %s", where, r.line, what);
    memory_free(copy);
    return good;
}

bool conf_read_file(struct conf *c, const char *path, struct sluice_error *error)
{
    LOCAL(buf, text, FILE_BYTES_MAX);
    int failed = file_read(path, &text);
    if (!failed) return conf_read_text(c, (const char *)text.data, text.len, path, error);
    return refuse(error, SLUICE_INVALID, "config", "%.200s: cannot be read: %s", path,
                  strerror(failed));
}

static bool check_listen(const struct conf *c, struct sluice_error *error)
{
    const struct value *v = &c->values[CONF_LISTEN];
    char host[LISTEN_HOST_MAX];
    uint16_t port;
    if (!listen_parse(v->text, host, &port))
        return refuse(error, SLUICE_INVALID, "listen",
                      "%s: listen \"%.80s\" is not an address and a port, such as 127.0.0.1:7333, "
                      "[::1]:7333 or :7333",
                      v->source, v->text);
    if (listen_is_loopback(host) || tokens_len(c->tokens) > 0 || c->values[CONF_INSECURE].number)
        return true;
    return refuse(error, SLUICE_DENIED, "listen",
                  "%s: listen %.80s can be reached from outside, and without tokens every client "
                  "may do everything; set tokens (sluice token new makes one), listen on "
                  "127.0.0.1, or use --insecure",
                  v->source, v->text);
}

static bool check_tls(const struct conf *c, struct sluice_error *error)
{
    const struct value *certificate = &c->values[CONF_TLS_CERTIFICATE];
    const struct value *key = &c->values[CONF_TLS_KEY];
    const struct value *ca = &c->values[CONF_TLS_CLIENT_CA];
    const struct value *alone = *certificate->text ? certificate : *key->text ? key : NULL;
    if (alone && (!*certificate->text || !*key->text))
        return refuse(error, SLUICE_INVALID, "tls", "%s: tls.certificate and tls.key go together",
                      alone->source);
    if (!*ca->text || alone) return true;
    return refuse(error, SLUICE_INVALID, "tls",
                  "%s: tls.clientCa needs tls.certificate and tls.key", ca->source);
}

// A quarter of the memory for bodies is reserved for small ones (net/httpd_body.c).
static bool check_bodies(const struct conf *c, struct sluice_error *error)
{
    const struct value *one = &c->values[CONF_LIMITS_BODY];
    const struct value *all = &c->values[CONF_LIMITS_BODY_MEMORY];
    const struct value *said = strcmp(all->source, "default") != 0 ? all : one;
    if (one->number <= all->number - all->number / 4) return true;
    return refuse(
        error, SLUICE_INVALID, "limits.bodyMemory",
        "%s: limits.body %.40s is more than three quarters of limits.bodyMemory %.40s, so the "
        "largest requests would never be taken",
        said->source, one->text, all->text);
}

static bool is_shorter(const struct conf *c, enum conf_key key, int64_t least_ms, const char *least,
                       struct sluice_error *error)
{
    const struct value *v = &c->values[key];
    if (v->number == 0 || v->number >= least_ms) return false;
    (void)refuse(error, SLUICE_INVALID, keys[key].name,
                 "%s: %s %.40s is shorter than %s: write 0s for the default, or more", v->source,
                 keys[key].name, v->text, least);
    return true;
}

// A node that asks for the lead before a lease has passed could ask while a leader is there.
static bool check_cluster(const struct conf *c, struct sluice_error *error)
{
    int64_t lease_ms = c->values[CONF_CLUSTER_LEASE].number;
    if (lease_ms == 0) lease_ms = COORD_LEASE_MS;
    return !is_shorter(c, CONF_CLUSTER_LEASE, TUNING_LEASE_MIN_MS, "1s", error) &&
           !is_shorter(c, CONF_CLUSTER_OBSERVE, lease_ms, "the lease", error) &&
           !is_shorter(c, CONF_CLUSTER_COOL_DOWN, lease_ms, "the lease", error);
}

static bool check_node(const struct conf *c, struct sluice_error *error)
{
    const struct value *v = &c->values[CONF_NODE];
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
    if (strlen(v->text) <= NODE_MAX && strspn(v->text, good) == strlen(v->text)) return true;
    return refuse(
        error, SLUICE_INVALID, "node",
        "%s: node \"%.80s\" is not a name: letters, digits, '_', '.', ':', '-', %d at most",
        v->source, v->text, NODE_MAX);
}

bool conf_check(struct conf *c, struct sluice_error *error)
{
    const struct value *file = &c->values[CONF_TOKENS];
    if (*file->text) {
        char what[WHAT_MAX];
        if (!c->tokens) c->tokens = tokens_new();
        if (!tokens_add_file(c->tokens, file->text, what, sizeof what))
            return refuse(error, SLUICE_INVALID, "tokens", "%s (tokens, %.200s)", what,
                          file->source);
    }
    // An empty file is more often a mistake than a wish to refuse every client.
    if (c->tokens && tokens_len(c->tokens) == 0)
        return refuse(error, SLUICE_INVALID, "tokens", "%s: there is no token in %.200s",
                      file->source, file->text);
    return check_node(c, error) && check_cluster(c, error) && check_bodies(c, error) &&
           check_tls(c, error) && check_listen(c, error) && conf_check_places(c, error);
}

const char *conf_name(enum conf_key key)
{
    return keys[key].name;
}

const char *conf_text(const struct conf *c, enum conf_key key)
{
    return c->values[key].text;
}

int64_t conf_number(const struct conf *c, enum conf_key key)
{
    return c->values[key].number;
}

const char *conf_source(const struct conf *c, enum conf_key key)
{
    return c->values[key].source;
}

size_t conf_tokens_len(const struct conf *c)
{
    return tokens_len(c->tokens);
}

const char *conf_shown(const struct conf *c, enum conf_key key, char *out, size_t out_len)
{
    const char *text = c->values[key].text;
    const char *host = keys[key].kind == URL ? strstr(text, "://") : NULL;
    const char *at = host ? memchr(host + 3, '@', strcspn(host + 3, "/?#")) : NULL;
    if (at)
        (void)snprintf(out, out_len, "%.*s***%s", (int)(host + 3 - text), text, at);
    else
        (void)snprintf(out, out_len, "%s", text);
    return out;
}

enum conf_key conf_differs(const struct conf *a, const struct conf *b)
{
    enum conf_key i = 0;
    while (i < CONF_KEYS && (keys[i].live || strcmp(a->values[i].text, b->values[i].text) == 0))
        i++;
    return i;
}

static const char *text_or_null(const struct conf *c, enum conf_key key)
{
    return *c->values[key].text ? c->values[key].text : NULL;
}

static bool is_member(const struct conf *c)
{
    return strcmp(c->values[CONF_COORD].text, "none") != 0 &&
           c->values[CONF_FLAGS_PLACEMENT].number != ROLLOUT_OFF;
}

void conf_peek(const struct conf *c, struct server_config *out)
{
    *out = (struct server_config){
        .listen = c->values[CONF_LISTEN].text,
        .node = text_or_null(c, CONF_NODE),
        .advertise = text_or_null(c, CONF_ADVERTISE),
        .peers = text_or_null(c, CONF_PEERS),
        .coord = is_member(c) ? c->values[CONF_COORD].text : NULL,
        .flags = {[CAPABILITY_BUS] = (int)c->values[CONF_FLAGS_BUS].number,
                  [CAPABILITY_PLACEMENT] = (int)c->values[CONF_FLAGS_PLACEMENT].number,
                  [CAPABILITY_DISPATCH] = (int)c->values[CONF_FLAGS_DISPATCH].number,
                  [CAPABILITY_STREAM] = (int)c->values[CONF_FLAGS_STREAM].number},
        .bus = c->values[CONF_FLAGS_BUS].number != ROLLOUT_OFF ? text_or_null(c, CONF_BUS) : NULL,
        .bus_both_until = conf_both_until(c),
        .capacity = (unsigned)c->values[CONF_CAPACITY].number,
        .tuning = {.lease_ms = c->values[CONF_CLUSTER_LEASE].number,
                   .observe_ms = c->values[CONF_CLUSTER_OBSERVE].number,
                   .cool_down_ms = c->values[CONF_CLUSTER_COOL_DOWN].number,
                   .moves = (uint32_t)c->values[CONF_CLUSTER_MOVES].number,
                   .move_pause_ms = c->values[CONF_CLUSTER_MOVE_PAUSE].number,
                   .move_cool_down_ms = c->values[CONF_CLUSTER_MOVE_COOL_DOWN].number},
        .observe_only = c->values[CONF_OBSERVE_ONLY].number != 0 ||
                        c->values[CONF_FLAGS_PLACEMENT].number == ROLLOUT_SHADOW,
        .store = c->values[CONF_STORE].text,
        .insecure = c->values[CONF_INSECURE].number != 0,
        .access_log = c->values[CONF_LOG_REQUESTS].number != 0,
        .threads = (unsigned)c->values[CONF_THREADS].number,
        .body_max = (size_t)c->values[CONF_LIMITS_BODY].number,
        .body_memory_max = (size_t)c->values[CONF_LIMITS_BODY_MEMORY].number,
        .answer_memory_max = (size_t)c->values[CONF_LIMITS_ANSWER_MEMORY].number,
        .connections_max = (unsigned)c->values[CONF_LIMITS_CONNECTIONS].number,
        .per_address_max = (unsigned)c->values[CONF_LIMITS_PER_CLIENT].number,
        .waiting_max = (unsigned)c->values[CONF_LIMITS_WAITING].number,
        .streams_max = (unsigned)c->values[CONF_LIMITS_STREAMS].number,
        .subscribers_max = (unsigned)c->values[CONF_LIMITS_SUBSCRIBERS].number,
        .calls_max = (unsigned)c->values[CONF_LIMITS_CALLS].number,
        .calls_waiting_max = (unsigned)c->values[CONF_LIMITS_CALLS_WAITING].number,
        .idle_ms = c->values[CONF_LIMITS_IDLE].number,
        .first_head_ms = c->values[CONF_LIMITS_HEAD_TIMEOUT].number,
        .body_ms = c->values[CONF_LIMITS_BODY_TIMEOUT].number,
        .cert_file = text_or_null(c, CONF_TLS_CERTIFICATE),
        .key_file = text_or_null(c, CONF_TLS_KEY),
        .client_ca_file = text_or_null(c, CONF_TLS_CLIENT_CA),
        .requests_per_second = c->values[CONF_LIMITS_RATE].number,
        .log_level = (int)c->values[CONF_LOG_LEVEL].number,
        .log_format = (int)c->values[CONF_LOG_FORMAT].number,
    };
}

void conf_server(struct conf *c, struct server_config *out)
{
    conf_peek(c, out);
    out->tokens = c->tokens;
    c->taken = true;
}
