/*
 * jemalloc's own tables of its names (ctl.c, super_root_node): where each lies
 * and which function serves it. They are in every build of 4.0 to 5.3.1, used
 * or not, stripped or not, for malloc_stats_print needs them.
 *
 * A named node is the same in all of them, 40 bytes on a 64-bit machine:
 *
 *    0  bool named            1
 *    8  const char *name
 *   16  children's number     unsigned up to 4.5, size_t since 5.0
 *   24  children              another table; NULL if there is a function
 *   32  function              NULL if there are children
 */
#pragma once

#include "elf/view.h"

enum { CTL_NODES_MAX = 2048, CTL_TABLES_MAX = 256, CTL_NAME_MAX = 96, CTL_ANCHORS_MAX = 64 };

struct ctl_node {
    char name[CTL_NAME_MAX];
    remote_addr children, function;
    uint32_t child_count;
    size_t parent; /* index of the table that it is in */
};

struct ctl_table {
    remote_addr start, end;
    size_t owner; /* index of the node whose children these are; SIZE_MAX: the root */
};

struct ctl_tables {
    remote_addr super_root; /* the one node above the root */
    struct ctl_table tables[CTL_TABLES_MAX];
    size_t table_count;
    struct ctl_node nodes[CTL_NODES_MAX];
    size_t node_count;
};

/*
 * The addresses of the text "thread_active_init", which no other program has a
 * use for: nothing found means no jemalloc, after one look at the constants.
 */
size_t ctl_find_anchors(const struct view *view, remote_addr anchors[CTL_ANCHORS_MAX]);

/*
 * The tables around a node with one of these names. nth: which of several
 * jemallocs in one module, from 0. NULL: there is none; else to be freed.
 */
struct ctl_tables *ctl_find_tables(const struct view *view, const remote_addr *anchors,
                                   size_t anchor_count, size_t nth);

/* The function that serves a name, "prof.active"; 0: this version has no such name. */
remote_addr ctl_function(const struct ctl_tables *tables, const char *path);
