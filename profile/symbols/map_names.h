/*
 * The names that a perf map has for the addresses of one process, for a sequence of
 * its profiles.
 */
#pragma once

#include "profile/symbols/perf_map.h"
#include "profile/symbols/symbols.h"

struct map_names {
    struct arena arena;
    struct perf_map map;
    uint64_t *wanted; /* in any order */
    size_t count, capacity;
    int fd;       /* from map_names_open to map_names_read */
    bool opened;  /* fd is valid */
    dev_t device; /* of the file that was read */
    ino_t inode;
    uint64_t read_to; /* bytes of it */
    int err;          /* why it is not used; 0: it is, or there is none */
};

/* Opens the map, anew for each profile. False: there is none. */
bool map_names_open(struct map_names *names, const struct symbols_options *options);
/* Adds an address, for map_names_read. False: out of memory. */
bool map_names_want(struct map_names *names, uint64_t address);
/* Reads what is not known yet, and closes the map. */
void map_names_read(struct map_names *names);
/* Returns the name of an address that was wanted, or NULL. It lives until the next read. */
const char *map_names_find(const struct map_names *names, uint64_t address);
void map_names_free(struct map_names *names);
