// SPDX-License-Identifier: Apache-2.0
// Receive and settle through a mailbox.
#include "base/memory.h"
#include "ops/deliver.h"
#include "ops/mailbox_inside.h"
#include "ops/ops.h"
#include "ops/settle.h"
#include "ops/signal_rows.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "protocol/call_arguments.h"
#include "protocol/shard_wire.h"

#include <string.h>

#define TAKES_END_MS  4000  // a receive that is over waits so long for renewals of its tickets
#define SETTLE_END_MS 60000 // a direct commit has its own limit
#define FORGET_MS     60000 // after its deadline

static bool has_message(struct mailbox_session *m, void *ctx)
{
    (void)ctx;
    return m->arrived.first || session_is_direct(m);
}

static bool takes_nothing(struct mailbox_session *m, void *ctx)
{
    (void)ctx;
    return m->arrived.first || !session_takes(m);
}

// Takes up to max messages of one shard whose locks are in force.
static uint32_t take_arrived(struct mailbox_session *m, uint32_t max, struct list *to)
{
    uint32_t len = 0, shard = 0;
    LIST_EACH(l, &m->arrived, struct mailbox_lock, link) {
        if (l->deadline <= runner_time(m->lanes[l->shard].runner).hi) {
            lock_row_free(&m->arrived, l);
        } else if (len < max && (len == 0 || shard == l->shard)) {
            list_remove(&m->arrived, &l->link);
            list_add(to, &l->link);
            shard = l->shard;
            len++;
        }
    }
    return len;
}

// The program has them now: their locks can be settled through the mailbox.
static void note_taken(struct mailbox_session *m, struct list *list)
{
    int64_t now = runner_time(m->lanes[0].runner).lo;
    LIST_EACH(l, &m->taken, struct mailbox_lock, link)
        if (l->deadline + FORGET_MS <= now) lock_row_free(&m->taken, l);
    LIST_EACH(l, list, struct mailbox_lock, link) {
        bytes_free(l->message);
        l->message = BYTES_EMPTY;
    }
    list_move(&m->taken, list);
}

// Builds the batch from the encoded messages, which are all of one shard.
static enum sluice_code build_batch(struct mailbox_session *m, const struct list *list,
                                    uint32_t len, struct sluice_batch **out,
                                    struct sluice_error *error)
{
    CLEANUP(memory_let_go) struct shard_part *parts = memory_zeroed(len, sizeof *parts);
    struct delivery *rows = memory_zeroed(len, sizeof *rows);
    uint32_t count = 0, parts_len = 0;
    LIST_EACH(l, list, struct mailbox_lock, link) {
        bool moved;
        struct buf from;
        buf_init(&from, SIZE_MAX);
        buf_put(&from, l->message);
        struct shard_part *p = &parts[parts_len++];
        if (!shard_answer_read(&from, &moved, p, 1) || p->answer.deliveries_len != 1) {
            buf_done(&from);
            continue; // its lock expires
        }
        rows[count] = p->answer.deliveries[0];
        rows[count].grant.deadline = l->deadline;
        rows[count].grant.deliveries++;
        count++;
    }
    struct kept_reply all = {.deliveries = rows, .deliveries_len = count};
    uint32_t shard = LIST_FIRST(list, struct mailbox_lock, link)->shard;
    struct delivery_target h = {
        .queue = m->queue, .shard = shard, .runner = m->lanes[shard].runner};
    enum sluice_code code = count > 0 ? deliver_batch(&h, &all, out, error) : SLUICE_OK;
    for (uint32_t i = 0; i < parts_len; i++)
        kept_reply_done(&parts[i].answer);
    memory_free(rows);
    return code;
}

// The signals that wait for the messages. The owner only says that there are some: the journal has
// them. If it cannot be read now, a poll brings them later.
static void add_signals(struct mailbox_session *m, const struct list *list,
                        struct sluice_batch *batch)
{
    CLEANUP(memory_let_go) const char **tokens = memory_zeroed(batch->len + 1, sizeof *tokens);
    struct sluice_signals *signals = NULL;
    struct signals_poll poll = {.tokens = tokens};
    for (size_t i = 0; i < batch->len; i++) {
        struct lock_name lock;
        if (token_parse(queue_ref(m->queue), batch->messages[i].token, &lock, NULL)) continue;
        LIST_EACH(l, list, struct mailbox_lock, link)
            if (l->ref.seq == lock.ref.seq && l->has_signals)
                tokens[poll.len++] = batch->messages[i].token;
    }
    if (poll.len > 0 && !ops_signals_poll(m->engine, m->queue->row.name, &poll, &signals, NULL)) {
        batch_add_listed(batch, signals);
        sluice_signals_free(signals);
    }
}

static bool wait_for_messages(struct mailbox_session *m, uint32_t max, int64_t until)
{
    m->want += max;
    session_set_want(m);
    session_drive(m, has_message, NULL, until);
    m->want -= max;
    session_set_want(m);
    if (!m->arrived.first) session_drive(m, takes_nothing, NULL, clock_boot_ms() + TAKES_END_MS);
    // A worker that works directly asks now and then whether an owner answers again.
    if (session_is_direct(m)) session_step(m);
    return m->arrived.first || !session_is_direct(m);
}

