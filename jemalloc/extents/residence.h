/*
 * Which pages of a process have contents, in memory or in swap (host/pagemap.h). A read of an
 * anonymous page that has none maps the zero page in the process
 * (mm/memory.c, do_anonymous_page), for which its page tables may grow: static data and the
 * tree from page to extent are mostly such pages.
 */
#pragma once

#include "attach/target.h"
#include "host/pagemap.h"

struct residence {
    struct pagemap pages; /* fd below 0: unknown, then every page counts as one with contents */
};

/* Never fails: a core file has no pagemap, and some kernels have none. residence_close it. */
void residence_open(struct residence *residence, const struct target *target);
void residence_close(struct residence *residence);

/*
 * Sets has[i] for each of count pieces of 4096 bytes from start on. Returns how many have
 * contents.
 */
size_t residence_of(const struct residence *residence, remote_addr start, bool *has, size_t count);
