// SPDX-License-Identifier: Apache-2.0
// Places where a test build may remove one safety rule, to show that the simulator notices.
// MUTANT(x) is the constant 0 in every build but that of the mutant tests, so the compiler leaves
// nothing of it behind.
#pragma once

enum mutant {
    MUTANT_NONE,
    // the journal
    MUTANT_FLOOR_CHECK_OFF, // slots read or written after a pause are believed without a look at
                            // the floor
    MUTANT_RECENT_LOOK,     // any answer counts as fresh knowledge of the slot that follows
    MUTANT_RECENT_CHAIN,    // ... if the look before it was fresh too
    MUTANT_ENTRY_HASH_OFF,  // a refused append is taken for lost without comparing the slot's entry
    MUTANT_SESSION_OFF,     // a commit that a snapshot jumped over is taken for lost
    MUTANT_UNKNOWN_IS_FAILED,    // an append without an answer is reported as not applied
    MUTANT_REPLAY_GAP_IS_TAIL,   // a missing slot in the middle of a replay is taken for the tail
    MUTANT_EPOCH_OFF,            // entries of a former owner still have effects
    MUTANT_COLLECT_LIVE,         // the collector drops slots that are still needed
    MUTANT_COLLECT_YOUNG,        // the collector does not wait for the retention
    MUTANT_FLOOR_WITHOUT_PROOF,  // the floor rises without the slot after it being read
    MUTANT_FINISH_WITHOUT_FLOOR, // the slots of a journal that has ended go without a floor
    MUTANT_SWEEP_HELD,           // the sweep deletes bodies that messages refer to
    // the shard
    MUTANT_FETCH_FLOOR_OFF, // bodies are believed without a look at the floor
    MUTANT_FETCH_TAIL_OFF,  // ... and those under it without a look at the tail
    MUTANT_RECALL_BLIND,    // what a request brought is told without a look at the tail
    // ... a receive and the acks it carries
    MUTANT_JOINED_FIRST,    // the claim is proposed before them
    MUTANT_JOINED_APART,    // ... in an entry of its own
    MUTANT_JOINED_NAMELESS, // ... without its request id
    MUTANT_FENCED_APART,    // what a former owner proposes again is an entry each
    // the queue
    MUTANT_TOKEN_OFF,
    MUTANT_EXPIRY_OFF,
    MUTANT_ATTEMPTS_OFF,
    MUTANT_ORDER_OFF,
    MUTANT_OUTBOX_MARK_OFF,
    MUTANT_DEDUP_OFF,
    MUTANT_REFUSED_FREES,     // an ack that is refused as another queue's frees its message
    MUTANT_BODY_STALE_OFF,    // a send may refer to a body of any age
    MUTANT_LETTER_STALE_OFF,  // ... and so may a dead letter
    MUTANT_SWEEP_UNCOMMITTED, // a body that nobody refers to yet counts as one nobody ever will
    MUTANT_DELETED_SENDS,     // a deleted queue takes messages
    MUTANT_SHARD_OFF,         // words about another shard's locks are taken for this one's
    MUTANT_SOURCE_SHARD_OFF,  // letters of two shards are counted as one shard's
    MUTANT_COUNT
};

#ifdef SLUICE_MUTANTS
extern enum mutant mutant_active; // defined by the test program
#define MUTANT(name) (mutant_active == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif
