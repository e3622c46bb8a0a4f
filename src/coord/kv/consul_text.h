// SPDX-License-Identifier: Apache-2.0
// The JSON of Consul's API.
#pragma once

#include "coord/kv/kv.h"

#define CONSUL_UUID_LEN 36

// Reads the pairs of a KV answer whose keys begin with the prefix. False: the text is no such
// answer.
bool consul_pairs_parse(struct bytes text, const char *prefix, struct kv_items *to);
// Reads {"ID": ...} of a new session.
bool consul_session_parse(struct bytes text, char session[KV_SESSION_MAX + 1]);
// Returns how many sessions an answer lists; -1: the text is no such answer.
int consul_sessions_count(struct bytes text);
// Why a transaction was rolled back: the first error, printable; "" if there is none.
void consul_rollback_parse(struct bytes text, char what[static COORD_WHY_MAX]);
bool consul_uuid_parse(struct bytes text, uint8_t id[static COORD_ID_LEN]);
void consul_uuid_print(const uint8_t id[static COORD_ID_LEN], char text[CONSUL_UUID_LEN + 1]);

void consul_print_txn(struct buf *to, const char *prefix, const struct kv_write *writes,
                      size_t count);
void consul_print_session(struct buf *to, const char *node, int64_t ttl_ms);
