#include "jemalloc/bins_layout.h"

#define BIN(member) offsetof(struct bin, member)

const struct bins_leaf bins_constants[] = {
    {"size", CTL_SIZE, BINS_ALL, BIN(size)},
    {"nregs", CTL_UNSIGNED, BINS_ALL, BIN(per_slab)},
    {"slab_size", CTL_SIZE, BINS_5, BIN(slab_bytes)},
    {"run_size", CTL_SIZE, BINS_4, BIN(slab_bytes)},
    {.name = NULL},
};

const struct bins_leaf bins_leaves[] = {
    {"curregs", CTL_SIZE, BINS_ALL, BIN(objects)},
    {"curslabs", CTL_SIZE, BINS_5, BIN(slabs)},
    {"nonfull_slabs", CTL_SIZE, BINS_521, BIN(nonfull)},
    {"curruns", CTL_SIZE, BINS_4, BIN(slabs)},
    {.name = NULL},
};
