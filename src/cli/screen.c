// SPDX-License-Identifier: Apache-2.0
// Prepares and restores the terminal. The static variables exist because a signal handler has no
// arguments.
#define _GNU_SOURCE // pipe2
#include "cli/screen.h"

#include "cli/cli.h"
#include "cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENTER       "\x1b[?1049h\x1b[?25l"
#define LEAVE       "\x1b[?25h\x1b[?1049l"
#define SEQUENCE_MS 30 // between the bytes of one key

static struct termios before;
static volatile sig_atomic_t is_open;
static volatile sig_atomic_t stopped;
static volatile sig_atomic_t resized;
static int wake[2] = {-1, -1};

static void write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text += n;
        len -= (size_t)n;
    }
}

// Like screen_close, but async-signal-safe, for a signal handler. Does nothing if no screen is
// open.
static void screen_restore(void)
{
    if (!is_open) return;
    is_open = 0;
    int kept = errno;
    write_all(LEAVE, sizeof LEAVE - 1);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    errno = kept;
}

static void wake_up(void)
{
    int kept = errno;
    (void)!write(wake[1], "", 1); // if the pipe is full, the reader wakes up anyway
    errno = kept;
}

static void on_stop(int number)
{
    stopped = number;
    wake_up();
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
    wake_up();
}

static void on_crash(int number)
{
    screen_restore();
    (void)raise(number); // the default action follows: SA_RESETHAND
}

static void handle(int number, void (*handler)(int), int flags)
{
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) return;
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void stop_on_signals(void)
{
    // Without SA_RESTART, a signal ends a wait.
    handle(SIGINT, on_stop, 0);
    handle(SIGTERM, on_stop, 0);
    handle(SIGHUP, on_stop, 0);
}

bool stop_requested(void)
{
    return stopped != 0;
}

// The library has threads, and any of them may receive the signal. So the handler writes to a pipe
// that the wait also polls.
static int wait_input(bool keys, int wait_ms)
{
    struct pollfd on[2] = {{.fd = wake[0], .events = POLLIN},
                           {.fd = STDIN_FILENO, .events = POLLIN}};
    int n = poll(on, keys ? 2 : 1, wait_ms);
    char drained[16];
    if (n > 0 && on[0].revents) (void)!read(wake[0], drained, sizeof drained);
    return n > 0 && on[1].revents;
}

void stop_sleep(int wait_ms)
{
    (void)wait_input(false, wait_ms);
}

bool screen_open(void)
{
    const char *kind = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return false;
    if (!kind || !*kind || strcmp(kind, "dumb") == 0) return false;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE; // a stopped program cannot restore the terminal
    (void)atexit(screen_restore);
    handle(SIGWINCH, on_resize, 0);
    handle(SIGSEGV, on_crash, (int)SA_RESETHAND);
    handle(SIGBUS, on_crash, (int)SA_RESETHAND);
    handle(SIGABRT, on_crash, (int)SA_RESETHAND);
    is_open = 1;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) {
        is_open = 0;
        return false;
    }
    (void)fflush(stdout);
    write_all(ENTER, sizeof ENTER - 1);
    return true;
}

void screen_close(void)
{
    screen_restore();
}

// Copies one line, cut to the columns. Escape sequences (ESC ... letter) are copied and take no
// columns.
static size_t copy_line(char *out, const char *line, size_t len, int columns)
{
    size_t at = 0;
    int used = 0;
    bool escape = false;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)line[i];
        bool more = (c & 0xc0) == 0x80; // continues the character before
        if (c == 0x1b) escape = true;
        if (!escape && !more && ++used > columns) escape = false;
        if (escape || used <= columns) out[at++] = (char)c;
        if (escape && c != '[' && ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
            escape = false;
    }
    return at;
}

