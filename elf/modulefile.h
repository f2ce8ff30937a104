/*
 * Opens files of a target: those behind its modules (module_open of elf/modules.h), those that
 * stay open after its end, and others by their paths in its root. The target controls these
 * paths, so no link can lead outside its root, and only regular files are opened (a FIFO would
 * block; opening a device may have effects).
 */
#pragma once

#include "attach/target.h"
#include "elf/modules.h"
#include "host/inroot.h"

/*
 * Opens the root of the target (target->kept_root, if there is one), or the tool's own (target
 * NULL, or one of a core file without a root). Returns an O_PATH descriptor or -errno.
 */
int root_open(const struct target *target);

/*
 * Opens a regular file for reading. path is relative to root, with or without a
 * leading slash; links in it are resolved inside root (inroot_name). Returns
 * the same as regular_open.
 */
int root_open_file(int root, const char *path, enum inroot_links links);

/*
 * The files of a process that stay open so that its addresses have names after its end, when
 * /proc/PID shows neither its mappings nor its root: the modules that contain code, and the
 * directory that was its root, below which debug files are looked up.
 */
enum { KEPT_FILES_MAX = 256 }; /* of the 1024 file descriptors that a process usually may have */

struct kept_file {
    remote_addr start, end; /* of the module */
    uint64_t inode;
    int fd; /* -1: it could not be opened */
};

struct kept_files {
    struct kept_file *list; /* in order of addresses */
    size_t count;
    int root; /* O_PATH; set while `renewed` */
    bool renewed;
};

/*
 * Opens the files of the modules as module_open does, unless they are open already, and the root,
 * which the target then has as kept_root: the target must not outlive the kept files. Modules
 * beyond KEPT_FILES_MAX are left out. Out of memory: the files stay as they were.
 */
void kept_files_renew(struct kept_files *kept, const struct modules *modules, struct target *target,
                      struct memory *memory);
/*
 * Returns another file descriptor of the module that contains addr, which the caller closes, or
 * -errno; -ENOENT: none is kept.
 */
int kept_files_open(const struct kept_files *kept, remote_addr addr);
/* Idempotent, also for a zeroed struct. */
void kept_files_close(struct kept_files *kept);
