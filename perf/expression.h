/* DWARF expressions of call frame information (DWARF 5, 2.5; 6.4.2). Untrusted, so bounded. */
#pragma once

#include "perf/dwarf_bytes.h"

struct expression_source {
    /* Both return false if the value is not known. */
    bool (*word)(void *ctx, remote_addr addr, uint64_t *value);
    bool (*reg)(void *ctx, unsigned dwarf, uint64_t *value);
    void *ctx;
};

/* Evaluates the bytes with the CFA on the stack, if there is one. False: no value. */
bool expression_value(struct dwarf_bytes bytes, const uint64_t *cfa,
                      const struct expression_source *source, uint64_t *value);
