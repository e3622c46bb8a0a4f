// SPDX-License-Identifier: Apache-2.0
// Parses prices and computes three figures: requests per message, dollars per million messages,
// dollars per day.
#include "cli/cost.h"
#include "protocol/routes.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS   3600000.0
#define PRICE_MAX 1000000.0
#define THOUSAND  1000.0
#define MILLION   1000000.0

// Accepts only digits and a point. strtod would accept "inf", "0x1p3" and a sign.
static bool read_price(const char *text, size_t len, double *out)
{
    char copy[32];
    if (len == 0 || len >= sizeof copy || strspn(text, "0123456789.") < len) return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    char *end;
    *out = strtod(copy, &end);
    return *end == 0 && strcmp(copy, ".") != 0 && *out <= PRICE_MAX;
}

static bool read_part(const char *part, size_t len, struct prices *p, char *problem,
                      size_t problem_len)
{
    const struct {
        const char *name;
        double *to;
    } known[] = {{"put", &p->put}, {"get", &p->get}, {"storage", &p->storage}};
    const char *equals = memchr(part, '=', len);
    size_t name_len = equals ? (size_t)(equals - part) : len;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strlen(known[i].name) != name_len || memcmp(known[i].name, part, name_len) != 0)
            continue;
        if (equals && read_price(equals + 1, len - name_len - 1, known[i].to)) return true;
        (void)snprintf(problem, problem_len,
                       "\"%.*s\": the price of %s must be in dollars, such as %s=0.005", (int)len,
                       part, known[i].name, known[i].name);
        return false;
    }
    (void)snprintf(problem, problem_len, "\"%.*s\" is not the price of put, get or storage; %s",
                   (int)len, part, PRICES_HINT);
    return false;
}

bool prices_parse(const char *text, struct prices *prices, char *problem, size_t problem_len)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (!read_part(at, len, prices, problem, problem_len)) return false;
        at += len;
        if (*at == 0) return true;
    }
}

int prices_get(const struct cli *cli, const char *option, struct prices *out)
{
    char problem[200];
    const char *environment = getenv("SLUICE_PRICES");
    *out = PRICES_S3_STANDARD;
    if (environment && *environment && !prices_parse(environment, out, problem, sizeof problem))
        return cli_usage(cli, "SLUICE_PRICES", "SLUICE_PRICES: %s", problem);
    if (option && !prices_parse(option, out, problem, sizeof problem))
        return cli_usage(cli, "--price", "--price %s", problem);
    return 0;
}

static double dollars(const struct sluice_requests *r, const struct prices *p)
{
    return ((double)r->writes * p->put + (double)r->reads * p->get) / THOUSAND;
}

// Estimates the last 60 minutes: this hour so far, and the remaining share of the hour before.
static double last_hour(const struct sluice_stats *v, const struct prices *p)
{
    double passed = (double)v->hour_ms / HOUR_MS;
    return dollars(&v->spent_this_hour, p) + dollars(&v->spent_last_hour, p) * (1 - passed);
}

struct queue_cost queue_cost_of(const struct sluice_stats *v, const struct prices *p)
{
    struct queue_cost c = {.requests = v->spent.writes + v->spent.reads + v->spent.deletes};
    if (c.requests == 0) return c;
    c.of_sent = v->processed == 0;
    c.messages = c.of_sent ? v->sent : v->processed;
    c.per_day = last_hour(v, p) * 24;
    if (c.messages == 0) return c;
    c.per_message = (double)c.requests / (double)c.messages;
    c.puts_a_message = (double)v->spent.writes / (double)c.messages;
    c.per_million = dollars(&v->spent, p) / (double)c.messages * MILLION;
    return c;
}

static int decimals_of(double value)
{
    return value >= 100 ? 0 : value >= 0.1 || value == 0 ? 2 : 4;
}

const char *ratio_text(double ratio, char out[static TEXT_MAX])
{
    (void)snprintf(out, TEXT_MAX, "%.*f", decimals_of(ratio), ratio);
    return out;
}

const char *dollars_text(double amount, char out[static TEXT_MAX])
{
    if (amount > 0 && amount < 0.0001) {
        (void)snprintf(out, TEXT_MAX, "<$0.0001");
    } else {
        (void)snprintf(out, TEXT_MAX, "$%.*f", decimals_of(amount), amount);
    }
    return out;
}

static void put_line(FILE *out, int width, const char *name, const char *value, const char *format,
                     ...) PRINTF(5, 6);
static void put_line(FILE *out, int width, const char *name, const char *value, const char *format,
                     ...)
{
    va_list words;
    (void)fprintf(out, "%-*s  %12s  ", width, name, value);
    va_start(words, format);
    (void)vfprintf(out, format, words);
    va_end(words);
    (void)fputc('\n', out);
}

void cost_print(FILE *out, int width, const struct sluice_stats *v, const struct prices *p)
{
    char value[TEXT_MAX], remark[TEXT_MAX];
    struct queue_cost c = queue_cost_of(v, p);
    const char *done = c.of_sent ? "sent" : "processed";
    if (c.requests == 0) return;
    put_line(out, width, "requests", number_text(c.requests, value), "%s per message %s",
             c.messages > 0 ? ratio_text(c.per_message, remark) : "-", done);
    put_line(out, width, "  put, list", number_text(v->spent.writes, value),
             "%s per message; $%g per 1,000",
             c.messages > 0 ? ratio_text(c.puts_a_message, remark) : "-", p->put);
    put_line(out, width, "  get", number_text(v->spent.reads, value), "$%g per 1,000", p->get);
    put_line(out, width, "  delete", number_text(v->spent.deletes, value), "free");
    put_line(out, width, "cost", c.messages > 0 ? dollars_text(c.per_million, value) : "-",
             "per million messages %s", done);
    put_line(out, width, "", dollars_text(c.per_day, value), "per day, as in the last 60 minutes");
}

struct json *cost_json(const struct sluice_stats *v, const struct prices *p)
{
    struct queue_cost c = queue_cost_of(v, p);
    if (c.requests == 0) return NULL;
    struct json *o = json_new(), *prices = json_new();
    fields_put(o, &requests_answer, &v->spent);
    json_text(o, "perMessage", c.of_sent ? "sent" : "processed");
    json_fraction(o, "requestsPerMessage", c.per_message);
    json_fraction(o, "writesPerMessage", c.puts_a_message);
    json_fraction(o, "dollarsPerMillion", c.per_million);
    json_fraction(o, "dollarsPerDay", c.per_day);
    json_fraction(prices, "put", p->put);
    json_fraction(prices, "get", p->get);
    json_fraction(prices, "storage", p->storage);
    json_take(o, "prices", prices);
    return o;
}
