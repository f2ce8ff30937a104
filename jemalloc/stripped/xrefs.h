/*
 * Finds functions of jemalloc by the texts that code refers to: mallctl is the
 * function that is called with the texts "opt.abort", "opt.narenas", ... as its
 * argument, as stats.c does a dozen times in every version.
 */
#pragma once

#include "elf/eh_frames.h"
#include "inject/refs.h"
#include "jemalloc/stripped/tables.h"

enum { TEXTS_MAX = 512, CONFIG_PREFIX_MAX = 64 };

/* Constants that identify jemalloc. */
struct texts {
    remote_addr options[TEXTS_MAX]; /* "opt.NAME", ascending */
    size_t option_count;
    remote_addr headline;                  /* "___ Begin jemalloc statistics ___"; 0: none */
    char config_prefix[CONFIG_PREFIX_MAX]; /* X of "/etc/Xmalloc.conf" */
};

void texts_find(struct texts *texts, const struct view *view);

struct xrefs {
    remote_addr mallctl;
    unsigned votes;          /* calls of it that were found */
    remote_addr stats_print; /* malloc_stats_print; 0: not found */
};

/*
 * Returns NULL if mallctl was found, else the reason. It is the start of a
 * function, is called with many of the options, and leads within two calls to
 * code that uses the root of the tables.
 */
const char *xrefs_find(struct xrefs *xrefs, const struct view *view, const struct eh_frames *frames,
                       const struct texts *texts, const struct ctl_tables *tables);

/*
 * True if the function at an address, usually mallctl, uses the root of the
 * tables, directly or within two calls (ctl_byname): they belong together.
 */
bool xrefs_reach_root(const struct view *view, const struct eh_frames *frames,
                      const struct ctl_tables *tables, remote_addr start);

/* Reads the version text that the function of the name "version" returns; false: none. */
bool xrefs_version(const struct view *view, const struct eh_frames *frames,
                   const struct ctl_tables *tables, char *out, size_t size);

/* Reads the text that the function of a name returns, the only constant that it uses; false: none.
 */
bool xrefs_constant(const struct view *view, const struct eh_frames *frames,
                    const struct ctl_tables *tables, const char *path, char *out, size_t size);

/* Reads the version text that the function at [start, end) returns; false: none. */
bool xrefs_version_in(const struct view *view, remote_addr start, remote_addr end, char *out,
                      size_t size);

/* Visits the references in one function, given by its index; false if it cannot be read. */
bool xrefs_visit_function(const struct view *view, const struct eh_frames *frames, size_t function,
                          const struct ref_query *query);
/* Visits the references in all code of the module; false if it cannot be read. */
bool xrefs_visit_code(const struct view *view, const struct ref_query *query);
/* True if the function contains a system call instruction. */
bool xrefs_makes_syscall(const struct view *view, const struct eh_frames *frames, size_t function);
/* True if addr is in a segment that stays writable after the program has been loaded. */
bool xrefs_is_variable(const struct view *view, remote_addr addr);
