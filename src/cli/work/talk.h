// SPDX-License-Identifier: Apache-2.0
// The conversation of one job's program: signals go to it as JSON lines on one pipe, its replies
// come as JSON lines on another.
//
// A signal is declined as "not-listening" if the program does not read its line. So the pipe must
// tell which lines were read, and a line that was declined must never reach the program. The
// kernel says how many bytes of the pipe are unread. To take lines back, the worker reads them from
// the pipe itself.
//
// Only the slot's thread uses a talk. It makes no call of the library: answers go to a list.
#pragma once

#include "base/bytes.h"
#include "sluice.h"

#include <stdbool.h>
#include <stdint.h>

#define TALK_LINE_MAX ((size_t)2 << 20) // of a reply: an answer or a result, escaped
#define TALK_AT_ONCE  ((size_t)1 << 20) // bytes read in one go, so that other events get a turn
#define TALK_CLOSED_MS                                                                             \
    100 // the end of a program that ends comes in this time after its pipes close
#define TALK_REMARK_MAX 200

// One signal to the program, until its end is known.
struct job_signal {
    struct job_signal *next;
    char id[SLUICE_SIGNAL_ID_MAX];
    uint32_t number;
    const char *kind; // a constant of the library
    bool interrupt;
    int64_t grace_ms, until; // interrupt: until is store time
    char *text;              // payload or reason
    size_t text_len;
    int64_t unread_until_ms; // when it is declined if the program did not read it
    uint64_t start, end;     // its line in the stream of bytes; 0, 0: not written yet
    bool done;               // the answer is known
    bool decline;
    char *answer;
    size_t answer_len;
};

struct job_signal *job_signal_new(const struct sluice_signal_state *s);
void job_signal_free(struct job_signal *s);
// Its end is known. The answer is copied.
void job_signal_end(struct job_signal *s, bool decline, const void *answer, size_t len);

struct job_conversation {
    int signals_fd; // write end, non-blocking; -1: the program does not listen
    int reply_fd;   // read end, non-blocking; -1: closed
    int64_t patience_ms;
    struct job_signal *first, *last; // in order of their numbers
    // Bytes for the program that the pipe did not take yet. `written` counts those that it took,
    // less those that were taken back.
    struct buf out;
    uint64_t written;
    int64_t closed_ms; // when a pipe was found closed; 0: it was not
    struct buf line;   // the reply line that is not complete
    bool skips;        // the line is too long: skip it up to its end
    bool has_result;
    struct bytes result; // owned
    char result_type[128];
    bool has_progress; // a new one, since talk_progress_taken
    int percent;
    char progress[SLUICE_PROGRESS_TEXT_MAX + 1];
    char remark[TALK_REMARK_MAX]; // the first reply that could not be used; "": none
};

void talk_init(struct job_conversation *t, int64_t patience_ms);
void talk_done(struct job_conversation *t);
// Takes a signal, and writes what fits.
void talk_send(struct job_conversation *t, struct job_signal *s, int64_t now_ms);
// Writes on. Call it when signals_fd is writable or has an error.
void talk_write(struct job_conversation *t);
bool talk_wants_write(const struct job_conversation *t);
// Reads replies that are there.
void talk_read(struct job_conversation *t);
// The same for bytes that are in memory.
void talk_take(struct job_conversation *t, const uint8_t *bytes, size_t len);
// The program closed a pipe. Signals that it did not read are declined soon (talk_tick).
void talk_stop(struct job_conversation *t);
// Declines signals that the program did not read in time. Returns when to call again; 0: never.
int64_t talk_tick(struct job_conversation *t, int64_t now_ms);
// The program has ended. stopped: the worker stopped it because of the worker's own end, so the
// next holder may get what the program did not read.
void talk_end(struct job_conversation *t, bool stopped, bool interrupted);
// The next signal whose end is known, in order. The caller owns it. NULL: none.
struct job_signal *talk_settled(struct job_conversation *t);
