/*
 * What the tool and the confined child that reads symbols (profile/symbols/child.h) say to each
 * other: records on a stream socket, each a kind, the number of bytes that follow, and these.
 * The tool trusts nothing of what the child sends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum channel_kind {
    /* The tool asks: */
    CHANNEL_ADDRESSES, /* struct channel_address, any number; each is answered by CHANNEL_LINES, in
                          order */
    CHANNEL_NAMES, /* linker's names, each with a NUL; each is answered by CHANNEL_NAME, in order */
    CHANNEL_FILE,  /* struct channel_file, the answer to CHANNEL_ASK, with a file descriptor or none
                    */
    /* The child answers: */
    CHANNEL_TEXT,  /* a string; texts are numbered in their order, from 1 on; 0 stands for NULL */
    CHANNEL_LINES, /* struct channel_line, any number */
    CHANNEL_NAME,  /* the number of a text, uint32_t; 0: the name is not mangled */
    CHANNEL_STATE, /* struct channel_state: what a module lacks */
    CHANNEL_ASK,   /* struct channel_ask and its texts */
    CHANNEL_DONE,  /* the request has been answered */
};

struct channel_head {
    uint32_t kind, len;
};

enum { CHANNEL_MAX = 256 << 10 }; /* bytes behind a head */

struct channel_address {
    uint64_t offset; /* in the file of the module */
    uint64_t module;
};

struct channel_line {
    uint32_t function, linkage, file; /* texts; the first two are not 0 */
    uint32_t line, start_line;
};

struct channel_state {
    uint32_t module;
    uint32_t lack; /* enum symbols_lack */
    uint64_t split_missing;
    uint64_t split_path; /* a text */
};

enum channel_file_kind {
    CHANNEL_MODULE,
    CHANNEL_MINI,
    CHANNEL_DEBUG,
    CHANNEL_SUPPLEMENT,
    CHANNEL_SPLIT
};

/* Followed by dir, name and build-id, without NULs; a length of 0 stands for NULL. */
struct channel_ask {
    uint32_t module;
    uint32_t what; /* enum channel_file_kind */
    uint32_t attempt;
    uint32_t dir_len, name_len, id_len;
};

struct channel_file {
    int64_t err; /* why there is none; 0: it comes with the record */
};

/* A list of records. */
struct channel_buffer {
    unsigned char *bytes;
    size_t len, capacity;
};

/* Adds a record. False: out of memory, or it is too long. */
bool channel_add(struct channel_buffer *buffer, enum channel_kind kind, const void *bytes,
                 size_t len);
/* Begins a record of len bytes, which channel_more adds. */
bool channel_begin(struct channel_buffer *buffer, enum channel_kind kind, size_t len);
bool channel_more(struct channel_buffer *buffer, const void *bytes, size_t len);
void channel_free(struct channel_buffer *buffer);
