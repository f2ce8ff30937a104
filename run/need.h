/*
 * How much of its memory limits a target must have left for a call. A cgroup that has less
 * refuses the hold: the kernel would kill a process for the missing page.
 */
#pragma once

#include "run/attachment.h"

/*
 * Checks that every memory limit of the target leaves enough for a call, and for the pages that
 * come back from swap in it. FAULT_NO_HEADROOM if one leaves less.
 */
fault_code need_check(struct attachment *attachment, struct fault *fault);

/* Explains a read that failed because pages in swap are not read (attach/memory.h). */
fault_code need_explain_swapped(const struct attachment *attachment, struct fault *fault);
