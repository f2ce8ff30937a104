/*
 * The start and the end of an object's functions, found without symbols: from
 * the call frame information that exceptions and unwinders need, which strip
 * keeps (.eh_frame: LSB, "Exception Frames"; DWARF 5, 6.4). A part that the
 * compiler split off (foo.cold) counts as a separate function.
 */
#pragma once

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
