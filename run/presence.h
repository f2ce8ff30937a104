/*
 * Which pages of a process are in memory. A read by another process brings a page back from
 * swap, or makes one that was never written, so only pages that are present are read.
 */
#pragma once

#include "attach/target.h"

enum presence {
    PAGE_PRESENT,
    PAGE_SWAPPED,
    PAGE_EMPTY, /* never written, or given back */
};

struct presence_map {
    int fd;       /* /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst) */
    bool is_file; /* a core file, of which each read is harmless */
    uint64_t page;
    remote_addr last; /* the page that was looked up last, and what was found */
    enum presence last_found;
};

/* Returns 0 or -errno. presence_close in either case. */
int presence_open(struct presence_map *map, const struct target *target);
void presence_close(struct presence_map *map);
/* What cannot be looked up counts as empty: then it is not read. */
enum presence presence_at(struct presence_map *map, remote_addr addr);
/* Returns how many of the len bytes from addr on are in pages that are present, one after the
 * other. */
size_t presence_len(struct presence_map *map, remote_addr addr, size_t len);
