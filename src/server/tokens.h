// SPDX-License-Identifier: Apache-2.0
// Bearer tokens: who may do what with which queues. A set of them is built once and then only read.
//
// A token is 256 random bits, and what is kept of it is its SHA-256: nobody can try enough tokens
// to find one by its hash, so the slow hashes that protect passwords would only cost time here.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_SEND, SCOPE_WORK, SCOPE_ADMIN };
const char *scope_name(enum scope s); // "send"

#define TOKEN_NAME_MAX   64
#define TOKEN_GRANTS_MAX 8
#define TOKEN_QUEUES_MAX 16
#define TOKENS_MAX       1000
#define TOKEN_PREFIX     "sluice_"
#define TOKEN_SECRET_MAX 80 // of a new one, with its end
#define TOKEN_HASH_MAX   72 // "sha256:" and 64 hex digits, with its end

struct token;
struct tokens;

struct tokens *tokens_new(void);
void tokens_free(struct tokens *t); // NULL is fine
size_t tokens_len(const struct tokens *t);

// value: "sha256:<64 hex digits> scope=send,work queue=mail-*,orders [scope=.. queue=..]
// [expires=2027-01-31T12:00:00Z]". Each scope= begins a grant; one without queue= is for none.
// False: why says what is wrong.
bool tokens_add(struct tokens *t, const char *name, const char *value, char *why, size_t why_len);
// A file of lines "name = value"; # begins a comment. where: the file's name for why.
bool tokens_add_lines(struct tokens *t, struct bytes text, const char *where, char *why,
                      size_t why_len);
// The same for a path. False: it cannot be read, or a line is wrong: "path:3: ...".
bool tokens_add_file(struct tokens *t, const char *path, char *why, size_t why_len);

// The token whose secret this is, in a time that does not depend on which; NULL: there is none.
const struct token *tokens_find(const struct tokens *t, const char *secret);
const char *token_name(const struct token *t);
bool token_expired(const struct token *t, int64_t now_ms); // since 1970
// queue "": a request about none; any queue's scope will do. NULL: one about all of them.
bool token_allows(const struct token *t, enum scope scope, const char *queue);

// A pattern is a queue's name, the beginning of one and a "*", or "*".
bool queue_pattern_ok(const char *pattern);
bool queue_pattern_matches(const char *pattern, const char *queue);

// A new secret, and what is kept of it.
void token_make(char secret[TOKEN_SECRET_MAX], char hash[TOKEN_HASH_MAX]);
