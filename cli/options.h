/* The words after the verb. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OPTIONS_PIDS_MAX = 256 };

/* Which options a verb knows, besides those that every verb has. */
enum {
    TAKES_OUTPUT = 1,
    TAKES_PATH = 2,
    TAKES_REPORT = 4, /* --full, --prometheus, --allow-slow */
    TAKES_NO_CALL = 8,
    TAKES_ALLOW_RESET = 16,
};

struct options {
    pid_t pids[OPTIONS_PIDS_MAX];
    size_t pid_count;
    uint64_t timeout_ns;
    pid_t thread;       /* 0: any */
    const char *output; /* -o; NULL: none */
    const char *path;   /* --path; NULL: none */
    bool json, quiet, dry_run, help, version;
    bool full, prometheus, no_call, allow_reset, allow_slow;
    int verbose;
};

/* Parses argv[1..]; false after a message on stderr about what is wrong. */
bool options_parse(struct options *options, unsigned takes, int argc, char **argv);

/* "500ms", "30s", "5m", "1h"; a bare number is seconds. At most 24 h. */
bool parse_duration(const char *text, uint64_t *ns);
/* Decimal digits alone, from 1 to the kernel's largest pid. */
bool parse_pid(const char *text, pid_t *pid);
