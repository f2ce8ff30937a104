/*
 * The start and the end of an object's functions, found without symbols: from
 * the call frame information that exceptions and unwinders need, which strip
 * keeps (.eh_frame: LSB, "Exception Frames"; DWARF 5, 6.4). A part that the
 * compiler split off (foo.cold) counts as a separate function.
 */
#pragma once

#include "elf/modules.h"
#include "elf/view.h"

enum { EH_FRAMES_MAX = 4 << 20 };

struct eh_frame {
    uint32_t start, size; /* start: offset from the base */
    uint32_t record;      /* offset from the base of its FDE */
};

struct eh_frames {
    remote_addr base; /* start of the module */
    struct eh_frame *list;
    size_t count;
};

/*
 * Reads all of .eh_frame, found by PT_GNU_EH_FRAME or, in a static program
 * without that header, by the file's section headers. False: there is none, its
 * format is unknown, or there are too many records. Known pointer encodings: 4
 * and 8 bytes, absolute or relative to the pointer itself.
 */
bool eh_frames_load(struct eh_frames *frames, const struct view *view);
void eh_frames_free(struct eh_frames *frames);

/* Returns the index of the function that contains addr, or SIZE_MAX. */
size_t eh_frames_at(const struct eh_frames *frames, remote_addr addr);
/* Returns the index of the first function that starts at or after addr; frames->count: none. */
size_t eh_frames_from(const struct eh_frames *frames, remote_addr addr);
bool eh_frames_begin_at(const struct eh_frames *frames, remote_addr addr);
remote_addr eh_frames_start(const struct eh_frames *frames, size_t i);
remote_addr eh_frames_end(const struct eh_frames *frames, size_t i);

/*
 * ---- the unwind table ----
 *
 * The table of an object that leads from an address to the call frame information
 * of its function: .eh_frame_hdr (LSB, "Exception Frames").
 */
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
