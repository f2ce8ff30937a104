/*
 * jemalloc's functions by what the code refers to: mallctl is what is called
 * after the texts "opt.abort", "opt.narenas", ... have been made its argument,
 * which stats.c of every version does a dozen times.
 */
#pragma once

#include "elf/eh_frames.h"
#include "inject/refs.h"
#include "jemalloc/stripped/tables.h"

enum { TEXTS_MAX = 512, CONFIG_PREFIX_MAX = 64 };

/* The constants that tell something. */
struct texts {
    remote_addr options[TEXTS_MAX]; /* "opt.NAME", ascending */
    size_t option_count;
    remote_addr headline;                  /* "___ Begin jemalloc statistics ___"; 0: none */
    char config_prefix[CONFIG_PREFIX_MAX]; /* X of "/etc/Xmalloc.conf" */
};

void texts_find(struct texts *texts, const struct view *view);

struct xrefs {
    remote_addr mallctl;
    unsigned votes;          /* calls of it that were seen */
    remote_addr stats_print; /* malloc_stats_print; 0: not found */
};

/*
 * NULL if found, else why not. What is found is the beginning of a function,
 * is called with many of the options, and leads within two calls to code that
 * uses the tables' root.
 */
const char *xrefs_find(struct xrefs *xrefs, const struct view *view, const struct eh_frames *frames,
                       const struct texts *texts, const struct ctl_tables *tables);

/* The version text that the function behind the name "version" returns; false: none. */
bool xrefs_version(const struct view *view, const struct eh_frames *frames,
                   const struct ctl_tables *tables, char *out, size_t size);

/* The same of a function at [start, end). */
bool xrefs_version_in(const struct view *view, remote_addr start, remote_addr end, char *out,
                      size_t size);

/* The variable that the function behind an "opt." name of a bool returns; 0: not found. */
remote_addr xrefs_variable(const struct view *view, const struct eh_frames *frames,
                           const struct ctl_tables *tables, const char *path);

/* Visits what one function, by its index, refers to; false: it cannot be read. */
bool xrefs_visit_function(const struct view *view, const struct eh_frames *frames, size_t function,
                          const struct ref_query *query);
/* Visits all code of the module. */
bool xrefs_visit_code(const struct view *view, const struct ref_query *query);
/* Does one function hold a system call instruction? */
bool xrefs_makes_syscall(const struct view *view, const struct eh_frames *frames, size_t function);
/* Is it in a segment that may be written, not only while the program is loaded? */
bool xrefs_is_variable(const struct view *view, remote_addr addr);
