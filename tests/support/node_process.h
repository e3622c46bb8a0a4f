// SPDX-License-Identifier: Apache-2.0
// `sluice serve` as a child of the test: started, killed, stood still, started again under its own
// name and address, and measured from outside. It dies with the thread that started it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct node_process {
    const char *program; // the sluice command
    const char *store;
    const char *name;            // NULL: "under-test"
    const char *const *settings; // "key=value" ... NULL; may itself be NULL
    const char *coord;           // the coordination service; NULL: none
    bool tls;                    // the settings name a certificate
    pid_t pid;                   // 0: it does not run
    char address[32];            // host:port
    char url[40];
    char problem[200]; // why it does not start
};

// Starts it and waits until it listens: on a free port the first time, where it was from then on.
bool node_process_start(struct node_process *n);
void node_process_kill(struct node_process *n); // -9, and reaped; none is fine
// SIGSTOP, until it stands still: a signal is sent, not delivered. SIGCONT moves it on.
bool node_process_pause(const struct node_process *n);
bool node_process_stop(struct node_process *n); // SIGTERM; did it end by itself, with status 0?
// From /proc; 0 when it cannot be had.
uint64_t node_process_resident_kib(const struct node_process *n);
uint64_t node_process_cpu_ms(const struct node_process *n); // of all its threads, ever
