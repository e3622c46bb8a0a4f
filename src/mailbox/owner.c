// SPDX-License-Identifier: Apache-2.0
// The steps of a round. docs/workers.md explains the exchange, owner.h the order of the steps.
#include "mailbox/owner.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "mailbox/owner_inside.h"

#include <string.h>

#define ROOM_FIRST        16
#define ROOM_LEAST        8
#define ROOM_MOST         4096
#define ROOM_STEP         8
#define ROW_BYTES_MORE    1024 // of the object and of a row, besides the bodies of rows
#define ANSWERS_BYTES_MAX (MAILBOX_OBJECT_MAX - ROW_BYTES_MORE)
#define ROUND_LONG        600 // ms
#define ROUND_SLOW        800 // ms: some workers have waited for a second

struct mailbox_owner *mailbox_owner_new(const char *prefix, const struct queue_id *queue,
                                        uint32_t shard)
{
    struct mailbox_owner *o = NEW(struct mailbox_owner);
    CHECK(strlen(prefix) < sizeof o->prefix);
    memcpy(o->prefix, prefix, strlen(prefix) + 1);
    o->queue = *queue;
    o->shard = shard;
    o->in_listed_at = TIME_UNKNOWN;
    o->marked_at = TIME_UNKNOWN;
    o->room = ROOM_FIRST;
    return o;
}

void mailbox_owner_free(struct mailbox_owner *o)
{
    if (!o) return;
    owner_end(o);
    for (size_t i = 0; i < o->boxes_len; i++)
        box_free(o->boxes[i]);
    memory_free(o->boxes);
    memory_free(o->reads);
    memory_free(o->ops);
    memory_free(o->writes);
    memory_free(o->deletes);
    memory_free(o);
}

void owner_begin(struct mailbox_owner *o, struct interval now)
{
    CHECK(now.lo <= now.hi);
    CHECK(o->reads_len == 0 && o->ops_len == 0 && o->writes_len == 0);
    o->now = now;
    o->round++;
    o->untaken = 0;
    for (size_t i = 0; i < o->boxes_len; i++)
        o->boxes[i]->registered = false;
}

bool owner_lists_in(const struct mailbox_owner *o)
{
    return o->in_listed_at == TIME_UNKNOWN || o->now.lo - o->in_listed_at >= MAILBOX_IN_LIST_MS;
}

void owner_in_listed(struct mailbox_owner *o, const char *key)
{
    char name[MAILBOX_BOX_MAX + 1];
    uint64_t number;
    if (!mailbox_key_read(key, o->prefix, MAILBOX_IN, name, &number)) return;
    size_t at = box_need(o, name);
    struct box *b = o->boxes[at];
    if (b->newest_at == TIME_UNKNOWN) b->newest_at = o->now.lo;
    if (number < b->in_first || b->in_next == 1) b->in_first = number;
    if (number >= b->in_next) b->in_next = number + 1;
}

void owner_in_done(struct mailbox_owner *o)
{
    o->in_listed_at = o->now.lo;
}

void owner_listed(struct mailbox_owner *o, const char *key, struct interval modified)
{
    char name[MAILBOX_BOX_MAX + 1];
    struct round_read r = {.modified = modified};
    if (!mailbox_key_read(key, o->prefix, MAILBOX_OUT, name, &r.number)) return;
    r.box = box_need(o, name);
    struct box *b = o->boxes[r.box];
    if (b->newest_at < modified.lo) b->newest_at = modified.lo;
    if (box_has_handled(b, r.number)) return;
    if (modified.hi < o->now.lo - MAILBOX_OUT_AGE_MS) {
        // The answer to its request ids may be forgotten, and its worker has long committed it.
        box_handled(b, r.number);
        return;
    }
    OWNER_GROW(o->reads, o->reads_len, o->reads_cap);
    o->reads[o->reads_len++] = r;
}

size_t owner_reads(const struct mailbox_owner *o)
{
    return o->reads_len;
}

void owner_read_key(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX])
{
    CHECK(i < o->reads_len);
    const struct round_read *r = &o->reads[i];
    mailbox_key(key, o->prefix, MAILBOX_OUT, o->boxes[r->box]->name, r->number);
}

// An outcome arrived when its object was created.
static struct bytes set_arrival(struct bytes payload, int64_t arrived_at)
{
    struct op_outcome op;
    if (outcome_decode(payload, &op)) return bytes_copy(payload);
    op.arrived_at = arrived_at;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    outcome_encode(&out, &op);
    CHECK(!out.bad);
    return buf_take(&out);
}

static bool may_carry(uint16_t kind)
{
    return op_is_outcome(kind);
}

