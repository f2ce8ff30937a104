/*
 * The separate debug file of a module: where strip or a distribution has put
 * the .symtab and the DWARF that the module lacks (GDB's manual, "Separate
 * Debug Files").
 */
#pragma once

#include "elf/image.h"

#include <limits.h>

enum {
    DEBUGFILE_LINK_MAX = 4 << 10,     /* bytes of .gnu_debuglink */
    DEBUGFILE_CHECKSUM_MAX = 1 << 30, /* of a file that is read for its checksum: about 1 s */
};

enum debugfile_way { DEBUGFILE_BUILD_ID, DEBUGFILE_LINK };

struct debugfile {
    int fd; /* the caller's to close */
    enum debugfile_way way;
    bool host;           /* below the tool's own root, not the target's */
    char path[PATH_MAX]; /* in that root */
};

struct debugfile_query {
    const struct target *target; /* whose root is searched first; NULL: the tool's own alone */
    const char *path;            /* of the module, absolute, as the target sees it */
    int fd;                      /* the module's file, borrowed; -1: not to be had */
    const struct build_id *id;   /* of the module as it is mapped; NULL: that in fd */
};

/*
 * Looks in the target's root for /usr/lib/debug/.build-id/xx/rest.debug, then
 * for the file of .gnu_debuglink beside the module, in its .debug/ and below
 * /usr/lib/debug; then in /usr/lib/debug of the tool's own root. What is found
 * has the module's build-id; where one of the two has none, the checksum in
 * .gnu_debuglink. Only regular files are opened, and never the module itself.
 * Returns 0 or -errno; -ENOENT: there is none.
 */
int debugfile_open(const struct debugfile_query *query, struct debugfile *out);

/* The name in .gnu_debuglink, which is one part of a path, and the CRC-32; false: none. */
bool debugfile_link(int fd, char name[NAME_MAX + 1], uint32_t *checksum);
