// SPDX-License-Identifier: Apache-2.0
// A store on this machine whose clock the test moves: what the server says of time is shifted by
// all the time that the test let pass until then.
//
// A server that tells time in whole seconds runs on the same clock as we do, so its word is
// narrowed to the length of the call: a scenario may then speak of milliseconds.
#pragma once

#include "store/store.h"

// Owns the inner store.
struct store *store_shift_take(struct store *inner);
void store_shift_pass(struct store *shift, int64_t ms);
