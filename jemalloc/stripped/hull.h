/*
 * Which code of a program is jemalloc's, without any symbol.
 *
 * What has to be forbidden. A thread that holds one of jemalloc's locks, or is
 * between two halves of a change, is inside a call of jemalloc. Whatever it
 * executes at that moment (jemalloc, memcpy, munmap, an extent hook), the
 * function of jemalloc that made the innermost call has left its return address
 * on the stack, or is itself what pc points to. So not every last function must
 * be known, only enough that each chain of calls passes through one that is:
 *
 * - An object file is one piece of .text, and so is an archive, which a linker
 *   takes in one go. The functions that certainly are jemalloc's (those of its
 *   tables, and all that use its tables or the variables that those use) lie
 *   between others of it: the whole hull from the lowest to the highest is
 *   forbidden, foreign functions included that happen to lie there.
 * - A call leaves no trace in its caller if it is a jump: to the part of a
 *   function that the compiler split off (.cold, which the linker puts at the
 *   beginning of .text, far from the hull), or in place of a last call. What is
 *   jumped to from forbidden code is therefore forbidden too, and what is
 *   jumped to from there. Except a function that others call as well and that
 *   makes system calls itself: that is the C library's (write, syscall), where
 *   threads may sleep that have nothing to do with jemalloc; and jemalloc's
 *   own code makes no system call but through it.
 * - Entry points that the program calls (malloc, free, mallocx) use those
 *   variables and tables, and so lie in the hull.
 *
 * What it refuses: signs that are scattered over the program, as link-time
 * optimization leaves them when it moves and inlines functions at will; a hull
 * that is larger than any jemalloc; functions of the tables outside of it; no
 * call information.
 */
#pragma once

#include "inject/plan.h"
#include "jemalloc/stripped/xrefs.h"

/*
 * Forbids jemalloc's code in the plan. FAULT_UNSUPPORTED with the reason if it
 * cannot be told for certain.
 */
fault_code hull_forbid(struct plan *plan, const struct view *view, const struct eh_frames *frames,
                       const struct ctl_tables *tables, remote_addr mallctl, struct fault *fault);
