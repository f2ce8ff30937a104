/*
 * The verbs: one file each, which describes its verb once. The overview, the
 * help of each verb and the checks of the man page and of the completion files
 * are made from these descriptions and from the table of options.
 */
#pragma once

#include "cli/options.h"

enum { VERB_SYNOPSES_MAX = 2, VERB_EXAMPLES_MAX = 3, VERB_OPTIONS_MAX = 7 };

/* A command line, and what it is for: at most 79 columns with the two blanks before each. */
struct verb_example {
    const char *line, *purpose;
};

/* An option of which a verb has more to say than the table of options. */
struct option_help {
    const char *name;  /* of the option, without dashes */
    const char *value; /* NULL: as in the table */
    const char *text;
};

struct verb {
    const char *name;
    const char *summary;                             /* one line of the overview */
    const char *synopses[VERB_SYNOPSES_MAX];         /* the words after the name */
    struct verb_example examples[VERB_EXAMPLES_MAX]; /* what is typed most */
    unsigned takes;                                  /* TAKES_*: its options and operands */
    const char *intro;                               /* paragraphs of --help, before the options */
    const char *notes;                               /* and after them; NULL: none */
    struct option_help options[VERB_OPTIONS_MAX];
    /* Called once, before the work on the first of the processes; NULL: nothing is to be said. */
    void (*announce)(const struct options *options);
    /* Works on one process and returns an exit code. TAKES_HOST, TAKES_FILE: pid is 0. */
    int (*run)(const struct options *options, pid_t pid);
};

extern const struct verb verb_dump;
extern const struct verb verb_explain;
extern const struct verb verb_frag;
extern const struct verb verb_leak;
extern const struct verb verb_mallctl;
extern const struct verb verb_off;
extern const struct verb verb_on;
extern const struct verb verb_peek;
extern const struct verb verb_ps;
extern const struct verb verb_purge;
extern const struct verb verb_record;
extern const struct verb verb_report;
extern const struct verb verb_stats;
extern const struct verb verb_status;
extern const struct verb verb_top;
extern const struct verb verb_watch;
