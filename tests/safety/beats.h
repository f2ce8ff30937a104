/* A victim's report to its driver: the file `beats` in its directory, three words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Rounds done, faults found, and the victim's own counter. */
extern volatile uint64_t *beats;

bool map_beats(void);
void beat(void);
void wrong(void);