static void add_op(struct mailbox_owner *o, size_t read, const struct mailbox_row *row)
{
    struct request_id request;
    struct op op = {.kind = row->code, .payload = row->body};
    if (!may_carry(op.kind) || !op_request(&op, &request) || !request_id_set(&request)) return;
    int64_t arrived_at = MUTANT(MAILBOX_ARRIVAL_OFF) ? o->now.hi : o->reads[read].modified.lo;
    op.payload = set_arrival(op.payload, arrived_at);
    OWNER_GROW(o->ops, o->ops_len, o->ops_cap);
    o->ops[o->ops_len++] = (struct round_op){.read = read, .op = op};
}

static bool is_from(const struct mailbox_owner *o, const struct mailbox_object *m,
                    const struct round_read *r)
{
    char name[MAILBOX_BOX_MAX + 1];
    if (m->way != MAILBOX_OUT || m->shard != o->shard || m->number != r->number) return false;
    if (memcmp(m->queue.bytes, o->queue.bytes, sizeof m->queue.bytes) != 0) return false;
    mailbox_box(name, m->instance, m->worker);
    return strcmp(name, o->boxes[r->box]->name) == 0;
}

void owner_object(struct mailbox_owner *o, size_t i, enum err err, struct bytes object)
{
    CHECK(i < o->reads_len && !o->reads[i].done);
    struct round_read *r = &o->reads[i];
    struct box *b = o->boxes[r->box];
    struct mailbox_object m;
    r->missing = err == ERR_NOT_FOUND; // another owner deleted it
    if (err) return;                   // else it is read in the next round
    err = mailbox_decode(object, &m);
    if (err == ERR_UNAVAILABLE) return; // for an owner with a newer program
    r->done = true;
    if (err || !is_from(o, &m, r)) {
        box_handled(b, r->number);
        return;
    }
    if (b->worker.len == 0) b->worker = bytes_copy(m.worker);
    if (m.seen > b->in_seen && !MUTANT(MAILBOX_SEEN_OFF)) b->in_seen = m.seen;
    // The worker says what it has read. An object that it has read is not numbered again.
    if (m.seen >= b->in_next) b->in_next = m.seen + 1;
    struct reader rows = reader_of(m.rows);
    struct mailbox_row row;
    for (uint32_t n = 0; n < m.count && mailbox_row_next(&rows, &row); n++)
        add_op(o, i, &row);
}

bool owner_has_all(const struct mailbox_owner *o)
{
    for (size_t i = 0; i < o->reads_len; i++)
        if (!o->reads[i].done && !o->reads[i].missing) return false;
    return true;
}

size_t owner_ops(const struct mailbox_owner *o)
{
    return o->ops_len;
}

struct op owner_op(const struct mailbox_owner *o, size_t i)
{
    CHECK(i < o->ops_len);
    return o->ops[i].op;
}

// The next object of the box can have a further row. Else what the row says waits for a later
// round.
static bool has_room(const struct box *b, size_t body_len, size_t bytes_max)
{
    CHECK(bytes_max + ROW_BYTES_MORE <= MAILBOX_OBJECT_MAX);
    return b->rows_len < MAILBOX_ROWS_MAX && b->rows.len + body_len <= bytes_max;
}

void owner_signals(struct mailbox_owner *o, size_t i, struct bytes rows)
{
    CHECK(i < o->ops_len && !o->ops[i].answered && o->ops[i].op.kind == OP_RENEW);
    struct box *b = o->boxes[o->reads[o->ops[i].read].box];
    struct mailbox_signals s = {.rows = rows};
    if (b->rows_len >= MAILBOX_ROWS_MAX / 2) return; // the answers need the rows
    if (!has_room(b, rows.len, MAILBOX_IN_BODY_MAX)) return;
    CHECK(op_request(&o->ops[i].op, &s.request));
    mailbox_signals_put(&b->rows, &s);
    b->rows_len++;
}

void owner_committed(struct mailbox_owner *o, size_t i, enum err err, struct bytes result)
{
    CHECK(i < o->ops_len && !o->ops[i].answered);
    struct round_op *op = &o->ops[i];
    if (result.len == 0 && !MUTANT(MAILBOX_ANSWER_UNKNOWN)) return; // not certain
    struct box *b = o->boxes[o->reads[op->read].box];
    if (!has_room(b, result.len, ANSWERS_BYTES_MAX)) return;
    op->answered = true;
    struct mailbox_answer a = {.err = err, .result = result};
    CHECK(op_request(&op->op, &a.request));
    mailbox_answer_put(&b->rows, &a);
    b->rows_len++;
}

