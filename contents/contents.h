/*
 * What an object in memory is, judged by its first bytes: an object of a C++ class, text,
 * zeros, pointers into a module or to other memory, or bytes without structure.
 *
 * The bytes and everything that they point to are untrusted. Judging reads at most a few
 * hundred bytes for each distinct first word, and follows no chain further than that.
 */
#pragma once

#include "elf/modules.h"

#include <stdbool.h>
#include <stddef.h>

enum content_kind {
    CONTENT_CLASS,    /* begins with the address of a vtable: detail is the class */
    CONTENT_TYPE,     /* begins with another address in a module: its symbol, or MODULE+0xADDRESS */
    CONTENT_TEXT,     /* detail: the form of the text */
    CONTENT_ZEROS,    /* all bytes that were looked at */
    CONTENT_POINTERS, /* at least half of the words that are not 0; detail: the module, or "heap" */
    CONTENT_NUMBERS,  /* small numbers */
    CONTENT_RANDOM,   /* high entropy: compressed or encrypted data; detail: its format, or NULL */
    CONTENT_OTHER,
    CONTENT_KINDS,
};

enum {
    CONTENT_FIRST = 256,  /* bytes of an object that are looked at, from its start */
    CONTENT_SECOND = 256, /* of a large one, from its middle */
    CONTENT_LARGE = 4096, /* bytes from which on an object has a second piece */
    CONTENT_SHAPE = 8,    /* words of a shape */
    CONTENT_NO_WORD = UINT32_MAX,
};

/* The bytes of an object that were read. */
struct content_bytes {
    remote_addr addr; /* of the object */
    uint64_t size;    /* of the object */
    const unsigned char *first;
    size_t first_len; /* at most CONTENT_FIRST */
    const unsigned char *second;
    size_t second_len; /* at most CONTENT_SECOND; 0: none */
};

struct content {
    enum content_kind kind;
    const char *detail; /* valid as long as the contents; NULL: none */
    uint32_t word;      /* internal: the remembered first word; CONTENT_NO_WORD: none */
    bool in_middle;     /* TEXT, RANDOM: of the second piece; the object begins with other bytes */
    uint8_t at;         /* CLASS, TEXT: bytes before the vtable's address, or the text */
    uint16_t text_len;  /* TEXT: bytes of it among those that were looked at */
    /*
     * The first words, one letter each: p pointer to memory, m pointer into a module, n small
     * number, 0 zero, x anything else. Ends with a NUL.
     */
    char shape[CONTENT_SHAPE + 1];
};

struct contents; /* remembers what it has found at each first word */

/* All three must outlive it. NULL: out of memory. contents_free takes NULL, too. */
struct contents *contents_new(struct memory *memory, const struct modules *modules,
                              const struct target *target);
void contents_free(struct contents *contents);

/* Judges an object. Kind and detail are final after contents_resolve and contents_settle. */
struct content contents_judge(struct contents *contents, const struct content_bytes *bytes);
/*
 * Looks up the symbols of all addresses seen so far: reads each symbol table once. False: a signal
 * or the deadline came first.
 */
bool contents_resolve(struct contents *contents);
/* Sets the kind and the detail of a content that was judged before contents_resolve. */
void contents_settle(struct contents *contents, struct content *content);

/* "class", "type", "text", "zeros", "pointers", "numbers", "random", "other". */
const char *content_kind_name(enum content_kind kind);
