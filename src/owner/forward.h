// SPDX-License-Identifier: Apache-2.0
// Calls of a direct handle that go to the shard's owner, when there is one that answers: it commits
// many callers' ops in one entry, and direct writers beside it would only be in its way. send,
// receive, ack, fail, release and renew are forwarded; everything else is done directly.
//
// What is forwarded can be done directly after all, at any moment: with the same request id, so
// nothing is done twice. So an owner that is gone costs a call a second at most, and is then not
// asked again for a while.
#pragma once

#include "sluice.h"

#include <stdbool.h>

struct forward;

// What a handle needs to forward; NULL: it was told not to.
struct forward *forward_new(const struct sluice_options *options);
void forward_free(struct forward *f); // NULL is fine

// Whether the queue has spoken. Otherwise it was the way there, the node's own limits, or the store
// as the node sees it: none of them binds somebody who can write directly.
bool forward_is_final(enum sluice_code code, const struct sluice_error *why);

enum sluice_code forward_send(struct sluice *s, const char *queue,
                              const struct sluice_send *messages, size_t len,
                              const struct sluice_request *request, struct sluice_sent *sent,
                              struct sluice_error *error);
enum sluice_code forward_receive(struct sluice *s, const char *queue,
                                 const struct sluice_receive *options, struct sluice_batch **out,
                                 struct sluice_error *error);
enum sluice_code forward_ack(struct sluice *s, const char *queue, const char *const *tokens,
                             size_t len, struct sluice_outcome *outcomes,
                             struct sluice_error *error);
enum sluice_code forward_fail(struct sluice *s, const char *queue, const char *const *tokens,
                              size_t len, const char *reason, struct sluice_outcome *outcomes,
                              struct sluice_error *error);
enum sluice_code forward_release(struct sluice *s, const char *queue, const char *const *tokens,
                                 size_t len, int64_t delay_ms, struct sluice_outcome *outcomes,
                                 struct sluice_error *error);
enum sluice_code forward_renew(struct sluice *s, const char *queue, const char *const *tokens,
                               size_t len, int64_t visibility_ms, struct sluice_outcome *outcomes,
                               struct sluice_error *error);
