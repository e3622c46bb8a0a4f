// SPDX-License-Identifier: Apache-2.0
#include "cli/choose.h"

#include "cli/progress.h"
#include "cli/table.h"
#include "cli/text.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

#define IDS_BYTES_MAX ((size_t)64 << 20)
#define AT_ONCE       500 // messages of one call, so that the progress moves
#define PAGE          1000
#define READ_AT_ONCE  ((uint64_t)16 << 20)

bool filter_given(const struct cli_value *rows)
{
    return rows[FILTER_HEADER].given || rows[FILTER_CONTAINS].given || rows[FILTER_BEFORE].given;
}

void filter_done(struct sluice_find *f)
{
    for (size_t i = 0; i < f->headers_len; i++)
        free((char *)(uintptr_t)f->headers[i].name);
    free((struct sluice_header *)(uintptr_t)f->headers);
}

int filter_read(const struct cli *cli, const struct cli_value *o, struct sluice_find *out)
{
    const struct cli_value *h = &o[FILTER_HEADER];
    struct sluice_header *rows = cli_alloc(h->texts_len * sizeof *rows);
    *out = (struct sluice_find){.state = option_text(&o[FILTER_STATE]),
                                .contains = option_text(&o[FILTER_CONTAINS]),
                                .before = o[FILTER_BEFORE].number,
                                .headers = rows};
    if (out->contains && !*out->contains)
        return cli_usage(cli, "--contains", "--contains \"\" is empty: every body contains it");
    for (; out->headers_len < h->texts_len; out->headers_len++) {
        const char *text = h->texts[out->headers_len];
        const char *equals = strchr(text, '=');
        if (!equals || equals == text)
            return cli_usage(cli, "--header", "--header \"%.80s\" is not of the form NAME=VALUE",
                             text);
        size_t name = (size_t)(equals - text), all = strlen(text) + 1;
        char *copy = cli_alloc(all);
        memcpy(copy, text, all);
        copy[name] = '\0';
        rows[out->headers_len] = (struct sluice_header){copy, copy + name + 1};
    }
    return 0;
}

static void ids_add(struct id_list *ids, const char *id)
{
    if (ids->len == ids->room) {
        ids->room = 2 * ids->room + 64;
        ids->rows = cli_realloc(ids->rows, ids->room * sizeof *ids->rows);
    }
    ids->rows[ids->len++] = id;
}

static int ids_read(const struct cli *cli, const char *what, struct id_list *ids)
{
    int status = 0;
    size_t len;
    ids->input = cli_read_all(cli, "-", what, IDS_BYTES_MAX, &len, &status);
    for (char *at = ids->input; at && *at;) {
        size_t line = strcspn(at, "\r\n");
        char *next = at + line + strspn(at + line, "\r\n");
        at[line] = '\0';
        if (line > 0) ids_add(ids, at);
        at = next;
    }
    return status;
}

int id_list_read(const struct cli *cli, const char *what, const char **words, size_t len,
                 struct id_list *ids)
{
    *ids = (struct id_list){0};
    if (len == 1 && strcmp(words[0], "-") == 0) return ids_read(cli, what, ids);
    for (size_t i = 0; i < len; i++)
        ids_add(ids, words[i]);
    return 0;
}

static bool take_digits(const char **at, const char *allowed, size_t max, char end)
{
    size_t len = strspn(*at, allowed);
    if (len == 0 || len > max || (*at)[len] != end) return false;
    *at += len + (end != '\0');
    return true;
}

#define DECIMAL "0123456789"
#define HEX     DECIMAL "abcdef"

