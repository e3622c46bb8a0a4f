// SPDX-License-Identifier: Apache-2.0
// The calls that wait for signals. Such a call has a part for each shard that its tokens, or its
// signal, concern. Each part waits at the shard's owner, or here.
#include "ops/listen.h"
#include "base/text.h"
#include "ops/ops.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/signal_rows.h"
#include "os/clock.h"

#include <assert.h>
#include <string.h>

struct poll_call {
    struct listen_call listen; // first
    struct signals_poll poll;  // borrowed, unless the call owns its arguments
    const char *signal;        // waits for the end of this one, if there are no tokens
    const char *message;       // ... of this message; NULL: of all
    struct signal_list *list;
};
static_assert(sizeof(struct poll_call) <= CALL_BYTES_MAX, "malloc has it at hand");

static struct poll_call *poll_of(struct local_call *c)
{
    return (struct poll_call *)c;
}

struct listen_part *listen_add_part(struct listen_call *l, uint32_t shard, size_t len)
{
    l->parts = memory_resize(l->parts, (l->parts_len + (size_t)1) * sizeof *l->parts);
    struct listen_part *p = &l->parts[l->parts_len++];
    *p = (struct listen_part){.shard = shard, .asks = memory_zeroed(len, sizeof *p->asks)};
    p->what.asks = p->asks;
    return p;
}

void listen_release(struct listen_call *l)
{
    for (uint32_t i = 0; i < l->parts_len; i++)
        memory_free(l->parts[i].asks);
    memory_free(l->parts);
}

const struct shard_listen *listen_ask_of(struct local_call *c, uint32_t part, uint32_t *shard)
{
    const struct listen_call *l = (struct listen_call *)c;
    CHECK(part < l->parts_len);
    *shard = l->parts[part].shard;
    return &l->parts[part].what;
}

static bool is_pending(const struct kept_signals *s)
{
    for (size_t i = 0; s && i < s->len; i++)
        if (s->rows[i].view.state == SIGNAL_PENDING) return true;
    return false;
}

enum call_find_end listen_found(const struct call_slot *slot, bool over)
{
    const struct kept_reply *a = &slot->async.answer;
    uint32_t shard;
    bool of_signal = !listen_ask_of(slot->call, slot->index, &shard)->messages;
    if (slot->err == ERR_NOT_FOUND && a->body.len == 0) return STEP_NOTHING;
    if (slot->err) return STEP_FAILED;
    // The owner's part of the wait is over, and the signal is still pending.
    if (of_signal && slot->call->state.plan.all && !over && is_pending(a->signals))
        return STEP_AGAIN;
    return a->signals && a->signals->len > 0 ? STEP_FOUND : STEP_NOTHING;
}

static void refuse_token(struct poll_call *l, size_t token, enum sluice_code code,
                         const char *reason)
{
    struct sluice_signal_state *row = signal_list_add(l->list);
    row->code = code;
    (void)text_copy(row->reason, sizeof row->reason, reason);
    (void)text_copy(row->token, sizeof row->token, l->poll.tokens[token]);
}

// Sorts the tokens by shard. Those that cannot be parsed have their rows already.
static void make_parts(struct poll_call *l, const struct lock_name *locks, const bool *good,
                       uint32_t shards)
{
    CLEANUP(memory_let_go) size_t *counts = memory_zeroed(shards, sizeof *counts);
    for (size_t i = 0; i < l->poll.len; i++)
        if (good[i]) counts[locks[i].shard]++;
    for (uint32_t shard = 0; shard < shards; shard++) {
        if (counts[shard] == 0) continue;
        struct listen_part *p = listen_add_part(&l->listen, shard, counts[shard]);
        for (size_t i = 0; i < l->poll.len; i++)
            if (good[i] && locks[i].shard == shard)
                p->asks[p->what.len++] =
                    (struct listen_ask){locks[i].ref, l->poll.after ? l->poll.after[i] : 0};
    }
}

// Returns false if that would block: the open queue may be an old life of its name.
static bool parse_tokens(struct poll_call *l, bool may_block)
{
    struct local_call *c = &l->listen.call;
    struct lock_name *locks = memory_zeroed(l->poll.len, sizeof *locks);
    CLEANUP(memory_let_go) bool *good = memory_zeroed(l->poll.len, sizeof *good);
    bool foreign = false;
    for (int round = 0; round == 0 || (round == 1 && foreign && may_block); round++) {
        if (round == 1 && !call_open_again(c)) break;
        foreign = false;
        for (size_t i = 0; i < l->poll.len; i++) {
            enum sluice_code code =
                token_parse(queue_ref(c->queue), l->poll.tokens[i], &locks[i], NULL);
            good[i] = !code;
            foreign = foreign || code == SLUICE_NOT_FOUND;
        }
    }
    bool blocks = foreign && !may_block;
    for (size_t i = 0; !blocks && !call_code(c) && i < l->poll.len; i++) {
        struct sluice_error why = {.reason = ""};
        if (good[i]) continue;
        enum sluice_code code =
            token_parse(queue_ref(c->queue), l->poll.tokens[i], &locks[i], &why);
        refuse_token(l, i, code, *why.reason ? why.reason : "malformed");
    }
    if (!blocks && !call_code(c)) make_parts(l, locks, good, c->queue->row.birth.shards);
    memory_free(locks);
    return !blocks;
}

