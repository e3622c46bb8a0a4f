// SPDX-License-Identifier: Apache-2.0
// What no queue takes: each refusal names the field, the value and what would be right.
#include "protocol/call_arguments.h"

#include "base/duration.h"
#include "protocol/errors.h"
#include "json/raw.h"

#include <string.h>

// The index of a word in a list of names; `count`: it is none of them.
static int word_of(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return count;
}

static enum sluice_code not_for(struct sluice_error *error, const char *field, const char *kind)
{
    return refuse(error, ERR_INVALID, field, "%s is not for a signal of the kind %s", field, kind);
}

static enum sluice_code check_range(struct sluice_error *error, const char *field, int64_t value,
                                    int64_t least, int64_t most)
{
    char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
    if (value >= least && value <= most) return SLUICE_OK;
    return refuse(error, ERR_INVALID, field, "%s must be between %s and %s, not %lldms", field,
                  duration_exact(least, low), duration_exact(most, high), (long long)value);
}

static bool is_object(struct bytes text)
{
    size_t at = 0;
    while (at < text.len && strchr(" \t\r\n", text.data[at]))
        at++;
    return at < text.len && text.data[at] == '{' && json_raw_ok(text);
}

static enum sluice_code check_payload(const struct sluice_signal *w, bool steer,
                                      struct sluice_error *error)
{
    if (w->payload_len > SIGNAL_PAYLOAD_MAX)
        return refuse(error, ERR_INVALID, "payload",
                      "payload has %zu bytes; at most %zu are allowed", w->payload_len,
                      SIGNAL_PAYLOAD_MAX);
    if (!steer || is_object(bytes_of(w->payload, w->payload_len))) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "payload",
                  "the payload of a steer must be a JSON object of keys and values, such as "
                  "{\"speed\": 2}");
}

static enum sluice_code check_delivered(const struct sluice_signal *w, struct op_signal *out,
                                        struct sluice_error *error)
{
    static const char *const idle[] = {"wait", "refuse"}, *const end[] = {"sticky", "once"};
    bool steer = out->kind == SIGNAL_STEER;
    const char *kind = w->kind;
    if (w->grace_ms != 0) return not_for(error, "grace", kind);
    if (w->now) return not_for(error, "now", kind);
    if (w->then && *w->then) return not_for(error, "then", kind);
    if (w->reason && *w->reason) return not_for(error, "reason", kind);
    int when = word_of(w->when_idle ? w->when_idle : "wait", idle, 2);
    int how = word_of(w->on_lock_end ? w->on_lock_end : steer ? "sticky" : "once", end, 2);
    if (when == 2)
        return refuse(error, ERR_INVALID, "whenIdle",
                      "whenIdle \"%.40s\" is not one of wait, refuse", w->when_idle);
    if (how == 2)
        return refuse(error, ERR_INVALID, "onLockEnd",
                      "onLockEnd \"%.40s\" is not one of sticky, once", w->on_lock_end);
    out->ttl_ms = w->ttl_ms != 0 ? w->ttl_ms : SIGNAL_TTL_DEFAULT_MS;
    out->flags = (uint8_t)((when ? SIGNAL_REFUSE_IDLE : 0) | (how ? SIGNAL_ONCE : 0));
    out->payload = bytes_of(w->payload, w->payload_len);
    enum sluice_code code = check_range(error, "ttl", out->ttl_ms, 1, SIGNAL_TTL_MAX_MS);
    return code ? code : check_payload(w, steer, error);
}

