/* Text in the columns of a terminal: it may come from a target and hold anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct line {
    char *text; /* the caller's */
    size_t size, len;
    size_t columns, limit; /* used, and there are; limit SIZE_MAX: as many as it takes */
};

void line_init(struct line *line, char *text, size_t size, size_t limit);
/*
 * Appends UTF-8 as far as it fits; a text that is cut ends in "..". What a
 * terminal might act on, and bytes that are no UTF-8, become '?'; characters
 * without a width are left out. False: it was cut.
 */
bool line_add(struct line *line, const char *text);
/* The same, of at most `columns` columns. */
bool line_add_within(struct line *line, const char *text, size_t columns);
__attribute__((format(printf, 2, 3))) void line_printf(struct line *line, const char *fmt, ...);
/* Spaces up to a column, counted from 0. */
void line_fill(struct line *line, size_t column);
/* Columns that are left. */
size_t line_room(const struct line *line);

/* Columns that a text takes. */
size_t columns_of(const char *text);
