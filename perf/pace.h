/* How many page faults there are for each sample, so that the samples of a second stay few. */
#pragma once

#include "base/util.h"

#include <stdbool.h>

struct pace {
    bool fixed;      /* the period never changes */
    uint64_t least;  /* the shortest period */
    unsigned most;   /* samples a second */
    uint64_t period; /* a prime or 1: not in step with a program that touches 2^n pages a turn */
    uint64_t since_ns, faults;   /* the last look: when, and how many faults there had been */
    double busiest;              /* faults a second; a burst fades in some looks */
    unsigned calm;               /* looks at which the period was far too long */
    uint64_t window_ns, samples; /* a short window: its start, and the samples in it */
};

/* period 0: adapts. now_ns is a time of clock_now. */
void pace_start(struct pace *pace, uint64_t period, unsigned most, uint64_t now_ns);

/* Lets a fixed period become longer: others may cause any number of faults. */
void pace_loosen(struct pace *pace);

/* Sets another number of samples a second; a fixed period stays. */
void pace_set_most(struct pace *pace, unsigned most);

/* True if it is time to count the faults for pace_look. */
bool pace_is_due(const struct pace *pace, uint64_t now_ns);

/* Sets the period for a number of faults since the start. True: it has changed. */
bool pace_look(struct pace *pace, uint64_t faults, uint64_t now_ns);

/* The same after each look into the rings, for new samples: makes the period longer in a burst. */
bool pace_hurry(struct pace *pace, uint64_t samples, uint64_t now_ns);

/* Returns the least prime that is not less; for 0 and 1, 1. */
uint64_t pace_prime(uint64_t number);
