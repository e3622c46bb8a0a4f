// SPDX-License-Identifier: Apache-2.0
// The exhaustive explorer: depth first over every sequence of choices in the small world of
// scene.h, running the real journal and collector. The world lives in one arena; before each choice
// it is saved, and restored for the next one. States seen before are not entered again.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "heap_region.h"
#include "scene.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SLUICE_MUTANTS
enum mutant mutant_active = MUTANT_NONE;
#endif

#define DEPTH_MAX 400

// 10^7.

struct seen {
    uint64_t *table;
    size_t cap;
    size_t len;
};

static bool seen_insert(struct seen *s, uint64_t hash);

static void seen_grow(struct seen *s)
{
    struct seen bigger = {.cap = s->cap ? s->cap * 2 : 1 << 16};
    bigger.table = calloc(bigger.cap, sizeof *bigger.table); // not in the arena
    CHECK(bigger.table);
    for (size_t i = 0; i < s->cap; i++)
        if (s->table[i]) seen_insert(&bigger, s->table[i]);
    free(s->table);
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

// One level of it: the world before the choice, and which choice is next.
struct level {
    struct heap_region_copy before;
    size_t choice;
};

struct search {
    struct scene_bounds bounds;
    struct scene *scene; // in the arena
    struct level levels[DEPTH_MAX];
    size_t depth;
    struct seen seen;
    uint64_t acts;
    size_t deepest;
    uint64_t zombies; // states in which a dropped slot had been created again
};

static void search_start(struct search *s, struct trace *trace)
{
    heap_region_reset();
    s->scene = NEW(struct scene);
    scene_init(s->scene, &s->bounds, trace);
}

// Enters the state that the present world is in, unless it was seen.
static void enter(struct search *s)
{
    if (!seen_insert(&s->seen, scene_hash(s->scene))) return;
    s->zombies += s->scene->history.zombies > 0;
    CHECK(s->depth < DEPTH_MAX);
    struct level *l = &s->levels[s->depth++];
    l->choice = 0;
    heap_region_save(&l->before);
    if (s->depth > s->deepest) s->deepest = s->depth;
}

// False: a promise was broken; the choices that led there are in the levels.
static bool explore(struct search *s)
{
    search_start(s, NULL);
    enter(s);
    while (s->depth > 0) {
        struct level *l = &s->levels[s->depth - 1];
        struct action actions[SCENE_ACTIONS_MAX];
        heap_region_restore(&l->before);
        if (l->choice == scene_actions(s->scene, actions)) {
            s->depth--;
            continue;
        }
        scene_act(s->scene, actions[l->choice++]);
        s->acts++;
        if (s->scene->findings.broken) return false;
        enter(s);
    }
    return true;
}

// The same choices again, aloud.
static void retell(struct search *s, FILE *out, const char *prefix)
{
    static struct trace trace;
    trace_init(&trace, out, NULL);
    trace.prefix = prefix;
    search_start(s, &trace);
    for (size_t i = 0; i < s->depth; i++) {
        struct action actions[SCENE_ACTIONS_MAX];
        CHECK(s->levels[i].choice <= scene_actions(s->scene, actions));
        scene_act(s->scene, actions[s->levels[i].choice - 1]);
    }
    const struct findings *v = &s->scene->findings;
    CHECK(v->broken);
    (void)fprintf(out, "%sBROKEN %s: %s\n", prefix, v->invariant, v->text);
}

static void search_done(struct search *s)
{
    for (size_t i = 0; i < DEPTH_MAX; i++)
        heap_region_copy_done(&s->levels[i].before);
    free(s->seen.table);
}

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
    if (strcmp(name, "FINISH_WITHOUT_FLOOR") == 0) mutant_active = MUTANT_FINISH_WITHOUT_FLOOR;
    return mutant_active != MUTANT_NONE;
#else
    (void)name;
    return false;
#endif
}

static int usage(void)
{
    (void)fputs("usage: explore [--ticks N] [--ops-a N] [--ops-b N] [--looks N] [--unknowns N]\n"
                "               [--end] [--tap]\n"
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
        if (strcmp(argv[i], "--end") == 0) {
            s->bounds.ends = true;
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
    struct settings settings = {.bounds = {.ticks = 3, .ops = {1, 3}, .looks = 1, .unknowns = 1}};
    if (!parse(argc, argv, &settings)) return usage();
    static struct search s; // too large for the stack
    s.bounds = settings.bounds;
    double start = seconds();
    bool held = explore(&s);
    double took = seconds() - start;
    if (!held) retell(&s, stdout, settings.tap ? "# " : "");
    bool good = held != (settings.mutant != NULL);
    if (settings.tap) printf("1..1\n%s 1 - ", good ? "ok" : "not ok");
    if (settings.mutant) printf("%s: ", settings.mutant);
    printf("%s; %zu states, %" PRIu64 " transitions, depth %zu, a slot created again in %" PRIu64
           " states, %.1f s\n",
           held ? "no promise broken" : "a commit is lost", s.seen.len, s.acts, s.deepest,
           s.zombies, took);
    search_done(&s);
    return (settings.tap ? good : held) ? 0 : 1;
}