static bool receive_here(struct mailbox_session *m, const struct sluice_receive *o,
                         struct sluice_batch **out, struct sluice_error *error,
                         enum sluice_code *code)
{
    uint32_t max = o->max > 0 ? o->max : 1;
    struct list list = {0};
    if (max > CLAIM_COUNT_MAX || o->visibility_ms < 0 || o->visibility_ms > LEASE_MAX_MS)
        return false; // refused as any other
    (void)pthread_mutex_lock(&m->lock);
    m->lease_ms = o->visibility_ms;
    bool mine = wait_for_messages(m, max, clock_boot_ms() + (o->wait_ms > 0 ? o->wait_ms : 0));
    uint32_t len = mine ? take_arrived(m, max, &list) : 0;
    (void)pthread_mutex_unlock(&m->lock);
    if (!mine) return false;
    *out = NULL;
    *code = len > 0 ? build_batch(m, &list, len, out, error) : SLUICE_OK;
    if (!*code && !*out) *out = batch_take(batch_new(0));
    if (!*code) add_signals(m, &list, *out);
    LOCKED(&m->lock);
    note_taken(m, &list);
    return true;
}

bool mailbox_receive(struct engine *e, const char *queue, const struct sluice_receive *options,
                     struct sluice_batch **out, struct sluice_error *error, enum sluice_code *code)
{
    char name[WORKER_NAME_MAX + 1];
    static const struct sluice_receive none = {0};
    const struct sluice_receive *o = options ? options : &none;
    // A claim that the caller may repeat, and acks that join it, need an entry of their own.
    if (!atomic_load(&e->ops->mailboxes) || o->request || o->acks_len > 0) return false;
    if (!o->worker) worker_default(name);
    CLEANUP(session_let_go)
    struct mailbox_session *m = session_find(e, queue, o->worker ? o->worker : name, 0);
    return m && receive_here(m, o, out, error, code);
}

void mailbox_note_claimed(struct engine *e, const char *queue, const char *worker,
                          const struct sluice_batch *batch)
{
    char name[WORKER_NAME_MAX + 1];
    if (!atomic_load(&e->ops->mailboxes)) return;
    if (!worker) worker_default(name);
    CLEANUP(session_let_go)
    struct mailbox_session *m = session_find(e, queue, worker ? worker : name, 0);
    if (!m) return;
    LOCKED(&m->lock);
    for (size_t i = 0; i < batch->len; i++) {
        struct lock_name lock;
        if (token_parse(queue_ref(m->queue), batch->messages[i].token, &lock, NULL)) continue;
        if (lock.shard >= m->lanes_len) continue;
        struct mailbox_lane *lane = &m->lanes[lock.shard];
        mailbox_claimed(lane->box, &lock.ref, runner_time(lane->runner));
    }
}

static struct mailbox_lock *taken_find(struct mailbox_session *m, const struct lock_name *lock)
{
    LIST_EACH(l, &m->taken, struct mailbox_lock, link)
        if (l->shard == lock->shard && l->ref.seq == lock->ref.seq &&
            hash128_equal(l->ref.token, lock->ref.token))
            return l;
    return NULL;
}

static uint16_t kind_of(enum settle_kind kind)
{
    static const uint16_t kinds[] = {[SETTLE_ACK] = OP_ACK,
                                     [SETTLE_FAIL] = OP_FAIL,
                                     [SETTLE_RELEASE] = OP_RELEASE,
                                     [SETTLE_RENEW] = OP_RENEW};
    return kinds[kind];
}

static void submit(struct mailbox_session *m, const struct settle *what,
                   const struct lock_name *locks, struct mailbox_wait *wait, struct buf *payload)
{
    struct mailbox_lane *lane = &m->lanes[locks[0].shard];
    bool carries = false;
    LOCAL(buf, refs, SIZE_MAX);
    LOCAL(buf, extras, SIZE_MAX);
    for (size_t i = 0; i < what->len; i++) {
        lock_ref_put(&refs, &locks[i].ref);
        carries = carried_put(&extras, what->acks, what->renewals, i) || carries;
    }
    struct op_outcome op = {.wait_ms = what->wait_ms,
                            .reason = what->reason ? bytes_str(what->reason) : BYTES_EMPTY,
                            .count = (uint32_t)what->len,
                            .refs = buf_bytes(&refs),
                            .extras = carries ? buf_bytes(&extras) : BYTES_EMPTY};
    if (op.reason.len > FAIL_REASON_MAX) op.reason.len = FAIL_REASON_MAX;
    if (what->request)
        op.request = request_part(what->request->bytes, 0);
    else
        entropy_fill(op.request.bytes, sizeof op.request.bytes);
    runner_outcome_origin(lane->runner, &op);
    outcome_encode(payload, &op);
    wait->ticket = ++m->tickets;
    list_add_first(&m->waits, &wait->link);
    mailbox_request(lane->box, wait->ticket, (struct op){kind_of(what->kind), buf_bytes(payload)},
                    runner_time(lane->runner));
}

