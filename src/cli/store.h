// SPDX-License-Identifier: Apache-2.0
// Which store a command works on when the command line does not say.
#pragma once

#include "cli/cli.h"

// $SLUICE_STORE, else ~/.local/share/sluice; the caller frees it. NULL: there is no home folder
// either.
char *store_default(void);
// Makes the folders above the default store; any other is the user's to place. cli_open does it
// too.
void store_prepare(const struct cli *cli);
