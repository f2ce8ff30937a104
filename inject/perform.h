/* The calls themselves. Internal to inject/. */
#pragma once

#include "inject/call.h"

/* See injection_call. */
enum fault_code perform_calls(struct injection *injection, struct arch_call *calls, size_t count,
                              const struct watch *watch, struct fault *fault);

/* Puts back the errno that direct calls may have changed (the trampoline does it itself). */
void perform_restore_errno(struct injection *injection);
