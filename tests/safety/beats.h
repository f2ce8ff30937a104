/* What a victim tells its driver: the file `beats` in its directory, two words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Rounds done, and what was found wrong. */
extern volatile uint64_t *beats;

bool map_beats(void);
void beat(void);
void wrong(void);
