// SPDX-License-Identifier: Apache-2.0
// A live screen on the terminal. Whatever ends the program (q, a signal, a crash) puts the terminal
// back. One screen a process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Takes the terminal: alternate buffer, no cursor, keys without Enter and without echo. False:
// standard input or output is no terminal, or TERM is dumb.
bool screen_open(void);
void screen_close(void);
// The same, for use in a signal handler: async-signal-safe, does nothing when no screen is open.
void screen_restore(void);

struct screen_size {
    int rows;
    int columns;
};
struct screen_size screen_size(void);

// Shows text (lines end with \n) from the top left corner; what does not fit is cut, what was
// there before is wiped. Escape sequences for bold and colour take no columns.
void screen_draw(const char *text, size_t len);

// Keys that are not characters, as *key.
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
// Waits for a key, another size, a signal that asks to end (stop_requested), or the time.
enum screen_event screen_wait(int wait_ms, int *key);

// INT, TERM and HUP set a flag instead of ending the program.
void stop_on_signals(void);
bool stop_requested(void);
int stop_signal(void); // which one; 0: none
// Sleeps, but not past a signal.
void stop_sleep(int wait_ms);
