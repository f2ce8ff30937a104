/*
 * Pins the tool's new threads to the CPU of their creator. The kernel starts a new
 * thread on the least busy CPU. If all are busy, that may be the CPU of one of the
 * target's threads, which would stand still while the new thread starts
 * (bench/attach, "gap of a spinning other").
 */
#pragma once

#include <sched.h>
#include <stdbool.h>

struct cpu_pin {
    cpu_set_t former; /* the CPUs that the calling thread was allowed to use */
    bool kept;
};

/*
 * Pins the calling thread to its CPU; the threads that it starts from here on
 * inherit that. Changes nothing if the kernel does not allow it, or has more than
 * 1024 CPUs.
 */
void cpu_pin_begin(struct cpu_pin *pin);
/* Allows the calling thread its former CPUs again. Both call it: the creator and the new thread. */
void cpu_pin_end(const struct cpu_pin *pin);
