/*
 * What a stop and a call need. A memory cgroup of the target that has too little left refuses the
 * hold: the kernel would kill a process for the missing page. A tool that may not get a CPU in time
 * refuses it, too: the stopped thread would wait for it.
 */
#pragma once

#include "run/attachment.h"

/*
 * Checks that the tool gets a CPU while a thread is stopped (else FAULT_NO_CPU), and that every
 * memory limit of the target leaves enough for a call, and for the pages that come back from swap
 * in it. FAULT_NO_HEADROOM if one leaves less. With attachment->caller.owes 1 MiB is enough.
 */
fault_code need_check(struct attachment *attachment, struct fault *fault);

/* Explains a read that failed because pages in swap are not read (attach/memory.h). */
fault_code need_explain_swapped(const struct attachment *attachment, struct fault *fault);
