/* The call frame information of a process, by address, with what was found before kept. */
#pragma once

#include "elf/modules.h"
#include "perf/cfi.h"

struct rows;

/* NULL: out of memory. All three must outlive it. */
struct rows *rows_new(const struct target *target, struct memory *memory,
                      const struct modules *modules);
void rows_free(struct rows *rows);

/*
 * Returns the row for pc, valid until the next call; NULL: there is none. *code: pc is
 * in a mapping that can be executed.
 */
const struct cfi_row *rows_at(struct rows *rows, remote_addr pc, bool *code);
