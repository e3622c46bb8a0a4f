// SPDX-License-Identifier: Apache-2.0
// The parts of the serve command: its settings, and the loop from start to stop.
#pragma once

#include "cli/cli.h"
#include "server/config.h"
#include "server/server.h"

#include <pthread.h>
#include <stdatomic.h>

struct serve_process {
    const struct cli *cli;
    const struct arguments *args;
    struct conf *conf; // the settings at the start; the server refers to them
    struct conf *now;  // the settings of the last reload; NULL before the first
    struct server *server;
    bool store_lost;     // the store was emptied or replaced, and this was logged
    atomic_bool leaving; // a client has asked the node to leave the cluster
    int signals;         // signalfd for INT, TERM and HUP
    int ends;            // signalfd of SIGTERM and SIGINT, during the start
    int started;         // eventfd: ends the watch of the start
    bool watched;
    pthread_t watch;
};

// Reads the settings from file, environment and options. On NULL, error says what is wrong.
struct conf *serve_settings(const struct cli *cli, const struct arguments *args,
                            struct sluice_error *error);

// Blocks INT, TERM and HUP and opens a signalfd. Call it before any thread starts, because threads
// inherit the signal mask. Returns false on an error.
bool serve_take_signals(struct serve_process *s);
// Until serve_watch_end, INT and TERM end the process at once: the start may wait long for a store.
// That is safe, because the node serves no client yet. It also holds while a failed start is
// cleaned up.
void serve_watch_start(struct serve_process *s);
void serve_watch_end(struct serve_process *s);
// Serves until INT or TERM, then stops. HUP reloads the settings. Returns the exit status.
int serve_loop(struct serve_process *s);
