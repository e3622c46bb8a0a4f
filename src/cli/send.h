// SPDX-License-Identifier: Apache-2.0
// Sending from the command line: one message, or a file of them.
#pragma once

#include "cli/cli.h"

struct send_input {
    const struct cli *cli;
    struct sluice *s;
    const char *queue;
    bool create;             // a queue that is missing is made
    struct sluice_send form; // what every message is given; the body is its own
};

// Sends a batch. An answer that is unknown is asked again with the same request id, which cannot
// send it twice. sent has a row each.
enum sluice_code sending_batch(struct send_input *sending, const struct sluice_send *messages,
                               size_t len, struct sluice_sent *sent, struct sluice_error *error);
// Each line of the file ("-": standard input) is a message. Answers the exit status.
int send_lines(struct send_input *sending, const char *path);
