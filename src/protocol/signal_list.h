// SPDX-License-Identifier: Apache-2.0
// Makes a struct sluice_signals. It owns its rows and the texts that they point to.
#pragma once

#include "protocol/names.h"
#include "queue/tables/signal_view.h"

struct signal_list;

struct signal_list *signal_list_new(void);
// Adds a row with empty texts. It is valid until the next row is added.
struct sluice_signal_state *signal_list_add(struct signal_list *l);
// Copies the bytes, ends them with 0, and returns the copy. NULL: there are none.
const void *signal_list_keep(struct signal_list *l, struct bytes text);
// The texts of the rows are views into `input`, which the list frees.
void signal_list_own(struct signal_list *l, struct bytes input);
size_t signal_list_len(const struct signal_list *l);
struct sluice_signals *signal_list_take(struct signal_list *l); // the builder becomes the list

// Fills a row, without its texts. token: of the lock; may be NULL.
void signal_state_fill(struct sluice_signal_state *row, struct queue_ref q, uint32_t shard,
                       const struct signal_view *v, const char *token);
void signal_id_print(const struct request_id *id, char out[static SLUICE_SIGNAL_ID_MAX]);
enum sluice_code signal_id_parse(const char *text, struct request_id *out,
                                 struct sluice_error *error);
