/* The lines of /proc/meminfo. */
#pragma once

#include "base/cursor.h"
#include "host/procfs.h"

/*
 * Parses one line of the text, "MemTotal:       24682540 kB" (fs/proc/meminfo.c),
 * into bytes; key is "MemTotal:". False if there is no such line, or the number
 * exceeds 64 bits.
 */
bool meminfo_parse(struct cursor text, const char *key, uint64_t *bytes);

/* Does the same for the file. */
bool meminfo_read(const struct procfs *proc, const char *key, uint64_t *bytes);
