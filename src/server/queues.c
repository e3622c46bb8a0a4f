// SPDX-License-Identifier: Apache-2.0
// Queues: list, create, set, show, delete, pause, resume, purge, redrive, upgrade.
#include "base/memory.h"
#include "ops/life.h"
#include "ops/ops.h"
#include "ops/redrive.h"
#include "server/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LETTERS_KEY "failureStrategy.deadLetterQueue"

static struct json *info_json(const struct sluice_queue_info *info)
{
    struct json *o = fields_json(&queue_answer, info);
    json_take(o, "settings", json_settings(info->settings, info->settings_len));
    return o;
}

struct shown_result {
    struct sluice_queue_info *info;
    int status;
};

static void answer_shown(struct exchange *x, const struct async_answer *a)
{
    const struct shown_result *r = x->result;
    if (!answer_unless(x, a->code, a->error)) return;
    struct json *o = info_json(r->info);
    sluice_queue_info_free(r->info);
    answer_json(x, r->status, o);
}

static void answer_queue(struct exchange *x, int status)
{
    struct request_origin as = act(x, sizeof(struct shown_result), answer_shown);
    struct shown_result *r = x->result;
    r->status = status;
    (void)start_queue_show(&as, x->queue, &r->info, NULL);
}

void handle_queue_get(struct exchange *x)
{
    if (read_request(x, NULL)) answer_queue(x, 200);
}

static const char *letters_of(const struct sluice_queue_info *info)
{
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, LETTERS_KEY) == 0) return info->settings[i].value;
    return "";
}

// A queue that the client may read.
struct shown_queue {
    const char *name;
    unsigned scopes;
};

// Adds one row. A queue that cannot be read has its error there and hides no other queue.
static void add_queue(struct exchange *x, struct json *list, const struct shown_queue *queue,
                      const struct queue_list_in *want, struct sluice_queue_status *seen)
{
    const struct sluice_error *why = &seen->error;
    if (why->code == SLUICE_NOT_FOUND) return; // deleted meanwhile
    struct queue_row row = {.name = queue->name,
                            .scopes = want->names ? 0 : queue->scopes,
                            .code = why->code,
                            .detail = why->code ? why->message : NULL};
    struct json *o = fields_json(&queue_row_answer, &row);
    json_list_take(list, o);
    if (!seen->info) return;
    row.id = seen->info->id;
    row.paused = seen->info->paused;
    row.dead_letter_queue = letters_of(seen->info);
    fields_put(o, &queue_seen_answer, &row);
    if (!want->stats || why->code) return;
    stats_add_waiting(x, queue->name, &seen->stats);
    json_take(o, "stats", stats_json(queue->name, &seen->stats));
}

// Finds the queues that the client may read, at most want->max. *more: there are further ones.
static size_t find_shown(struct exchange *x, const struct sluice_names *names,
                         const struct queue_list_in *want, struct shown_queue *out, bool *more)
{
    size_t len = 0;
    *more = false;
    for (size_t i = 0; i < names->len && !*more; i++) {
        struct shown_queue queue = {.name = names->names[i]};
        if (want->after && strcmp(queue.name, want->after) <= 0) continue;
        queue.scopes = auth_scopes(x, queue.name);
        if (!(queue.scopes & 1U << SCOPE_READ)) continue;
        *more = len == want->max;
        if (!*more) out[len++] = queue;
    }
    return len;
}

static struct json *list_json(struct exchange *x, const struct sluice_names *names,
                              const struct queue_list_in *want, bool *more)
{
    struct json *list = json_list_new();
    CLEANUP(memory_let_go) struct shown_queue *shown = memory_zeroed(names->len, sizeof *shown);
    const char **wanted = memory_zeroed(names->len, sizeof *wanted);
    struct sluice_queue_status *seen = memory_zeroed(names->len, sizeof *seen);
    size_t len = find_shown(x, names, want, shown, more);
    for (size_t i = 0; i < len; i++)
        wanted[i] = shown[i].name;
    unsigned what = SLUICE_STATUS_INFO | (want->stats ? SLUICE_STATUS_STATS : 0);
    if (!want->names) sluice_queues_status(x->server->store, wanted, len, what, seen);
    for (size_t i = 0; i < len; i++)
        add_queue(x, list, &shown[i], want, &seen[i]);
    sluice_queues_status_done(seen, len);
    memory_free(seen);
    memory_free(wanted);
    return list;
}

