/*
 * Where an output path leads, as a directory that is open and a name in it.
 *
 * The rules are those of fs/namei.c for O_CREAT with fs.protected_symlinks 1,
 * fs.protected_fifos 2 and fs.protected_regular 2, whatever the machine's
 * settings are: in a sticky directory where others may write, a link is
 * followed and a file is replaced or written only if it belongs to the tool's
 * user or to the owner of the directory (may_follow_link,
 * may_create_in_sticky). Since nobody else may rename or remove those there,
 * what was looked at stays.
 *
 * Behind /proc/PID/root the process decides what a name leads to: from there
 * on links stay inside that root, the last part is no link, and nothing but a
 * regular file is written.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct outfile {
    bool begun;   /* false, as of zeroes: there is nothing to close */
    int dir;      /* the directory, O_PATH; -1: special is set */
    char *name;   /* in it */
    int special;  /* an O_PATH descriptor of a FIFO, a device or a socket; -1: none */
    bool exists;  /* a regular file has the name, or with OUTFILE_LAST_LINK anything */
    bool guarded; /* the directory is a sticky one where others may write */
    bool link;    /* -EACCES: the thing is a link, not a file */
    uid_t owner;  /* -EACCES: whose it is */
    char at[256]; /* -EACCES: its name in its directory */
};

enum outfile_links {
    OUTFILE_FOLLOW,    /* links are followed, the last part too */
    OUTFILE_LAST_LINK, /* but the last part; nothing is written to or replaced that has its name */
};

/*
 * Finds where path leads; a link whose file is not there yet leads to the name
 * of that. 0 or -errno; -EACCES with link, owner and at where the rules forbid
 * it, and with at empty where the kernel does. *out is to be closed in both
 * cases.
 */
int outfile_find(struct outfile *out, const char *path, enum outfile_links links);
/* Idempotent. */
void outfile_close(struct outfile *out);

/* May what has a name in a directory be replaced? 0 or -errno as outfile_find; out is filled. */
int outfile_replaceable(struct outfile *out, const char *name);

/* Opens the directory that path leads to by the same rules, for readdir(3). Or -errno. */
int outfile_directory(const char *path);

/* Device and inode of the file that has that very name; false: none, or no regular file. */
bool outfile_identify(const char *path, dev_t *dev, ino_t *ino);
/* Removes it if it is still that one. */
bool outfile_remove(const char *path, dev_t dev, ino_t ino);
