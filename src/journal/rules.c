// SPDX-License-Identifier: Apache-2.0
// Which versions of the fold's rules this program folds, and which ones other writers know.
//
// A writer's id is random except for one part, which names the newest version that its program
// folds. The table of sessions keeps the ids, so every handle knows the versions of the writers of
// the last day. The id of a program without versions has no such part (docs/format.md).
#include "base/check.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <stdio.h>

// The high half of the id: 40 bits mark, 8 bits version, 16 random bits.
#define MARK        UINT64_C(0x5e1cfa2d91)
#define MARK_SHIFT  24
#define RULES_SHIFT 16
#define RULES_MASK  UINT64_C(0xff)

static uint16_t marked_rules(struct hash128 writer)
{
    if (writer.hi >> MARK_SHIFT != MARK) return 0;
    return (uint16_t)(writer.hi >> RULES_SHIFT & RULES_MASK);
}

void journal_writer_mark(struct hash128 *writer, uint16_t rules_newest)
{
    if (rules_newest == 0) return;
    CHECK(rules_newest <= RULES_MASK);
    writer->hi = MARK << MARK_SHIFT | (uint64_t)rules_newest << RULES_SHIFT | (writer->hi & 0xffff);
    CHECK(marked_rules(*writer) == rules_newest);
}

bool journal_writer(const struct journal *j, size_t index, struct journal_writer *out)
{
    if (index >= j->core.sessions_len) return false;
    const struct session *row = &j->core.sessions[index];
    *out = (struct journal_writer){.rules_newest = marked_rules(row->writer), .seen_at = row->time};
    return true;
}

uint16_t journal_owner_rules(const struct journal *j)
{
    bool folded = j->core.epoch != 0 && j->owner_writer_epoch == j->core.epoch;
    return folded ? marked_rules(j->owner_writer) : 0;
}

static uint16_t newest_of(uint16_t configured)
{
    return configured > 0 ? configured : 1;
}

static uint16_t oldest_of(uint16_t configured, uint16_t newest)
{
    CHECK(newest > 0);
    uint16_t oldest = configured > 0 ? configured : newest > 1 ? newest - 1 : 1;
    return oldest < newest ? oldest : newest;
}

bool journal_folds(const struct journal *j, uint16_t rules)
{
    CHECK(rules > 0); // the decoders know no version 0
    uint16_t newest = newest_of(j->config.rules_newest);
    if (MUTANT(RULES_UNCHECKED)) return true;
    return rules >= oldest_of(j->config.rules_oldest, newest) && rules <= newest;
}

uint16_t journal_rules_needed(const struct journal *j, const struct op *ops, size_t ops_len)
{
    uint16_t rules = j->fold.rules ? j->fold.rules(j->fold.ctx, ops, ops_len) : 1;
    CHECK(rules > 0);
    return rules;
}

void journal_rules_sentence(uint16_t found, uint16_t oldest, uint16_t newest, char *out, size_t max)
{
    uint16_t known = newest_of(newest);
    char versions[32];
    oldest = oldest_of(oldest, known);
    CHECK(0 < oldest && oldest <= known);
    int len = snprintf(versions, sizeof versions,
                       oldest + 1 < known    ? "%u to %u"
                       : oldest + 1 == known ? "%u and %u"
                                             : "only %u",
                       oldest, known);
    CHECK(len > 0 && (size_t)len < sizeof versions);
    (void)snprintf(out, max,
                   found > known
                       ? JOURNAL_UPGRADE_NEEDED "its journal has version %u of the rules, and this "
                                                "program knows %s; use a newer release"
                       : JOURNAL_UPGRADE_NEEDED "its journal has version %u of the rules, and this "
                                                "program knows %s; raise it with an older release",
                   found, versions);
}
