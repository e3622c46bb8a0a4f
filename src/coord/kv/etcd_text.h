// SPDX-License-Identifier: Apache-2.0
// The JSON of etcd's gateway: requests, and answers from a server that may be another version. A
// field that is zero, false or empty is absent. 64-bit numbers are strings. Keys and values are
// base64.
#pragma once

#include "coord/kv/kv.h"

struct etcd_error {
    int code; // of gRPC; -1: the text is no error of etcd
    char message[120];
};

// The fields that the answers have in common, and those of a lease.
struct etcd_reply {
    uint64_t cluster_id; // 0: absent
    uint64_t revision;
    bool succeeded; // of a transaction
    uint64_t lease;
    int64_t ttl; // 0: absent
    char token[200];
};

// What a message of a watch says.
enum etcd_watch {
    ETCD_WATCH_NONE,     // nothing of interest, such as its start
    ETCD_WATCH_CHANGED,  // events, or the revision is compacted: list again
    ETCD_WATCH_CANCELED, // by the server; it needs a new one
    ETCD_WATCH_BAD,      // the text is no such message
};

void etcd_error_parse(struct bytes text, struct etcd_error *e);
// Reads an answer, also one inside {"result": ...}. Returns false if the text is none.
bool etcd_reply_parse(struct bytes text, struct etcd_reply *r);
// Reads the pairs of a range whose keys begin with the prefix. False: the text is no such answer.
bool etcd_range_parse(struct bytes text, const char *prefix, struct etcd_reply *r,
                      struct kv_items *to);
enum etcd_watch etcd_watch_parse(struct bytes line, uint64_t *cluster_id);

// Requests. `prefix` and `under` are joined.
void etcd_print_range(struct buf *to, const char *prefix, const char *under);
void etcd_print_watch(struct buf *to, const char *prefix, const char *under, uint64_t from);
void etcd_print_txn(struct buf *to, const char *prefix, const struct kv_write *writes,
                    size_t count);
