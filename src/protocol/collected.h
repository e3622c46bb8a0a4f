// SPDX-License-Identifier: Apache-2.0
// The outcomes of messages that a collect waits for. Both transports make them, and both encodings
// write them.
#pragma once

#include "sluice.h"

#include <stdbool.h>

// What one poll of a collect asks.
struct collect_poll {
    const char *const *ids;
    size_t len;
    const char *workflow; // instead of ids: all its messages; NULL: none
    int64_t wait_ms;
    bool all;         // wait for all of them, not for the first
    int64_t position; // outcomes before this time were collected earlier; 0: none
    // Asks the running messages first. The answer names the questions and the messages.
    bool running;
    const char *ask; // the text of the question; NULL: empty
    // Questions that were asked earlier, and the messages whose answers are still awaited.
    const char *const *signals;
    size_t signals_len;
    const char *const *asked;
    size_t asked_len;
};
#define COLLECT_SIGNALS_MAX (SLUICE_COLLECT_MAX / SIGNAL_TARGETS_MAX)
#define COLLECT_WAIT_MAX_MS 20000
#define COLLECT_ROWS_MAX    1000
#define COLLECT_BYTES_MAX   ((size_t)16 << 20) // of results in one answer, unless one has more

struct collected_ids {
    const char **rows;
    size_t len;
};

// A row of a message that has ended: id, state, reason, worker, attempts, finished_at and result
// are set. The state "unknown" means that it was never sent. A row with a time before the position
// of the poll has no texts.
struct collected_list {
    struct sluice_message *rows;
    size_t len;
    uint64_t missing; // messages that have not ended
    bool more;        // some that have ended did not fit
    // All that ended before this time has been told. 0: not known, because some did not fit.
    int64_t position;
    struct collected_ids left;      // of a workflow: its messages that have no row in this answer
    struct collected_ids signals;   // the questions to running messages
    struct collected_ids asked;     // the messages whose answers have not come yet
    struct sluice_signals *answers; // NULL: none came
};

// Builds it. A row is valid until the next one is added.
struct collected_list *collected_new(void);
struct sluice_message *collected_add(struct collected_list *c);
void collected_add_id(struct collected_list *c, struct collected_ids *to,
                      const char *id); // copies it
const void *collected_keep(struct collected_list *c, const void *text,
                           size_t len);        // a zero follows
void collected_free(struct collected_list *c); // NULL is allowed

// INVALID: no id, too many, or the same one twice; ids and a workflow.
enum sluice_code collect_check(const struct collect_poll *poll, struct sluice_error *error);
