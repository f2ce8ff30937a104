/*
 * Finds the code of jemalloc in a program without symbols.
 *
 * What has to be forbidden: a thread that has taken one of jemalloc's locks, or
 * is halfway through a change, is inside a call of jemalloc. Whatever it executes
 * at that moment (jemalloc, memcpy, munmap, an extent hook), the function of
 * jemalloc that made the innermost call has its return address on the stack, or
 * contains pc itself. So not every function has to be known, only so many that
 * each chain of calls passes through a known one:
 *
 * - An object file is one contiguous piece of .text, and so is an archive, which a
 *   linker adds as a whole. The functions that certainly belong to jemalloc (those
 *   of its tables, and all that use its tables or the variables that those use)
 *   lie between other functions of jemalloc. So everything from the lowest to the
 *   highest is forbidden, the hull, including unrelated functions in between.
 * - A jump leaves no trace of its caller: a jump to the part of a function that
 *   the compiler split off (.cold, which the linker puts at the start of .text, far
 *   from the hull), or a tail call. So the targets of jumps from forbidden code are
 *   forbidden too, and the targets of jumps from there. The exception is a function
 *   that others call as well and that makes system calls itself: it belongs to the
 *   C library (write, syscall). Threads that have nothing to do with jemalloc may
 *   sleep there, and jemalloc makes its system calls only through it.
 * - Entry points that the program calls (malloc, free, mallocx) use those variables
 *   and tables, and so lie in the hull.
 *
 * It refuses: signs that are scattered over the program, as after link-time
 * optimization, which moves and inlines functions at will; a hull that is larger
 * than any jemalloc; functions of the tables outside of it; code without call
 * frame information.
 */
#pragma once

#include "inject/plan.h"
#include "jemalloc/stripped/xrefs.h"

/*
 * Forbids jemalloc's code in the plan. FAULT_UNSUPPORTED, with the reason, if the
 * code is not certain.
 */
fault_code hull_forbid(struct plan *plan, const struct view *view, const struct eh_frames *frames,
                       const struct ctl_tables *tables, remote_addr mallctl, struct fault *fault);
