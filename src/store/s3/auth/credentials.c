// SPDX-License-Identifier: Apache-2.0
// The first source in the chain that has keys, or can be called for keys, is chosen once. When keys
// expire soon, the first thread that needs keys fetches new ones. The other threads use the old
// keys meanwhile.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/credentials.h"

#include "base/memory.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "store/s3/auth/metadata.h"
#include "store/s3/auth/process.h"
#include "store/s3/auth/profile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_MS     (5 * 60000) // the instance service has new keys this long before expiry
#define AGAIN_MS     10000       // pause after an answer whose keys expire soon
#define TRUST_MS     60000       // new keys are valid even if our clock says they expired
#define SAME_MS      60000       // pause after the source returned the refused keys again
#define PAUSE_MS     1000        // pause after a failure; each further failure doubles it
#define PAUSE_MAX_MS 15000       // longest pause after a failure
#define SKEW_MS      60000       // threads' times may differ by this; a larger step back is real
#define WHY_MAX      2048
#define LOOKED_MAX   1280

enum key_source {
    FROM_NOWHERE,
    FROM_ENVIRONMENT,
    FROM_WEB,
    FROM_FILE,
    FROM_PROCESS,
    FROM_CONTAINER,
    FROM_INSTANCE
};

// A text that s3_credentials_source has returned stays valid until s3_credentials_free.
struct source_name {
    struct source_name *next;
    char text[S3_URL_MAX + S3_KEY_MAX];
};

struct s3_credentials {
    // Set by s3_credentials_new and constant afterwards.
    struct http *direct; // borrowed; for the metadata services
    struct http *sts;    // NULL: not needed
    enum key_source source;
    bool explicit_profile;
    char profile_name[S3_KEY_MAX];
    char looked[LOOKED_MAX]; // the sources without keys, as text for an error
    struct s3_files files;
    struct s3_profile profile;
    char process[S3_URL_MAX];
    struct s3_web_identity web;
    struct s3_container container;
    struct s3_instance instance;

    pthread_mutex_t lock; // guards the fields below
    pthread_cond_t ended; // signalled when a fetch ends
    bool fetching;
    bool have;
    struct s3_source_answer held;
    bool refused;  // the store refused the held keys
    bool repeated; // the source returned the same keys after a refusal
    bool tried;
    bool answered;    // the last try succeeded
    int64_t tried_ms; // store time of the last try
    int64_t pause_ms; // from tried_ms to the next try
    int failures;     // consecutive failures
    enum err failed;
    char failed_why[WHY_MAX];
    struct source_name *names; // newest first
};

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static enum err bad(char *why, size_t why_len, const char *name, const char *text)
{
    (void)snprintf(why, why_len, "%s %s", name, text);
    return ERR_INVALID;
}

static void add_looked(struct s3_credentials *c, const char *text)
{
    size_t len = strlen(c->looked);
    (void)snprintf(c->looked + len, sizeof c->looked - len, "%s%s", len ? "; " : "", text);
}

// The caller holds the lock, or no other thread has the handle yet.
static void set_name(struct s3_credentials *c, const char *before, const char *what,
                     const char *between, const char *where)
{
    struct source_name *n = NEW(struct source_name);
    (void)snprintf(n->text, sizeof n->text, "%s%s%s%s", before, what, between, where);
    if (c->names && strcmp(c->names->text, n->text) == 0) {
        memory_free(n);
        return;
    }
    n->next = c->names;
    c->names = n;
}

static void hold_static(struct s3_credentials *c, enum key_source source,
                        const struct s3_keys *keys)
{
    c->source = source;
    c->held.keys = *keys;
    c->held.expires_ms = S3_NEVER;
    c->have = true;
}

