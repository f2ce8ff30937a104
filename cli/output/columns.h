/* Text measured in terminal columns. It may come from a target and contain any bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct line {
    char *text; /* owned by the caller */
    size_t size, len;
    size_t columns, limit; /* used, and available; limit SIZE_MAX: unlimited */
};

void line_init(struct line *line, char *text, size_t size, size_t limit);
/*
 * Appends as much UTF-8 text as fits; truncated text ends in "..". Control
 * characters and bytes that are not valid UTF-8 become '?'; characters without
 * a width are omitted. Returns false if the text was truncated.
 */
bool line_add(struct line *line, const char *text);
/* Like line_add, but truncated text loses its start: "..::last_part". */
void line_add_end(struct line *line, const char *text);
__attribute__((format(printf, 2, 3))) void line_printf(struct line *line, const char *fmt, ...);
/* Appends spaces up to a column, counted from 0. */
void line_fill(struct line *line, size_t column);
/* Returns the number of free columns. */
size_t line_space(const struct line *line);

/* Returns the width of a text in columns. */
size_t columns_of(const char *text);
