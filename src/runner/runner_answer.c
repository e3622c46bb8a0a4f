// SPDX-License-Identifier: Apache-2.0
// What a caller is told of an error of the store.
#include "runner/runner_answer.h"

enum err runner_answer_err(struct store *s, enum err err)
{
    char why[STORE_WHY_MAX];
    return err == ERR_DENIED && store_is_dead(s, why) ? ERR_UNAVAILABLE : err;
}
