/* The last part of a series of numbers, in 32 slots, however many numbers were added. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WINDOW_SLOTS = 32 };

struct window {
    struct window_slot {
        uint64_t at;    /* time of its first number */
        uint64_t first; /* that number */
        uint64_t least;
    } slots[WINDOW_SLOTS];
    unsigned count, newest;
};

void window_clear(struct window *window);
/* Add numbers in the order of their times; one from before the newest slot is ignored. */
void window_add(struct window *window, uint64_t length_ns, uint64_t now_ns, uint64_t value);
/* The minimum, and the oldest, of those at most length_ns old. False: none. */
bool window_least(const struct window *window, uint64_t length_ns, uint64_t now_ns,
                  uint64_t *value);
bool window_oldest(const struct window *window, uint64_t length_ns, uint64_t now_ns,
                   uint64_t *value);
/* The newest that is at least length_ns old; else the oldest. */
bool window_before(const struct window *window, uint64_t length_ns, uint64_t now_ns,
                   uint64_t *value);
