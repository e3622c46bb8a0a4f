// SPDX-License-Identifier: Apache-2.0
// The machine's clocks, in milliseconds, and the id of the current boot.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BOOT_ID_LEN 16

int64_t clock_boot_ms(void);     // since the boot; counts suspend; is never stepped
int64_t clock_boot_ns(void);     // the same in nanoseconds, to measure durations
int64_t clock_realtime_ms(void); // since 1970; operators and NTP can step it
void clock_sleep(int64_t ms);    // signals do not end it
// A condition variable whose timed waits no step of the wall clock disturbs.
void clock_cond_init(pthread_cond_t *c);
struct timespec clock_after(int64_t ms); // the time in that many ms, for a timed wait of such a one
// One timed wait until that time of clock_boot_ms; it may end early. False: the time has passed.
//
//     while (!s->done && clock_wait(&s->changed, &s->lock, until_ms))
//         ;
bool clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ms);
// A random number that the kernel draws at each boot. Returns false if it cannot be read.
bool clock_boot_id(uint8_t id[BOOT_ID_LEN]);