// Objects whose ops all have an answer are handled. The others are read again.
static void note_handled(struct mailbox_owner *o)
{
    for (size_t i = 0; i < o->ops_len; i++)
        if (!o->ops[i].answered) o->reads[o->ops[i].read].done = false;
    for (size_t i = 0; i < o->reads_len; i++) {
        struct round_read *r = &o->reads[i];
        struct box *b = o->boxes[r->box];
        if (!r->done || box_has_handled(b, r->number)) continue;
        box_handled(b, r->number);
    }
}

bool owner_worker(struct mailbox_owner *o, struct bytes name, uint64_t instance, int64_t beat_ms)
{
    struct box *b = box_of(o, name, instance);
    b->registered = true;
    if (b->beat_at == TIME_UNKNOWN) b->beat_at = o->now.lo; // its join is a beat, too
    bool newer = b->newest_at != TIME_UNKNOWN && b->newest_at > b->beat_at;
    if (b->newest_at == TIME_UNKNOWN) b->newest_at = o->now.lo;
    if (!newer || o->now.lo - b->beat_at < beat_ms) return false;
    b->beat_at = o->now.lo;
    return true;
}

bool owner_ticket(struct mailbox_owner *o, struct bytes name, uint64_t instance,
                  const struct lock_ref *ref)
{
    struct box *b = box_of(o, name, instance);
    struct box_ticket *known = box_ticket_find(b, ref);
    if (known) known->round = o->round;
    if (known && b->untaken != o->round) {
        b->untaken = o->round;
        o->untaken++;
    }
    bool unread = b->in_next - 1 > b->in_seen + MAILBOX_UNREAD_MAX;
    return !known && !unread && b->rows.len < MAILBOX_IN_BODY_MAX;
}

void owner_deliver(struct mailbox_owner *o, struct bytes name, uint64_t instance,
                   const struct mailbox_ticket *ticket)
{
    struct box *b = box_of(o, name, instance);
    CHECK(!box_ticket_find(b, &ticket->ref));
    bool alone = b->rows_len == 0; // its message can be longer
    if (!alone && !has_room(b, ticket->message.len, MAILBOX_IN_BODY_MAX)) return;
    mailbox_ticket_put(&b->rows, ticket);
    CHECK(!b->rows.bad);
    b->rows_len++;
    b->served = o->round;
    OWNER_GROW(b->tickets, b->tickets_len, b->tickets_cap);
    b->tickets[b->tickets_len++] = (struct box_ticket){.ref = ticket->ref, .round = o->round};
}

uint32_t owner_room(const struct mailbox_owner *o)
{
    CHECK(o->room >= ROOM_LEAST && o->room <= ROOM_MOST);
    return o->room > o->untaken ? o->room - o->untaken : 0;
}

uint64_t owner_served(struct mailbox_owner *o, struct bytes name, uint64_t instance)
{
    return box_of(o, name, instance)->served;
}

bool owner_mark_due(struct mailbox_owner *o, int64_t now)
{
    if (!o->slow && now - o->now.lo < ROUND_SLOW) return false;
    if (o->marked_at != TIME_UNKNOWN && now - o->marked_at < MAILBOX_MARK_MS) return false;
    o->marked_at = now;
    return true;
}

void owner_took(struct mailbox_owner *o, int64_t ms, bool full)
{
    o->slow = ms > ROUND_SLOW;
    if (ms > ROUND_LONG)
        o->room = o->room * 3 / 4;
    else if (full)
        o->room += ROOM_STEP;
    if (o->room < ROOM_LEAST) o->room = ROOM_LEAST;
    if (o->room > ROOM_MOST) o->room = ROOM_MOST;
}

static void build(struct mailbox_owner *o, size_t box)
{
    struct box *b = o->boxes[box];
    OWNER_GROW(o->writes, o->writes_len, o->writes_cap);
    struct round_write *w = &o->writes[o->writes_len++];
    *w = (struct round_write){.box = box, .number = b->in_next};
    buf_init(&w->object, MAILBOX_OBJECT_MAX);
    struct mailbox_object m = {.way = MAILBOX_IN,
                               .flags = b->registered ? 0 : MAILBOX_UNKNOWN_WORKER,
                               .queue = o->queue,
                               .shard = o->shard,
                               .instance = b->instance,
                               .number = w->number,
                               .seen = b->out_seen,
                               .worker = b->worker,
                               .count = b->rows_len,
                               .rows = buf_bytes(&b->rows)};
    mailbox_encode(&w->object, &m);
    CHECK(!w->object.bad);
}

