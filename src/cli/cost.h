// SPDX-License-Identifier: Apache-2.0
// What a queue costs where requests are money: the counts of sluice_stats times prices.
#pragma once

#include "cli/cli.h"
#include "cli/text.h"
#include "json/json.h"

// Dollars: put and get for a thousand requests, storage for a gigabyte and a month.
struct prices {
    double put; // PUT, POST and LIST
    double get; // GET and HEAD; DELETE is free
    double storage;
};

#define PRICES_S3_STANDARD ((struct prices){.put = 0.005, .get = 0.0004, .storage = 0.023})
#define PRICES_HINT        "such as put=0.005,get=0.0004,storage=0.023"

// "put=0.004,get=0.0003": the others stay as they are. False: problem says which part and why.
bool prices_parse(const char *text, struct prices *prices, char *problem, size_t problem_len);
// S3 Standard, then $SLUICE_PRICES, then the option (may be NULL). Else the exit status: the error
// was printed.
int prices_get(const struct cli *cli, const char *option, struct prices *out);

struct queue_cost {
    uint64_t requests;     // 0: the store charges nothing, and all else is 0 too
    uint64_t messages;     // processed; while none is, those sent
    bool of_sent;          // it is those sent
    double per_message;    // requests
    double puts_a_message; // ... of the dear sort
    double per_million;    // dollars for a million messages
    double per_day;        // dollars, if each hour is as the last 60 minutes were
};

struct queue_cost queue_cost_of(const struct sluice_stats *v, const struct prices *p);

// "$12", "$1.25", "$0.0042", "<$0.0001"
const char *dollars_text(double dollars, char out[static TEXT_MAX]);
// "74", "1.25", "0.0042"
const char *ratio_text(double ratio, char out[static TEXT_MAX]);

// Lines like those of stats, names as wide as theirs; nothing when nothing was charged.
void cost_print(FILE *out, int width, const struct sluice_stats *v, const struct prices *p);
struct json *cost_json(const struct sluice_stats *v, const struct prices *p); // NULL: no charge
