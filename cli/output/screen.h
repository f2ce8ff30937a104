/*
 * A terminal that shows one block of lines, redrawn repeatedly. If stdout is
 * anything else, the blocks are written one after the other.
 *
 * While the block is shown, keys are read without echo, the cursor is hidden
 * and the former contents of the terminal are kept: screen_close restores them.
 * So does a second Ctrl-C, which ends the tool at once.
 */
#pragma once

#include "attach/target.h"

#include <stdio.h>

/* Keys of a terminal, from the bytes that it sends: ECMA-48 and the sequences of xterm. */
enum key {
    KEY_NONE = 0,     /* a sequence is not complete, or is of no key below */
    KEY_ENTER = '\n', /* a terminal makes it of Return */
    KEY_ESCAPE = 033,
    KEY_UP = 256, /* up to 255: the byte itself */
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
};

/* A sequence that has begun; all 0 at the start. */
struct keys {
    enum keys_state { KEYS_PLAIN, KEYS_ESCAPE, KEYS_SEQUENCE } state;
    unsigned number; /* its parameter */
};

/* Takes the next byte; returns the key that it completes, one of enum key. */
int keys_take(struct keys *keys, unsigned char byte);

enum screen_event {
    SCREEN_TIMEOUT,     /* `until` was reached */
    SCREEN_KEY,         /* screen->key was pressed */
    SCREEN_RESIZED,     /* or back in the foreground: draw again */
    SCREEN_INTERRUPTED, /* Ctrl-C, SIGTERM, SIGHUP, or the terminal was closed */
    SCREEN_ENDED,       /* the target has ended */
};

struct screen {
    bool shown;              /* the terminal shows the blocks now */
    bool keys;               /* keys are read */
    unsigned columns, lines; /* the maximum size of a block; 0: unlimited */
    int signals;             /* signalfd(2) of SIGWINCH and SIGTSTP; -1: none */
    int key;                 /* enum key */
    struct keys decoder;
    char *block; /* the block being drawn */
    size_t block_size;
    FILE *out;    /* writes to block */
    size_t drawn; /* lines of block */
};

/*
 * From now on Ctrl-Z stops the tool only in screen_wait, never while it has
 * stopped a thread. Call this before any other thread is created, because that
 * thread would receive the signal.
 */
void screen_init(struct screen *screen);
/* Takes over the terminal if `wanted` and if stdout is a terminal that supports it. */
void screen_open(struct screen *screen, bool wanted);
/* Restores the terminal; blocks drawn later are plain text. */
void screen_leave(struct screen *screen);
/* Restores the terminal and frees the screen; idempotent. */
void screen_close(struct screen *screen);

/* Starts a new block, to which screen_line writes. NULL: out of memory. */
FILE *screen_begin(struct screen *screen);
/* Adds a line, given without newline. style: an escape sequence that starts it, or "". */
void screen_line(struct screen *screen, const char *style, const char *text);
/* Shows the block. False: it could not be written, errno. */
bool screen_end(struct screen *screen);

/*
 * Waits until a time (CLOCK_MONOTONIC, ns), a key, a change of size, Ctrl-C or
 * the end of the target.
 */
enum screen_event screen_wait(struct screen *screen, uint64_t until, const struct target *target);