void screen_draw(const char *text, size_t len)
{
    static const char to_line_end[] = "\x1b[K", to_end[] = "\x1b[J", home[] = "\x1b[H";
    struct screen_size size = screen_size();
    char *out = malloc(len * 5 + 64); // a newline needs up to five bytes
    if (!out) return;
    size_t at = sizeof home - 1;
    memcpy(out, home, at);
    int row = 0;
    for (size_t i = 0; i < len && row < size.rows; row++) {
        const char *end = memchr(text + i, '\n', len - i);
        size_t line = end ? (size_t)(end - text) - i : len - i;
        if (row > 0) {
            memcpy(out + at, "\r\n", 2);
            at += 2;
        }
        at += copy_line(out + at, text + i, line, size.columns);
        memcpy(out + at, to_line_end, sizeof to_line_end - 1);
        at += sizeof to_line_end - 1;
        i += line + 1;
    }
    memcpy(out + at, to_end, sizeof to_end - 1);
    at += sizeof to_end - 1;
    write_all(out, at);
    free(out);
}

// Returns the next byte of a key sequence. The bytes arrive together. Returns 0 if there is none.
static unsigned char next_byte(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c = 0;
    if (poll(&in, 1, SEQUENCE_MS) <= 0 || read(STDIN_FILENO, &c, 1) != 1) return 0;
    return c;
}

// Reads the rest of a key sequence after an escape: "[A", "OA", "[5~" and so on. An escape alone is
// a key.
static int read_escape(void)
{
    static const char plain[] = "ABHF", numbered[] = "561478";
    static const int plain_keys[] = {KEY_UP, KEY_DOWN, KEY_HOME, KEY_END},
                     numbered_keys[] = {KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME,
                                        KEY_END,     KEY_HOME,      KEY_END};
    unsigned char first = next_byte(), c = first ? next_byte() : 0;
    if (!first) return KEY_ESCAPE;
    const char *letter = c ? strchr(plain, c) : NULL, *number = c ? strchr(numbered, c) : NULL;
    while (c >= '0' && c <= '?') // skip parameters up to the final byte
        c = next_byte();
    if (letter) return plain_keys[letter - plain];
    return number && c == '~' ? numbered_keys[number - numbered] : KEY_OTHER;
}

enum screen_event screen_wait(int wait_ms, int *key)
{
    *key = 0;
    int n = wait_input(true, wait_ms);
    if (stopped) return SCREEN_STOPPED;
    if (resized) {
        resized = 0;
        return SCREEN_RESIZED;
    }
    if (n <= 0) return SCREEN_TIME;
    unsigned char c;
    ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got <= 0) return SCREEN_STOPPED; // the terminal is closed
    *key = c == KEY_ESCAPE ? read_escape() : c;
    return SCREEN_KEY;
}

// One picture as text, which the caller frees; NULL: out of memory.
static char *picture(void (*draw)(void *ctx, FILE *out), void *ctx, size_t *len)
{
    char *text = NULL, now[TEXT_MAX];
    FILE *out = open_memstream(&text, len);
    if (!out) return NULL;
    (void)moment_text((int64_t)time(NULL) * 1000, now);
    (void)fprintf(out, "%.*s  q quits\n", (int)strcspn(now, "."), now);
    draw(ctx, out);
    (void)fclose(out);
    return text;
}

int screen_watch(int interval_ms, void (*draw)(void *ctx, FILE *out), void *ctx)
{
    stop_on_signals();
    bool screen = screen_open();
    while (!stop_requested() && cli_output_ok()) {
        size_t len = 0;
        int key = 0;
        char *text = picture(draw, ctx, &len);
        if (text && screen) screen_draw(text, len);
        if (text && !screen) (void)fwrite(text, 1, len, stdout);
        if (!screen) (void)printf("\n");
        free(text);
        (void)fflush(stdout);
        if (!screen) stop_sleep(interval_ms);
        if (screen && screen_wait(interval_ms, &key) == SCREEN_KEY && (key == 'q' || key == 'Q'))
            break;
    }
    if (screen) screen_close();
    return 0;
}
