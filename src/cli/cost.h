// SPDX-License-Identifier: Apache-2.0
// The cost of a queue in a store that bills requests: the counts of sluice_stats times prices.
#pragma once

#include "cli/cli.h"
#include "cli/text.h"
#include "json/json.h"

// In dollars: put and get per thousand requests, storage per gigabyte and month.
struct prices {
    double put; // PUT, POST and LIST
    double get; // GET and HEAD; DELETE is free
    double storage;
};

#define PRICES_S3_STANDARD ((struct prices){.put = 0.005, .get = 0.0004, .storage = 0.023})
#define PRICES_HINT        "such as put=0.005,get=0.0004,storage=0.023"

// Parses "put=0.004,get=0.0003". Prices that are not named keep their value. On false, problem
// names the part and the reason.
bool prices_parse(const char *text, struct prices *prices, char *problem, size_t problem_len);
// Starts with S3 Standard, then applies $SLUICE_PRICES, then the option (may be NULL). Returns 0,
// or the exit status after printing the error.
int prices_get(const struct cli *cli, const char *option, struct prices *out);

struct queue_cost {
    uint64_t requests;     // 0 if the store bills nothing; then all other fields are 0
    uint64_t messages;     // processed messages, or sent messages if none is processed yet
    bool of_sent;          // messages counts sent messages
    double per_message;    // requests per message
    double puts_a_message; // PUT, POST and LIST requests per message
    double per_million;    // dollars per million messages
    double per_day;        // dollars per day at the rate of the last 60 minutes
};

struct queue_cost queue_cost_of(const struct sluice_stats *v, const struct prices *p);

// "$12", "$1.25", "$0.0042", "<$0.0001"
const char *dollars_text(double dollars, char out[static TEXT_MAX]);
// "74", "1.25", "0.0042"
const char *ratio_text(double ratio, char out[static TEXT_MAX]);

// Prints lines in the format of stats, with names padded to `width`. Prints nothing if the store
// bills nothing.
void cost_print(FILE *out, int width, const struct sluice_stats *v, const struct prices *p);
// NULL if the store bills nothing
struct json *cost_json(const struct sluice_stats *v, const struct prices *p);
