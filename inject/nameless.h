/*
 * A statically linked program without symbols: finds in the code what a plan
 * otherwise takes from names.
 *
 * fork is the only function of the C library in which a thread holds all of the
 * allocator's locks without a frame of the allocator on its stack: between the
 * handlers that it calls before and after (pthread_atfork). So the functions
 * that make the system call are forbidden, and those that call them, which run
 * the handlers (glibc since 2.34, musl since 1.2.2: fork calls _Fork; in older
 * versions it is one function, and the program's own function that forks is
 * forbidden needlessly). The start of a thread (clone) is not forbidden: it is
 * at the bottom of every stack.
 *
 * The other functions that a plan forbids do not matter here: there is no
 * dynamic loader, no lazy binding, and no lock of theirs that the allocator
 * takes; an unwinder that samples an allocation has the allocator's frames
 * below it, and the injected call does not unwind; pthread_create and pthread_exit hold
 * no lock of the allocator except by calling it. They are forbidden nevertheless
 * where their code shows them: the function that contains the flags of clone for
 * a thread, and musl's function that ends with exit(2) in a loop and that gets
 * the result of a thread's function. A thread that ends must not use the
 * allocator again, and musl's shows in no other way. pthread_setcancelstate stays
 * unknown.
 */
#pragma once

#include "inject/plan.h"

/*
 * Finds the address of errno, and forbids fork. FAULT_UNSUPPORTED without call
 * frame information.
 */
fault_code nameless_learn(struct plan *plan, const struct module *module,
                          const struct target *target, struct memory *memory, struct fault *fault);
