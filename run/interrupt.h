/*
 * Ctrl-C, SIGTERM and the other signals of base/interruptions.h. The first one sets
 * a flag, at which the tool stops in an orderly way. One signal more than its
 * patience ends the process at once, which is safe, too: the target will finish the
 * call on its own.
 */
#pragma once

#include <signal.h>

/*
 * Installs the handlers, and ignores SIGPIPE and SIGXFSZ, so that a closed pipe and
 * a file size limit are errors of write(2). Whoever has started the tool may have
 * blocked all signals, or ignored SIGCHLD: execve(2) keeps both, and this undoes it.
 * status is the exit status if a signal ends the process at once.
 */
void interrupt_init(int status);
/* Nonzero after a signal. */
const volatile sig_atomic_t *interrupt_flag(void);
/* Nonzero after a second signal, which needs a patience above 1. */
const volatile sig_atomic_t *interrupt_again_flag(void);

/*
 * Sets how many signals are counted before the next one ends the process at
 * once; initially 1; 0: the next signal does, whatever came before. farewell is
 * then written to stderr: static text, or NULL.
 */
void interrupt_patience(int signals, const char *farewell);
/* Called before the process ends at once, in the handler: async-signal-safe. NULL: nothing. */
void interrupt_at_end(void (*restore)(void));
/*
 * Like mkostemp(3), in the directory dir. If the process ends at once, this
 * unfinished file is removed, until another one is made or interrupt_finished
 * is called; until then dir must stay open and template valid.
 */
int interrupt_make_unfinished(int dir, char *template);
void interrupt_finished(void);
/* Blocks the signals, for ppoll with the former mask, so that none is missed before it. */
void interrupt_block(sigset_t *former);

/*
 * Adds the stop signals of job control. While a thread of a target is stopped,
 * all threads of the tool block them: a single thread that does not is enough
 * for the kernel to stop them all. (SIGSTOP cannot be blocked.)
 */
void interrupt_add_stops(sigset_t *set);
