/*
 * Ctrl-C, SIGTERM and SIGHUP. The first asks the tool to stop where that does
 * no harm; one more than its patience ends it at once, which does none either:
 * the target completes by itself. A SIGHUP that nohup(1) has made ignored stays so.
 */
#pragma once

#include <signal.h>

/*
 * Installs the handlers; SIGPIPE is ignored, a closed pipe is an error of write(2).
 * status is the exit status of a process that a signal ends at once.
 */
void interrupt_init(int status);
/* Nonzero once a signal has come. */
const volatile sig_atomic_t *interrupt_flag(void);
/* Nonzero once a second one has come: only with more patience than 1. */
const volatile sig_atomic_t *interrupt_again_flag(void);

/*
 * How many signals are taken before the next one ends the tool at once; 1
 * unless this is called, 0: the next one does, whatever came before. farewell
 * is then written to stderr; static text, or NULL.
 */
void interrupt_patience(int signals, const char *farewell);
/* What is done before that: called by the handler, so async-signal-safe. NULL: nothing. */
void interrupt_at_end(void (*restore)(void));
/*
 * As mkostemp(3), in the directory dir; the file is removed before that, as it
 * is not complete, until another is made or interrupt_finished is called. The
 * directory stays open and its name valid until then.
 */
int interrupt_make_unfinished(int dir, char *template);
void interrupt_finished(void);
/* Keeps the three back until the mask is as it was: let in by ppoll alone, none is missed before.
 */
void interrupt_block(sigset_t *former);

/*
 * Adds the signals by which job control stops a process. Who holds a thread of
 * a target blocks them in all threads of the tool: one that does not is enough
 * for the kernel to stop them all. (SIGSTOP cannot be blocked.)
 */
void interrupt_add_stops(sigset_t *set);
