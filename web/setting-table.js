// SPDX-License-Identifier: Apache-2.0
// Made by tools/check-settings from src/queue/codec/settings.h.
export const GROUPS = [
  { "title": "Delivery", "fields": [
    {"key": "orderingMode", "kind": "choice", "label": "Order", "words": "Which ready message is delivered first: the oldest (fifo) or the newest (lifo).", "usual": "fifo", "choices": [["fifo", "oldest first (fifo)"], ["lifo", "newest first (lifo)"]]},
    {"key": "orderingGuarantee", "kind": "flag", "label": "Strict order", "words": "Strict order: a message waits until the one before it in its group ends.", "usual": "false", "choices": [["false", "no"], ["true", "yes, in each group"]]},
    {"key": "visibilityTimeout", "kind": "duration", "label": "Lock time", "words": "A worker must finish or renew within this time, else the message returns.", "usual": "30s"},
    {"key": "consume", "kind": "choice", "label": "Handed out by", "words": "Which processes may hand out messages: any, or only the shard's owner.", "usual": "any", "choices": [["any", "any process"], ["owner", "only the node that owns the shard"]]},
    {"key": "dispatch", "kind": "choice", "label": "Tickets for workers", "words": "Which registered workers get tickets from the shard's owner.", "usual": "auto", "choices": [["auto", "only workers that reach no node"], ["tickets", "all registered workers"], ["affinity", "a group stays with its worker"]]},
    {"key": "workflowOrder", "kind": "choice", "label": "Order of workflows", "words": "Strict order of the messages of a workflow, as of a group.", "usual": "off", "choices": [["off", "no"], ["on", "yes, in each workflow"]]},
  ] },
  { "title": "Failures", "fields": [
    {"key": "failureStrategy.mode", "kind": "choice", "label": "When a message fails", "words": "Whether a failed message is retried, and whether it ends in the dead-letter queue.", "usual": "retry", "choices": [["retry", "retry, then keep as dead"], ["dead-letter", "dead-letter queue at once"], ["hybrid", "retry, then dead-letter queue"]]},
    {"key": "failureStrategy.maxRetries", "kind": "number", "label": "Retries", "words": "How many attempts a message gets after the first one.", "usual": "5", "suffix": "retries"},
    {"key": "failureStrategy.deadLetterQueue", "kind": "name", "label": "Dead-letter queue", "words": "Where dead letters go: the modes dead-letter and hybrid need it.", "usual": ""},
    {"key": "failureStrategy.backoff.initial", "kind": "duration", "label": "First wait", "words": "The wait before the first retry.", "usual": "1s"},
    {"key": "failureStrategy.backoff.multiplier", "kind": "ratio", "label": "Growth of the wait", "words": "The factor by which the wait grows with each retry.", "usual": "2", "suffix": "times"},
    {"key": "failureStrategy.backoff.max", "kind": "duration", "label": "Longest wait", "words": "The longest wait before a retry.", "usual": "5m"},
    {"key": "failureStrategy.backoff.jitter", "kind": "ratio", "label": "Spread of the wait", "words": "How far the wait varies: 0.2 is up to 20 % shorter or longer.", "usual": "0.2", "suffix": "of the wait"},
    {"key": "maxDeliveries", "kind": "number", "label": "Delivery limit", "words": "A message that was delivered this often and not finished is given up (0: no limit).", "usual": "0", "suffix": "deliveries"},
  ] },
  { "title": "Limits", "fields": [
    {"key": "dedupWindow", "kind": "duration", "label": "Deduplication time", "words": "A second message with the same dedup key is dropped within this time (0: never).", "usual": "5m"},
    {"key": "maxMessageBytes", "kind": "bytes", "label": "Largest body", "words": "The largest body: a larger message is refused.", "usual": "1048576"},
    {"key": "capacity", "kind": "number", "label": "Capacity", "words": "How many messages each shard holds at most.", "usual": "10000000", "suffix": "messages"},
    {"key": "backpressure", "kind": "choice", "label": "When the queue is full", "words": "What a send to a full queue does: it is refused, or it waits for space.", "usual": "reject", "choices": [["reject", "refuse the message"], ["block", "wait for space"]]},
    {"key": "shards", "kind": "number", "label": "Shards", "words": "How many journals share the load: the number is fixed at creation.", "usual": "1", "suffix": "shards", "fixed": true},
    {"key": "retention", "kind": "duration", "label": "Finished messages", "words": "How long Sluice keeps how a message ended, for sluice show (0: not at all).", "usual": "1h"},
    {"key": "retainBody", "kind": "flag", "label": "Bodies of finished messages", "words": "Whether the body of a finished message stays for the time of retention.", "usual": "false", "choices": [["false", "deleted"], ["true", "kept for the retention"]]},
  ] },
  { "title": "Events", "fields": [
    {"key": "publish", "kind": "choice", "label": "Unpublished events", "words": "Whether journal entries stay until their events are on the bus.", "usual": "hold", "choices": [["hold", "keep them"], ["skip", "keep them for a while"], ["off", "publish none"]]},
    {"key": "publishKeep", "kind": "duration", "label": "Age limit", "words": "Entries unpublished for so long: hold raises an alarm, skip may collect them.", "usual": "24h"},
    {"key": "publishKeepBytes", "kind": "bytes", "label": "Size limit", "words": "The same limit for the size of all unpublished entries of a shard.", "usual": "10737418240"},
  ] },
];
