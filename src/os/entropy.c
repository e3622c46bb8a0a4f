// SPDX-License-Identifier: Apache-2.0
// A loop around getrandom that fills the whole buffer.
#include "os/entropy.h"

#include "base/check.h"

#include <errno.h>
#include <sys/random.h>

void entropy_fill(void *to, size_t len)
{
    uint8_t *at = to;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        CHECK(n > 0 || errno == EINTR);
        if (n < 0) continue;
        at += n;
        len -= (size_t)n;
    }
}

uint64_t entropy_u64(void)
{
    uint64_t v;
    entropy_fill(&v, sizeof v);
    return v;
}
