/* A module whose files are given by a fuzz target, read in this process. */
#pragma once

#include "fuzz.h"
#include "profile/symbols/module_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* File descriptors; -1: there is none. */
static int own_module = -1, own_split = -1;

static int own_open(void *ctx, size_t module, const struct file_wanted *wanted)
{
    (void)ctx;
    (void)module;
    if (wanted->what == CHANNEL_MODULE)
        return fcntl(own_module, F_DUPFD_CLOEXEC, 0);
    if (wanted->what == CHANNEL_SPLIT && own_split >= 0 && !wanted->attempt)
        return fcntl(own_split, F_DUPFD_CLOEXEC, 0);
    return wanted->what == CHANNEL_SPLIT ? -EDOM : -ENOENT;
}

static inline void own_ask(struct module_symbols *module, uint64_t offset)
{
    const struct symbol_line *lines = NULL;
    size_t count = module_symbols_lines(module, offset, &lines);

    for (size_t j = 0; j < count; j++) {
        expect(lines[j].function && *lines[j].function);
        expect(lines[j].linkage && strlen(lines[j].linkage) < SYMBOL_NAME_MAX);
        expect(!lines[j].file || strlen(lines[j].file) < SIZE_MAX);
    }
}
