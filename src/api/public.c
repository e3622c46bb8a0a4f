// SPDX-License-Identifier: Apache-2.0
// The functions of sluice.h. Each calls ops_x of its engine, or client_x of its client.
#include "api/handle.h"
#include "api/signals_seen.h"
#include "api/workers.h"
#include "base/memory.h"
#include "client/client.h"
#include "ops/settle.h"
#include "os/clock.h"
#include "protocol/library_calls.h"
#include "queues/queues.h"

#include <string.h>

#define ARGUMENTS(...) __VA_ARGS__
#define DISPATCH_DEFINE(result, public, made, name, params, args)                                  \
    result dispatch_##name params                                                                  \
    {                                                                                              \
        return s->engine ? ops_##name(s->engine, ARGUMENTS args)                                   \
                         : client_##name(s->client, ARGUMENTS args);                               \
    }
LIBRARY_CALLS(DISPATCH_DEFINE, struct sluice *s)

#define PUBLIC_OWN(result, name, params, args)
#define PUBLIC_PASSED(result, name, params, args)                                                  \
    result sluice_##name params                                                                    \
    {                                                                                              \
        return dispatch_##name(s, ARGUMENTS args);                                                 \
    }
#define PUBLIC_DEFINE(result, public, made, name, params, args)                                    \
    PUBLIC_##public(result, name, params, args)
LIBRARY_CALLS(PUBLIC_DEFINE, struct sluice *s)

// A registered worker that waits long on a store makes its heartbeats between parts of the wait. A
// receive that the caller may repeat waits in one part.
static enum sluice_code receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error)
{
    int64_t most = options && !options->request && options->wait_ms > 0
                       ? registered_wait_max(s, queue, options->worker)
                       : 0;
    if (most == 0 || options->wait_ms <= most)
        return dispatch_receive(s, queue, options, out, error);
    struct sluice_receive part = *options;
    for (int64_t left = options->wait_ms;; left -= most) {
        part.wait_ms = left < most ? left : most;
        enum sluice_code code = dispatch_receive(s, queue, &part, out, error);
        if (code || (*out)->len > 0 || left <= most) return code;
        sluice_batch_free(*out);
        *out = NULL;
        registered_note_receive(s, queue, options->worker);
    }
}

// The rows, or NULL if none has a result: such acks need no newer rules.
static const struct sluice_ack *results_of(const struct sluice_ack *acks, size_t len)
{
    for (size_t i = 0; acks && i < len; i++)
        if (acks[i].result || acks[i].content_type) return acks;
    return NULL;
}

static enum sluice_code receive_acking(struct sluice *s, const char *queue,
                                       const struct sluice_receive *options,
                                       struct sluice_batch **out, struct sluice_error *error)
{
    if (!options || options->acks_len == 0) return receive(s, queue, options, out, error);
    struct sluice_receive own = *options;
    size_t len = own.acks_len;
    own.results = results_of(own.results, len);
    if (!own.acked) own.acked = memory_zeroed(len, sizeof *own.acked);
    memset(own.acked, 0, len * sizeof *own.acked);
    enum sluice_code code = dispatch_receive(s, queue, &own, out, error);
    acks_fill(own.acked, len, code); // those that the call did not reach
    if (!options->acked) memory_free(own.acked);
    return code;
}

enum sluice_code sluice_receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error)
{
    registered_note_receive(s, queue, options ? options->worker : NULL);
    enum sluice_code code = receive_acking(s, queue, options, out, error);
    if (!code) signals_seen_batch(s, *out);
    return code;
}

enum sluice_code sluice_signals_receive(struct sluice *s, const char *queue,
                                        const char *const *tokens, size_t len, int64_t wait_ms,
                                        struct sluice_signals **out, struct sluice_error *error)
{
    int64_t wait = wait_ms < SIGNALS_WAIT_MAX_MS ? wait_ms : SIGNALS_WAIT_MAX_MS;
    int64_t until = clock_boot_ms() + (wait > 0 ? wait : 0);
    *out = NULL;
    if (len == 0 || len > SLUICE_SIGNAL_TOKENS_MAX) return refuse_tokens(len, error);
    uint32_t *after = memory_zeroed(len, sizeof *after);
    struct signals_poll poll = {.tokens = tokens, .after = after, .len = len};
    for (;;) {
        int64_t left = until - clock_boot_ms();
        poll.wait_ms = left > 0 ? left : 0;
        for (size_t i = 0; i < len; i++)
            after[i] = signals_seen_last(s, tokens[i]);
        enum sluice_code code = dispatch_signals_poll(s, queue, &poll, out, error);
        if (!code) signals_seen_filter(s, *out);
        // Another thread may have taken what came.
        if (code || (*out)->len > 0 || poll.wait_ms == 0) {
            memory_free(after);
            return code;
        }
        sluice_signals_free(*out);
        *out = NULL;
    }
}

