// SPDX-License-Identifier: Apache-2.0
// Whether the node is alive, and whether it makes progress. The node is ready if the store took a
// write recently, and no request failed since: a write of any call, or else a probe. /readyz runs
// at most one probe at a time, on a thread of its own that clients cannot occupy. If the probe gets
// no answer, the node is not ready. Errors that clients got do not count: a client's mistake, or
// one damaged queue, does not stop the others.
#include "member/member.h"
#include "os/clock.h"
#include "os/lock.h"
#include "peer/peer.h"
#include "publish/publish.h"
#include "queues/liveness.h"
#include "queues/owner.h"
#include "server/cluster_bus.h"
#include "server/inside.h"
#include "store/meter.h"

#include <inttypes.h>
#include <string.h>

#define REFUSED_MS          1000 // a refusal is cached this long
#define STUCK_MS            3000 // a probe that runs longer counts as unanswered
#define DOWN_MS             5000 // a call waits for a store that fails for a shorter time
#define CONCERNS_EVERY_MS   10000
#define DURABILITY_EVERY_MS 3600000 // an operator's choice is repeated, so that it is not forgotten

// The node stays ready while the bus is away: calls do not wait for it.
static struct json *bus_json(struct server *s)
{
    struct publishing_status p;
    struct json *o = json_new();
    publishing_status(s->publishing, &p);
    if (!p.degraded) p.degraded = cluster_bus_refused(s->cluster_bus, p.why);
    json_bool(o, "degraded", p.degraded);
    if (p.degraded) json_text(o, "reason", p.why);
    json_number(o, "degradedMs", p.degraded_ms);
    json_number(o, "lagEvents", (int64_t)p.lag_events);
    json_number(o, "lagMs", p.lag_ms);
    json_number(o, "dropped", (int64_t)p.dropped);
    json_bool(o, "overdue", p.overdue);
    return o;
}

// A store that is nearly full refuses sends. The node stays ready, so that workers can drain it.
static void answer_is_ready(struct exchange *x)
{
    struct sluice_error about;
    struct json *o = json_new();
    json_text(o, "status", "ready");
    if (liveness_concern(x->server->engine, STORE_LOST_SLOTS, &about) ||
        liveness_concern(x->server->engine, STORE_NEARLY_FULL, &about))
        json_text(o, "warning", about.message);
    char why[COORD_WHY_MAX];
    if (x->server->member && membership_degraded(x->server->member, NULL, why))
        json_text(o, "degraded", *why ? why : "the coordination service does not answer");
    if (x->server->publishing) json_take(o, "bus", bus_json(x->server));
    answer_json(x, 200, o);
}

// The answer has the node's name. If the request has a nonce, it also has a proof of the name, and
// a nonce for the proof of the caller, which later requests on this connection must have.
void handle_healthz(struct exchange *x)
{
    struct peer_answer proof;
    const char *nonce = target_value(&x->target, "nonce");
    const char *keys = target_value(&x->target, "key");
    bool proves =
        nonce && peer_nonce_ok(nonce) && owner_prove(x->server->engine, nonce, keys, &proof);
    struct httpd_pair headers[] = {{"Cache-Control", "no-store"},
                                   {PEER_HEADER, x->server->node},
                                   {PEER_KEY, proof.key},
                                   {PEER_PROOF, proof.proof},
                                   {PEER_NONCE, proof.nonce}};
    if (proves) httpd_set_note(x->http, proof.expects);
    struct httpd_answer a = {
        .status = 200, .type = JSON_TYPE, .headers = headers, .headers_len = proves ? 5 : 2};
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
        answer_is_ready(x);
}

// Caches the answer, so that frequent requests do not load the store. `ends`: this answers the
// probe of the health thread; only that thread resets asking_ms.
static void note_answer(struct server *s, enum sluice_code code, const struct sluice_error *error,
                        bool ends)
{
    LOCKED(&s->lock);
    if (ends) s->ready.asking_ms = 0;
    s->ready.asked_ms = clock_boot_ms();
    s->ready.code = code;
    if (code) s->ready.error = *error;
}

// Returns what is known without asking the store. *fresh: that is recent enough.
static struct sluice_error known(const struct server *s, const struct readiness *r, int64_t now,
                                 bool *fresh)
{
    int64_t holds = liveness_holds_ms(s->engine), last = store_meter_written_ms(s->engine->store);
    // What was known before is no proof, nor what was learned in the same millisecond.
    int64_t failed = store_meter_failed_ms(s->engine->store);
    struct sluice_error e = {.code = SLUICE_OK};
    *fresh = true;
    if (liveness_is_dead(s->engine, &e)) return e;
    if (last != 0 && last > failed && now - last < holds) return e;
    bool counts = r->asked_ms != 0 && (r->code || r->asked_ms > failed);
    if (counts && now - r->asked_ms < (r->code ? REFUSED_MS : holds)) return r->code ? r->error : e;
    *fresh = false;
    if (r->asking_ms != 0 && now - r->asking_ms > STUCK_MS)
        return error_of(SLUICE_UNAVAILABLE, "stuck", "",
                        "the store was asked %" PRId64 " ms ago and has not answered",
                        now - r->asking_ms);
    if (r->asked_ms == 0 && last <= failed)
        return error_of(SLUICE_UNAVAILABLE, "starting", "", "the store has not answered yet");
    return r->code ? r->error : e; // what was known before, while the probe runs
}

