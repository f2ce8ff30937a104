/*
 * Checks that a forged frame restores every extended register on this kernel
 * and this CPU. Kernels differ in where they look for the frame's magic
 * numbers, and a mismatch loses vector registers without an error. So before
 * any target is touched, a child of the tool is sent through a frame.
 */
#pragma once

#include "base/fault.h"
#include "host/procfs.h"

/*
 * Forks a child that fills its registers with a pattern, overwrites them from
 * outside, lets a forged frame restore them, and asks the child whether they
 * are correct. About 0.4 ms. FAULT_UNSUPPORTED if a register has changed.
 */
fault_code selfcheck_run(struct procfs *proc, struct fault *fault);
