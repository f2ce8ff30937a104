/* What a victim tells its driver: the file `beats` in its directory, three words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Rounds done, what was found wrong, and what the victim itself counts. */
extern volatile uint64_t *beats;

bool map_beats(void);
void beat(void);
void wrong(void);
