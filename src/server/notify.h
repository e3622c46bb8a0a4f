// SPDX-License-Identifier: Apache-2.0
// Telling the service manager (systemd's protocol, sd_notify(3)); nothing happens where there is
// none.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// "READY=1"; several on lines of their own. False: there is nobody to tell, or it failed.
bool notify_say(const char *state);
// Before what a reload changes is changed; "READY=1" ends it.
bool notify_reloading(void);
// How often it wants to hear "WATCHDOG=1"; 0: never.
int64_t notify_watchdog_ms(void);
