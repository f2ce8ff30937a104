/*
 * What an object in memory is, judged by its first bytes: an object of a C++ class, text,
 * zeros, pointers into a module or to other memory, or bytes without structure.
 */
#pragma once

#include "elf/modules.h"

enum content_kind {
    CONTENT_CLASS,    /* begins with the address of a vtable: detail is the class */
    CONTENT_TYPE,     /* begins with the address of a type record or function: its symbol */
    CONTENT_TEXT,     /* detail: none; prefixes are counted apart */
    CONTENT_ZEROS,
    CONTENT_POINTERS, /* most words are pointers: detail is the module, or "heap" */
    CONTENT_NUMBERS,  /* small numbers */
    CONTENT_RANDOM,   /* high entropy: compressed or encrypted data */
    CONTENT_OTHER,
    CONTENT_KINDS,
};

struct content {
    enum content_kind kind;
    const char *detail; /* valid as long as the reader; NULL: none */
};

struct contents; /* remembers what it has found of each module */

struct contents *contents_new(struct memory *memory, const struct modules *modules,
                              const struct target *target);
void contents_free(struct contents *contents);
/* Judges the first len bytes of an object of `size` bytes at addr. */
struct content contents_judge(struct contents *contents, remote_addr addr, uint64_t size,
                              const unsigned char *bytes, size_t len);
const char *content_kind_name(enum content_kind kind);
