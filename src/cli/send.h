// SPDX-License-Identifier: Apache-2.0
// Sends messages from the command line: one message, or a file of messages.
#pragma once

#include "cli/cli.h"

struct send_input {
    const struct cli *cli;
    struct sluice *s;
    const char *queue;
    bool create;             // create a missing queue
    struct sluice_send form; // the fields that all messages share; each has its own body
};

// Sends a batch. If the outcome is unknown, it repeats the batch with the same request id, so no
// message is sent twice. `sent` has one row per message.
enum sluice_code sending_batch(struct send_input *sending, const struct sluice_send *messages,
                               size_t len, struct sluice_sent *sent, struct sluice_error *error);
// Sends each line of the file ("-" is standard input) as a message. Returns the exit status.
int send_lines(struct send_input *sending, const char *path);

// A message that is sent again, perhaps changed.
struct resend {
    struct sluice_batch *batch;    // NULL: none
    struct sluice_header *headers; // of the new message; the texts are the batch's and the form's
};
// Fills in what the form does not give from a message: "ID" of the queue that is sent to, or
// "QUEUE/ID". If *body is NULL, it becomes the message's. Returns 0, or the exit status after
// printing the error. Call again_done in both cases.
int again_read(struct send_input *sending, const char *from, struct resend *out, const void **body,
               size_t *len);
void again_done(struct resend *a);