bool store_is_up(struct server *s)
{
    bool fresh;
    (void)pthread_mutex_lock(&s->lock);
    struct sluice_error e = known(s, &s->ready, clock_boot_ms(), &fresh);
    (void)pthread_mutex_unlock(&s->lock);
    if (fresh) return e.code == SLUICE_OK;
    enum sluice_code code = liveness_write(s->engine, s->node, &e);
    note_answer(s, code, &e, false);
    return code == SLUICE_OK;
}

static void probe(struct call_job *j)
{
    struct server *s = (struct server *)((char *)j - offsetof(struct server, ready.probe));
    struct sluice_error error;
    enum sluice_code code = liveness_write(s->engine, s->node, &error);
    note_answer(s, code, &error, true);
    call_end(s);
}

static void probe_later(struct server *s)
{
    s->ready.probe = (struct call_job){.run = probe};
    call_begin(s);
    if (call_share_run(s->health, &s->ready.probe, 0) == ERR_OK) return;
    (void)pthread_mutex_lock(&s->lock);
    s->ready.asking_ms = 0;
    (void)pthread_mutex_unlock(&s->lock);
    call_end(s);
}

// Call it with the lock. Returns whether calls are refused.
static bool decide_down(struct readiness *r, bool fails, int64_t now)
{
    if (!fails) r->down_ms = 0;
    if (fails && r->down_ms == 0) r->down_ms = now;
    return fails && now - r->down_ms >= DOWN_MS && r->code == SLUICE_UNAVAILABLE;
}

// The probe decides, not the calls: a request can fail for one damaged queue alone.
bool store_is_down(struct server *s, struct sluice_error *error)
{
    struct readiness *r = &s->ready;
    int64_t failed = store_meter_failed_ms(s->engine->store), now = clock_boot_ms();
    bool fails = failed != 0 && store_meter_written_ms(s->engine->store) <= failed, fresh = true;
    if (failed == 0) return false; // so it costs nothing
    (void)pthread_mutex_lock(&s->lock);
    if (fails) (void)known(s, r, now, &fresh);
    bool asks = !fresh && r->asking_ms == 0 && !atomic_load(&s->stopping);
    if (asks) r->asking_ms = now;
    bool down = decide_down(r, fails, now), changed = down != r->down;
    r->down = down;
    *error = r->error;
    (void)pthread_mutex_unlock(&s->lock);
    if (changed && down) LOG(&s->log, LOG_ERROR, "store-down", LOG_TEXT("error", error->message));
    if (changed && !down) LOG(&s->log, LOG_INFO, "store-up", LOG_TEXT("store", s->store_name));
    if (asks) probe_later(s);
    return down;
}

static void ask_store(struct call_job *j)
{
    struct exchange *x = (struct exchange *)((char *)j - offsetof(struct exchange, job));
    struct server *s = x->server;
    struct sluice_error error;
    enum sluice_code code = liveness_write(s->engine, s->node, &error);
    note_answer(s, code, &error, true);
    answer_ready(x, code, &error);
    call_end(s);
}

// The probe's thread answers the request.
static void ask_store_later(struct exchange *x)
{
    struct server *s = x->server;
    x->job.run = ask_store;
    call_begin(s);
    if (call_share_run(s->health, &x->job, 0) == ERR_OK) return;
    struct sluice_error error = no_thread_error();
    note_answer(s, error.code, &error, true);
    answer_ready(x, error.code, &error);
    call_end(s);
}

void handle_readyz(struct exchange *x)
{
    struct server *s = x->server;
    int64_t now = clock_boot_ms();
    bool fresh;
    (void)pthread_mutex_lock(&s->lock);
    struct sluice_error e = known(s, &s->ready, now, &fresh);
    bool stops = atomic_load(&s->stopping) || atomic_load(&s->draining);
    bool asks = !stops && !fresh && s->ready.asking_ms == 0;
    if (asks) s->ready.asking_ms = now;
    (void)pthread_mutex_unlock(&s->lock);
    if (stops) e = error_of(SLUICE_UNAVAILABLE, "stopping", "", "the node is stopping");
    if (asks)
        ask_store_later(x);
    else
        answer_ready(x, e.code, &e);
}

void server_tell_concerns(struct server *s)
{
    static const char *const names[STORE_CONCERNS] = {[STORE_EXPOSED] = "access",
                                                      [STORE_NEARLY_FULL] = "space",
                                                      [STORE_CLOCK_OFF] = "clock",
                                                      [STORE_NOT_DURABLE] = "durability",
                                                      [STORE_LOST_SLOTS] = "loss"};
    struct store_warnings *c = &s->concerns;
    int64_t now = clock_boot_ms();
    if (c->looked_ms != 0 && now - c->looked_ms < CONCERNS_EVERY_MS) return;
    c->looked_ms = now;
    for (enum store_concern i = 0; i < STORE_CONCERNS; i++) {
        struct sluice_error error;
        bool there = liveness_concern(s->engine, i, &error);
        bool again = i == STORE_NOT_DURABLE && now - c->durability_ms >= DURABILITY_EVERY_MS;
        if (i == STORE_NOT_DURABLE && (again || !c->logged[i])) c->durability_ms = now;
        if (there && (again || !c->logged[i]))
            LOG(&s->log, LOG_WARNING, "store-warning", LOG_TEXT("about", names[i]),
                LOG_TEXT("warning", error.message));
        if (!there && c->logged[i])
            LOG(&s->log, LOG_INFO, "store-warning-over", LOG_TEXT("about", names[i]));
        c->logged[i] = there;
    }
}
