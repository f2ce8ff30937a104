/*
 * A terminal that shows one block of lines, drawn over and over again; or
 * anything else, to which the blocks are written one after the other.
 *
 * While it is shown, keys are read without echo, the cursor is hidden and what
 * stood on the terminal before is kept: screen_close brings it back. So does a
 * second Ctrl-C, which ends the tool at once.
 */
#pragma once

#include "attach/target.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum screen_event {
    SCREEN_TIMEOUT,     /* the moment has come */
    SCREEN_KEY,         /* screen->key */
    SCREEN_RESIZED,     /* or back in the foreground: to be drawn anew */
    SCREEN_INTERRUPTED, /* Ctrl-C, SIGTERM, SIGHUP, or the terminal is gone */
    SCREEN_ENDED,       /* the target has ended */
};

struct screen {
    bool shown;              /* the terminal shows the blocks now */
    bool keys;               /* and keys are read */
    unsigned columns, lines; /* of a block at most; 0: any */
    int signals;             /* signalfd(2) of SIGWINCH and SIGTSTP; -1: none */
    char key;
    char *block; /* what is being drawn */
    size_t block_size;
    FILE *out;    /* into block */
    size_t drawn; /* lines of it */
};

/*
 * From now on Ctrl-Z stops the tool in screen_wait alone: never while it holds
 * a thread. To be called before any other thread is made, which would take the
 * signal.
 */
void screen_init(struct screen *screen);
/* Takes the terminal over, if stdout is one that can do it and `wanted`. */
void screen_open(struct screen *screen, bool wanted);
/* Gives the terminal back; what is drawn from now on is plain text on it. */
void screen_leave(struct screen *screen);
/* The end, also of that; idempotent. */
void screen_close(struct screen *screen);

/* A new block; NULL: out of memory. Lines are written to it by screen_line. */
FILE *screen_begin(struct screen *screen);
/* One line, without its newline; style: an escape that begins it, or "". */
void screen_line(struct screen *screen, const char *style, const char *text);
/* Shows it. False: it could not be written, errno. */
bool screen_end(struct screen *screen);

/*
 * Until a moment (CLOCK_MONOTONIC, ns), a key, another size, Ctrl-C, or the end
 * of the target; nothing runs meanwhile.
 */
enum screen_event screen_wait(struct screen *screen, uint64_t until, const struct target *target);
