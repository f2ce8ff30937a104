/* Stopping one thread at a safe point. */
#pragma once

#include "inject/call.h"

/*
 * Stops threads, one at a time and for microseconds, until one is at a safe
 * point. Then injection->session has that thread stopped, injection->original,
 * fp, mask and summary are filled, and the resume state is determined.
 */
fault_code acquire_thread(struct injection *injection, struct fault *fault);