static enum sluice_code check_interrupt(const struct sluice_signal *w, struct op_signal *out,
                                        struct sluice_error *error)
{
    static const char *const thens[] = {"cancel", "retry", "dead-letter"};
    size_t len = w->reason ? strlen(w->reason) : 0;
    if (w->payload_len > 0) return not_for(error, "payload", w->kind);
    if (w->ttl_ms != 0) return not_for(error, "ttl", w->kind);
    if (w->when_idle && *w->when_idle) return not_for(error, "whenIdle", w->kind);
    if (w->on_lock_end && *w->on_lock_end) return not_for(error, "onLockEnd", w->kind);
    if (w->now && w->grace_ms != 0)
        return refuse(error, ERR_INVALID, "now", "give now or grace, not both");
    if (len > FAIL_REASON_MAX)
        return refuse(error, ERR_INVALID, "reason", "reason has %zu bytes; at most %d are allowed",
                      len, FAIL_REASON_MAX);
    int then = word_of(w->then ? w->then : "cancel", thens, 3);
    if (then == 3)
        return refuse(error, ERR_INVALID, "then",
                      "then \"%.40s\" is not one of cancel, retry, dead-letter", w->then);
    out->then = (enum signal_then)then;
    out->grace_ms = w->now ? 0 : w->grace_ms != 0 ? w->grace_ms : SIGNAL_GRACE_DEFAULT_MS;
    out->reason = len > 0 ? bytes_str(w->reason) : BYTES_EMPTY;
    return check_range(error, "grace", out->grace_ms, 0, SIGNAL_GRACE_MAX_MS);
}

static enum sluice_code check_target(const struct sluice_signal *w, struct op_signal *out,
                                     struct sluice_error *error)
{
    bool workflow = w->workflow && *w->workflow, worker = w->worker && *w->worker;
    int targets = (w->ids_len > 0) + workflow + worker;
    if (targets == 0)
        return refuse(error, ERR_INVALID, "target",
                      "no target: give ids of messages, a workflow or a worker");
    if (targets > 1)
        return refuse(error, ERR_INVALID, "target",
                      "%d targets: give either ids of messages, a workflow or a worker", targets);
    if (w->ids_len > SIGNAL_TARGETS_MAX)
        return refuse(error, ERR_INVALID, "ids", "ids has %zu items; at most %d are allowed",
                      w->ids_len, SIGNAL_TARGETS_MAX);
    if (workflow && strlen(w->workflow) > MESSAGE_WORKFLOW_MAX)
        return refuse(error, ERR_INVALID, "workflow",
                      "workflow has %zu bytes; at most %d are allowed", strlen(w->workflow),
                      MESSAGE_WORKFLOW_MAX);
    out->target = workflow ? SIGNAL_TO_WORKFLOW : worker ? SIGNAL_TO_WORKER : SIGNAL_TO_MESSAGES;
    if (workflow) out->name = bytes_str(w->workflow);
    if (worker) out->name = bytes_str(w->worker);
    return worker ? worker_check(w->worker, error) : SLUICE_OK;
}

enum sluice_code signal_check(const struct sluice_signal *w, struct op_signal *out,
                              struct sluice_error *error)
{
    static const char *const kinds[] = {"steer", "ask", "interrupt"};
    *out = (struct op_signal){.then = THEN_CANCEL};
    if (!w->kind || !*w->kind)
        return refuse(error, ERR_INVALID, "kind", "kind is missing: steer, ask or interrupt");
    int kind = word_of(w->kind, kinds, SIGNAL_KIND_COUNT);
    if (kind == SIGNAL_KIND_COUNT)
        return refuse(error, ERR_INVALID, "kind",
                      "kind \"%.40s\" is not one of steer, ask, interrupt", w->kind);
    out->kind = (enum signal_kind)kind;
    enum sluice_code code = out->kind == SIGNAL_INTERRUPT ? check_interrupt(w, out, error)
                                                          : check_delivered(w, out, error);
    return code ? code : check_target(w, out, error);
}

enum sluice_code signal_answers_check(const struct sluice_signal_answer *answers, size_t len,
                                      struct sluice_error *error)
{
    for (size_t i = 0; i < len; i++) {
        const struct sluice_signal_answer *a = &answers[i];
        size_t most = a->decline ? FAIL_REASON_MAX : SIGNAL_ANSWER_MAX;
        if (a->answer_len > most)
            return refuse(error, ERR_INVALID, "answer",
                          "the %s signal %u has %zu bytes; at most %zu are allowed",
                          a->decline ? "reason to decline" : "answer to", a->number, a->answer_len,
                          most);
        if (a->number == 0)
            return refuse(error, ERR_INVALID, "number",
                          "number is 0; the signals of a message are numbered from 1");
    }
    return SLUICE_OK;
}

enum sluice_code refuse_tokens(size_t len, struct sluice_error *error)
{
    return refuse(error, ERR_INVALID, "tokens", "a poll for signals has 1 to %d tokens, not %zu",
                  SLUICE_SIGNAL_TOKENS_MAX, len);
}
