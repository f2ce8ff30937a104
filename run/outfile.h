/*
 * Resolves an output path to an open directory and a name in it.
 *
 * In each directory on the way, a link is followed, and a FIFO or a device is
 * written, only if it belongs to root or to the tool's user: whoever else made it
 * would choose where a write of the tool goes. The owner of the root directory
 * counts as root, who has no other uid in some user namespaces. A regular file is
 * replaced, not written, so any may be; in a sticky directory where others may
 * write, only one of these users or of the directory's owner.
 *
 * Below /proc/PID/root the process controls where a name leads: there links
 * stay inside that root, the last component must not be a link, and only
 * regular files are written.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct outfile {
    bool begun;   /* false, as in a zeroed struct: nothing to close */
    int dir;      /* the directory, O_PATH; -1: special is set */
    char *name;   /* in the directory */
    int special;  /* O_PATH file descriptor of a FIFO, a device or a socket; -1: none */
    bool exists;  /* the name is a regular file, or with OUTFILE_LAST_LINK anything */
    bool guarded; /* the directory is sticky and others may write to it */
    uid_t root;   /* the owner of the root directory in which the path lies */
    bool link;    /* -EACCES: the entry is a link, not a file */
    uid_t owner;  /* -EACCES: its owner */
    char at[256]; /* -EACCES: its name in its directory */
};

enum outfile_links {
    OUTFILE_FOLLOW,    /* all links are followed */
    OUTFILE_LAST_LINK, /* all but the last: an existing entry is neither written nor replaced */
};

/*
 * Resolves path; a dangling link resolves to the name that it points to.
 * Returns 0 or -errno: -EACCES with link, owner and at if the rules above forbid
 * it, with at empty if the kernel does. outfile_close in each case.
 */
int outfile_find(struct outfile *out, const char *path, enum outfile_links links);
/* Idempotent. */
void outfile_close(struct outfile *out);

/* 0 if the entry `name` of the directory may be replaced, else -errno as outfile_find. */
int outfile_replaceable(struct outfile *out, const char *name);

/* Opens the directory at path by the same rules, for readdir(3). Or -errno. */
int outfile_directory(const char *path);

/* Makes the directory at path, by the same rules, if nothing is there and its parent exists. */
void outfile_make_directory(const char *path);

/* True if path leads to something that exists and is no regular file. */
bool outfile_is_irregular(const char *path);

/* Device and inode of the regular file at path, which is not followed. False: no such file. */
bool outfile_identify(const char *path, dev_t *dev, ino_t *ino);
/* Removes the file at path if it is still that one. */
bool outfile_remove(const char *path, dev_t dev, ino_t ino);
