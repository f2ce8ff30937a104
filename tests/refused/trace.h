/* The ptrace call whose trace is shown: the tool's own, or the one of refused.c. */
#pragma once

#include "attach/gate.h"

#ifdef REFUSES
#define traced_gate_ptrace refused_gate_ptrace
#else
#define traced_gate_ptrace __real_gate_ptrace
#endif

long traced_gate_ptrace(struct gate *gate, int request, pid_t tid, uint64_t addr, uint64_t data);