static void keys_wipe(struct s3_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

static enum err try_environment(struct s3_credentials *c, char *why, size_t why_len)
{
    const char *access = setting("AWS_ACCESS_KEY_ID"), *secret = setting("AWS_SECRET_ACCESS_KEY");
    const char *token = setting("AWS_SESSION_TOKEN");
    if (!access && !secret) {
        add_looked(c, "AWS_ACCESS_KEY_ID is not set");
        return ERR_OK;
    }
    if (!secret)
        return bad(why, why_len, "AWS_SECRET_ACCESS_KEY", "is not set, but AWS_ACCESS_KEY_ID is");
    if (!access)
        return bad(why, why_len, "AWS_ACCESS_KEY_ID", "is not set, but AWS_SECRET_ACCESS_KEY is");
    CLEANUP(keys_wipe) struct s3_keys keys = {0};
    if (!secret_copy(keys.access_key, sizeof keys.access_key, bytes_str(access)))
        return bad(why, why_len, "AWS_ACCESS_KEY_ID", "is too long");
    if (!secret_copy(keys.secret_key, sizeof keys.secret_key, bytes_str(secret)))
        return bad(why, why_len, "AWS_SECRET_ACCESS_KEY", "is too long");
    if (token && !secret_copy(keys.session_token, sizeof keys.session_token, bytes_str(token)))
        return bad(why, why_len, "AWS_SESSION_TOKEN", "is too long");
    const char *problem = s3_keys_problem(&keys);
    if (problem) return bad(why, why_len, "in the environment,", problem);
    hold_static(c, FROM_ENVIRONMENT, &keys);
    set_name(c, "environment", "", "", "");
    return ERR_OK;
}

// The region becomes a part of a host name.
static bool host_word(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0;
}

static void web_endpoint(const struct s3_credentials *c, char *to, size_t size)
{
    const char *endpoint = setting("AWS_ENDPOINT_URL_STS");
    const char *region = setting("AWS_REGION");
    if (!endpoint) endpoint = setting("AWS_ENDPOINT_URL");
    if (!region) region = setting("AWS_DEFAULT_REGION");
    if (!region) region = c->profile.region;
    if (endpoint)
        (void)snprintf(to, size, "%s", endpoint);
    else if (host_word(region))
        (void)snprintf(to, size, "https://sts.%s.amazonaws.com%s/", region,
                       strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    else
        (void)snprintf(to, size, "https://sts.amazonaws.com/");
}

static enum err use_web(struct s3_credentials *c, const char *file, const char *role,
                        const char *session, char *why, size_t why_len)
{
    struct s3_web_identity *w = &c->web;
    char made[32];
    (void)snprintf(made, sizeof made, "sluice-%016llx", (unsigned long long)entropy_u64());
    if (!secret_copy(w->token_file, sizeof w->token_file, bytes_str(file)) ||
        !secret_copy(w->role_arn, sizeof w->role_arn, bytes_str(role)) ||
        !secret_copy(w->session, sizeof w->session, bytes_str(session ? session : made)))
        return bad(why, why_len, "the web identity's token file, role or session name",
                   "is too long");
    web_endpoint(c, w->endpoint, sizeof w->endpoint);
    c->source = FROM_WEB;
    set_name(c, "web identity ", role, "", "");
    return ERR_OK;
}

static enum err try_web(struct s3_credentials *c, char *why, size_t why_len)
{
    const char *file = setting("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = setting("AWS_ROLE_ARN");
    if (!file) return ERR_OK; // a role without a token file is for other programs
    if (!role)
        return bad(why, why_len, "AWS_ROLE_ARN", "is not set, but AWS_WEB_IDENTITY_TOKEN_FILE is");
    return use_web(c, file, role, setting("AWS_ROLE_SESSION_NAME"), why, why_len);
}

static enum err try_profile(struct s3_credentials *c, const struct s3_section *s, char *why,
                            size_t why_len)
{
    if (*s->role_arn && *s->token_file)
        return use_web(c, s->token_file, s->role_arn, *s->role_session ? s->role_session : NULL,
                       why, why_len);
    if (s->unsupported) {
        (void)snprintf(why, why_len,
                       "profile \"%s\" uses %s, which is not supported; let credential_process "
                       "fetch its keys, as with: aws configure export-credentials",
                       c->profile_name, s->unsupported);
        return ERR_INVALID;
    }
    if (*s->keys.access_key) {
        hold_static(c, FROM_FILE, &s->keys);
        set_name(c, "profile ", c->profile_name, " in ", s->keys_in);
    } else if (*s->process) {
        c->source = FROM_PROCESS;
        memcpy(c->process, s->process, sizeof c->process);
        set_name(c, "credential_process of profile ", c->profile_name, "", "");
    } else {
        char text[LOOKED_MAX - 512];
        (void)snprintf(text, sizeof text, "no keys for profile \"%s\" in %.160s and %.160s",
                       c->profile_name, c->files.credentials.shown, c->files.config.shown);
        add_looked(c, text);
    }
    return ERR_OK;
}

static enum err try_services(struct s3_credentials *c, char *why, size_t why_len)
{
    enum err err = s3_container_find(&c->container, why, why_len);
    if (!err) err = s3_instance_find(&c->instance, why, why_len);
    if (err) return err;
    if (*c->container.url) {
        c->source = FROM_CONTAINER;
        set_name(c, "container", "", "", "");
        return ERR_OK;
    }
    add_looked(c, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set");
    if (*c->instance.endpoint) {
        c->source = FROM_INSTANCE;
        set_name(c, "instance role", "", "", "");
    } else {
        add_looked(c, "AWS_EC2_METADATA_DISABLED is true");
    }
    return ERR_OK;
}

static void section_free(struct s3_section **s)
{
    s3_section_wipe(*s);
    memory_free(*s);
}

// Follows the order of the AWS SDKs. A profile that the caller named comes before the environment.
static enum err choose(struct s3_credentials *c, char *why, size_t why_len)
{
    CLEANUP(section_free) struct s3_section *s = NEW(struct s3_section); // too large for the stack
    enum err err = s3_section_read(&c->files, c->profile_name, s, why, why_len);
    if (err) return err;
    if (!s->found && strcmp(c->profile_name, "default") != 0) {
        (void)snprintf(why, why_len, "profile \"%s\" is neither in %.160s nor in %.160s",
                       c->profile_name, c->files.config.shown, c->files.credentials.shown);
        return ERR_INVALID;
    }
    c->profile = s->plain;
    const char *ignore = setting("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    if (ignore && strcmp(ignore, "true") == 0) c->profile.endpoint[0] = 0;
    if (!c->explicit_profile) err = try_environment(c, why, why_len);
    if (!err && !c->source && !c->explicit_profile) err = try_web(c, why, why_len);
    if (!err && !c->source) err = try_profile(c, s, why, why_len);
    if (!err && !c->source) err = try_services(c, why, why_len);
    return err;
}

// STS is a remote service: the client uses proxies, and checks its certificate like the store's.
static struct http *sts_client(const struct s3_credentials *c)
{
    const char *bundle = setting("AWS_CA_BUNDLE");
    if (!bundle && *c->profile.ca_bundle) bundle = c->profile.ca_bundle;
    struct http_config config = {.ca_file = bundle, .connections_max = 1};
    return http_new(&config);
}

enum err s3_credentials_new(struct http *direct, const char *profile, struct s3_credentials **out,
                            char *why, size_t why_len)
{
    struct s3_credentials *c = NEW(struct s3_credentials);
    c->direct = direct;
    c->explicit_profile = profile != NULL;
    if (!profile) profile = setting("AWS_PROFILE");
    if (!profile) profile = "default";
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->ended, NULL);
    enum err err = ERR_OK;
    if (!*profile || !secret_copy(c->profile_name, sizeof c->profile_name, bytes_str(profile)))
        err = bad(why, why_len, "the profile's name", "is empty or too long");
    if (!err && !s3_files_find(&c->files, why, why_len)) err = ERR_INVALID;
    if (!err) err = choose(c, why, why_len);
    if (err) {
        s3_credentials_free(c);
        *out = NULL;
        return err;
    }
    if (c->source == FROM_WEB) c->sts = sts_client(c);
    *out = c;
    return ERR_OK;
}

void s3_credentials_free(struct s3_credentials *c)
{
    if (!c) return;
    http_free(c->sts);
    for (struct source_name *n = c->names, *next; n; n = next) {
        next = n->next;
        memory_free(n);
    }
    (void)pthread_cond_destroy(&c->ended);
    (void)pthread_mutex_destroy(&c->lock);
    explicit_bzero(c, sizeof *c);
    memory_free(c);
}

const struct s3_profile *s3_credentials_profile(const struct s3_credentials *c)
{
    return &c->profile;
}

const char *s3_credentials_source(const struct s3_credentials *c)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&c->lock; // the lock is no visible state
    LOCKED(lock);
    return c->names ? c->names->text : "none";
}

// The user may have replaced the keys in the file.
static enum err read_file_again(const struct s3_credentials *c, struct s3_source_answer *out,
                                char *why, size_t why_len)
{
    CLEANUP(section_free) struct s3_section *s = NEW(struct s3_section);
    enum err err = s3_section_read(&c->files, c->profile_name, s, why, why_len);
    if (err) return err;
    if (!*s->keys.access_key) {
        (void)snprintf(why, why_len, "profile \"%s\" has no keys any more", c->profile_name);
        return ERR_DENIED;
    }
    out->keys = s->keys;
    out->expires_ms = S3_NEVER;
    return ERR_OK;
}

static enum err nowhere(const struct s3_credentials *c, const char *last, char *why, size_t why_len)
{
    (void)snprintf(why, why_len, "no credentials: %s%s%s", c->looked, *last ? "; " : "", last);
    return ERR_DENIED;
}

// Called without the lock: reads only fields that s3_credentials_new set.
static enum err fetch_keys(const struct s3_credentials *c, struct s3_source_answer *out, char *why,
                           size_t why_len)
{
    char last[WHY_MAX / 4] = "";
    enum err err;
    switch (c->source) {
    case FROM_FILE:
        return read_file_again(c, out, why, why_len);
    case FROM_PROCESS:
        return s3_process_fetch(c->process, out, why, why_len);
    case FROM_WEB:
        return s3_web_identity_fetch(c->sts, &c->web, out, why, why_len);
    case FROM_CONTAINER:
        return s3_container_fetch(c->direct, &c->container, out, why, why_len);
    case FROM_INSTANCE:
        err = s3_instance_fetch(c->direct, &c->instance, out, last, sizeof last);
        // No role, or a proxy answers in place of the service: no source has keys.
        if (err == ERR_NOT_FOUND || err == ERR_DENIED) return nowhere(c, last, why, why_len);
        (void)snprintf(why, why_len, "%s", last);
        return err;
    case FROM_ENVIRONMENT:
    case FROM_NOWHERE:
        break;
    }
    return nowhere(c, "", why, why_len);
}

static bool same_keys(const struct s3_keys *a, const struct s3_keys *b)
{
    return strcmp(a->access_key, b->access_key) == 0 && strcmp(a->secret_key, b->secret_key) == 0 &&
           strcmp(a->session_token, b->session_token) == 0;
}

static bool usable(const struct s3_credentials *c, int64_t now_ms)
{
    if (!c->have || c->refused) return false;
    if (now_ms < c->held.expires_ms) return true;
    // Until the store has reported its time, our clock may be wrong by hours. Without keys there is
    // no request and so no report. So keys that the source has just returned are used.
    return c->answered && now_ms < c->tried_ms + TRUST_MS;
}

static bool due(const struct s3_credentials *c, int64_t now_ms)
{
    bool wanted = !c->have || c->refused || c->repeated ||
                  (c->held.expires_ms != S3_NEVER && now_ms >= c->held.expires_ms - EARLY_MS);
    bool resting = c->tried && now_ms < c->tried_ms + c->pause_ms && now_ms > c->tried_ms - SKEW_MS;
    return wanted && !resting;
}

static void keep(struct s3_credentials *c, const struct s3_source_answer *fetched)
{
    bool same = c->have && same_keys(&c->held.keys, &fetched->keys);
    c->repeated = same && (c->refused || c->repeated);
    c->refused = false;
    c->held = *fetched;
    c->have = true;
    c->failures = 0;
    c->pause_ms = c->repeated ? SAME_MS : AGAIN_MS;
    if (*fetched->role) set_name(c, "instance role ", fetched->role, "", "");
}

static void note_failure(struct s3_credentials *c, enum err err, const char *text)
{
    c->failed = err;
    (void)snprintf(c->failed_why, sizeof c->failed_why, "%s", text);
    int64_t pause_ms = (int64_t)PAUSE_MS << (c->failures < 8 ? c->failures : 8);
    c->pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
    c->failures++;
}

// Called with the lock, which is released while the source is called.
static void fetch_once(struct s3_credentials *c, int64_t now_ms)
{
    CLEANUP(s3_fetched_wipe) struct s3_source_answer fetched = {0};
    char text[WHY_MAX] = "";
    c->fetching = true;
    (void)pthread_mutex_unlock(&c->lock);
    enum err err = fetch_keys(c, &fetched, text, sizeof text);
    (void)pthread_mutex_lock(&c->lock);
    c->fetching = false;
    c->tried = true;
    c->tried_ms = now_ms;
    c->answered = !err;
    if (err)
        note_failure(c, err, text);
    else
        keep(c, &fetched);
    (void)pthread_cond_broadcast(&c->ended);
}

enum err s3_credentials_get(struct s3_credentials *c, int64_t now_ms, struct s3_keys *out,
                            char *why, size_t why_len)
{
    enum err err = ERR_OK;
    LOCKED(&c->lock);
    for (;;) {
        bool good = usable(c, now_ms);
        bool fetch_now = !c->fetching && due(c, now_ms);
        if (good && !fetch_now) break;
        if (fetch_now) {
            fetch_once(c, now_ms);
        } else if (c->fetching) {
            (void)pthread_cond_wait(&c->ended, &c->lock);
        } else {
            err = c->failed ? c->failed : ERR_UNAVAILABLE;
            break;
        }
    }
    if (err)
        (void)snprintf(why, why_len, "%s", c->failed_why);
    else
        *out = c->held.keys;
    return err;
}

bool s3_credentials_refused(struct s3_credentials *c, const struct s3_keys *keys)
{
    LOCKED(&c->lock);
    bool current = c->have && same_keys(&c->held.keys, keys);
    bool useful = c->source != FROM_ENVIRONMENT && !(current && c->repeated);
    if (current && useful && !c->refused) {
        c->refused = true;
        c->pause_ms = 0;
    }
    return useful;
}
