// SPDX-License-Identifier: Apache-2.0
// later_receive with acks: both are under way at once, and the last to come answers.
#pragma once

#include "api/later.h"

void along_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                   struct later *l);
// It waits no longer: it ends as soon as its acks are answered, with nothing unless it was given
// something before.
void along_cancel(struct sluice *s, struct later *l);