void handle_queue_list(struct exchange *x)
{
    struct queue_list_in want = {0};
    bool more;
    struct sluice_names *names = NULL;
    struct sluice_error error;
    if (!read_request(x, &want)) return;
    if (!answer_unless(x, sluice_queue_list(x->server->store, &names, &error), &error)) return;
    struct json *o = json_new();
    json_take(o, "queues", list_json(x, names, &want, &more));
    json_take(o, "scopes", scopes_json(auth_scopes(x, "")));
    if (more) json_bool(o, "more", true);
    sluice_names_free(names);
    answer_json(x, 200, o);
}

// Setting a dead-letter queue creates it if necessary and sends to it. So its name needs admin
// scope.
static bool may_use_letters(struct exchange *x, struct json_pairs *settings)
{
    for (size_t i = 0; i < settings->len; i++) {
        const struct sluice_setting *row = &settings->rows[i];
        if (strcmp(row->key, LETTERS_KEY) != 0 || !*row->value) continue;
        if (auth_allow(x, SCOPE_ADMIN, row->value)) continue;
        json_pairs_done(settings);
        return false;
    }
    return true;
}

static bool read_settings(struct exchange *x, struct json_pairs *out)
{
    struct bytes body = httpd_body(x->http);
    char why[256];
    *out = (struct json_pairs){0};
    if (!read_query(x, &no_fields, NULL)) return false;
    if (body.len == 0) return true;
    if (!admit_json(x)) return false;
    if (json_flatten((const char *)body.data, body.len, out, why, sizeof why))
        return may_use_letters(x, out);
    return refuse_request(x, SLUICE_INVALID, "malformed", "body", "the settings cannot be read: %s",
                          why);
}

void handle_queue_put(struct exchange *x)
{
    bool creates = x->route->row == &route_table[ROUTE_QUEUE_PUT];
    struct json_pairs settings;
    struct sluice_error error;
    if (!read_settings(x, &settings)) return;
    enum sluice_code code = (creates ? sluice_queue_create : sluice_queue_set)(
        x->server->store, x->queue, settings.rows, settings.len, &error);
    json_pairs_done(&settings);
    if (!answer_unless(x, code, &error)) return;
    answer_queue(x, creates && strcmp(error.reason, "exists") != 0 ? 201 : 200);
}

void answer_done(struct exchange *x, const struct async_answer *a)
{
    if (answer_unless(x, a->code, a->error)) answer_empty(x, 204);
}

typedef enum sluice_code plain_fn(const struct request_origin *as, const char *queue,
                                  struct sluice_error *error);

static void do_plain(struct exchange *x, plain_fn *start)
{
    if (!read_request(x, NULL)) return;
    struct request_origin as = act(x, 0, answer_done);
    (void)start(&as, x->queue, NULL);
}

// A caller may know that another queue uses this one. It learns which one only if it may read all
// queues.
void handle_queue_delete(struct exchange *x)
{
    struct queue_delete_in in = {0};
    struct sluice_error error;
    if (!read_request(x, &in)) return;
    enum sluice_code code = queue_delete_life(x->server->engine, x->queue, in.id, &error);
    bool names_another = code == SLUICE_CONFLICT && strcmp(error.field, "queue") == 0;
    if (names_another && !auth_may(x, SCOPE_READ, NULL))
        error = error_of(code, error.reason, error.field,
                         "%s is the dead-letter queue of another; change or delete that one first",
                         x->queue);
    if (answer_unless(x, code, &error)) answer_empty(x, 204);
}

void handle_pause(struct exchange *x)
{
    do_plain(x, start_queue_pause);
}

void handle_resume(struct exchange *x)
{
    do_plain(x, start_queue_resume);
}

static void answer_count(struct exchange *x, const char *name, uint64_t count)
{
    struct json *o = json_new();
    json_number(o, name, (int64_t)count);
    answer_json(x, 200, o);
}

