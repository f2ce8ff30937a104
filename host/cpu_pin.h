/*
 * Where a new thread of the tool begins. The kernel looks for the pin
 * with the least to do, and with every one busy that may be one that a thread
 * of the target is on: it would stand still for the length of the beginner's
 * start (bench/attach, "gap of a spinning other").
 */
#pragma once

#include <sched.h>
#include <stdbool.h>

struct cpu_pin {
    cpu_set_t former; /* those that the calling thread might use */
    bool kept;
};

/*
 * What the calling thread starts from here begins on its own CPU. Where
 * the kernel does not allow it, or has more than 1024, nothing is changed.
 */
void cpu_pin_begin(struct cpu_pin *pin);
/* The thread that calls it may use the former ones again: the starter, and the one started. */
void cpu_pin_end(const struct cpu_pin *pin);
