/*
 * The names of mallctl: their types, the versions that have them, and which of
 * them must not be used from outside, and why. Reads them, writes values and reads them
 * back, performs actions.
 *
 * A pattern has <i> for each index: "stats.arenas.<i>.bins.<i>.nmalloc".
 */
#pragma once

#include "jemalloc/build.h"

enum { CTL_NAME_MAX = 128 }; /* bytes of a name with its NUL; the longest known has 73 */

/* How a name can be used. */
enum { NAME_READ = 1, NAME_WRITE = 2, NAME_ACT = 4 };

enum name_trait {
    NAME_LISTED = 1,    /* reading it takes no arena lock and not ctl_mtx, and changes nothing */
    NAME_OF_EPOCH = 2,  /* its value is from the last write of epoch */
    NAME_OF_THREAD = 4, /* its value is that of the calling thread */
    NAME_OF_PROF = 8,   /* using it needs opt.prof */
    NAME_OF_PROF_THREAD = 16,
    NAME_ALL_ARENAS = 32,  /* its index may be ARENAS_ALL */
    NAME_INTO_BUFFER = 64, /* reading it copies the text to where the old value points */
    NAME_ADJUSTS = 128,    /* jemalloc may store another value than the one written */
    NAME_LG = 256,         /* its value is the logarithm of a size: at most 63 */
    NAME_OF_STATS = 512,   /* reading it needs config.stats */
    NAME_HOOKS = 1024,     /* extent hooks may run: in a write, an action, a read that allocates */
    NAME_ONLY_OFF = 4096,  /* it must not be switched on: NAME_REFUSE_FILES */
    NAME_NOT_MAX = 2048,   /* jemalloc adds 1 to the value written, without a check */
};

enum name_refusal {
    NAME_ALLOWED,
    NAME_READ_ONLY,
    NAME_WRITE_ONLY,
    NAME_TAKES_NO_VALUE,
    NAME_OTHER_VERSION,       /* this version does not have it */
    NAME_NEEDS_PROF_COMPILED, /* config.prof is false */
    NAME_NEEDS_PROF,          /* opt.prof is false */
    NAME_REFUSE_INDEX, /* past the end of the array of arenas: read without a check (arena_get) */
    NAME_REFUSE_CLASS, /* one past the end of an array of size classes: unchecked up to 5.3.0 */
    NAME_REFUSE_PROF_THREAD,  /* up to 5.2.1 without opt.prof: creates a tdata whose lock is missing
                               */
    NAME_REFUSE_STATS,        /* without config.stats: follows a null pointer */
    NAME_REFUSE_NO_TCACHE,    /* follows a null pointer in a thread without a thread cache */
    NAME_REFUSE_ANY_THREAD,   /* acts on the thread that happens to be stopped */
    NAME_REFUSE_FREES,        /* frees memory that is in use */
    NAME_REFUSE_THREADS,      /* creates and joins threads in the call */
    NAME_REFUSE_HOOK,         /* installs code */
    NAME_REFUSE_STRUCT,       /* its value is a structure */
    NAME_REFUSE_CREATES,      /* creates an object that nobody would use or free */
    NAME_REFUSE_TCACHE,       /* a cache that a thread may be using */
    NAME_REFUSE_DUMP,         /* jeattach dump makes it safe */
    NAME_REFUSE_FILES,        /* the process writes files by itself from then on */
    NAME_REFUSE_LOG,          /* records every sample in memory, writes a file at exit */
    NAME_REFUSE_EXPERIMENTAL, /* meaning and type differ from build to build */
};

struct ctl_name {
    const char *pattern;
    enum ctl_type type;
    unsigned char access; /* NAME_READ ... */
    unsigned first, last; /* VERSION_NUMBER of the first and last release with it; last 0: no end */
    unsigned short traits;         /* enum name_trait */
    enum name_refusal read, write; /* in any version and state */
};

extern const struct ctl_name ctl_names[];
extern const size_t ctl_names_count;

/* True if this version has it. A build between two releases may have the names of the next one;
 * an unknown version has all. */
bool name_in_version(const struct ctl_name *name, struct version version);

/*
 * Returns the entry of a name as the operator wrote it ("arena.0.purge"): the one
 * of this version, else of any other version (see name_in_version), else NULL.
 */
const struct ctl_name *names_find(const char *text, struct version version);

/*
 * Finds the name that was probably meant among those of this version (number 0:
 * of any), with the indices of text. False if none is similar.
 */
bool names_suggest(const char *text, struct version version, char out[CTL_NAME_MAX]);

/* True for "stats.arenas": it is not a name, but names begin with it. */
bool names_begin(const char *text);

/*
 * True if a pattern of shell wildcards matches this entry. A part <i> is only
 * matched by digits in the same part of the wildcard. Fills out with the name.
 */
bool name_covered(const struct ctl_name *name, const char *wildcard, char out[CTL_NAME_MAX]);

/* Returns how `NAME` or `NAME=VALUE` would use it: NAME_READ, NAME_WRITE or NAME_ACT. */
unsigned name_use(const struct ctl_name *name, bool has_value);

/*
 * Finds the arenas whose extent hooks such a use may run, as a scope for
 * hooks_check; false if it runs none.
 */
bool name_hooks(const struct ctl_name *name, const char *text, unsigned use, int *scope);

/* Returns why a name must not be used in this way (name_use) with this build. */
enum name_refusal name_judge(const struct ctl_name *name, const char *text, unsigned use,
                             const struct build *build);

/* ---- use: several names in one stop ---- */

enum { ACCESS_TEXT_MAX = 1024 }; /* bytes of a text to write, with its NUL */

struct access {
    char name[CTL_NAME_MAX];
    const struct ctl_name *entry;
    enum ctl_type type;
    unsigned use;     /* NAME_READ, NAME_WRITE or NAME_ACT */
    uint64_t value;   /* to write, as ctl_op.new_value */
    const char *text; /* to write, CTL_STRING */
    /* out; access_free frees the texts */
    int rc;       /* returned by mallctl */
    bool has_old; /* a write: the value that it replaced */
    uint64_t old_value;
    char *old_text;
    bool has_now; /* the value read; after a write, the value read back */
    uint64_t now_value;
    char *now_text;
};

/*
 * Makes the stopped thread use all names, in order. The caller has judged each
 * of them (name_judge). If a name needs a new epoch, epoch is written first,
 * unless it is in the list itself. A refusal by mallctl is no fault: access.rc
 * has it.
 */
fault_code access_run(struct injection *injection, const struct instance *instance,
                      struct access *list, size_t count, struct fault *fault);

/* False if the value read back is not the value written. */
bool access_kept(const struct access *access);

void access_free(struct access *list, size_t count);
