/* The words after the verb. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OPTIONS_PIDS_MAX = 256, OPTIONS_NAMES_MAX = 20 };

/* Which options a verb knows, besides those that every verb has. */
enum {
    TAKES_OUTPUT = 1,
    TAKES_PATH = 2,
    TAKES_NO_CALL = 4,       /* --no-call */
    TAKES_HOST = 8,          /* no pid: it is about all processes */
    TAKES_NAMES = 0x100,     /* names of jemalloc's after the process, --list */
    TAKES_LG_SAMPLE = 0x200, /* --lg-sample */
    TAKES_REPORT = 0x400,    /* --full, --prometheus, --allow-slow */
    TAKES_ALLOW_RESET = 0x800,
};

struct options {
    pid_t pids[OPTIONS_PIDS_MAX];
    size_t pid_count;
    uint64_t timeout_ns;
    pid_t thread;                         /* 0: any */
    const char *output;                   /* -o; NULL: none */
    const char *path;                     /* --path; NULL: none */
    const char *names[OPTIONS_NAMES_MAX]; /* the words after the process, with TAKES_NAMES */
    size_t name_count;
    bool list;     /* --list */
    int lg_sample; /* --lg-sample: 0 to 63; -1: not given */
    bool json, quiet, dry_run, no_call, help, version;
    bool full, prometheus, allow_reset, allow_slow;
    int verbose;
};

/* Parses argv[1..]; false after a message on stderr about what is wrong. */
bool options_parse(struct options *options, unsigned takes, int argc, char **argv);

/* "500ms", "30s", "5m", "1h"; a bare number is seconds. At most 24 h. */
bool parse_duration(const char *text, uint64_t *ns);
/* Decimal digits alone, from 1 to the kernel's largest pid. */
bool parse_pid(const char *text, pid_t *pid);
