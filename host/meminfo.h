/* The lines of /proc/meminfo. */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

/*
 * The number in the line "MemTotal:       24682540 kB" of that text (fs/proc/meminfo.c), in
 * bytes; key is "MemTotal:". False if there is no such line, or more than 64 bits.
 */
bool meminfo_parse(struct cursor text, const char *key, uint64_t *bytes);

/* The same of the file. */
bool meminfo_read(const struct procfs *proc, const char *key, uint64_t *bytes);
