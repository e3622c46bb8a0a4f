// SPDX-License-Identifier: Apache-2.0
// Members that their peers cannot reach, although the coordination service sees them. Each report
// names two members that do not reach each other, and is valid for REACH_VALID_MS. Which of the two
// is cut off is not known, so a report counts for both.
//
// A member is cut off if more than half of the other live members are in reports with it. Nothing
// is decided in a cluster of less than three, or if the members that are cut off are not a minority
// of it: then the network is divided, and no side is the right one.
#pragma once

#include "cluster/life.h"

#define REACH_VALID_MS 12000
#define REACH_MAX      256 // reports that are kept; further ones are ignored

struct reach {
    struct reach_report {
        struct member_id a, b;
        int64_t until;
    } rows[REACH_MAX];
    size_t len;
};

void reach_note(struct reach *r, const struct member_id *by, const struct member_id *about,
                struct interval now);
bool reach_is_cut(const struct reach *r, const struct members *members, const struct member_id *id,
                  struct interval now);
