// SPDX-License-Identifier: Apache-2.0
// Copies messages from another queue into a queue of Sluice, in batches, so that a run that is
// killed at any point can be continued and no message comes twice. A source reads items and calls
// import_batch. When import_batch returns 0, the items are durable, and the source may delete them.
#pragma once

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/send.h"
#include "import/map.h"
#include "import/resume.h"

#define IMPORT_BATCH_MAX 1000

// What it means that the source has another lineage than in the run before.
enum import_lineage {
    LINEAGE_NEW,   // its items are others
    LINEAGE_LASTS, // its items are the same: a server that was restarted kept its jobs
    LINEAGE_FIXED, // nothing can be said about its items, so the import stops
};

enum import_unsure { UNSURE_ASK, UNSURE_SEND, UNSURE_SKIP };

struct import_item {
    uint64_t id;                // its number in the source
    int64_t created_at;         // ms since 1970; 0: not known
    struct sluice_send message; // body, priority, delay; the dedup key is added
};

struct import_run {
    struct send_input sending;
    const char *source; // as typed
    const char *scope;  // what has the numbers of its items: the tube; "" for a file
    const char *noun;   // of its items: "job", "line"
    bool keep;
    enum import_unsure unsure;
    const char *record_path; // given with --record; NULL: the default

    // Settings of the queue.
    char queue_id[33];
    int64_t max_bytes;
    int64_t window_ms;
    int64_t visibility_ms;
    bool strict;
    struct sluice_stats before;

    struct resume record;
    char *path;
    int fd;
    int64_t earlier_at;      // when the run before this one last wrote the record; 0: there is none
    struct ids earlier_open; // what its last batch left open
    struct ids found;        // of these, the ones that the queue has
    bool looked_up;
    bool nothing_left; // no message left the queue since that batch was begun

    struct progress progress;
    uint64_t whole;   // items to copy, as far as known; 0: unknown
    uint64_t earlier; // items that earlier runs copied
    uint64_t copied;  // items that this run met, and that are in the queue now
    uint64_t taken;   // of these, the ones that another client took at the same time
    uint64_t deleted; // at the source
};

// Reads the settings of the queue. Returns 0, or the exit status after the error was printed.
int import_queue(struct import_run *run);
// Opens the record, which belongs to the queue and the source, and locks it. `lineage` tells the
// numbers of this source from those of another one. Returns 0, or the exit status.
int import_record_open(struct import_run *run, const char *lineage, enum import_lineage change);
// Ends the use of the record. The file stays: a later import of the same source goes on with it.
void import_record_close(struct import_run *run);
// Writes a line that was folded already. With `sync` it is durable on return.
int import_record_write(struct import_run *run, const struct buf *line, bool sync);

// Copies the items that are not in the queue yet. Returns 0, or the exit status after the error was
// printed.
int import_batch(struct import_run *run, const struct import_item *items, size_t len);
// How many messages have left a queue.
uint64_t messages_gone(const struct sluice_stats *s);

// The sources. Each returns the exit status.
int import_tube(struct import_run *run, const struct tube_place *place, unsigned states);
int import_file(struct import_run *run, const char *path);

// Prints the counts of a complete import. `left` is a JSON object of what remains at the source, or
// NULL; the function frees it.
struct json;
int import_report(struct import_run *run, struct json *left);
