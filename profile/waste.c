#include "profile/waste.h"

uint64_t waste_bytes(const struct waste_class *class)
{
    uint64_t fit = class->slabs * class->per_slab;

    return fit > class->objects ? (fit - class->objects) * class->size : 0;
}
