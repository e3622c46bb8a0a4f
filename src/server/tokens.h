// SPDX-License-Identifier: Apache-2.0
// Bearer tokens: what their holders may do with which queues. A set is built once and then only
// read.
//
// A token has 256 random bits. The node keeps its SHA-256. No attacker can try enough tokens to
// find one from its hash. So the slow hashes that protect passwords would only cost time here.
#pragma once

#include "base/bytes.h"
#include "protocol/routes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_NAME_MAX   64
#define TOKEN_GRANTS_MAX 8
#define TOKEN_QUEUES_MAX 16
#define TOKENS_MAX       1000
#define TOKEN_PREFIX     "sluice_"
#define TOKEN_SECRET_MAX 80 // length of a new secret, with the zero at its end
#define TOKEN_HASH_MAX   72 // "sha256:" and 64 hex digits, with the zero at the end

struct token;
struct tokens;

struct tokens *tokens_new(void);
void tokens_free(struct tokens *t); // NULL is fine
size_t tokens_len(const struct tokens *t);

// value: "sha256:<64 hex digits> scope=send,work queue=mail-*,orders [scope=.. queue=..]
// [expires=2027-01-31T12:00:00Z]". Each scope= begins a grant, which needs a queue=. The next three
// return false with the reason in `why`.
bool tokens_add(struct tokens *t, const char *name, const char *value, char *why, size_t why_len);
// Reads lines "name = value". # begins a comment. `where` is the file's name for `why`.
bool tokens_add_lines(struct tokens *t, struct bytes text, const char *where, char *why,
                      size_t why_len);
// Reads a file. `why` names the line: "path:3: ...".
bool tokens_add_file(struct tokens *t, const char *path, char *why, size_t why_len);

// Returns the token with this secret; NULL: there is none. The time does not depend on which it is.
const struct token *tokens_find(const struct tokens *t, const char *secret);
const char *token_name(const struct token *t);
bool token_expired(const struct token *t, int64_t now_ms); // now_ms: since 1970
// `queue` is "" for a request about no queue: a scope for any queue suffices. NULL: the request is
// about all queues, so the grant must be for *.
bool token_allows(const struct token *t, enum token_scope scope, const char *queue);

// Makes a new secret and its hash.
void token_make(char secret[TOKEN_SECRET_MAX], char hash[TOKEN_HASH_MAX]);

// For the files of tokens and of settings: prints what is wrong and returns false; and a line
// without the white space around it, cut in place.
bool say_wrong(char *why, size_t why_len, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
char *text_trimmed(char *text);
