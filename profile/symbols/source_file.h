/* Files of source code, named by debug information: by anybody. */
#pragma once

#include "profile/symbols/symbols.h"

#include <stdio.h>

/* Larger files are not read: source code that people write is smaller. */
enum { SOURCE_SIZE_MAX = 16 << 20 };

struct source_file {
    char *text;
    size_t len;
    size_t *lines; /* where each line starts; one more: the end of the text */
    size_t line_count;
};

/*
 * Reads a file by its path: below the root of the options, if they have one, or of their
 * target; only without both on this host. Only regular files are opened, and links do not lead
 * out of the root. Returns 0 or errno: EPERM if not everybody may read it, unless it belongs to
 * the tool's user, who is not root; EFBIG if it is too large, ENOENT also for a path that is
 * relative. Call source_file_free in every case.
 */
int source_file_read(struct source_file *source, const struct symbols_options *options,
                     const char *path);
void source_file_free(struct source_file *source);

/* Divides a text, which becomes the file's, into lines. Returns 0 or ENOMEM. */
int source_file_split(struct source_file *source, char *text, size_t len);

/* Writes a line, numbered from 1, without its end; characters that must not be printed as '?'. */
void source_file_write_line(const struct source_file *source, size_t number, FILE *out);
