/*
 * What can be done against memory of jemalloc that is free but not returned: one or more lines,
 * the same words wherever they are shown.
 */
#pragma once

#include "base/json.h"
#include "jemalloc/conf.h"
#include "jemalloc/prof.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Where most of the free memory is. */
enum advice_waste {
    ADVICE_NONE,     /* nowhere: there is little of it */
    ADVICE_SLABS,    /* between objects in slabs */
    ADVICE_PAGES,    /* whole free pages: dirty and muzzy ones */
    ADVICE_PADDING,  /* behind large objects */
    ADVICE_PINNED,   /* free pages that extent hooks keep */
    ADVICE_RETAINED, /* address space without objects */
};

/* How the jemalloc of a process was started, and what it does now. */
struct advice_setup {
    struct conf conf;
    struct prof_state prof;
    bool purges; /* it has background threads */
};

/* What is unknown stays 0. */
struct advice_facts {
    const struct advice_setup *setup; /* NULL: unknown */
    enum advice_waste most;
    int pid;             /* 0: of files */
    const char *program; /* the name of the process; NULL: unknown */
    bool in_program;     /* its jemalloc is linked into the program (struct instance) */
    bool has_stacks;     /* the stacks that keep slabs have been shown */
    const char *keeper;  /* the call whose objects keep most of it; NULL: unknown */
    uint64_t slabs;      /* bytes between objects in slabs */
    uint64_t largest;    /* of them: in the arena that has most of it */
    unsigned arenas;     /* that have some of it */
    uint64_t retained;   /* bytes of address space without objects that are in memory */
    uint64_t huge;       /* bytes of the process in huge pages */
};

enum { ADVICE_LINES = 4, ADVICE_SIZE = 400, ADVICE_COMMAND = 64 };

/* What helps, the most useful line first, and the next command with its reason. */
struct advice {
    size_t count;
    char lines[ADVICE_LINES][ADVICE_SIZE];
    char command[ADVICE_COMMAND]; /* "": none */
    char reason[ADVICE_SIZE];
};

void advice_make(struct advice *advice, const struct advice_facts *facts);
/* Prints all of it, wrapped. */
void advice_print(const struct advice *advice, FILE *out);
/* Prints a command that is to be typed next, alone on its line, and what it gives; "": nothing. */
void advice_print_next(const char *command, const char *reason, FILE *out);
/* Adds the list of lines, "helps". */
void advice_json(const struct advice *advice, struct json *json);
