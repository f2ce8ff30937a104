/*
 * Where the memory of a process is (run/account.h), as a table, as JSON and as metrics: one
 * list of fields for the three.
 */
#pragma once

#include "base/json.h"
#include "run/account.h"

#include <stdio.h>

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
/* Prints the labels of a metric that all have, pid and process, but not the closing brace. */
void usage_begin_labels(int pid, const char *name, FILE *out);
