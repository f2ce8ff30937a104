/*
 * The bytes of a mapped object, for code that reads all of it.
 *
 * Segments that are not writable are read from the object's file: a search
 * through 50 MB of code then touches no page of the target, whose memory may be
 * at its limit. Other segments, and all of them if the file cannot be opened,
 * are read from memory.
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

struct view {
    const struct module *module;
    struct image image;
    int fd;                     /* -1: cannot be opened */
    struct view_window *window; /* NULL: fd is -1 */
};

struct segment {
    remote_addr start, end; /* run-time; clipped to the file and to the mapping */
    uint32_t flags;         /* PF_* */
};

/* False if there is no ELF header. The module must outlive the view. */
bool view_open(struct view *view, const struct module *module, const struct target *target,
               struct memory *memory);
void view_close(struct view *view);

/* The PT_LOAD that contains addr. False: none. */
bool view_segment_at(const struct view *view, remote_addr addr, struct segment *out);

/* Reads exactly len bytes of one segment. */
bool view_read(const struct view *view, remote_addr addr, void *buf, size_t len);
/* Reads a NUL-terminated string of at most size - 1 bytes. False: none. */
bool view_read_string(const struct view *view, remote_addr addr, char *buf, size_t size);

/*
 * Visits [start, end) in pieces of at most 1 MiB. The last overlap bytes of a
 * piece are repeated at the start of the next one; an item that starts before
 * fresh is complete in its piece and is shown once. False: not all bytes could
 * be read, or visit returned false.
 */
struct piece {
    remote_addr at;
    const unsigned char *bytes;
    size_t len, fresh;
};
typedef bool (*piece_visitor)(void *ctx, const struct piece *piece);
bool view_scan(const struct view *view, remote_addr start, remote_addr end, size_t overlap,
               piece_visitor visit, void *ctx);
/* Does the same for each PT_LOAD whose flags, masked, equal wanted. */
bool view_scan_segments(const struct view *view, uint32_t mask, uint32_t wanted, size_t overlap,
                        piece_visitor visit, void *ctx);
