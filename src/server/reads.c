// SPDX-License-Identifier: Apache-2.0
// Reads that change nothing: messages, statistics.
#include "ops/ops.h"
#include "os/clock.h"
#include "protocol/filter.h"
#include "protocol/wire.h"
#include "server/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Sluice-Took is the time that the request took here, in ms. The client subtracts it from the time
// it measured. The rest is network time, by which the locks' remaining time is shorter.
static void answer_wire(struct exchange *x, const struct sluice_batch *b,
                        const struct async_answer *acked)
{
    char took[24];
    struct buf body;
    (void)snprintf(took, sizeof took, "%lld", (long long)(clock_boot_ns() - x->began_ns) / 1000000);
    struct httpd_pair headers[4] = {{"Cache-Control", "no-store"}, {"Sluice-Took", took}};
    struct httpd_answer a = {
        .status = 200, .type = WIRE_TYPE, .headers = headers, .headers_len = 2};
    const struct sluice_found *f = x->found;
    char read[64];
    if (f) {
        (void)snprintf(read, sizeof read, "messages=%" PRIu64 "; bytes=%" PRIu64, f->messages,
                       f->bytes);
        headers[a.headers_len++] = (struct httpd_pair){FOUND_READ_HEADER, read};
    }
    if (f && *f->next) headers[a.headers_len++] = (struct httpd_pair){FOUND_NEXT_HEADER, f->next};
    buf_init(&body, SIZE_MAX);
    if (x->route->row == &route_table[ROUTE_RECEIVE])
        wire_put_batch(&body, b);
    else
        wire_put_looked(&body, b);
    if (acked)
        wire_put_outcomes(&body, acked->outcomes, acked->len, acked->code ? acked->error : NULL);
    answer_with(x, &a, &body);
}

void answer_messages(struct exchange *x, const struct sluice_batch *b, struct sluice_batch *spent,
                     const struct async_answer *acked)
{
    if (x->wire_out) {
        answer_wire(x, b, acked);
        sluice_batch_free(spent);
        return;
    }
    struct json *o = json_new(), *list = json_list_new();
    for (size_t i = 0; i < b->len; i++)
        json_list_take(list, json_message_all(x->queue, &b->messages[i]));
    json_take(o, "messages", list);
    sluice_batch_free(spent); // so that a large one is not in memory three times
    if (x->found) fields_put(o, &found_answer, x->found);
    if (acked) json_take(o, "acked", outcomes_json(acked));
    if (acked && acked->code)
        json_take(o, "error", problem_json(err_http((enum err)acked->code), acked->error));
    answer_json(x, 200, o);
}

void answer_acked(struct exchange *x, const struct sluice_batch *b, const struct async_answer *a)
{
    answer_messages(x, b, NULL, a);
}

// Splits "NAME=VALUE". The texts are the request's.
static bool read_filters(struct exchange *x, const struct field_texts *given,
                         struct sluice_header *out)
{
    for (size_t i = 0; i < given->len; i++) {
        const char *equals = strchr(given->rows[i], '=');
        if (given->len > SLUICE_FIND_HEADERS_MAX)
            return refuse_request(x, SLUICE_INVALID, "", "header",
                                  "%zu headers are given; at most %d are allowed", given->len,
                                  SLUICE_FIND_HEADERS_MAX);
        if (!equals || equals == given->rows[i])
            return refuse_request(x, SLUICE_INVALID, "", "header",
                                  "header \"%.80s\" is not of the form NAME=VALUE", given->rows[i]);
        size_t len = (size_t)(equals - given->rows[i]);
        char *name = kept_new(&x->kept, len + 1);
        memcpy(name, given->rows[i], len);
        name[len] = '\0';
        out[i] = (struct sluice_header){name, equals + 1};
    }
    return true;
}

struct found_result {
    struct sluice_batch *batch;
    struct sluice_found found;
};

static void answer_found(struct exchange *x, const struct async_answer *a)
{
    struct found_result *r = x->result;
    if (!answer_unless(x, a->code, a->error)) return;
    answer_messages(x, r->batch, r->batch, NULL);
}

static struct request_origin act_with_budget(struct exchange *x, answer_fn *answer)
{
    x->async.budget = answer_budget_of(x);
    return act(x, sizeof(struct found_result), answer);
}

static void find_one(struct exchange *x, const char *id, answer_fn *answer)
{
    struct request_origin as = act_with_budget(x, answer);
    struct found_result *r = x->result;
    (void)start_show(&as, x->queue, id, &r->batch, NULL);
}

void handle_peek(struct exchange *x)
{
    struct peek_in in = {0};
    struct sluice_header *headers = kept_new(&x->kept, SLUICE_FIND_HEADERS_MAX * sizeof *headers);
    if (!read_request(x, &in) || !read_filters(x, &in.headers, headers)) return;
    if (in.id) {
        find_one(x, in.id, answer_found);
        return;
    }
    struct sluice_find ask = {.state = in.state,
                              .after_id = in.after,
                              .max = (uint32_t)in.max,
                              .before = in.before,
                              .contains = in.contains,
                              .headers = headers,
                              .headers_len = in.headers.len,
                              .bytes_max = (uint64_t)in.bytes};
    struct request_origin as = act_with_budget(x, answer_found);
    struct found_result *r = x->result;
    x->found = &r->found;
    (void)start_find(&as, x->queue, &ask, &r->batch, &r->found, NULL);
}

static void answer_shown(struct exchange *x, const struct async_answer *a)
{
    struct sluice_batch *batch = ((struct found_result *)x->result)->batch;
    if (!answer_unless(x, a->code, a->error)) return;
    if (x->wire_out) {
        answer_messages(x, batch, batch, NULL);
        return;
    }
    struct json *o = json_message_all(x->queue, &batch->messages[0]);
    sluice_batch_free(batch);
    answer_json(x, 200, o);
}

void handle_show(struct exchange *x)
{
    if (read_request(x, NULL)) find_one(x, x->id, answer_shown);
}

struct json *stats_json(const char *queue, const struct sluice_stats *v)
{
    struct json *o = json_new();
    json_text(o, "queue", queue);
    fields_put(o, &stats_answer, v);
    return o;
}

void handle_stats(struct exchange *x)
{
    if (!read_request(x, NULL)) return;
    struct request_origin as = act(x, sizeof(struct sluice_stats), answer_stats);
    (void)start_stats(&as, x->queue, x->result, NULL);
}
