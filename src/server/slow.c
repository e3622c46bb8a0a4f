// SPDX-License-Identifier: Apache-2.0
// Writes few lines, each with the number of calls that it stands for.
#include "server/slow.h"

#include "base/err.h"
#include "os/clock.h"

void slow_note(struct slow_call_log *s, const struct meter_call *call, int64_t now_ms)
{
    if (s->told_ms != 0 && now_ms - s->told_ms < SLOW_QUIET_MS) {
        s->others++;
        return;
    }
    LOG(s->log, LOG_WARNING, "store-slow", LOG_TEXT("call", meter_kind_name(call->kind)),
        LOG_TEXT("key", call->key), LOG_NUMBER("ms", call->took_ms),
        LOG_TEXT("code", err_name(call->err)), LOG_NUMBER("others", s->others));
    s->told_ms = now_ms;
    s->others = 0;
}

void slow_tell(void *slow, const struct meter_call *call)
{
    slow_note(slow, call, clock_boot_ms());
}
