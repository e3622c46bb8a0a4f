// SPDX-License-Identifier: Apache-2.0
// The machine's clocks, in milliseconds, and the id of the current boot.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BOOT_ID_LEN 16

int64_t clock_boot_ms(void);     // since the boot; counts suspend; is never stepped
int64_t clock_boot_ns(void);     // the same in nanoseconds, to measure durations
int64_t clock_realtime_ms(void); // since 1970; operators and NTP can step it
// The time in that many ms, for a pthread_cond_timedwait on CLOCK_MONOTONIC.
struct timespec clock_after(int64_t ms);
// A random number that the kernel draws at each boot. Returns false if it cannot be read.
bool clock_boot_id(uint8_t id[BOOT_ID_LEN]);
