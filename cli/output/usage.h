/*
 * Where the memory of a process is (run/account.h), as a table, as JSON and as metrics: one
 * list of fields for the three.
 */
#pragma once

#include "base/json.h"
#include "run/trends.h"

#include <stdio.h>

/* The words for a part, in every verb. */
struct usage_part {
    const char *name, *key; /* in tables; in JSON */
    const char *meaning, *help;
    const char *words, *remark; /* in a sentence, and what is added to them; NULL: not in one */
};

extern const struct usage_part usage_parts[ACCOUNT_PARTS];

/* Of top: the RSS, or a part, by its name or its key in JSON. */
const char *usage_gauge_name(enum gauge gauge, bool json);
/* Returns the name of a source of the counts in JSON; NULL: there is none. */
const char *usage_source_name(enum account_source source);

/*
 * Prints a row for each part that is not zero, and one for what is absent. One that is not known,
 * without which the others do not add up to the RSS, is shown as ?.
 */
void usage_print_parts(const struct account *account, FILE *out);
/* Adds a member for each part, and absent; those that are not known are null. */
void usage_parts_json(const struct account_sum *sum, struct json *json);

struct usage {
    const struct account *account;
    int pid;
    const char *name;
    const char *origin; /* added to the name of the process: " (core file)"; NULL: nothing */
};

/* Rows of zero bytes are left out; unknown values are shown as ?. */
void usage_print_table(const struct usage *usage, FILE *out);
/* Prints version 0.0.4 of Prometheus' text format; unknown values have no line. */
void usage_print_metrics(const struct usage *usage, FILE *out);
/* Adds members to an object that is open; unknown values are null. */
void usage_json(const struct usage *usage, struct json *json);
/* Prints the comments of a metric, "jemalloc_NAME". */
void usage_begin_metric(const char *name, const char *help, FILE *out);
/* Prints its name and the labels that all have, pid and process, but not the closing brace. */
void usage_begin_sample(const char *name, int pid, const char *process, FILE *out);
