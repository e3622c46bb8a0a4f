// SPDX-License-Identifier: Apache-2.0
// The parts of the serve command: its settings, and its life between start and stop.
#pragma once

#include "cli/cli.h"
#include "server/config.h"
#include "server/server.h"

struct serve {
    const struct cli *cli;
    const struct arguments *args;
    struct conf *conf; // as it was started; the server refers to it
    struct conf *now;  // as it was last reloaded; NULL: it was not
    struct server *server;
    bool store_lost; // it was emptied or replaced, and that was logged
    int signals;     // where INT, TERM and HUP are read from
};

// The settings as file, environment and options say now. NULL: error says what is wrong.
struct conf *serve_settings(const struct cli *cli, const struct arguments *args,
                            struct sluice_error *error);

// Before any thread is started: they inherit that these signals are not theirs. False: it cannot be
// had.
bool serve_take_signals(struct serve *s);
// Serves until INT or TERM, and stops; HUP reads the settings again. The exit status.
int serve_loop(struct serve *s);
