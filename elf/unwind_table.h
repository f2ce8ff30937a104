/*
 * The table of an object that leads from an address to the call frame information
 * of its function: .eh_frame_hdr (LSB, "Exception Frames").
 */
#pragma once

#include "elf/modules.h"

struct unwind_table {
    remote_addr base; /* the offsets of its entries count from here */
    remote_addr entries;
    uint32_t count;
};

/* An entry: two offsets from the base. The entries are in ascending order of start. */
struct unwind_entry {
    int32_t start;  /* of a function */
    int32_t record; /* its FDE in .eh_frame */
};

enum unwind_table_state {
    UNWIND_TABLE_NONE,    /* the object has no PT_GNU_EH_FRAME */
    UNWIND_TABLE_UNKNOWN, /* no ELF header, or the table has an unknown form */
    UNWIND_TABLE_FOUND,
};

/* Finds the table of a mapped object, as its header says; never fails otherwise. */
enum unwind_table_state unwind_table_find(struct unwind_table *table, struct memory *memory,
                                          const struct module *module);

/* Returns the address of the FDE of the last function that starts at or below pc; 0: none. */
remote_addr unwind_table_search(const struct unwind_table *table, struct memory *memory,
                                remote_addr pc);