static bool parse_signal(struct poll_call *l)
{
    struct local_call *c = &l->listen.call;
    struct shard_listen what = {0};
    uint32_t shard = 0, shards = c->queue->row.birth.shards;
    enum sluice_code code = signal_id_parse(l->signal, &what.signal, call_error(c));
    if (!code && l->message)
        code = id_parse(queue_ref(c->queue), l->message, &shard, &what.seq, call_error(c));
    if (code) return false;
    uint32_t count = l->message ? 1 : shards;
    for (uint32_t i = 0; i < count; i++) {
        struct listen_part *p = listen_add_part(&l->listen, shard + i, 0);
        what.asks = p->asks;
        p->what = what;
    }
    return true;
}

static bool check_poll(struct poll_call *l)
{
    if (l->signal) return true;
    if (l->poll.len >= 1 && l->poll.len <= SLUICE_SIGNAL_TOKENS_MAX) return true;
    (void)refuse_tokens(l->poll.len, call_error(&l->listen.call));
    return false;
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct poll_call *l = poll_of(c);
    enum call_built opened = call_open_queue(c, may_block);
    if (opened != CALL_BUILT) return opened;
    if (!check_poll(l)) return CALL_ENDED;
    if (l->signal ? !parse_signal(l) : !parse_tokens(l, may_block))
        return l->signal ? CALL_ENDED : CALL_BLOCKS;
    // Tokens that cannot be parsed are told at once.
    if (call_code(c) || l->listen.parts_len == 0) return CALL_ENDED;
    if (signal_list_len(l->list) > 0) c->until = 0;
    *plan = (struct call_plan){.shards = l->listen.parts_len, .all = l->signal != NULL};
    return CALL_BUILT;
}

static void own(struct local_call *c)
{
    struct poll_call *l = poll_of(c);
    size_t len = l->poll.len, bytes = len * (sizeof(char *) + sizeof(uint32_t)) + 1;
    for (size_t i = 0; i < len; i++)
        bytes += strlen(l->poll.tokens[i]) + 1;
    const char **rows = memory_new(bytes);
    uint32_t *after = (uint32_t *)(rows + len);
    char *at = (char *)(after + len);
    for (size_t i = 0; i < len; i++) {
        after[i] = l->poll.after ? l->poll.after[i] : 0;
        rows[i] = text_append(&at, bytes_str(l->poll.tokens[i]));
    }
    l->poll.tokens = rows;
    l->poll.after = after;
    l->signal = memory_text(l->signal);
    l->message = memory_text(l->message);
}

struct shard_runner *listen_runner(struct local_call *c, uint32_t part)
{
    struct shard_runner *r;
    uint32_t shard = ((struct listen_call *)c)->parts[part].shard;
    if (c->caller) return c->queue->runners[shard];
    return queue_work_runner(c->queue, shard, &r, call_error(c)) ? NULL : r;
}

static void add_row(struct poll_call *l, const struct listen_part *p,
                    const struct signal_delivery *from)
{
    char token[SLUICE_TOKEN_MAX] = "";
    if (p->what.len > 0) {
        if (from->index >= p->what.len) return; // a damaged answer
        struct lock_name lock = {.shard = p->shard, .ref = p->asks[from->index].ref};
        token_print(queue_ref(l->listen.call.queue), &lock, token);
    }
    if (from->reason == REASON_NONE) {
        signal_list_add_delivery(l->list, l->listen.call.queue, p->shard, from, token);
        return;
    }
    struct sluice_signal_state *row = signal_list_add(l->list);
    row->code = (enum sluice_code)reason_err(from->reason);
    (void)text_copy(row->reason, sizeof row->reason, reason_name(from->reason));
    (void)text_copy(row->token, sizeof row->token, token);
    id_print(queue_ref(l->listen.call.queue), p->shard, p->asks[from->index].ref.seq, row->message);
}

