// SPDX-License-Identifier: Apache-2.0
// The record of an import: a text that says which jobs were sent, so that a run that is killed can
// be continued. Each line ends with its hash. A line is written
//
//   - before a batch is sent ("begin"): from then on its jobs may be in the queue;
//   - after it was sent and before it is deleted at its source ("done").
//
// A job of a "begin" without a "done" is open. Its dedup key in the queue tells whether it was
// sent, as long as the queue keeps that key.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "import/ids.h"
#include "import/map.h"

#define RESUME_SOURCE_MAX 1024
#define RESUME_LINE_MAX   ((size_t)1 << 20)

struct resume {
    char queue_id[33];
    char lineage[LINEAGE_MAX + 1]; // the server or file whose jobs have these numbers
    char source[RESUME_SOURCE_MAX + 1];
    uint64_t base;    // messages that were ever sent to the queue when the import began
    int64_t began_at; // ms since 1970
    uint64_t runs;
    uint64_t gone; // messages that had left the queue when the run began
    int64_t last_at;
    struct ids done;
    uint64_t sent;  // messages that the import added
    uint64_t known; // messages that were in the queue already, from a batch of an earlier run
    struct ids open;
    int64_t open_at;    // when the oldest of them was begun
    uint64_t open_gone; // `gone` of that run
};

void resume_done(struct resume *r);
// Folds the text of a file into an empty record. *used is the length of its complete lines: a last
// line that is not complete was being written when the run ended. ERR_CORRUPT: `why` names the
// line.
MUST_USE enum err resume_read(struct resume *r, struct bytes text, size_t *used, char *why,
                              size_t why_len);

// Each appends one line to `to` and folds it.
void resume_head(struct resume *r, struct buf *to); // queue_id, lineage, source, base, began_at
void resume_run(struct resume *r, int64_t now, uint64_t gone, struct buf *to);
void resume_begin(struct resume *r, int64_t now, const struct ids *batch, struct buf *to);
void resume_sent(struct resume *r, uint64_t sent, uint64_t known, const struct ids *batch,
                 struct buf *to);

// Whether the dedup keys of the open jobs are still in the queue, for certain. A clock that was set
// back makes it false.
bool resume_keys_live(const struct resume *r, int64_t now, int64_t window_ms);
