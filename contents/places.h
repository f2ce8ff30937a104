/* What an address points to: a module of the process, with its .bss, or other memory. */
#pragma once

#include "elf/modules.h"

struct places {
    struct memory *memory;
    const struct modules *modules;
    remote_addr *ends; /* of each module, from its program headers; 0: not looked at */
};

enum { PLACE_NOWHERE = -2, PLACE_MEMORY = -1 };

/* False: out of memory. places_free in either case. */
bool places_init(struct places *places, struct memory *memory, const struct modules *modules);
void places_free(struct places *places);

/* Returns the index of the module, PLACE_MEMORY, or PLACE_NOWHERE if no memory is there. */
int places_at(struct places *places, remote_addr addr);
