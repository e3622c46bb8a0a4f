// SPDX-License-Identifier: Apache-2.0
// Finds the store of a command.
#pragma once

#include "cli/cli.h"

// Returns $SLUICE_STORE, else $XDG_DATA_HOME/sluice, else ~/.local/share/sluice. The caller frees
// it. Returns NULL if there is no home directory.
char *store_default(void);
// True if cli->store is a directory that does not exist but could be created.
bool store_missing(const struct cli *cli);
#define STORE_MISSING "the store %.300s does not exist yet"
