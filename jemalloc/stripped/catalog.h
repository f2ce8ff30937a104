/*
 * All names that a build of jemalloc has, from its own tables: with them a name
 * that is newer than this program can be told from a mistyped one, without a
 * call.
 *
 * The table behind an index (stats.arenas.<i>) is returned by a function. It is
 * taken from the code of that function, which refers to it and to no other table
 * (ctl.c, stats_arenas_i_index).
 */
#pragma once

#include "elf/eh_frames.h"
#include "jemalloc/stripped/tables.h"

enum { CATALOG_NAME_MAX = 128 };

struct catalog {
    char (*list)[CATALOG_NAME_MAX]; /* "arenas.bin.<i>.size"; in the order of the tables */
    size_t count, capacity;
    bool whole; /* no table is missing */
};

/*
 * Adds the names below the node above the root. Tables that cannot be read are
 * left out, and whole is then false. catalog_free frees the names.
 */
void catalog_fill(struct catalog *catalog, const struct view *view, const struct eh_frames *frames,
                  remote_addr super_root);
void catalog_free(struct catalog *catalog);
