/* Where a heap profile begins in a file, and what a file is that has none. */
#pragma once

#include <stddef.h>

enum {
    HEAP_SEARCH_MAX = 64 << 10
}; /* bytes: a profile begins before, behind messages of jemalloc */

/*
 * Returns where the profile begins: its header, or the line "--- symbol" of names before it; a byte
 * order mark, blanks and other lines may come before. SIZE_MAX: there is none.
 */
size_t heap_start(const char *text, size_t len);

/* Returns the reason of FAULT_PROFILE; *what is then what it is. */
int heap_other_kind(const char *text, size_t len, const char **what);