static void answer_purged(struct exchange *x, const struct async_answer *a)
{
    if (answer_unless(x, a->code, a->error)) answer_count(x, "purged", *(uint64_t *)x->result);
}

void handle_purge(struct exchange *x)
{
    struct purge_in in = {0};
    if (!read_request(x, &in)) return;
    struct request_origin as = act(x, sizeof(uint64_t), answer_purged);
    (void)start_queue_purge(&as, x->queue, in.dead, x->result, NULL);
}

void handle_upgrade(struct exchange *x)
{
    struct upgrade_in in = {0};
    struct sluice_upgrade done;
    struct sluice_error error;
    if (!read_request(x, &in)) return;
    unsigned flags = (in.check ? SLUICE_UPGRADE_CHECK : 0) | (in.force ? SLUICE_UPGRADE_FORCE : 0);
    enum sluice_code code = sluice_queue_upgrade(x->server->store, x->queue, flags, &done, &error);
    if (answer_unless(x, code, &error)) answer_json(x, 200, fields_json(&upgrade_answer, &done));
}

// A dead letter goes back to the queue it died in, or to the one that the request names. The token
// must allow sending to either.
static enum sluice_code may_redrive(void *ctx, const char *to, struct sluice_error *error)
{
    struct exchange *x = ctx;
    if (auth_may(x, SCOPE_SEND, to)) return SLUICE_OK;
    struct sluice_error why =
        error_of(SLUICE_DENIED, "forbidden", "Authorization",
                 "token %s does not have the scope send for queue %s", x->token, to);
    if (error) *error = why;
    return why.code;
}

static void refuse_redrive(struct exchange *x, uint64_t redriven, struct sluice_error *error)
{
    size_t len = strlen(error->message);
    if (redriven > 0)
        (void)snprintf(error->message + len, sizeof error->message - len,
                       "; its dead letters stay (redriven: %" PRIu64 ")", redriven);
    METRICS_ADD(&x->server->metrics, forbidden, 1);
    answer_problem(x, 403, error, NULL);
}

static void redrive_ids(struct exchange *x, const struct redrive_in *in,
                        const struct redrive_target *where)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_outcome *rows = kept_new(&x->kept, (in->ids.len + 1) * sizeof *rows);
    enum sluice_code code =
        redrive_chosen(x->server->engine, x->queue, where, in->ids.rows, in->ids.len, rows, &error);
    uint64_t redriven = 0, refused = 0;
    for (size_t i = 0; i < in->ids.len; i++) {
        redriven += rows[i].code == SLUICE_OK;
        refused += rows[i].code != SLUICE_OK && *rows[i].reason;
    }
    if (code && redriven + refused == 0) {
        answer_error(x, &error);
        return;
    }
    struct json *o = json_new();
    json_number(o, "redriven", (int64_t)redriven);
    struct async_answer rest = {.outcomes = rows, .len = in->ids.len};
    json_take(o, "outcomes", outcomes_json(&rest));
    if (code) json_take(o, "error", problem_json(err_http((enum err)code), &error));
    answer_json(x, 200, o);
}

void handle_redrive(struct exchange *x)
{
    struct redrive_in in = {0};
    uint64_t redriven = 0;
    struct sluice_error error;
    if (!read_request(x, &in)) return;
    struct redrive_target where = {.to = in.to, .may = may_redrive, .ctx = x};
    if (in.ids.rows && in.ids.len == 0) { // not the same as all
        (void)refuse_request(x, SLUICE_INVALID, "", "ids", "ids is empty: give at least one id");
        return;
    }
    if (in.ids.len > 0 && in.max > 0) {
        (void)refuse_request(x, SLUICE_INVALID, "", "max", "give ids or max, not both");
        return;
    }
    if (in.ids.len > 0) {
        redrive_ids(x, &in, &where);
        return;
    }
    enum sluice_code code =
        redrive_where(x->server->engine, x->queue, &where, in.max, &redriven, &error);
    if (code == SLUICE_DENIED && strcmp(error.reason, "forbidden") == 0)
        refuse_redrive(x, redriven, &error);
    else if (answer_unless(x, code, &error))
        answer_count(x, "redriven", redriven);
}
