// SPDX-License-Identifier: Apache-2.0
// Notifies the service manager (systemd's protocol, sd_notify(3)). Without one, nothing is sent.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// `state` is "READY=1" or the like; several go on lines of their own. Returns false if there is no
// service manager, or if it failed.
bool notify_say(const char *state);
// Call it before a reload changes anything. "READY=1" ends the reload.
bool notify_reloading(void);
// The time within which the manager expects "WATCHDOG=1"; 0: it expects none.
int64_t notify_watchdog_ms(void);
