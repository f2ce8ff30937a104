/* Processes with jemalloc as rows of a table. */
#pragma once

#include "host/container.h"
#include "jemalloc/census.h"

#include <stdio.h>

enum { TABLE_COLUMNS = 8, CELL_MAX = 128 };

struct table_row {
    char cells[TABLE_COLUMNS][CELL_MAX];
};

struct process_table {
    struct table_row *rows;
    size_t count, room;
};

/* A row of what a look told; unreadable: nothing about jemalloc. False: out of memory. */
bool process_table_add(struct process_table *table, const struct census_entry *entry,
                       const struct container *container, bool unreadable);
void process_table_print(const struct process_table *table, FILE *out);
void process_table_free(struct process_table *table);

/* The words that stand in it, and in JSON. prof_text: NULL if not to be told from outside. */
const char *linkage_text(enum linkage linkage);
const char *prof_text(const struct prof_state *state);
