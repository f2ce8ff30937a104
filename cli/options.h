/* The options and operands of a verb. */
#pragma once

#include "cli/option_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { OPTIONS_PIDS_MAX = 256, OPTIONS_NAMES_MAX = 20, OPTIONS_PARALLEL_MAX = 64 };
enum { OPTIONS_FIX = 4200 };
enum { OPTIONS_RULES_MAX = 8, OPTIONS_BETWEEN_MAX = 64 };

/* Which options and operands a verb takes, besides the options of every verb. */
enum {
    TAKES_OUTPUT = 1 << 0,      /* -o */
    TAKES_PATH = 1 << 1,        /* --path */
    TAKES_ALLOW_RESET = 1 << 3, /* --allow reset */
    TAKES_STATS = 1 << 5,       /* --full, --prometheus, --threads, --allow slow */
    TAKES_FORMAT = 1 << 6,      /* how a profile is shown */
    TAKES_NAMES = 1 << 7,       /* jemalloc names after the process, --list */
    TAKES_FILE = 1 << 8,        /* works on a file, not on a process */
    TAKES_HOST = 1 << 9,        /* no pid: works on the whole host */
    TAKES_ONE = 1 << 10,        /* works on one process at a time */
    TAKES_HOOKS = 1 << 11,      /* --allow hooks */
    TAKES_DURATION = 1 << 12,   /* -d */
    TAKES_SERIES = 1 << 13,     /* --every, --every-bytes, --on-new-peak, --count, --keep */
    TAKES_SETTLE = 1 << 14,     /* --settle */
    TAKES_REFRESH = 1 << 15,    /* -d, --every, --count, --once, --sort, and some of TAKES_FORMAT */
    TAKES_RULES = 1 << 16,      /* --when and its limits; -o is a directory */
    TAKES_WAY = 1 << 17,        /* --no-call */
    TAKES_CALL = 1 << 18,       /* --call */
    TAKES_REPAIR = 1 << 19,     /* --repair */
    TAKES_CORE = 1 << 20,       /* --core, --exe, --root */
    TAKES_GROWTH = 1 << 22,     /* --samples, --faults, --period */
    TAKES_PEEK = 1 << 23,       /* --show-bytes, --count, --rows */
    TAKES_FRAG = 1 << 24,       /* how the table of frag is shown */
    TAKES_ANY = 1 << 25,        /* works on any process, whatever its allocator is */
    TAKES_SAMPLING = 1 << 26,   /* with --all and -s, only on processes whose profiling is on */
};

/* What is refused unless it is allowed. */
enum {
    ALLOW_HOOKS = 1 << 0, /* functions of the application may run in a call */
    ALLOW_RESET = 1 << 1, /* a call of prof.reset, which drops all samples */
    ALLOW_SLOW = 1 << 2,  /* a thread may be stopped for seconds */
};

/* How a profile is shown; NULL or false: not given. */
struct profile_options {
    const char *format, *focus, *ignore, *hide, *show, *unit, *value, *root, *perf_map;
    const char *rows, *sort, *depth;
    bool by_thread, debuginfod, no_inlines, keep_allocator, no_fold, full_names, invert, lines;
};

/* When watch takes a profile, and how many. */
struct watch_options {
    const char *rules[OPTIONS_RULES_MAX]; /* --when, unparsed */
    size_t rule_count;
    uint64_t cooldown_ns;
    bool on;
    const char *command; /* --exec; NULL: none */
};

struct target_pin;

struct options {
    pid_t pids[OPTIONS_PIDS_MAX];
    size_t pid_count; /* in a verb: how many processes the command works on (cli/several.c) */
    const struct target_pin *pin; /* the process as it was found; NULL: any process with the pid */
    const char *name, *container, *cgroup; /* NULL: not given */
    bool all, subprocesses;
    int parallel; /* processes at once; 0: not given */
    uint64_t timeout_ns;
    uint64_t duration_ns, every_ns, settle_ns; /* 0: not given */
    uint64_t every_bytes;                      /* 0: not given */
    bool on_new_peak;
    unsigned step;                         /* --step, in percent; 0: not given */
    unsigned count, keep;                  /* 0: not given */
    pid_t thread;                          /* 0: any */
    pid_t instance;                        /* --instance, from 1; 0: the default */
    const char *output;                    /* -o; NULL: none */
    const char *path;                      /* --path; NULL: none */
    const char *file;                      /* TAKES_FILE: the profile; "-": stdin */
    const char *base;                      /* --base; NULL: none */
    const char *more[OPTIONS_BETWEEN_MAX]; /* profiles that are added to file */
    size_t more_count;
    const char *between[OPTIONS_BETWEEN_MAX]; /* --between: profiles after base, before file */
    size_t between_count;
    const char *core, *program;           /* --core, --exe; NULL: not given */
    const char *names[OPTIONS_NAMES_MAX]; /* TAKES_NAMES: the operands after the process */
    size_t name_count;
    bool json, quiet, help, version;
    bool once; /* --once */
    bool force;
    int mode; /* --mode; OUTPUT_MODE_UNSET: not given */
    bool list, no_call, call, full, prometheus;
    bool threads, repair;
    unsigned allow;             /* --allow: ALLOW_* */
    bool bins;                  /* of stats */
    bool by_samples, by_faults; /* --samples, --faults: the only source of stacks */
    bool show_bytes;            /* --show-bytes */
    unsigned period;            /* --period, in page faults; 0: not given */
    bool verbose;
    const char *wrong;        /* after options_parse: what is inconsistent; NULL: nothing */
    const char *instead;      /* after it: what to write in place of a word that cannot be; NULL */
    const char *instead_word; /* the last word of that; NULL: none */
    bool given[OPTION_ROWS_MAX]; /* the rows of option_table.h that were */
    struct profile_options report;
    struct watch_options watch;
};

/* Parses argv[1..]. Prints a usage error to stderr and returns false if something is wrong. */
bool options_parse(struct options *options, unsigned takes, int argc, char **argv);

/* True if the processes are to be searched for, not only named by pid. */
bool options_selective(const struct options *options);

/* True if there is more than one profile: --every and the like. */
bool options_is_series(const struct options *options);

/* True if -o is a directory, which is made if it does not exist. */
bool options_names_directory(const struct options *options, unsigned takes);

/* True if the output is stdout: -o -. */
bool options_to_stdout(const struct options *options);

/* Parses a pid: only decimal digits, from 1 to the kernel's largest pid. */
bool parse_pid(const char *text, pid_t *pid);

/*
 * Returns why the options do not work with several processes, as the text of a
 * usage error; NULL: they do.
 */
const char *options_wrong_with_several(const struct options *options, unsigned takes);

/* True if a shell takes the text as one word, as it is. */
bool options_is_plain_word(const char *text);

/*
 * Writes the fix of a text that it, or options_parse in options->wrong, has returned, for the verb
 * of that name. Returns out.
 */
const char *options_fix(const struct options *options, const char *wrong, const char *verb,
                        char *out, size_t size);
