// SPDX-License-Identifier: Apache-2.0
// Redrives dead letters: ready messages that died in another queue. They are read first and locked
// by their numbers, so no other message is touched. Then they are sent, and their locks are acked.
#pragma once

#include "ops/redrive.h"
#include "queues/queues.h"

#define LETTERS_AT_ONCE 16 // few, because bodies may be large

// Some ready messages of a shard, as far as their bodies fit into memory. Free it with page_done.
struct letter_page {
    struct open_queue *queue;
    uint32_t shard;
    bool cut; // not all bodies fit: the rest is read later
    struct sluice_batch *batch;
    // For each message of the batch:
    uint64_t seqs[LETTERS_AT_ONCE];
    bool wanted[LETTERS_AT_ONCE];             // set by page_read for letters
    bool sent[LETTERS_AT_ONCE];               // and acked
    struct sluice_error why[LETTERS_AT_ONCE]; // the code is OK if nothing was refused
};

// Lists ready messages of the shard behind `after`, by number.
enum sluice_code letters_list(struct open_queue *q, uint32_t shard, uint64_t after, uint64_t *seqs,
                              size_t max, size_t *len, struct sluice_error *error);
// Reads those of the messages that are ready. `len` is at most LETTERS_AT_ONCE.
enum sluice_code page_read(struct letter_page *p, struct open_queue *q, uint32_t shard,
                           const uint64_t *seqs, size_t len, struct sluice_error *error);
// Redrives the wanted messages. One that is neither sent nor refused could not be locked. Returns
// an error if none could be locked because of it.
enum sluice_code page_redrive(struct letter_page *p, const struct redrive_target *where,
                              struct sluice_error *error);
void page_done(struct letter_page *p);