// The form of an id, or of a token, which continues it. The library checks the rest.
static bool has_form(const char *text, bool token)
{
    return take_digits(&text, HEX, 8, '-') && take_digits(&text, DECIMAL, 10, '-') &&
           take_digits(&text, DECIMAL, 20, token ? '-' : '\0') &&
           (!token || take_digits(&text, HEX, 32, '\0'));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *find_twice(const struct id_list *ids)
{
    const char **sorted = cli_alloc(ids->len * sizeof *sorted), *twice = NULL;
    if (ids->len > 0) memcpy(sorted, ids->rows, ids->len * sizeof *sorted);
    qsort(sorted, ids->len, sizeof *sorted, by_text);
    for (size_t i = 1; !twice && i < ids->len; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
    free(sorted);
    return twice;
}

int id_list_check(const struct cli *cli, const struct id_list *ids, bool tokens)
{
    for (size_t i = 0; i < ids->len; i++) {
        const char *text = ids->rows[i];
        if (has_form(text, tokens)) continue;
        if (tokens)
            return cli_usage(cli, "token",
                             "\"%.100s\" is not a lock token; each received message has one", text);
        return cli_usage(cli, "id", "\"%.100s\" is not a message id; one looks like 3f9a01cc-0-17",
                         text);
    }
    const char *twice = tokens ? NULL : find_twice(ids);
    return twice ? cli_usage(cli, "id", "message %.100s is given twice", twice) : 0;
}

void id_list_done(struct id_list *ids)
{
    free(ids->rows);
    free(ids->input);
    *ids = (struct id_list){0};
}

static void print_done(const struct choice *c, const char *id, const struct sluice_outcome *o)
{
    if (c->cli->json) {
        struct json *line = json_new();
        json_text(line, "id", id);
        json_text(line, "queue", c->queue);
        json_text(line, "status", o->status);
        json_print(line, stdout);
    } else if (!c->cli->quiet) {
        print_line(stdout, "%s  %s", id, o->status);
    }
}

// The library's message is about one of them. The others print their own reason.
static void print_refused(const struct choice *c, const struct id_list *ids, size_t i,
                          const struct sluice_outcome *o, const struct sluice_error *first)
{
    const char *id = ids->rows[i];
    struct sluice_error error = {.code = o->code, .field = "id"};
    bool explained = c->explain && c->explain(c, id, o->reason, &error);
    if (!explained && strstr(first->message, id))
        (void)snprintf(error.message, sizeof error.message, "%s", first->message);
    else if (!explained)
        (void)snprintf(error.message, sizeof error.message, "message %.64s: %s", id,
                       refusal_text(o->reason, o->code));
    (void)cli_fail(c->cli, &error);
}

// A call that fails as a whole may leave rows as they are. They must not count as done.
static void rows_clear(struct sluice_outcome *rows, size_t len)
{
    for (size_t i = 0; i < len; i++)
        rows[i] = (struct sluice_outcome){.code = SLUICE_INVALID};
}

static int act_on_ids(const struct choice *c, const struct id_list *ids)
{
    struct sluice_error error = {0};
    struct sluice_outcome *rows = cli_alloc(ids->len * sizeof *rows);
    rows_clear(rows, ids->len);
    int status = 0;
    bool any_reason = false;
    enum sluice_code code = c->act(c->ctx, ids->rows, ids->len, rows, &error);
    for (size_t i = 0; i < ids->len; i++)
        any_reason = any_reason || rows[i].code == SLUICE_OK || *rows[i].reason;
    bool whole = code && (!any_reason || strcmp(error.field, "queue") == 0);
    if (whole && ids->len > 1) status = cli_fail_queue(c->cli, c->s, c->queue, &error);
    if (code && ids->len == 1) {
        if (c->explain) (void)c->explain(c, ids->rows[0], rows[0].reason, &error);
        status = cli_fail_queue(c->cli, c->s, c->queue, &error);
    }
    for (size_t i = 0; status == 0 && i < ids->len; i++)
        if (rows[i].code == SLUICE_OK) print_done(c, ids->rows[i], &rows[i]);
    for (size_t i = 0; status == 0 && code && i < ids->len; i++)
        if (rows[i].code != SLUICE_OK) print_refused(c, ids, i, &rows[i], &error);
    free(rows);
    return status ? status : sluice_code_exit(code);
}

static int choose_ids(const struct choice *c, const char **words, size_t len)
{
    struct id_list ids = {0};
    int status = id_list_read(c->cli, "ID", words, len, &ids);
    if (status == 0) status = id_list_check(c->cli, &ids, false);
    if (status == 0) status = act_on_ids(c, &ids);
    id_list_done(&ids);
    return status;
}

static void found_free(struct id_list *ids)
{
    for (size_t i = 0; i < ids->len; i++)
        free((char *)(uintptr_t)ids->rows[i]);
    free(ids->rows);
}

static char *copy_id(const char *id)
{
    size_t len = strlen(id) + 1;
    return memcpy(cli_alloc(len), id, len);
}

// Finds all messages of one state.
static enum sluice_code find_state(const struct choice *c, const struct sluice_find *filter,
                                   const char *state, struct id_list *ids, uint64_t *bytes,
                                   struct progress *p, struct sluice_error *error)
{
    struct sluice_find what = *filter;
    struct sluice_found found = {0};
    char after[SLUICE_ID_MAX];
    what.state = state;
    what.max = PAGE;
    what.bytes_max = READ_AT_ONCE;
    do {
        struct sluice_batch *batch = NULL;
        enum sluice_code code = sluice_find(c->s, c->queue, &what, &batch, &found, error);
        if (code != SLUICE_OK) return code;
        for (size_t i = 0; i < batch->len; i++)
            if (!c->wanted || c->wanted(&batch->messages[i]))
                ids_add(ids, copy_id(batch->messages[i].id));
        sluice_batch_free(batch);
        *bytes += found.bytes;
        progress_move(p, ids->len, 0, 0);
        (void)snprintf(after, sizeof after, "%s", found.next);
        what.after_id = after;
    } while (*found.next);
    return SLUICE_OK;
}

static enum sluice_code find_all(const struct choice *c, const struct sluice_find *filter,
                                 struct id_list *ids, uint64_t *bytes, struct sluice_error *error)
{
    struct progress p;
    enum sluice_code code = SLUICE_OK;
    progress_begin(&p, c->cli, "found", "messages");
    if (filter->state) code = find_state(c, filter, filter->state, ids, bytes, &p, error);
    for (size_t i = 0; !code && !filter->state && i < c->states_len; i++)
        code = find_state(c, filter, c->states[i], ids, bytes, &p, error);
    progress_end(&p);
    return code;
}

struct counts {
    uint64_t done, refused;
    enum sluice_code code; // the first that ended the run, or of the first refusal
};

static void act_on_found(const struct choice *c, const struct id_list *ids, struct counts *n,
                         struct sluice_error *error)
{
    struct sluice_outcome rows[AT_ONCE];
    struct progress p;
    progress_begin(&p, c->cli, c->verb, "messages");
    for (size_t at = 0; at < ids->len;) {
        size_t some = ids->len - at < AT_ONCE ? ids->len - at : AT_ONCE;
        uint64_t before = n->done + n->refused;
        struct sluice_error why = {0};
        rows_clear(rows, some);
        enum sluice_code code = c->act(c->ctx, ids->rows + at, some, rows, &why);
        for (size_t i = 0; i < some; i++) {
            n->done += rows[i].code == SLUICE_OK;
            n->refused += rows[i].code != SLUICE_OK && *rows[i].reason;
        }
        if (code && !n->code) *error = why;
        if (code && !n->code) n->code = code;
        at += some;
        progress_move(&p, n->done, at, ids->len);
        if (code && n->done + n->refused - before < some) break; // the store failed it
    }
    progress_end(&p);
}

static void print_counts(const struct choice *c, size_t found, const struct counts *n)
{
    char a[TEXT_MAX], b[TEXT_MAX];
    if (!c->cli->json) {
        cli_say(c->cli, "%s %s of %s message%s of %s", c->verb, number_text(n->done, a),
                number_text(found, b), found == 1 ? "" : "s", c->queue);
        return;
    }
    struct json *o = json_new();
    json_text(o, "queue", c->queue);
    json_number(o, "found", (int64_t)found);
    json_number(o, c->verb, (int64_t)n->done);
    json_print(o, stdout);
}

static int confirm(const struct choice *c, size_t found, uint64_t bytes, bool yes)
{
    char question[300], warning[200], count[TEXT_MAX], read[TEXT_MAX];
    (void)number_text(found, count);
    (void)snprintf(question, sizeof question, "%s message%s of %.80s match (%s were read). %c%s?",
                   count, found == 1 ? "" : "s", c->queue, bytes_text(bytes, read),
                   c->command[0] - 'a' + 'A', c->command + 1);
    (void)snprintf(warning, sizeof warning, "%s %s, %s of %.80s", c->command, c->warning, count,
                   c->queue);
    return cli_confirm_as(c->cli, yes, warning, question);
}

static int choose_found(const struct choice *c, const struct sluice_find *filter, bool yes)
{
    struct id_list ids = {0};
    struct sluice_error error = {0};
    struct counts n = {0};
    uint64_t bytes = 0;
    int status = 0;
    if (find_all(c, filter, &ids, &bytes, &error) != SLUICE_OK)
        status = cli_fail_queue(c->cli, c->s, c->queue, &error);
    if (status == 0 && ids.len > 0) status = confirm(c, ids.len, bytes, yes);
    if (status == 0) {
        act_on_found(c, &ids, &n, &error);
        print_counts(c, ids.len, &n);
        if (n.code) status = cli_fail_queue(c->cli, c->s, c->queue, &error);
    }
    found_free(&ids);
    return status;
}

int choose_check(const struct cli *cli, const struct arguments *args, size_t filter, bool *chosen)
{
    const struct cli_value *rows = args->options + filter;
    bool ids = args->words_len > 1, filtered = filter_given(rows) || rows[FILTER_STATE].given;
    *chosen = ids || filtered;
    if (ids && filtered)
        return cli_usage(cli, "ID", "ID and a filter exclude each other: give one of them");
    return 0;
}

int choose(const struct choice *c, const struct arguments *args, size_t filter, bool yes)
{
    if (args->words_len > 1) return choose_ids(c, args->words + 1, args->words_len - 1);
    struct sluice_find find;
    int status = filter_read(c->cli, args->options + filter, &find);
    if (status == 0) status = choose_found(c, &find, yes);
    filter_done(&find);
    return status;
}
