/*
 * Stage 0: the frames on the thread's own stack and the scratch area. Internal
 * to inject/.
 */
#pragma once

#include "inject/call.h"

/* Forges the frames, sends the thread into its first mmap and records the address. */
fault_code scratch_map(struct injection *injection, struct fault *fault);

/*
 * Returns the signals that are blocked during the call; musl's own
 * is unblocked while a called function runs.
 */
uint64_t scratch_call_mask(void);

/* Makes the thread unmap it; its next return leads into frame 0. */
fault_code scratch_unmap(struct injection *injection, struct fault *fault);
