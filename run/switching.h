/*
 * prof.active of a target, read and written as the one byte that it is in the
 * memory of the process (jemalloc/prof_byte.h): also of one that is traced,
 * stopped or frozen.
 */
#pragma once

#include "run/attachment.h"

/*
 * After attachment_find or attachment_look: finds the byte, attachment->byte, and
 * reads the state of profiling. Returns NULL, or the reason (static text) why
 * prof.active has to be switched to that value by a call.
 */
const char *switching_find(struct attachment *attachment, bool active, struct prof_state *state);

/*
 * After switching_find has returned a reason, where no call can be made: sets
 * FAULT_UNWRITABLE with it; FAULT_GONE, FAULT_EXECED if the process has ended, as
 * nothing is found in its memory then.
 */
fault_code switching_refuse(struct attachment *attachment, const char *why, struct fault *fault);

/*
 * After switching_find has returned NULL: writes the byte unless it has that
 * value, and reads it back. FAULT_PROF_*: this process cannot profile.
 * FAULT_UNWRITABLE: the kernel refuses. FAULT_GONE, FAULT_EXECED: it ended
 * meanwhile.
 */
fault_code switching_write(struct attachment *attachment, bool active,
                           const struct prof_state *state, struct fault *fault);
