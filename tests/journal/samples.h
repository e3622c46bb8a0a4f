// SPDX-License-Identifier: Apache-2.0
// One entry, one snapshot and one floor with fixed contents: what the golden files hold.
#pragma once

#include "journal/snapshot.h"

void sample_entry(struct buf *out);
void sample_snapshot(struct buf *out);
void sample_floor(struct buf *out);
void sample_raised_entry(struct buf *out); // with version 2 of the rules
void sample_raised_snapshot(struct buf *out);
