// SPDX-License-Identifier: Apache-2.0
// One list of "coord/live/", and what it says: members, their lives, the leader.
#include "coord/store/inside.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>

void view_init(struct view *v)
{
    *v = (struct view){.newest = {TIME_UNKNOWN, TIME_UNKNOWN}};
}

void view_done(struct view *v)
{
    memory_free(v->rows);
    *v = (struct view){0};
}

bool number_parse(const char *text, uint64_t *number)
{
    uint64_t n = 0;
    if (strspn(text, "0123456789") != NUMBER_DIGITS || text[NUMBER_DIGITS]) return false;
    for (size_t i = 0; i < NUMBER_DIGITS; i++) {
        if (n > (UINT64_MAX - 9) / 10) return false;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    *number = n;
    return n > 0 && n <= COORD_TOKEN_MAX;
}

// Keys come in order, so the last number of a name is its highest.
static void add_member(struct view *v, const char *rest, const struct store_row *row)
{
    char name[COORD_NAME_MAX + 1];
    uint64_t number = 0;
    size_t len = strcspn(rest, "/");
    if (len > COORD_NAME_MAX || rest[len] == 0 || !number_parse(rest + len + 1, &number)) return;
    memcpy(name, rest, len);
    name[len] = 0;
    if (!coord_name_is_good(name)) return;
    struct view_row *r = v->rows_len ? &v->rows[v->rows_len - 1] : NULL;
    if (!r || strcmp(r->name, name) != 0) {
        r = ARRAY_ADD(v->rows, v->rows_len, v->rows_cap);
    }
    *r = (struct view_row){
        .number = number, .size = row->size, .modified = row->modified, .doubted_at = TIME_NEVER};
    memcpy(r->name, name, len + 1);
}

static bool plan_parse(const char *rest, uint64_t *epoch, uint64_t *number)
{
    char digits[NUMBER_DIGITS + 1];
    if (strnlen(rest, NUMBER_DIGITS + 1) <= NUMBER_DIGITS || rest[NUMBER_DIGITS] != '.')
        return false;
    memcpy(digits, rest, NUMBER_DIGITS);
    digits[NUMBER_DIGITS] = 0;
    return number_parse(digits, epoch) && number_parse(rest + NUMBER_DIGITS + 1, number);
}

// Keys come in order, so the last plan is the newest.
static void add_plan(struct view *v, const char *rest)
{
    uint64_t epoch = 0, number = 0;
    if (!plan_parse(rest, &epoch, &number)) return;
    if (v->plan_epoch && v->plans_len < sizeof v->plans / sizeof *v->plans)
        plan_key(v->plans[v->plans_len++], v->plan_epoch, v->plan_number);
    v->plan_epoch = epoch;
    v->plan_number = number;
}

static void add_key(struct view *v, const char *key, const struct store_row *row)
{
    static const char leader[] = COORD_KEYS COORD_LEADER "/";
    uint64_t number = 0;
    if (strncmp(key, PLAN_KEYS, sizeof PLAN_KEYS - 1) == 0)
        add_plan(v, key + sizeof PLAN_KEYS - 1);
    else if (strncmp(key, MEMBER_KEYS, sizeof MEMBER_KEYS - 1) == 0)
        add_member(v, key + sizeof MEMBER_KEYS - 1, row);
    else if (strncmp(key, leader, sizeof leader - 1) == 0 &&
             number_parse(key + sizeof leader - 1, &number)) {
        v->epoch = number;
        v->resigned = row->size == 0;
    }
}

static enum err list_live(struct store_coord *s, struct view *v, struct coord_answer *a)
{
    char after[STORE_KEY_MAX + 1] = "";
    enum err e = ERR_OK;
    LOCAL(store_answer, sa);
    v->began_ms = clock_boot_ms();
    for (bool more = true; more && !e;) {
        e = store_list(s->store, LIVE_KEYS, after[0] ? after : NULL, STORE_LIST_MAX, &sa);
        cost_add(&a->cost, &sa.cost);
        if (e) break;
        if (!after[0]) v->time = sa.time;
        for (size_t i = 0; i < sa.rows_len; i++)
            add_key(v, store_row_key(&sa, i), &sa.rows[i]);
        more = sa.more && sa.rows_len > 0;
        if (more) (void)snprintf(after, sizeof after, "%s", store_row_key(&sa, sa.rows_len - 1));
    }
    if (e) e = store_said(a, &sa, e);
    return e;
}

// A member that has sent a heartbeat since this handle became visible knows that it is not alone.
// It must go on. Another member may be lone, and then lists only once per lone_ms.
static bool row_beats(const struct store_coord *s, const struct view_row *r)
{
    bool beats = r->known && r->record.beats;
    return beats || (s->since_known && r->modified.lo >= s->since.hi);
}

static bool row_is_live(const struct store_coord *s, const struct view *v, const struct view_row *r)
{
    if (r->size == 0) return false;
    // This node knows by its own clock that its session is held. A lone node's record is old.
    if (s->number == r->number && strcmp(s->self.name, r->name) == 0) return true;
    if (r->modified.hi == TIME_NEVER || v->time.lo == TIME_UNKNOWN) return true;
    int64_t lease = s->base.lease_ms;
    if (v->time.lo - r->modified.hi <= lease) return true;
    bool beats = row_beats(s, r);
    if (!beats && r->doubted_at != TIME_NEVER) return v->time.lo - r->doubted_at <= lease;
    if (!beats && v->time.lo - s->since.hi <= s->lone_ms + lease) return true;
    // A handle that is no member cannot tell a lone node from one that died last.
    return s->number == 0 && r->modified.hi == v->newest.hi;
}

// A member that does not know of others yet gives no signs of life.
static int64_t age_of(const struct store_coord *s, const struct view *v, const struct view_row *r)
{
    if (r->modified.hi == TIME_NEVER || v->time.lo == TIME_UNKNOWN) return 0;
    int64_t since = row_beats(s, r) ? r->modified.hi : r->doubted_at;
    return since < v->time.lo ? v->time.lo - since : 0;
}

// The lock is held.
static void row_decide(const struct store_coord *s, const struct view *v, struct view_row *r)
{
    bool own = s->number == r->number && strcmp(s->self.name, r->name) == 0;
    r->live = row_is_live(s, v, r);
    r->age_ms = age_of(s, v, r);
    r->silent = s->number != 0 && !own && !row_beats(s, r);
}

static struct view_row *record_find(struct store_coord *s, const struct view_row *r)
{
    for (size_t i = 0; i < s->records_len; i++)
        if (s->records[i].number == r->number && s->records[i].size == r->size &&
            strcmp(s->records[i].name, r->name) == 0)
            return &s->records[i];
    return NULL;
}

// Keeps the records of the members in view, and only those. A doubt may have begun or ended since
// the list was made.
static void records_keep(struct store_coord *s, struct view *v)
{
    for (size_t i = 0; i < v->rows_len; i++) {
        const struct view_row *had = record_find(s, &v->rows[i]);
        if (had) v->rows[i].doubted_at = had->doubted_at;
    }
    s->records_len = 0;
    if (s->records_cap < v->rows_len) {
        s->records_cap = v->rows_len;
        s->records = memory_resize(s->records, s->records_cap * sizeof *s->records);
    }
    for (size_t i = 0; i < v->rows_len; i++)
        if (v->rows[i].known) s->records[s->records_len++] = v->rows[i];
}

// A record that cannot be read, or that is gone, makes the member one that has left.
static enum err read_record(struct store_coord *s, const struct view *v, struct view_row *r,
                            struct coord_answer *a)
{
    char key[STORE_KEY_MAX + 1];
    LOCAL(store_answer, sa);
    (void)snprintf(key, sizeof key, MEMBER_KEYS "%s/%020llu", r->name,
                   (unsigned long long)r->number);
    enum err e = store_get(s->store, key, 0, COORD_RECORD_MAX, &sa);
    cost_add(&a->cost, &sa.cost);
    if (e && e != ERR_NOT_FOUND) {
        e = store_said(a, &sa, e);
    } else {
        r->known = !e && member_parse(buf_bytes(&sa.body), &r->record) &&
                   strcmp(r->record.name, r->name) == 0;
        if (!r->known) r->size = 0;
        (void)pthread_mutex_lock(&s->lock); // what it says of heartbeats counts
        row_decide(s, v, r);
        r->live = r->live && r->known;
        (void)pthread_mutex_unlock(&s->lock);
        e = ERR_OK;
    }
    return e;
}

static enum err read_leader(struct store_coord *s, struct view *v, struct coord_answer *a)
{
    if (v->epoch == 0 || v->resigned) return ERR_OK;
    (void)pthread_mutex_lock(&s->lock);
    struct holder_record h = s->leader;
    (void)pthread_mutex_unlock(&s->lock);
    enum err e = ERR_OK;
    if (h.holder.token != v->epoch) {
        char key[STORE_KEY_MAX + 1];
        LOCAL(store_answer, sa);
        (void)snprintf(key, sizeof key, COORD_KEYS COORD_LEADER "/%020llu",
                       (unsigned long long)v->epoch);
        e = store_get(s->store, key, 0, COORD_RECORD_MAX, &sa);
        cost_add(&a->cost, &sa.cost);
        bool good = !e && holder_parse(buf_bytes(&sa.body), &h) && h.holder.token == v->epoch;
        if (e && e != ERR_NOT_FOUND)
            e = store_said(a, &sa, e);
        else if (!good)
            h = (struct holder_record){0}, e = ERR_OK;
    }
    if (!e && h.holder.token && view_holds(v, &h)) v->leader = h;
    return e;
}

const struct view_row *view_find(const struct view *v, const char *name)
{
    for (size_t i = 0; i < v->rows_len; i++)
        if (strcmp(v->rows[i].name, name) == 0) return &v->rows[i];
    return NULL;
}

bool view_holds(const struct view *v, const struct holder_record *h)
{
    uint64_t number = 0;
    const struct view_row *r = view_find(v, h->holder.name);
    return r && r->live && number_parse(h->session, &number) && number == r->number;
}

void view_tell(const struct view *v, struct coord_answer *a)
{
    uint64_t at = hash64_of(bytes_of(&v->leader.holder.token, sizeof v->leader.holder.token), 1);
    a->members_len = 0;
    for (size_t i = 0; i < v->rows_len; i++) {
        const struct view_row *r = &v->rows[i];
        if (!r->live || !r->known) continue;
        struct coord_member *m = coord_answer_member(a);
        *m = r->record;
        m->age_ms = r->age_ms;
        m->silent = r->silent;
        at = hash64_mix(at, hash64_of(bytes_str(r->name), r->number + r->record.leaving));
    }
    at = hash64_mix(at, hash64_mix(v->plan_epoch, v->plan_number));
    a->leader = v->leader.holder;
    a->plan_epoch = v->plan_epoch;
    a->plan_number = v->plan_number;
    a->at = at | 1; // never 0
}

static void publish(struct store_coord *s, struct view *v)
{
    LOCKED(&s->lock);
    if (s->last_began_ms <= v->began_ms) { // a slower list says less
        uint64_t before = s->last.at;
        s->last_began_ms = v->began_ms;
        s->last_time = v->time.hi;
        view_tell(v, &s->last);
        records_keep(s, v);
        if (v->leader.holder.token) s->leader = v->leader;
        if (before != s->last.at) (void)pthread_cond_broadcast(&s->changed);
    }
}

// Decides under the lock, with the records that are known. `missing` is set if some are not.
static void decide(struct store_coord *s, struct view *v)
{
    for (size_t i = 0; i < v->rows_len; i++)
        if (v->rows[i].size && v->rows[i].modified.hi > v->newest.hi)
            v->newest = v->rows[i].modified;
    LOCKED(&s->lock);
    if (!s->since_known && v->time.hi != TIME_NEVER) {
        s->since = v->time;
        s->since_known = true;
    }
    for (size_t i = 0; i < v->rows_len; i++) {
        struct view_row *r = &v->rows[i];
        const struct view_row *had = record_find(s, r);
        bool own = r->number == s->number && strcmp(r->name, s->self.name) == 0;
        if (had) r->record = had->record, r->doubted_at = had->doubted_at;
        if (own) r->record = s->self;
        r->known = had || own;
        row_decide(s, v, r);
    }
}

enum err view_read(struct store_coord *s, struct view *v, struct coord_answer *a)
{
    enum err e = list_live(s, v, a);
    if (e) return e;
    decide(s, v);
    for (size_t i = 0; i < v->rows_len && !e; i++)
        if (v->rows[i].live && !v->rows[i].known) e = read_record(s, v, &v->rows[i], a);
    if (!e) e = read_leader(s, v, a);
    if (!e) publish(s, v);
    return e;
}

// The time counts from now, by the store's clock: the time of the newest list, and what has passed
// since. An answer ends the doubt.
void store_coord_answers(struct coord *c, const struct coord_member *m, bool answers)
{
    struct store_coord *s = store_coord_of(c);
    LOCKED(&s->lock);
    for (size_t i = 0; i < s->records_len; i++) {
        struct view_row *r = &s->records[i];
        if (memcmp(r->record.incarnation, m->incarnation, sizeof m->incarnation) != 0) continue;
        bool begins = r->doubted_at == TIME_NEVER && s->last_time != TIME_NEVER;
        if (answers)
            r->doubted_at = TIME_NEVER;
        else if (begins)
            r->doubted_at = s->last_time + (clock_boot_ms() - s->last_began_ms);
    }
}