static bool is_answered(struct mailbox_session *m, void *ctx)
{
    (void)m;
    return ((struct mailbox_wait *)ctx)->done;
}

// Keeps the program's locks up to date.
static void note_outcome(struct mailbox_session *m, uint16_t kind, const struct lock_name *lock,
                         const struct outcome_row *row)
{
    struct mailbox_lock *l = taken_find(m, lock);
    if (!l) return;
    if (kind == OP_RENEW && row->reason == REASON_NONE)
        l->deadline = row->until;
    else
        lock_row_free(&m->taken, l);
}

// A renewal says how many signals wait.
static void note_signals(const struct mailbox_wait *wait, struct sluice_outcome *outcomes,
                         size_t len)
{
    struct reader rows = reader_of(buf_bytes(&wait->signals));
    uint32_t index, waiting;
    while (rows.left > 0 && mailbox_signal_next(&rows, &index, &waiting))
        if (index < len) outcomes[index].signals = waiting;
}

static enum sluice_code conclude(struct mailbox_session *m, const struct settle *what,
                                 const struct lock_name *locks, const struct mailbox_wait *wait,
                                 struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct result result;
    struct outcome_row row;
    uint16_t kind = kind_of(what->kind);
    struct sluice_outcome unused;
    enum sluice_code code = SLUICE_OK;
    bool known = wait->done && !result_open(buf_bytes(&wait->body), kind, &result) &&
                 result.count == what->len;
    enum err err = wait->done && wait->err ? wait->err : ERR_UNKNOWN;
    for (size_t i = 0; i < what->len; i++) {
        struct sluice_outcome *out = outcomes ? &outcomes[i] : &unused;
        if (!known || !outcome_row_next(&result, &row)) {
            code = refuse_why(error, err, m->queue->row.name, "");
            *out = (struct sluice_outcome){.code = code, .status = ""};
            continue;
        }
        outcome_fill(kind, &row, out);
        note_outcome(m, kind, &locks[i], &row);
        if (row.status == OUTCOME_DEAD_LETTERED) engine_wake(m->engine);
        if (!code && reason_err(row.reason))
            code = refuse_reason(error, row.reason, m->queue->row.name);
    }
    if (outcomes) note_signals(wait, outcomes, what->len);
    return code;
}

static bool all_taken(struct mailbox_session *m, const struct settle *what, struct lock_name *locks)
{
    for (size_t i = 0; i < what->len; i++)
        if (token_parse(queue_ref(m->queue), what->tokens[i], &locks[i], NULL) ||
            locks[i].shard != locks[0].shard || !taken_find(m, &locks[i]))
            return false;
    return true;
}

// What the tokens carry goes through the mailbox if one op has room for it. Otherwise the call is
// made directly, which splits it.
static bool may_carry(const struct settle *what)
{
    size_t bytes = 0;
    if (!what->acks && !what->renewals) return true;
    for (size_t i = 0; what->acks && i < what->len; i++)
        bytes += what->acks[i].result ? what->acks[i].result_len : 0;
    return bytes <= CARRIED_BYTES_MAX;
}

static bool settle_here(struct mailbox_session *m, const struct settle *what,
                        struct sluice_outcome *outcomes, struct sluice_error *error,
                        enum sluice_code *code)
{
    CLEANUP(memory_let_go) struct lock_name *locks = memory_zeroed(what->len, sizeof *locks);
    (void)pthread_mutex_lock(&m->lock);
    bool mine = !session_is_direct(m) && may_carry(what) && all_taken(m, what, locks);
    if (mine) {
        struct mailbox_wait wait = {.done = false};
        LOCAL(buf, payload, JOURNAL_OP_MAX);
        buf_init(&wait.body, SIZE_MAX);
        buf_init(&wait.signals, SIZE_MAX);
        submit(m, what, locks, &wait, &payload);
        session_drive(m, is_answered, &wait, clock_boot_ms() + SETTLE_END_MS);
        list_remove(&m->waits, &wait.link);
        *code = conclude(m, what, locks, &wait, outcomes, error);
        buf_done(&wait.body);
        buf_done(&wait.signals);
    }
    (void)pthread_mutex_unlock(&m->lock);
    return mine;
}

bool mailbox_settle(struct engine *e, const char *queue, const struct settle *what,
                    struct sluice_outcome *outcomes, struct sluice_error *error,
                    enum sluice_code *code)
{
    if (!atomic_load(&e->ops->mailboxes) || what->len == 0 || what->len > REFS_MAX) return false;
    if (what->wait_ms < 0 || what->wait_ms > LEASE_MAX_MS) return false;
    bool done = false;
    struct mailbox_session *m;
    for (size_t i = 0; !done && (m = session_find(e, queue, NULL, i)); i++) {
        done = settle_here(m, what, outcomes, error, code);
        session_let_go(&m);
    }
    return done;
}
