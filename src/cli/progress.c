// SPDX-License-Identifier: Apache-2.0
// Draws the progress of long work: [=======>      ] 43%  431,000 messages  215,000/s  2.6s left
#include "cli/progress.h"

#include "cli/answer_watch.h"
#include "cli/text.h"
#include "os/clock.h"

#include <string.h>
#include <unistd.h>

#define REDRAW_MS  100
#define PLAIN_MS   1000
#define BAR_CELLS  30
#define LEFT_AFTER 500 // ms before the remaining time is shown; an earlier estimate is too rough

void progress_begin(struct progress *p, const struct cli *cli, const char *verb, const char *noun)
{
    int64_t now = clock_boot_ms();
    *p = (struct progress){.cli = cli,
                           .verb = verb,
                           .noun = noun,
                           .shown = !cli->quiet && (!cli->json || isatty(STDERR_FILENO)),
                           .terminal = isatty(STDERR_FILENO) != 0,
                           .started_ms = now,
                           .drawn_ms = now};
}

static void draw_bar(const struct progress *p, uint64_t done, double share, bool known)
{
    char count[TEXT_MAX], rate[TEXT_MAX], left[TEXT_MAX];
    int64_t elapsed = progress_elapsed_ms(p);
    uint64_t per_second = elapsed > 0 ? done * 1000 / (uint64_t)elapsed : 0;
    (void)fprintf(stderr, "\r\x1b[K");
    if (known) {
        char bar[BAR_CELLS + 1];
        size_t full = (size_t)(share * BAR_CELLS);
        memset(bar, ' ', BAR_CELLS);
        memset(bar, '=', full);
        if (full < BAR_CELLS) bar[full] = '>';
        bar[BAR_CELLS] = '\0';
        (void)fprintf(stderr, "[%s] %3d%%  ", bar, (int)(share * 100));
    }
    (void)fprintf(stderr, "%s %s %s  %s/s", p->verb, number_text(done, count), p->noun,
                  number_text(per_second, rate));
    if (known && share > 0 && elapsed > LEFT_AFTER)
        (void)fprintf(stderr, "  %s left",
                      duration_text((int64_t)((double)elapsed * (1 - share) / share), left));
    (void)fflush(stderr);
}

void progress_move(struct progress *p, uint64_t done, uint64_t part, uint64_t whole)
{
    answer_watch_start(p->cli, 0);
    if (!p->shown) return;
    int64_t now = clock_boot_ms();
    if (now - p->drawn_ms < (p->terminal ? REDRAW_MS : PLAIN_MS)) return;
    p->drawn_ms = now;
    if (p->terminal) {
        double share = whole > 0 ? (double)part / (double)whole : 0;
        draw_bar(p, done, share > 1 ? 1 : share, whole > 0);
        p->drawn = true;
    } else if (done != p->printed) {
        p->printed = done;
        (void)fprintf(stderr, "%s %llu %s\n", p->verb, (unsigned long long)done, p->noun);
    }
}

void progress_end(struct progress *p)
{
    if (p->drawn) (void)fprintf(stderr, "\r\x1b[K");
    p->drawn = false;
}

int64_t progress_elapsed_ms(const struct progress *p)
{
    return clock_boot_ms() - p->started_ms;
}
