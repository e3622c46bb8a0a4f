// SPDX-License-Identifier: Apache-2.0
// Whether the node lives, and whether it makes progress. Ready means that the store did something a
// moment ago: what the last call came to, when that is fresh; else the store is asked. One question
// at a time, on the pool: when its answer does not come, or the pool itself is stuck, that is the
// answer.
#include "api/peer.h"
#include "base/memory.h"
#include "os/clock.h"
#include "server/inside.h"

#include <inttypes.h>

#define FRESH_MS 2000 // what a call said of the store holds so long
#define STUCK_MS 3000 // a question that is older than this has no answer

static void answer_status(struct exchange *x, const char *status)
{
    struct json *o = json_new();
    json_text(o, "status", status);
    answer_json(x, 200, o);
}

// With its name: others may have to know whether it is still this node that answers here.
void handle_healthz(struct exchange *x)
{
    struct httpd_pair headers[] = {{"Cache-Control", "no-store"}, {PEER_HEADER, x->server->node}};
    struct httpd_answer a = {
        .status = 200, .type = JSON_TYPE, .headers = headers, .headers_len = 2};
    struct json *o = json_new();
    struct buf text;
    json_text(o, "status", "alive");
    buf_init(&text, SIZE_MAX);
    json_write(o, &text);
    buf_put_u8(&text, '\n');
    answer_with(x, &a, &text);
}

static void answer_ready(struct exchange *x, enum sluice_code code,
                         const struct sluice_error *error)
{
    if (code)
        answer_problem(x, 503, error, NULL);
    else
        answer_status(x, "ready");
}

static void ask_store(struct pool_job *j)
{
    struct exchange *x = (struct exchange *)((char *)j - offsetof(struct exchange, job));
    struct server *s = x->server;
    struct sluice_names *names = NULL;
    struct sluice_error error;
    enum sluice_code code = sluice_queue_list(s->store, &names, &error);
    sluice_names_free(names);
    store_said(s, code, &error);
    (void)pthread_mutex_lock(&s->lock);
    s->ready.asking_ms = 0;
    (void)pthread_mutex_unlock(&s->lock);
    answer_ready(x, code, &error);
    call_end(s);
}

void handle_readyz(struct exchange *x)
{
    struct server *s = x->server;
    struct sluice_error e;
    int64_t now = clock_boot_ms();
    if (atomic_load(&s->stopping) || atomic_load(&s->draining)) {
        e = error_of(SLUICE_UNAVAILABLE, "stopping", "", "the node is stopping");
        answer_ready(x, e.code, &e);
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    struct readiness ready = s->ready;
    bool fresh = ready.asked_ms != 0 && now - ready.asked_ms < FRESH_MS;
    bool asks = !fresh && ready.asking_ms == 0;
    if (asks) s->ready.asking_ms = now;
    (void)pthread_mutex_unlock(&s->lock);
    x->job.run = ask_store;
    if (asks) {
        call_begin(s);
        if (pool_run(s->pool, &x->job)) return;
        call_end(s);
        (void)pthread_mutex_lock(&s->lock);
        s->ready.asking_ms = 0;
        (void)pthread_mutex_unlock(&s->lock);
        e = error_of(SLUICE_UNAVAILABLE, "busy", "", "too many calls wait for the store");
        answer_ready(x, e.code, &e);
    } else if (!fresh && now - ready.asking_ms > STUCK_MS) {
        e = error_of(SLUICE_UNAVAILABLE, "stuck", "",
                     "the store was asked %" PRId64 " ms ago and has not answered",
                     now - ready.asking_ms);
        answer_ready(x, e.code, &e);
    } else if (ready.asked_ms == 0) {
        e = error_of(SLUICE_UNAVAILABLE, "starting", "", "the store has not answered yet");
        answer_ready(x, e.code, &e);
    } else {
        answer_ready(x, ready.code, &ready.error); // as the last call said, for now
    }
}
