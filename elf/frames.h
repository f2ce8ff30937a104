/*
 * Where the functions of an object begin and end, without any symbol: by the
 * call frame information that exceptions and unwinders need, which strip
 * leaves (.eh_frame: LSB, "Exception Frames"; DWARF 5, 6.4). A part that the
 * compiler split off (foo.cold) counts as a function of its own.
 */
#pragma once

#include "elf/view.h"

enum { FRAMES_COUNT_MAX = 4 << 20 };

struct frame {
    uint32_t start, size; /* start: offset from the base */
    uint32_t record;      /* offset from the base of its FDE */
};

struct frames {
    remote_addr base; /* start of the module */
    struct frame *list;
    size_t count;
};

/*
 * Reads all of .eh_frame, found by PT_GNU_EH_FRAME or, in a static program
 * without that, by the file's section headers. False: there is none, it is not
 * understood, or there are too many. Pointers of any encoding but 4- and
 * 8-byte ones relative to themselves or absolute are not understood.
 */
bool frames_load(struct frames *frames, const struct view *view);
void frames_free(struct frames *frames);

/* Index of the function that holds addr, or SIZE_MAX. */
size_t frames_at(const struct frames *frames, remote_addr addr);
/* Index of the first function that begins at addr or later; frames->count: none. */
size_t frames_from(const struct frames *frames, remote_addr addr);
bool frames_begin_at(const struct frames *frames, remote_addr addr);
remote_addr frames_start(const struct frames *frames, size_t i);
remote_addr frames_end(const struct frames *frames, size_t i);
