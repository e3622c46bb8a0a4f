// SPDX-License-Identifier: Apache-2.0
// A live screen on the terminal. The terminal is restored however the program ends (q, a signal, a
// crash). A process has at most one screen.
#pragma once

#include "cli/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Prepares the terminal: alternate buffer, no cursor, keys without Enter and echo. Returns false if
// standard input or output is not a terminal, or if TERM is dumb.
bool screen_open(void);
void screen_close(void);

// Draws text (lines end with \n) from the top left corner. Text that does not fit is cut, and old
// text is erased. Escape sequences for bold and colour take no columns.
void screen_draw(const char *text, size_t len);

// Values of *key for keys that are not characters.
enum screen_key {
    KEY_ESCAPE = 0x1b,
    KEY_UP = 0x100,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_OTHER
};

enum screen_event { SCREEN_TIME, SCREEN_KEY, SCREEN_RESIZED, SCREEN_STOPPED };
// Waits for a key, a new size, a signal that requests the end (stop_requested), or the timeout.
enum screen_event screen_wait(int wait_ms, int *key);

// Draws a picture again and again, under a line with the time, until q, a signal, or an output that
// is gone. Without a terminal it prints one picture after the other. Returns the exit status.
int screen_watch(int interval_ms, void (*draw)(void *ctx, FILE *out), void *ctx);

// INT, TERM and HUP set a flag instead of ending the program.
void stop_on_signals(void);
bool stop_requested(void);
// Sleeps until the timeout or a signal.
void stop_sleep(int wait_ms);
