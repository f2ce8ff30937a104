/* The formats that a heap profile is written in. */
#pragma once

#include <stdbool.h>

enum format {
    FORMAT_RAW,        /* as jemalloc wrote it */
    FORMAT_SYMBOLIZED, /* the same, with names for jeprof */
    FORMAT_TEXT,
    FORMAT_TREE, /* the stacks as text, from the root */
    FORMAT_FOLDED,
    FORMAT_PPROF,
    FORMAT_FLAME,
    FORMAT_DOT,
    FORMAT_SVG,  /* the graph of FORMAT_DOT, drawn by Graphviz */
    FORMAT_JSON, /* the functions and the largest stacks */
    FORMAT_COUNT,
};

/* Of its files: ".pb.gz" */
const char *format_extension(enum format format);
/* True if it is not for a terminal. */
bool format_is_binary(enum format format);
/* True if it holds the whole profile unchanged: it takes no filter and no base. */
bool format_is_unchanged(enum format format);

const char *format_name(enum format format);

/*
 * Sets *format; false if no format has that name. A format is also found by its extension, without
 * the dot, and by other usual words: "html", "flamegraph".
 */
bool format_find(const char *name, enum format *format);
/* Sets *format; false if no format has an extension that ends the path. */
bool format_of_path(const char *path, enum format *format);
/*
 * Returns the extension of the path, ".prof", if it is of no format; NULL: it has one of a format,
 * or none. A number is no extension (core.4242), nor is a text with a directive (x.%p), and the
 * name of a directory, a FIFO or a device has none.
 */
const char *format_foreign_extension(const char *path);
