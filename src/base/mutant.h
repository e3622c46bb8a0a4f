// SPDX-License-Identifier: Apache-2.0
// Places where a test build can remove one safety rule, to prove that the simulator detects it.
// MUTANT(x) is the constant 0 in every build except the mutant tests, so the compiler removes it.
#pragma once

enum mutant {
    MUTANT_NONE,
    // The journal.
    // Slots that were read or written after a pause are accepted without a read of the floor.
    MUTANT_FLOOR_CHECK_OFF,
    // Any answer counts as a fresh read of the next slot.
    MUTANT_RECENT_LOOK,
    // Any answer counts as a fresh read of the next slot, if the read before it was fresh.
    MUTANT_RECENT_CHAIN,
    // A refused append counts as lost without a comparison with the slot's entry.
    MUTANT_ENTRY_HASH_OFF,
    MUTANT_SESSION_OFF,          // a commit that a snapshot skipped counts as lost
    MUTANT_UNKNOWN_IS_FAILED,    // an append without an answer is reported as not applied
    MUTANT_REPLAY_GAP_IS_TAIL,   // a missing slot inside a replay counts as the tail
    MUTANT_EPOCH_OFF,            // entries of a former owner still take effect
    MUTANT_COLLECT_LIVE,         // the collector drops slots that are still needed
    MUTANT_COLLECT_YOUNG,        // the collector does not wait for the retention
    MUTANT_FLOOR_WITHOUT_PROOF,  // the floor rises without a read of the slot after it
    MUTANT_FINISH_WITHOUT_FLOOR, // slots of a finished journal are dropped without a floor
    MUTANT_RULES_UNCHECKED,      // entries of a version that the program does not know are folded
    MUTANT_RULES_UNMARKED,       // the entry that raises the rules does not name the new version
    MUTANT_SWEEP_HELD,           // the sweep deletes bodies that messages refer to
    MUTANT_JOURNAL_WAKES_PAST,   // a handle that waits for an answer asks for a tick at once
    MUTANT_VIEW_OLD,             // what the view shows of an owner stays as it was
    MUTANT_LOOK_OFF,             // a halted handle does not look again
    MUTANT_PROOF_OFF,            // ... or does not compare the last slot that it folded
    // The shard.
    MUTANT_FETCH_FLOOR_OFF,   // bodies are accepted without a read of the floor
    MUTANT_FETCH_TAIL_OFF,    // bodies below the floor are accepted without a read of the tail
    MUTANT_RECALL_BLIND,      // a recalled result is returned without a read of the tail
    MUTANT_LISTEN_ASLEEP,     // a call that waits for signals does not notice a new one
    MUTANT_LISTEN_LOCK_OFF,   // ... nor that its lock has ended
    MUTANT_LISTEN_WAKES_PAST, // the end of a wait that is over is asked for again
    MUTANT_CANCEL_SLOW,       // a cancelled receive keeps the deadline that it had with its wait
    // The shard: a receive and the acks that it carries.
    MUTANT_JOINED_FIRST,    // the claim is proposed before the acks
    MUTANT_JOINED_APART,    // the claim is in another entry than the acks
    MUTANT_JOINED_NAMELESS, // the claim has no request id
    MUTANT_FENCED_APART,    // each op that a former owner proposes again is its own entry
    // The caller: a refusal ends a request although an earlier attempt may still take effect.
    MUTANT_REFUSAL_DECIDES,
    // A call: a receive of several shards.
    MUTANT_CALL_RECALL_ANY, // the last stored answer counts, not the one of the first shard
    MUTANT_CALL_ROUND_OFF,  // a repeated request id is not looked up in the other shards
    MUTANT_CALL_ROUND_ONCE, // ... only once, before the first wait
    MUTANT_CALL_NOTIFY_OFF, // a message that was announced to a receive that ends is not announced
                            // to another one
    MUTANT_CALL_TURN_OFF,   // two receives of a process with the same id run at the same time
    MUTANT_CALL_ANSWER_TWICE,  // a receive is answered twice
    MUTANT_CALL_ANSWER_EARLY,  // a receive is answered before its acks
    MUTANT_CALL_CANCEL_OFF,    // a cancelled receive waits on
    MUTANT_CALL_CLAIM_DROPPED, // a cancelled receive keeps the locks of its claim, unanswered
    MUTANT_CALL_UNKNOWN_ONCE,  // a settle without a certain result is not repeated
    MUTANT_CALL_AWAIT_LEFT,    // the awaits of a receive that has its answer go on
    MUTANT_CALL_AWAIT_FIRST,   // a receive waits only in the first shard
    MUTANT_CALL_RACE_ENDS,     // a receive whose message was claimed by another one waits no more
    MUTANT_CALL_OPS_SWAPPED,   // ops are submitted in another order
    MUTANT_CALL_PAUSE_OFF,     // a send does not wait for space
    MUTANT_CALL_DOUBT_LOST,    // an attempt at an owner without an answer is taken for undone
    MUTANT_CALL_MOVED_LOST,    // an await whose shard has moved is not made again
    MUTANT_CALL_LOOK_SKIPS,    // a read leaves a shard out
    MUTANT_CALL_LOOK_STALE,    // a read takes the state that was folded last, not the tail's
    MUTANT_CALL_REROUTE_ENDS,  // a receive that is withdrawn for another owner ends
    MUTANT_CALL_SERVED_LEFT,   // the awaits of a served call go on when one shard has something
    MUTANT_CALL_SERVED_NOTIFY_OFF, // only the process that asked hears of what they found
    MUTANT_CALL_SERVED_MOVED,      // a served call of a shard that has moved is answered as done
    // The queue.
    MUTANT_TOKEN_OFF,
    MUTANT_EXPIRY_OFF,
    MUTANT_ATTEMPTS_OFF,
    MUTANT_ORDER_OFF,
    MUTANT_OUTBOX_MARK_OFF,
    MUTANT_DEDUP_OFF,
    MUTANT_REFUSED_FREES,        // an ack that is refused as another queue's frees its message
    MUTANT_BODY_STALE_OFF,       // a send may refer to a body of any age
    MUTANT_LETTER_STALE_OFF,     // a dead letter may refer to a body of any age
    MUTANT_SWEEP_UNCOMMITTED,    // a body without a reference yet counts as unreferenced for good
    MUTANT_DELETED_SENDS,        // a deleted queue accepts messages
    MUTANT_SHARD_OFF,            // requests about another shard's locks apply to this shard's
    MUTANT_EVENTS_UNHEARD,       // an event counts only if it is kept
    MUTANT_CONSUME_OFF,          // consume=owner refuses no claim
    MUTANT_WORKER_NAME_OFF,      // a worker takes the name of a live worker of another process
    MUTANT_WORKER_MODE_OFF,      // a paused, draining or evicted worker gets messages
    MUTANT_EVICT_KEEPS_LOCKS,    // the tokens of an evicted worker stay valid
    MUTANT_EVICT_REJOINS,        // an evicted process joins again at once
    MUTANT_FAIR_OFF,             // tickets go to the row that joined first
    MUTANT_ROOM_OFF,             // a row gets more tickets than its capacity
    MUTANT_REQUIRES_OFF,         // a message goes to a row without the labels that it requires
    MUTANT_AFFINITY_OFF,         // a group goes to any row, although its row lives
    MUTANT_AFFINITY_CLAIMS,      // with affinity, a claim takes messages although rows live
    MUTANT_DISPATCH_ANY,         // tickets are granted in an entry that is not the owner's
    MUTANT_FINISHED_MERGED,      // messages that ended by different workers share a row
    MUTANT_RETENTION_OFF,        // how a message ended is kept for twice the time
    MUTANT_CURSOR_FALLS,         // the publisher's cursor can go back
    MUTANT_FLOOR_PAST_CURSOR,    // the floor does not wait for the publisher's cursor
    MUTANT_WORKFLOW_ANY_SHARD,   // a shard takes messages of workflows of other shards
    MUTANT_WORKFLOW_UNANNOUNCED, // a workflow begins without an event
    MUTANT_WORKFLOW_LAST_OFF,    // no message is the last one of its workflow
    MUTANT_WORKFLOW_FAILED_IS_DONE, // a dead message counts as done in its workflow
    MUTANT_WORKFLOW_ENDS_EARLY,     // a workflow ends while a message is open
    MUTANT_CANCEL_LOCKED,           // a message that a worker holds can be cancelled
    MUTANT_LOCK_TURN_OFF,           // op `lock` takes a message that is not next in its group
    MUTANT_SIGNAL_TOKEN_OFF,        // any token ends the signals of a message
    MUTANT_SIGNAL_ORDER_OFF,        // a signal is acknowledged before an earlier one
    MUTANT_SIGNAL_AGAIN,            // a signal is delivered after its ack
    MUTANT_SIGNAL_FORGOTTEN,        // the id of a signal is forgotten if many end after it
    MUTANT_SIGNAL_ONCE_STAYS,       // no signal is missed when its lock ends
    MUTANT_INTERRUPT_ENDLESS,       // the lock of an interrupted message has no new end
    MUTANT_RESULT_OTHER,            // a message has the result of the one before it
    MUTANT_SIGNAL_COLLECTED,        // the slot of a pending signal is not needed
    MUTANT_SOURCE_SHARD_OFF,        // letters of two shards count as letters of one shard
    // The mailbox.
    MUTANT_MAILBOX_DIRECT_OTHER_ID, // the direct commit of a request has another request id
    MUTANT_MAILBOX_UNANSWERED,      // a request without an answer is not committed directly
    MUTANT_MAILBOX_TICKET_REPEATED, // a ticket that comes twice is taken twice
    MUTANT_MAILBOX_UNTAKEN,         // a message is handed out before its ticket was renewed
    MUTANT_MAILBOX_ARRIVAL_OFF,     // an outcome arrives when the owner reads it
    MUTANT_MAILBOX_ANSWER_UNKNOWN,  // an op without a certain result is answered
    MUTANT_MAILBOX_LIMIT_OFF,       // the time passes deadlines without one more LIST
    MUTANT_MAILBOX_MARK_OLD,        // a mark of any age counts as a sign of life of the owner
    MUTANT_MAILBOX_ANSWERED_AGAIN,  // an answer of the owner does not end a direct commit
    MUTANT_MAILBOX_SEEN_OFF,        // the owner does not note what a worker has read
    MUTANT_MAILBOX_WAKES_PAST,      // a poll that is under way is asked for again
    // Events.
    MUTANT_CONSUMER_DEDUP_OFF, // a consumer returns an event again
    // The publisher of events.
    MUTANT_PUBLISHER_CURSOR_EARLY, // the cursor passes events that are not acknowledged
    MUTANT_PUBLISHER_SETTLE_OFF,   // the cursor follows the acknowledgements at once
    MUTANT_PUBLISHER_TAIL_TRUSTED, // a stream that lost its tail is not noticed
    MUTANT_PUBLISHER_GAP_SILENT,   // a gap has no event
    MUTANT_PUBLISHER_WINDOW_OFF,   // any number of events is in flight
    MUTANT_PUBLISHER_WAKES_PAST,   // a sync that is under way is asked for again
    MUTANT_BUS_DEDUP_OFF,          // the world's consumer passes an event on twice
    MUTANT_BUS_SILENCE_UNSEEN,     // a reader relies on a bus that does not name the events
    MUTANT_BUS_NAME_IGNORED,       // a reader sleeps though the bus named an event
    // The cluster.
    MUTANT_STALE_PLAN,        // a node enforces an older plan than one it has seen
    MUTANT_LEASE_AFTER_END,   // the lead counts as held after the end of its lease
    MUTANT_UNKNOWN_LEADS,     // a request for the lead without an answer counts as granted
    MUTANT_COLD_START_ASKS,   // a node asks for the lead before it has observed
    MUTANT_COLD_START_RANKS,  // the turns of the candidates begin before they have observed
    MUTANT_TRANSFER_UNFENCED, // a node serves with a claim alone, without an own in the journal
    MUTANT_DEGRADED_CLAIMS,   // a node claims shards while the coordination service is away
    MUTANT_MOVES_CAP_OFF,     // a plan moves more shards in a round than the cap
    MUTANT_INCARNATION_OFF,   // a node takes the shards of its former incarnation for its own
    MUTANT_LOSS_UNTOLD,       // a node whose session ended gives a shard away without a word
    MUTANT_RELEASE_OFF,       // a node keeps the claim of a shard that it handed over
    MUTANT_CLAIM_ONCE,        // a claim that was refused is not repeated
    MUTANT_UNUSED_CLAIMED,    // a node claims shards that are not used
    MUTANT_QUEUE_BOUND_OFF,   // a node may have any number of the shards of a queue
    MUTANT_REACH_IGNORED,     // shards stay at a member that its peers do not reach
    MUTANT_REACH_FOREVER,     // a report that two members do not reach each other does not end
    MUTANT_TRAFFIC_NO_GAIN,   // a shard moves for its traffic although no node has less then
    MUTANT_CLAIM_FORGOTTEN,   // an owner that has lost its claim does not ask its cluster
    MUTANT_PLAN_WAKES_PAST,   // a leader without shards asks for a tick in the past
    // The ownership of one shard.
    MUTANT_OWNERSHIP_PROVEN_TAKEN,  // an owner that proves itself is replaced
    MUTANT_OWNERSHIP_UNASKED_TAKEN, // an owner is replaced that was not asked
    MUTANT_OWNERSHIP_DOUBT_TAKEN,   // ... or while a challenge is under way
    MUTANT_OWNERSHIP_OLD_ANSWER,    // ... or because it was away long ago
    MUTANT_OWNERSHIP_LEASE_OFF,     // ... or before its lease is over
    MUTANT_OWNERSHIP_SILENT_LEFT,   // an owner that does not answer keeps the shard
    MUTANT_OWNERSHIP_WAITS_FOREVER, // each check begins the lease of a silent owner again
    MUTANT_OWNERSHIP_ASKS_OFTEN,    // a shard of another node is checked ten times a second
    MUTANT_OWNERSHIP_WAKES_PAST,    // the check after the end of a lease is due at once
    MUTANT_OWNERSHIP_CLIENT_TAKES,  // a process that is no node takes shards
    MUTANT_OWNERSHIP_CLIENT_ASKS,   // a client asks the owner that it knows
    MUTANT_OWNERSHIP_CLIENT_TRUSTS, // ... and does not ask it even if it was away
    MUTANT_OWNERSHIP_JOINING_TAKES, // a node takes shards before it has joined
    MUTANT_OWNERSHIP_MEMBER_TAKES,  // a member does not ask its cluster
    MUTANT_OWNERSHIP_UNREAD_TAKEN,  // a node decides although it cannot read the journal
    MUTANT_OWNERSHIP_DELETED_TAKEN, // a shard of a deleted queue gets an owner
    MUTANT_OWNERSHIP_RESTART_WAITS, // a node waits for the lease of its earlier start
    // The route of an op.
    MUTANT_ROUTE_AWAY,           // an op goes to an owner that is away
    MUTANT_ROUTE_TOKEN_ANYWHERE, // a token goes to a host that may not have it
    MUTANT_ROUTE_TOKENLESS,      // an op without a token goes to an owner that wants one
    MUTANT_ROUTE_LARGE,          // an op of any size goes to the owner
    MUTANT_ROUTE_AGAIN,          // an op goes to the owner again that did not do it
    MUTANT_ROUTE_NEVER,          // no op goes to the owner
    // The world of the cluster: its journals and its coordination service.
    MUTANT_OWN_TOKEN_OFF,    // a journal does not compare the token of an own
    MUTANT_OWNER_EPOCH_OFF,  // a journal accepts entries of a former owner
    MUTANT_LEAD_EPOCH_STAYS, // the service gives the lead away without a new epoch
    MUTANT_COUNT
};

#ifdef SLUICE_MUTANTS
extern enum mutant mutant_active; // defined by the test program
#define MUTANT(name) (mutant_active == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif
