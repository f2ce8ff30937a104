/*
 * How much memory the kernel may charge to a target for what one hold does. A cgroup that
 * has less left refuses the hold: the kernel would kill a process for the missing page.
 */
#pragma once

#include "run/attachment.h"

/*
 * Checks that every memory limit of the target leaves enough for its next hold
 * (attachment->work), and for the pages that come back from swap when it runs. Reads
 * jemalloc's data only where a limit is near. FAULT_NO_HEADROOM if one leaves less.
 */
fault_code need_check(struct attachment *attachment, struct fault *fault);

/* Explains a read that failed because pages in swap are not read (attach/memory.h). */
fault_code need_explain_swapped(const struct attachment *attachment, struct fault *fault);
