// SPDX-License-Identifier: Apache-2.0
// The capabilities of the node and how far they are rolled out, as words.
#include "base/check.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>

const char *rollout_name(int state)
{
    static const char *const names[] = {
        [ROLLOUT_ON] = "on", [ROLLOUT_SHADOW] = "shadow", [ROLLOUT_OFF] = "off"};
    CHECK(state >= ROLLOUT_ON && state <= ROLLOUT_OFF);
    return names[state];
}

const char *capability_name(int capability)
{
    static const char *const names[] = {
#define CAPABILITY_NAME(id, name) name,
        CAPABILITY_LIST(CAPABILITY_NAME)
#undef CAPABILITY_NAME
    };
    CHECK(capability >= 0 && capability < CAPABILITY_COUNT);
    return names[capability];
}

void flags_text(struct server *s, char out[FLAGS_MAX])
{
    size_t len = 0;
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        int more = snprintf(out + len, FLAGS_MAX - len, "%s%s=%s", i > 0 ? " " : "",
                            capability_name(i), rollout_name(atomic_load(&s->flags[i])));
        CHECK(more > 0 && (size_t)more < FLAGS_MAX - len);
        len += (size_t)more;
    }
}
