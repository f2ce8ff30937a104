/*
 * Ctrl-C, SIGTERM and SIGHUP. The first asks the tool to stop where that does
 * no harm; the second ends it at once, which does none either: the target
 * completes by itself.
 */
#pragma once

#include <signal.h>

/* Installs the handlers; SIGPIPE is ignored, a closed pipe is an error of write(2). */
void interrupt_init(void);
/* Nonzero once a signal has come. */
const volatile sig_atomic_t *interrupt_flag(void);
