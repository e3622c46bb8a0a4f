// SPDX-License-Identifier: Apache-2.0
// Objects are uploaded before an entry refers to them, and outlive the last entry that did. The
// fold says which objects no entry can ever refer to again (fold.holds). That answer is final, so a
// page is decided when it was listed, and its objects are deleted afterwards. Objects must also be
// old by the store's clock, so that an error of the fold does not delete them at once.
#include "journal/sweep.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/text.h"

#include <string.h>

#define PAGE_ROWS 1000 // the limit of a bucket for one list or delete request

void sweep_init(struct sweep *s)
{
    *s = (struct sweep){.next_at = TIME_UNKNOWN};
    buf_init(&s->to_delete, (size_t)PAGE_ROWS * OPEN_REQUEST_KEY_MAX);
}

void sweep_done(struct sweep *s)
{
    buf_done(&s->to_delete);
}

bool sweep_is_possible(const struct journal *j)
{
    return j->config.rules.sweep_every_ms > 0 && j->fold.holds;
}

int64_t sweep_wake_at(const struct sweep *s, const struct journal *j)
{
    CHECK(s->begun || !s->leftovers);
    bool wanted = s->leftovers || s->seen_slot != j->core.slot;
    bool possible = sweep_is_possible(j) && journal_is_current(j);
    return wanted && possible ? s->next_at : TIME_NEVER;
}

void sweep_begin(struct sweep *s, struct journal *j, struct interval now)
{
    CHECK(sweep_is_possible(j));
    s->next_at = now.lo + j->config.rules.sweep_every_ms;
    s->seen_slot = j->core.slot;
    s->begun = true;
    s->leftovers = true; // until the sweep has ended
    s->stays = s->waits_for_time = s->deleting = false;
    s->more = true;
    s->after[0] = 0;
}

static void ask_page(struct sweep *s, struct journal *j, struct open_request *ask)
{
    CHECK(s->more);
    open_request_begin(ask, j, REQUEST_LIST, "data", 0);
    ask->request.limit = PAGE_ROWS;
    if (s->after[0] == 0) return;
    memcpy(ask->after, s->after, sizeof ask->after);
    ask->request.after = ask->after;
}

bool sweep_ask(struct sweep *s, struct journal *j, struct open_request *ask)
{
    CHECK(s->begun && (!s->deleting || s->to_delete_len > 0));
    if (s->deleting) {
        open_request_begin(ask, j, REQUEST_DELETE, "data", 0);
        ask->request.body = buf_bytes(&s->to_delete);
    } else if (s->more) {
        ask_page(s, j, ask);
    } else {
        s->leftovers = s->stays;
        return false;
    }
    ask->request.background = true;
    return true;
}

static enum fold_hold hold_of(const struct journal *j, const char *key)
{
    CHECK(j->fold.holds);
    const char *name = strrchr(key, '/');
    if (!name) return FOLD_HELD;
    return j->fold.holds(j->fold.ctx, bytes_str(name + 1));
}

static void decide_object(struct sweep *s, const struct journal *j, const struct response_row *row,
                          struct interval now)
{
    CHECK(!s->deleting); // the list of keys to delete is closed then
    enum fold_hold hold = hold_of(j, row->key);
    if (MUTANT(SWEEP_HELD) && hold == FOLD_HELD) hold = FOLD_FREE;
    if (hold == FOLD_HELD) return;
    bool old = now.lo - row->modified.hi >= j->config.rules.orphan_ms;
    if (hold == FOLD_FREE && old) {
        buf_put(&s->to_delete, bytes_of(row->key, strlen(row->key) + 1));
        s->to_delete_len++;
        return;
    }
    s->stays = true;
    if (old) s->waits_for_time = true;
}

static void on_page(struct sweep *s, const struct journal *j, const struct response *r,
                    struct interval now)
{
    CHECK(s->more); // a page was asked for
    buf_clear(&s->to_delete);
    s->to_delete_len = 0;
    s->more = r->more && r->rows_len > 0;
    for (size_t i = 0; i < r->rows_len && i < PAGE_ROWS; i++) {
        const char *key = r->rows[i].key;
        // Not a key of ours, and too long to continue the listing after it.
        if (strlen(key) >= sizeof s->after) {
            s->more = false;
            break;
        }
        (void)text_copy(s->after, sizeof s->after, key);
        decide_object(s, j, &r->rows[i], now);
    }
    CHECK(!s->to_delete.bad);
    CHECK(s->to_delete_len <= PAGE_ROWS);
    CHECK((s->to_delete_len == 0) == (s->to_delete.len == 0));
    s->deleting = s->to_delete_len > 0;
}

void sweep_respond(struct sweep *s, struct journal *j, const struct response *r,
                   struct interval now)
{
    CHECK(s->begun);
    CHECK(s->leftovers); // until the sweep has ended
    if (s->deleting) {
        s->deleted += s->to_delete_len;
        s->deleting = false;
    } else {
        on_page(s, j, r, now);
    }
}
