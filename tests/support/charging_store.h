// SPDX-License-Identifier: Apache-2.0
// A store in front of another that charges for each call, as a bucket does, and can be told to
// refuse.
#pragma once

#include "store/store.h"

struct store *store_charging_take(struct store *inner); // owns the inner store
// From now on calls that write end like this (they are charged all the same); ERR_OK: no more.
void store_charging_refuse(struct store *s, enum err err, const char *why);
void store_charging_refuse_reads(struct store *s, enum err err, const char *why);
struct cost store_charging_charged(struct store *s); // so far, refused calls included
