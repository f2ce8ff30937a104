/*
 * A statically linked program without symbols: what a plan takes from names
 * otherwise, found by the code itself.
 *
 * fork is the one function of the C library in which a thread holds all of the
 * allocator's locks without a frame of the allocator on its stack: between the
 * handlers that it calls before and after (pthread_atfork). So the functions
 * that make the system call are forbidden, and those that call them, which run
 * the handlers (glibc since 2.34, musl since 1.2.2: fork calls _Fork; before,
 * it is one function, and what is forbidden for nothing is the program's own
 * function that forks). Not so the beginning of a thread (clone), which lies
 * below every stack.
 *
 * What else a plan forbids has no meaning here: there is no dynamic loader, no
 * lazy binding, and no lock of it that the allocator takes; an unwinder that
 * samples an allocation has the allocator's frames below it, and mallctl does
 * not unwind; pthread_create and pthread_exit hold no lock of the allocator but
 * by calling it. pthread_setcancelstate stays unknown.
 */
#pragma once

#include "inject/plan.h"

/*
 * Learns errno's place, and forbids fork. FAULT_UNSUPPORTED without call frame
 * information.
 */
fault_code nameless_learn(struct plan *plan, const struct module *module,
                          const struct target *target, struct memory *memory, struct fault *fault);
