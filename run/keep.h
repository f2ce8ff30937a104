/* The profiles that `watch` has made in a directory: their names, and how many stay. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define KEEP_EXTENSION ".watch.heap"

/* Bytes of the process's name in "NAME-PID-TIME-RSS.watch.heap"; 0: no such name. */
size_t keep_name(const char *file);

/*
 * Removes the oldest profiles of the same process name as the newest, which is
 * a file of the directory, until `keep` are left. Files with other names are
 * not touched. Returns how many were removed.
 */
unsigned keep_newest(const char *directory, const char *newest, unsigned keep);
