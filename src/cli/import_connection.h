// SPDX-License-Identifier: Apache-2.0
// A connection to a beanstalkd server. Commands are collected and written together, and their
// answers are read in order. While commands are written, answers are read, so neither side waits
// for the other.
#pragma once

#include "cli/import.h"
#include "import/answer.h"

struct stream;

struct tube_link {
    const struct import_run *run;
    const struct tube_place *place;
    struct stream *stream;
    struct buf out;
    struct buf in;
    size_t in_at; // the answers before it were returned
    int status; // not 0: the connection failed, the error was printed, and this is the exit status
};

// Returns 0, or the exit status after the error was printed.
int tube_open(struct tube_link *l, const struct import_run *run, const struct tube_place *place);
void tube_close(struct tube_link *l);

void tube_command(struct tube_link *l, const char *format, ...) PRINTF(2, 3);
// Writes the collected commands. Returns false if the connection failed.
bool tube_flush(struct tube_link *l);
// Reads the next answer. Its bytes are valid until the next call. Returns false if the connection
// failed.
bool tube_answer(struct tube_link *l, struct beanstalk_answer *out);
// One command with its answer.
bool tube_ask(struct tube_link *l, struct beanstalk_answer *out, const char *format, ...)
    PRINTF(3, 4);
// Prints that the server answered something that the command cannot have. Returns false.
bool tube_refuse(struct tube_link *l, struct bytes answer);