enum sluice_code sluice_ack(struct sluice *s, const char *queue, const char *const *tokens,
                            size_t len, struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_ACK, .tokens = tokens, .len = len};
    return dispatch_settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_fail(struct sluice *s, const char *queue, const char *const *tokens,
                             size_t len, const char *reason, struct sluice_outcome *outcomes,
                             struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_FAIL, .tokens = tokens, .len = len, .reason = reason};
    return dispatch_settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_release(struct sluice *s, const char *queue, const char *const *tokens,
                                size_t len, int64_t delay_ms, struct sluice_outcome *outcomes,
                                struct sluice_error *error)
{
    struct settle what = {
        .kind = SETTLE_RELEASE, .tokens = tokens, .len = len, .wait_ms = delay_ms};
    return dispatch_settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_renew(struct sluice *s, const char *queue, const char *const *tokens,
                              size_t len, int64_t visibility_ms, struct sluice_outcome *outcomes,
                              struct sluice_error *error)
{
    struct settle what = {
        .kind = SETTLE_RENEW, .tokens = tokens, .len = len, .wait_ms = visibility_ms};
    registered_note_renew(s, queue);
    return dispatch_settle(s, queue, &what, outcomes, error);
}

// Makes the call with the tokens of its rows. Rows that the call did not reach have its code.
static enum sluice_code settle_with(struct sluice *s, const char *queue, struct settle *what,
                                    const char **tokens, struct sluice_outcome *outcomes,
                                    struct sluice_error *error)
{
    for (size_t i = 0; outcomes && i < what->len; i++)
        outcomes[i] = (struct sluice_outcome){.status = NULL};
    what->tokens = tokens;
    enum sluice_code code = dispatch_settle(s, queue, what, outcomes, error);
    if (outcomes) acks_fill(outcomes, what->len, code);
    memory_free(tokens);
    return code;
}

enum sluice_code sluice_ack_with(struct sluice *s, const char *queue, const struct sluice_ack *acks,
                                 size_t len, struct sluice_outcome *outcomes,
                                 struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_ACK, .len = len, .acks = results_of(acks, len)};
    const char **tokens = memory_zeroed(len + 1, sizeof *tokens);
    for (size_t i = 0; i < len; i++)
        tokens[i] = acks[i].token;
    return settle_with(s, queue, &what, tokens, outcomes, error);
}

enum sluice_code sluice_renew_with(struct sluice *s, const char *queue,
                                   const struct sluice_renewal *renewals, size_t len,
                                   int64_t visibility_ms, struct sluice_outcome *outcomes,
                                   struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_RENEW, .len = len, .wait_ms = visibility_ms};
    const char **tokens = memory_zeroed(len + 1, sizeof *tokens);
    for (size_t i = 0; i < len; i++) {
        tokens[i] = renewals[i].token;
        if (renewals[i].has_progress || renewals[i].text) what.renewals = renewals;
    }
    registered_note_renew(s, queue);
    return settle_with(s, queue, &what, tokens, outcomes, error);
}

void sluice_requests(const struct sluice *s, struct sluice_requests *out)
{
    dispatch_requests((struct sluice *)(uintptr_t)s, out); // a node is asked
}

enum sluice_code sluice_events_next(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error)
{
    return e->at_node ? client_events_next(e, wait_ms, out, error)
                      : ops_events_next(e, wait_ms, out, error);
}

void sluice_events_close(struct sluice_events *e)
{
    if (!e) return;
    if (e->at_node)
        client_events_close(e);
    else
        ops_events_close(e);
}
