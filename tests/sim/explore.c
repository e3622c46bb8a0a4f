// SPDX-License-Identifier: Apache-2.0
// The exhaustive explorer: depth first over every sequence of choices in the small world of scene.h, running the real
// journal and collector. A world cannot be copied, so each run starts over and follows the recorded choices to the
// place where it differs; states seen before are not entered again.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "scene.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SLUICE_MUTANTS
enum mutant mutant_active = MUTANT_NONE;
#endif

#define DEPTH_MAX 400

struct chooser {
    uint8_t path[DEPTH_MAX];
    uint8_t width[DEPTH_MAX];
    size_t len;   // choices recorded
    size_t depth; // choices made in this run
};

// 0 .. n-1: the recorded choice, or the first when this is new ground.
static size_t choose(struct chooser *c, size_t n)
{
    CHECK(n > 0 && n < 256 && c->depth < DEPTH_MAX);
    if (c->depth == c->len) {
        c->path[c->len] = 0;
        c->width[c->len] = (uint8_t)n;
        c->len++;
    }
    CHECK(c->width[c->depth] == n);
    return c->path[c->depth++];
}

// To the next sequence; false when all were made.
static bool choose_next(struct chooser *c)
{
    while (c->len > 0 && c->path[c->len - 1] + 1 == c->width[c->len - 1])
        c->len--;
    c->depth = 0;
    if (c->len == 0) return false;
    c->path[c->len - 1]++;
    return true;
}

// ---- states seen, by hash. Two of a million states share a 64-bit hash with a chance under 1 in 10^7.

struct seen {
    uint64_t *table;
    size_t cap;
    size_t len;
};

static bool seen_insert(struct seen *s, uint64_t hash);

static void seen_grow(struct seen *s)
{
    struct seen bigger = {.cap = s->cap ? s->cap * 2 : 1 << 16};
    bigger.table = memory_zeroed(bigger.cap, sizeof *bigger.table);
    for (size_t i = 0; i < s->cap; i++)
        if (s->table[i]) seen_insert(&bigger, s->table[i]);
    memory_free(s->table);
    *s = bigger;
}

// True: it is new.
static bool seen_insert(struct seen *s, uint64_t hash)
{
    if (2 * (s->len + 1) > s->cap) seen_grow(s);
    if (hash == 0) hash = 1;
    size_t i = (size_t)hash & (s->cap - 1);
    while (s->table[i] && s->table[i] != hash)
        i = (i + 1) & (s->cap - 1);
    if (s->table[i] == hash) return false;
    s->table[i] = hash;
    s->len++;
    return true;
}

// ---- runs

struct search {
    struct scene_bounds bounds;
    struct chooser chooser;
    struct seen seen;
    uint64_t runs;
    uint64_t acts;
    size_t deepest;
    uint64_t zombies; // runs in which a dropped slot was created again
};

// Follows the recorded choices, then the first of each, until nothing is left to do or the state was seen.
static bool run(struct search *s, FILE *print)
{
    struct scene scene;
    struct action actions[SCENE_ACTIONS_MAX];
    struct chooser *c = &s->chooser;
    scene_init(&scene, &s->bounds, print);
    size_t known = print ? DEPTH_MAX : c->len;
    for (;;) {
        size_t n = scene_actions(&scene, actions);
        if (n == 0 || (print && c->depth == c->len)) break;
        scene_act(&scene, actions[choose(c, n)]);
        s->acts++;
        if (scene.verdict.broken) break;
        if (c->depth >= known && !seen_insert(&s->seen, scene_hash(&scene))) break;
    }
    if (c->depth > s->deepest) s->deepest = c->depth;
    s->runs++;
    s->zombies += scene.history.zombies > 0;
    bool held = !scene.verdict.broken;
    if (print && !held)
        (void)fprintf(print, "BROKEN %s: %s\n", scene.verdict.invariant, scene.verdict.text);
    scene_done(&scene);
    return held;
}

static bool explore(struct search *s)
{
    do {
        if (!run(s, NULL)) return false;
    } while (choose_next(&s->chooser));
    return true;
}

// ---- the face

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool set_mutant(const char *name)
{
#ifdef SLUICE_MUTANTS
    if (strcmp(name, "RECENT_LOOK") == 0) mutant_active = MUTANT_RECENT_LOOK;
    if (strcmp(name, "RECENT_CHAIN") == 0) mutant_active = MUTANT_RECENT_CHAIN;
    if (strcmp(name, "FLOOR_CHECK_OFF") == 0) mutant_active = MUTANT_FLOOR_CHECK_OFF;
    if (strcmp(name, "COLLECT_YOUNG") == 0) mutant_active = MUTANT_COLLECT_YOUNG;
    return mutant_active != MUTANT_NONE;
#else
    (void)name;
    return false;
#endif
}

static int usage(void)
{
    (void)fputs("usage: explore [--ticks N] [--ops-a N] [--ops-b N] [--looks N] [--unknowns N]\n"
                "               [--tap]\n"
                "       explore-mutants --mutant NAME with any of these\n",
                stderr);
    return 2;
}

struct settings {
    struct scene_bounds bounds;
    const char *mutant;
    bool tap;
};

static bool parse(int argc, char **argv, struct settings *s)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tap") == 0) {
            s->tap = true;
            continue;
        }
        const char *name = argv[i];
        if (++i == argc) return false;
        uint32_t value = (uint32_t)strtoul(argv[i], NULL, 10);
        if (strcmp(name, "--mutant") == 0) {
            s->mutant = argv[i];
            if (!set_mutant(argv[i])) return false;
        } else if (strcmp(name, "--ticks") == 0) {
            s->bounds.ticks = value;
        } else if (strcmp(name, "--ops-a") == 0) {
            s->bounds.ops[0] = value;
        } else if (strcmp(name, "--ops-b") == 0) {
            s->bounds.ops[1] = value;
        } else if (strcmp(name, "--looks") == 0) {
            s->bounds.looks = value;
        } else if (strcmp(name, "--unknowns") == 0) {
            s->bounds.unknowns = value;
        } else {
            return false;
        }
    }
    return s->bounds.ops[0] <= SCENE_OPS_MAX && s->bounds.ops[1] <= SCENE_OPS_MAX;
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .bounds = {.ticks = 4, .ops = {1, 3}, .looks = 2, .unknowns = 1}};
    if (!parse(argc, argv, &settings)) return usage();
    struct search *s = NEW(struct search);
    s->bounds = settings.bounds;
    double start = seconds();
    bool held = explore(s);
    double took = seconds() - start;
    if (!held) {
        s->chooser.depth = 0;
        (void)run(s, stdout);
    }
    bool good = held != (settings.mutant != NULL);
    if (settings.tap) printf("1..1\n%s 1 - ", good ? "ok" : "not ok");
    if (settings.mutant) printf("%s: ", settings.mutant);
    printf("%s: %zu states, %" PRIu64 " runs, %" PRIu64 " acts, depth %zu, %" PRIu64
           " runs with a slot created again, %.1f s\n",
           held ? "no promise broken" : "a promise broken", s->seen.len, s->runs, s->acts,
           s->deepest, s->zombies, took);
    memory_free(s->seen.table);
    memory_free(s);
    return (settings.tap ? good : held) ? 0 : 1;
}
