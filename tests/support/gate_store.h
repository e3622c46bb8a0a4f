// SPDX-License-Identifier: Apache-2.0
// A store in memory that keeps a call waiting, or in doubt.
#pragma once

#include "store/store.h"

struct store *store_gate_new(void);
// While closed, a lookup of a queue whose name begins with "sick" gets no answer.
void store_gate_close(struct store *s, bool closed);
// While held, the first put gets no answer; those after it do. A node puts only to see whether the
// store takes writes.
void store_gate_hold(struct store *s, bool held);
unsigned store_gate_puts(struct store *s); // since it was held; the first one counts
// Appends are not made, and answered ERR_UNKNOWN.
void store_gate_doubt(struct store *s, bool doubtful);
// The first log that is appended to from now on is the only one that takes appends; appends to all
// others are not made, and answered ERR_UNAVAILABLE.
void store_gate_narrow(struct store *s, bool narrow);
// While held, reads of logs get no answer.
void store_gate_hold_reads(struct store *s, bool held);
unsigned store_gate_reads(struct store *s); // reads that are held now
