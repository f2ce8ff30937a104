/*
 * Does a forged frame bring back every extended register on this kernel and
 * this processor? Kernels differ in where they look for the frame's marks, and
 * a mismatch loses vector registers without an error. So before any target is
 * touched, a child of the tool is put through it.
 */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"

/*
 * Forks a child that fills its registers with a pattern, destroys them from
 * outside, lets a forged frame restore them and asks the child. About 0.4 ms.
 * FAULT_UNSUPPORTED if a register came back changed.
 */
fault_code selfcheck_run(struct procfs *proc, struct fault *fault);
