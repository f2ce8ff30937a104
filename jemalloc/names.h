/*
 * The names that mallctl knows: their types, since when and until when, and
 * which of them must not be used from outside, and why.
 *
 * A pattern has <i> for each index: "stats.arenas.<i>.bins.<i>.nmalloc".
 */
#pragma once

#include "jemalloc/build.h"

enum { CTL_NAME_MAX = 128 }; /* bytes of a name with its NUL; the longest known has 73 */

/* What can be done with a name. */
enum { NAME_READ = 1, NAME_WRITE = 2, NAME_ACT = 4 };

enum name_trait {
    NAME_LISTED = 1,    /* its read takes no lock of an arena nor ctl_mtx and changes nothing */
    NAME_OF_EPOCH = 2,  /* as of the last write of epoch */
    NAME_OF_THREAD = 4, /* of the thread that asks */
    NAME_OF_PROF = 8,   /* its use needs opt.prof */
    NAME_OF_PROF_THREAD = 16,
    NAME_ALL_ARENAS = 32,  /* takes ARENAS_ALL for its index */
    NAME_INTO_BUFFER = 64, /* a read is copied to where the old value points */
    NAME_ADJUSTS = 128,    /* jemalloc may store another value than the one written */
    NAME_LG = 256,         /* the logarithm of a size: at most 63 */
    NAME_OF_STATS = 512,   /* its read needs config.stats */
    NAME_HOOKS = 1024,     /* a write, an action, a read that allocates: extent hooks may run */
};

enum name_refusal {
    NAME_ALLOWED,
    NAME_READ_ONLY,
    NAME_WRITE_ONLY,
    NAME_TAKES_NO_VALUE,
    NAME_OTHER_VERSION,       /* this version does not have it */
    NAME_NEEDS_PROF_COMPILED, /* config.prof is false */
    NAME_NEEDS_PROF,          /* opt.prof is false */
    NAME_REFUSE_INDEX,        /* beyond the array of arenas: read without a check (arena_get) */
    NAME_REFUSE_CLASS,        /* beyond an array of size classes: likewise, by one, up to 5.3.0 */
    NAME_REFUSE_PROF_THREAD,  /* up to 5.2.1 without opt.prof: makes a tdata without its locks */
    NAME_REFUSE_STATS,        /* without config.stats: follows a null pointer */
    NAME_REFUSE_NO_TCACHE,    /* follows a null pointer in a thread without a thread cache */
    NAME_REFUSE_HELD,         /* acts on whichever thread is held */
    NAME_REFUSE_FREES,        /* frees what is in use */
    NAME_REFUSE_THREADS,      /* creates and joins threads in the call */
    NAME_REFUSE_HOOK,         /* installs code */
    NAME_REFUSE_STRUCT,       /* its value is a structure */
    NAME_REFUSE_CREATES,      /* creates what nobody would use or free */
    NAME_REFUSE_TCACHE,       /* a cache that a thread may be using */
    NAME_REFUSE_DUMP,         /* jeattach dump watches it */
    NAME_REFUSE_LOG,          /* records every sample in memory, writes a file at exit */
    NAME_REFUSE_EXPERIMENTAL, /* meaning and type differ from build to build */
};

struct ctl_name {
    const char *pattern;
    enum ctl_type type;
    unsigned char access;          /* NAME_READ ... */
    unsigned first, last;          /* VERSION_NUMBER of the releases that have it; last 0: no end */
    unsigned short traits;         /* enum name_trait */
    enum name_refusal read, write; /* whatever the version and the state */
};

extern const struct ctl_name ctl_names[];
extern const size_t ctl_names_count;

/* Does this version have it? A tree between releases may have what came next; unknown: yes. */
bool name_in_version(const struct ctl_name *name, struct version version);

/*
 * The entry for a name as the operator wrote it ("arena.0.purge"): of this
 * version, else of any other one (name_in_version tells), else NULL.
 */
const struct ctl_name *names_find(const char *text, struct version version);

/*
 * The name that was probably meant, with the indices of text; of names of this
 * version (number 0: of any). False if none is near.
 */
bool names_suggest(const char *text, struct version version, char out[CTL_NAME_MAX]);

/* True of "stats.arenas": not a name, but names begin with it. */
bool names_begin(const char *text);

/*
 * Does a pattern of shell wildcards cover this entry? A part <i> is covered by
 * the digits in the same place of the wildcard only. Fills out with the name.
 */
bool name_covered(const struct ctl_name *name, const char *wildcard, char out[CTL_NAME_MAX]);

/* How `NAME` or `NAME=VALUE` would use it: NAME_READ, NAME_WRITE or NAME_ACT. */
unsigned name_use(const struct ctl_name *name, bool has_value);

/*
 * The arenas whose extent hooks such a use may run, as hooks_check takes them;
 * false: it runs none.
 */
bool name_hooks(const struct ctl_name *name, const char *text, unsigned use, int *scope);

/* Why a name must not be used in this way (name_use) with this build. */
enum name_refusal name_judge(const struct ctl_name *name, const char *text, unsigned use,
                             const struct build *build);
