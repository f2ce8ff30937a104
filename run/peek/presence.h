/*
 * Which bytes of a process are read: only those in pages that are present, because a read by
 * another process brings a page back from swap, or makes one that was never written
 * (host/pagemap.h). Of a core file each read is harmless.
 */
#pragma once

#include "attach/target.h"
#include "host/pagemap.h"

enum { PRESENCE_WINDOW = 16 }; /* pages: one takes the kernel as long as all of them */

struct presence_map {
    struct pagemap pages; /* unused of a core file */
    bool is_file;
    uint64_t first; /* number of the first page that was looked up last, with those after it */
    enum page_state states[PRESENCE_WINDOW];
};

/* Returns 0 or -errno. presence_close in either case. */
int presence_open(struct presence_map *map, const struct target *target);
void presence_close(struct presence_map *map);
/* What cannot be looked up counts as empty: then it is not read. */
enum page_state presence_at(struct presence_map *map, remote_addr addr);
/* Returns how many of the len bytes from addr on are in pages that are present, one after the
 * other. */
size_t presence_len(struct presence_map *map, remote_addr addr, size_t len);
