/*
 * Finds jemalloc's tables of the names of mallctl (ctl.c, super_root_node), with
 * the function that serves each name. Every build of 4.0 to 5.3.1 has them,
 * stripped or not, because malloc_stats_print needs them.
 *
 * A named node has the same layout in all versions, 40 bytes on a 64-bit machine:
 *
 *    0  bool named            1
 *    8  const char *name
 *   16  number of children    unsigned up to 4.5, size_t since 5.0
 *   24  children              another table; NULL if there is a function
 *   32  function              NULL if there are children
 */
#pragma once

#include "elf/view.h"

enum { CTL_NODE_SIZE = 40, CTL_NODES_MAX = 2048, CTL_TABLES_MAX = 256, CTL_NODE_NAME_MAX = 96 };

struct ctl_node {
    char name[CTL_NODE_NAME_MAX];
    remote_addr children, function;
    uint32_t child_count;
    size_t parent; /* index of the table that contains it */
};

struct ctl_table {
    remote_addr start, end;
    size_t owner; /* index of the parent node; SIZE_MAX: the root */
};

struct ctl_tables {
    remote_addr super_root; /* the one node above the root */
    struct ctl_table tables[CTL_TABLES_MAX];
    size_t table_count;
    struct ctl_node nodes[CTL_NODES_MAX];
    size_t node_count;
};

/*
 * Returns the tables around a node with the name "thread_active_init", a text which only
 * jemalloc uses. nth: which of several jemallocs in the module, counted from 0. NULL: there is
 * none. The caller frees the result.
 */
struct ctl_tables *ctl_find_tables(const struct view *view, size_t nth);

/* Returns the function that serves a name ("prof.active"); 0: this version has no such name. */
remote_addr ctl_function(const struct ctl_tables *tables, const char *path);
