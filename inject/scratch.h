/*
 * Stage 0: the frames on the thread's own stack and the scratch area. Internal
 * to inject/.
 */
#pragma once

#include "inject/call.h"

/* Forges the frames, sends the thread into its first mmap and writes down the address. */
fault_code scratch_map(struct injection *injection, struct fault *fault);

/* The signals that are blocked meanwhile; a collector's are open while a called function runs. */
uint64_t scratch_call_mask(void);

/* Makes the thread unmap it; its next return would lead it into frame 0. */
fault_code scratch_unmap(struct injection *injection, struct fault *fault);
