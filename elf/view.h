/*
 * The bytes of a mapped object, for those who look through all of it.
 *
 * What its segments forbid to be written is read from the object's file: a
 * look through 50 MB of code then touches no page of the target, whose memory
 * may be at its limit. The rest, and everything if the file cannot be had, is
 * read from memory.
 */
#pragma once

#include "elf/image.h"
#include "elf/modules.h"

struct view {
    const struct module *module;
    struct image image;
    int fd; /* -1: the file cannot be had */
};

struct segment {
    remote_addr start, end; /* runtime; no more than the file has, and than is mapped */
    uint32_t flags;         /* PF_* */
};

/* False if there is no ELF header. The module must outlive the view. */
bool view_open(struct view *view, const struct module *module, const struct target *target,
               struct memory *memory);
void view_close(struct view *view);

/* The PT_LOAD of index i of the program headers; false: that is none. */
bool view_segment(const struct view *view, size_t i, struct segment *out);
/* The PT_LOAD that holds addr; false: none does. */
bool view_segment_at(const struct view *view, remote_addr addr, struct segment *out);

/* Reads exactly len bytes of one segment. */
bool view_read(const struct view *view, remote_addr addr, void *buf, size_t len);
/* Reads a NUL-terminated string of at most size - 1 bytes; false: there is none. */
bool view_read_string(const struct view *view, remote_addr addr, char *buf, size_t size);

/*
 * Shows [start, end) in pieces of at most 1 MiB. The last overlap bytes of a
 * piece come again at the beginning of the next: what begins before fresh is
 * shown whole, once. False: not all could be read, or visit returned false.
 */
struct piece {
    remote_addr at;
    const unsigned char *bytes;
    size_t len, fresh;
};
typedef bool (*piece_visitor)(void *ctx, const struct piece *piece);
bool view_scan(const struct view *view, remote_addr start, remote_addr end, size_t overlap,
               piece_visitor visit, void *ctx);
/* The same for each PT_LOAD whose flags, masked, are as wanted. */
bool view_scan_segments(const struct view *view, uint32_t mask, uint32_t wanted, size_t overlap,
                        piece_visitor visit, void *ctx);
