/*
 * The table of processes that use jemalloc, or of those that an operator may choose from; and those
 * that a search or a list has left out.
 */
#pragma once

#include "base/json.h"
#include "host/container.h"
#include "jemalloc/selection.h"

#include <stdio.h>

enum { TABLE_COLUMNS = 11, LIST_COLUMNS = 8, CELL_MAX = 128 };

struct table_row {
    char cells[TABLE_COLUMNS][CELL_MAX];
};

struct process_table {
    struct table_row *rows;
    size_t count, capacity;
    bool choice; /* with the columns that tell processes of one name apart */
};

/* Adds a row; unreadable: its facts about jemalloc are unknown. False: out of memory. */
bool process_table_add(struct process_table *table, const struct census_entry *entry,
                       const struct container *container, bool unreadable);
/* Adds a row of a choice; command: what its arguments are, untrusted. False: out of memory. */
bool process_table_add_choice(struct process_table *table, const struct selected *selected,
                              const char *command);
void process_table_print(const struct process_table *table, FILE *out);
void process_table_free(struct process_table *table);

/* The words of the table and of JSON. prof_text: NULL if it cannot be read from outside. */
const char *linkage_text(enum linkage linkage);
const char *prof_text(const struct prof_state *state);

/* Prints a message about each that was left out, and why; the first ones if there are many. */
void left_out_print(const struct left_out *left, size_t count);
/* Writes the member left_out_processes. */
void left_out_json(struct json *json, const struct left_out *left, size_t count);
