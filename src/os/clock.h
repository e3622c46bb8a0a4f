// SPDX-License-Identifier: Apache-2.0
// The machine's clocks, in milliseconds, and the name of its current boot.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOOT_ID_LEN 16

int64_t clock_boot_ms(void);     // since the boot, runs through suspend, is never stepped
int64_t clock_boot_ns(void);     // the same, to measure how long something took
int64_t clock_realtime_ms(void); // since 1970; people and NTP step it
// A random number the kernel draws at each boot. False when it cannot be read.
bool clock_boot_id(uint8_t id[BOOT_ID_LEN]);
