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
    DEBUGFILE_CHECKSUM_MAX = 1 << 30, /* bytes of a file whose checksum is computed: about 1 s */
    DEBUGFILE_SMALL = 8 << 20,        /* a file that large files leave something to */
    DEBUGFILE_PER_SECOND = 16 << 20,  /* by which the bytes of a run are renewed */
};

#define DEBUGFILE_RUN_MAX (2ull << 30) /* bytes of all the files of a run of the tool */

enum debugfile_way { DEBUGFILE_BUILD_ID, DEBUGFILE_LINK };

struct debugfile {
    int fd; /* owned by the caller */
    enum debugfile_way way;
    bool host;           /* below the tool's own root, not the target's */
    char path[PATH_MAX]; /* in that root */
};

struct debugfile_query {
    const struct target *target; /* whose root is searched first; NULL: only the tool's own root */
    const char *path;            /* of the module, absolute, as the target sees it */
    int fd;                      /* the module's file, borrowed; -1: cannot be opened */
    const struct build_id *id;   /* of the module as it is mapped; NULL: that of fd */
};

/*
 * Looks in the target's root for /usr/lib/debug/.build-id/xx/rest.debug, then
 * for the file named by .gnu_debuglink beside the module, in its .debug/ and
 * below /usr/lib/debug; then in /usr/lib/debug of the tool's own root. The file
 * found has the module's build-id or, if one of the two has none, the checksum
 * in .gnu_debuglink, which is computed once for a file. Opens only regular files, and never the
 * module itself. Returns 0 or -errno; -ENOENT: there is none; -EDQUOT: the checksum of a file with
 * its name was not computed, as it would be too much for one run (base/allowance.h) or too late.
 */
int debugfile_open(const struct debugfile_query *query, struct debugfile *out);

/*
 * Reads the name in .gnu_debuglink, which is a single path component, and the
 * CRC-32. False: none.
 */
bool debugfile_link(int fd, char name[NAME_MAX + 1], uint32_t *checksum);

/* Finds the build-id of a debug file, which may have no segments. */
bool debugfile_build_id(int fd, struct build_id *out);
