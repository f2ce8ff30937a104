/*
 * Where the functions of an object begin and end, without any symbol: by the
 * call frame information that exceptions and unwinders need, which strip
 * leaves (.eh_frame: LSB, "Exception Frames"; DWARF 5, 6.4). A part that the
 * compiler split off (foo.cold) counts as a function of its own.
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
 * without that, by the file's section headers. False: there is none, it is not
 * understood, or there are too many. Pointers of any encoding but 4- and
 * 8-byte ones relative to themselves or absolute are not understood.
 */
bool eh_frames_load(struct eh_frames *frames, const struct view *view);
void eh_frames_free(struct eh_frames *frames);

/* Index of the function that holds addr, or SIZE_MAX. */
size_t eh_frames_at(const struct eh_frames *frames, remote_addr addr);
/* Index of the first function that begins at addr or later; frames->count: none. */
size_t eh_frames_from(const struct eh_frames *frames, remote_addr addr);
bool eh_frames_begin_at(const struct eh_frames *frames, remote_addr addr);
remote_addr eh_frames_start(const struct eh_frames *frames, size_t i);
remote_addr eh_frames_end(const struct eh_frames *frames, size_t i);