size_t owner_writes(struct mailbox_owner *o)
{
    CHECK(o->writes_len == 0);
    note_handled(o);
    uint32_t reports = 0; // objects without rows: they can wait for the next round
    for (size_t i = 0; i < o->boxes_len; i++) {
        struct box *b = o->boxes[i];
        box_tickets_drop(b, o->round);
        if (b->worker.len == 0 || b->instance == 0 || (b->rows_len == 0 && !b->reports)) continue;
        if (b->rows_len == 0 && ++reports > o->room) continue;
        build(o, i);
    }
    return o->writes_len;
}

void owner_write(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX],
                 struct bytes *object)
{
    CHECK(i < o->writes_len);
    const struct round_write *w = &o->writes[i];
    mailbox_key(key, o->prefix, MAILBOX_IN, o->boxes[w->box]->name, w->number);
    *object = buf_bytes(&w->object);
}

void owner_written(struct mailbox_owner *o, size_t i, enum err err)
{
    CHECK(i < o->writes_len);
    struct round_write *w = &o->writes[i];
    struct box *b = o->boxes[w->box];
    // After a conflict, the object may be an earlier attempt or another owner's. The rows go into
    // the next number: the worker ignores what it has.
    if (err == ERR_OK || err == ERR_CONFLICT) b->in_next = w->number + 1;
    if (err != ERR_OK) return;
    buf_clear(&b->rows);
    b->rows_len = 0;
    b->reports = false;
}

static bool is_full(const struct mailbox_owner *o)
{
    return o->deletes_len == MAILBOX_DELETES_MAX;
}

static void add_delete(struct mailbox_owner *o, const struct box *b, enum mailbox_way way,
                       uint64_t number)
{
    if (is_full(o)) return;
    OWNER_GROW(o->deletes, o->deletes_len, o->deletes_cap);
    struct round_delete *d = &o->deletes[o->deletes_len++];
    *d = (struct round_delete){.way = way, .number = number};
    memcpy(d->box, b->name, sizeof d->box);
}

static bool is_over(const struct mailbox_owner *o, const struct box *b)
{
    return !b->registered && b->handled_len == 0 && b->newest_at != TIME_UNKNOWN &&
           o->now.lo - b->newest_at > MAILBOX_BOX_IDLE_MS;
}

size_t owner_deletes(struct mailbox_owner *o)
{
    if (o->deletes_len > 0) return 0; // the last ones are not done yet
    for (size_t i = 0; i < o->boxes_len; i++) {
        const struct box *b = o->boxes[i];
        bool answered = b->rows_len == 0 && !b->reports;
        for (size_t n = 0; answered && n < b->handled_len; n++)
            add_delete(o, b, MAILBOX_OUT, b->handled[n]);
        uint64_t end = is_over(o, b) ? b->in_next : b->in_next - 1; // keep the newest
        bool over = end == b->in_next;
        for (uint64_t n = b->in_first; n < end && (n <= b->in_seen || over) && !is_full(o); n++)
            add_delete(o, b, MAILBOX_IN, n);
    }
    return o->deletes_len;
}

void owner_delete_key(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX])
{
    CHECK(i < o->deletes_len);
    const struct round_delete *d = &o->deletes[i];
    mailbox_key(key, o->prefix, d->way, d->box, d->number);
}

static void forget_handled(struct box *b, uint64_t number)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->handled_len; i++)
        if (b->handled[i] != number) b->handled[kept++] = b->handled[i];
    b->handled_len = kept;
}

void owner_deleted(struct mailbox_owner *o, enum err err)
{
    for (size_t i = 0; i < o->deletes_len && !err; i++) {
        const struct round_delete *d = &o->deletes[i];
        struct box *b = box_find(o, d->box);
        if (!b) continue;
        if (d->way == MAILBOX_OUT)
            forget_handled(b, d->number);
        else if (d->number == b->in_first)
            b->in_first++;
    }
    o->deletes_len = 0;
}

static void forget_boxes(struct mailbox_owner *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->boxes_len; i++) {
        struct box *b = o->boxes[i];
        if (o->round > 0 && is_over(o, b) && b->in_first >= b->in_next)
            box_free(b);
        else
            o->boxes[kept++] = b;
    }
    o->boxes_len = kept;
}

void owner_end(struct mailbox_owner *o)
{
    for (size_t i = 0; i < o->ops_len; i++)
        bytes_free(o->ops[i].op.payload);
    for (size_t i = 0; i < o->writes_len; i++)
        buf_done(&o->writes[i].object);
    o->reads_len = o->ops_len = o->writes_len = 0;
    forget_boxes(o);
}
