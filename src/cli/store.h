// SPDX-License-Identifier: Apache-2.0
// Which store a command works on when the command line does not say.
#pragma once

#include "cli/cli.h"

// $SLUICE_STORE, else $XDG_DATA_HOME/sluice, else ~/.local/share/sluice; the caller frees it. NULL:
// there is no home folder either.
char *store_default(void);
// The directory that a URL names; NULL: it is another kind of store.
const char *store_directory(const char *url);
// Is cli->store a directory that is not there, and could be made?
bool store_missing(const struct cli *cli);
#define STORE_MISSING "there is no store at %.300s yet"