void listen_refuse(struct local_call *c, const struct call_slot *slot)
{
    const struct kept_reply *a = &slot->async.answer;
    if (a->body.len > 0)
        (void)refuse_op(call_error(c), slot->err, OP_CLAIM, a, c->queue->row.name);
    else
        (void)refuse_why(call_error(c), slot->err, c->queue->row.name, a->why ? a->why : "");
}

static bool deliver(struct local_call *c, bool may_block)
{
    struct poll_call *l = poll_of(c);
    const struct call_result *r = &c->state.result;
    (void)may_block;
    if (r->failed) {
        listen_refuse(c, call_slot_of(c, STEP_AWAIT, r->shard));
        return true;
    }
    for (uint32_t i = 0; i < l->listen.parts_len; i++) {
        const struct call_slot *slot = call_slot_of(c, STEP_AWAIT, i);
        bool has = slot && slot->kept && !slot->err;
        const struct kept_signals *s = has ? slot->async.answer.signals : NULL;
        for (size_t at = 0; s && at < s->len; at++)
            add_row(l, &l->listen.parts[i], &s->rows[at]);
    }
    return true;
}

static void answer(struct local_call *c, struct async_answer *out)
{
    out->signals = signal_list_take(poll_of(c)->list); // it stays the call's
}

static void release(struct local_call *c)
{
    struct poll_call *l = poll_of(c);
    listen_release(&l->listen);
    if (c->owns) {
        memory_free((void *)(uintptr_t)l->poll.tokens);
        memory_free((void *)(uintptr_t)l->signal);
        memory_free((void *)(uintptr_t)l->message);
    }
    if (l->list) sluice_signals_free(signal_list_take(l->list));
    memory_free(l);
}

static const struct call_type listen_type = {.kind = STEP_LISTEN,
                                             .build = build,
                                             .own = own,
                                             .deliver = deliver,
                                             .runner = listen_runner,
                                             .answer = answer,
                                             .release = release};

static struct poll_call *poll_base(struct engine *e, const char *queue, int64_t wait_ms,
                                   struct async_call *caller)
{
    struct poll_call *l = NEW(struct poll_call);
    call_prepare(&l->listen.call, &listen_type, e, queue, caller);
    l->listen.call.until = clock_boot_ms() + (wait_ms > 0 ? wait_ms : 0);
    l->list = signal_list_new();
    return l;
}

static struct poll_call *poll_new(struct engine *e, const char *queue,
                                  const struct signals_poll *poll, struct async_call *caller)
{
    int64_t wait_ms = poll->wait_ms < SIGNALS_WAIT_MAX_MS ? poll->wait_ms : SIGNALS_WAIT_MAX_MS;
    struct poll_call *l = poll_base(e, queue, wait_ms, caller);
    l->poll = *poll;
    return l;
}

static struct poll_call *end_new(struct engine *e, const char *queue, const char *signal,
                                 const char *message, int64_t wait_ms, struct async_call *caller)
{
    struct poll_call *l = poll_base(e, queue, wait_ms, caller);
    l->signal = signal ? signal : "";
    l->message = message;
    return l;
}

// Waits on this thread.
static enum sluice_code finish(struct poll_call *l, struct sluice_signals **out,
                               struct sluice_error *error)
{
    *out = NULL;
    atomic_fetch_add(&l->listen.call.refs, 1); // for the rows
    enum sluice_code code = call_blocking(&l->listen.call, error);
    if (!code) {
        *out = signal_list_take(l->list);
        l->list = NULL;
    }
    call_release(&l->listen.call);
    return code;
}

enum sluice_code ops_signals_poll(struct engine *e, const char *queue,
                                  const struct signals_poll *poll, struct sluice_signals **out,
                                  struct sluice_error *error)
{
    return finish(poll_new(e, queue, poll, NULL), out, error);
}

void async_signals_poll(struct engine *e, const char *queue, const struct signals_poll *poll,
                        struct async_call *a)
{
    call_start(&poll_new(e, queue, poll, a)->listen.call);
}

static enum sluice_code refuse_unknown(const char *signal, struct sluice_error *error)
{
    return refuse_reason(error, REASON_UNKNOWN_SIGNAL, signal);
}

enum sluice_code ops_signal_wait(struct engine *e, const char *queue, const char *signal,
                                 const char *message, int64_t wait_ms, struct sluice_signals **out,
                                 struct sluice_error *error)
{
    enum sluice_code code = finish(end_new(e, queue, signal, message, wait_ms, NULL), out, error);
    if (code || (*out)->len > 0) return code;
    sluice_signals_free(*out);
    *out = NULL;
    return refuse_unknown(signal, error);
}

void async_signal_wait(struct engine *e, const char *queue, const char *signal, const char *message,
                       int64_t wait_ms, struct async_call *a)
{
    call_start(&end_new(e, queue, signal, message, wait_ms, a)->listen.call);
}
