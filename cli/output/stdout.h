/* stdout, as a stream that loses nothing when a signal interrupts a write. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * From here on what is printed on stdout waits for its reader, and nothing is
 * written after a write that has failed. stdio's own stream would lose what a
 * tick interrupts. Must be called before anything is printed.
 */
void stdout_init(void);
/* Writes past that stream, in the same way. False with errno. */
bool stdout_write(const char *bytes, size_t len);
/* True if the locale says that text is UTF-8 (locale(7): the first variable that is set). */
bool locale_is_utf8(void);
/* FAULT_NONE if everything printed on stdout has been written, else FAULT_OUTPUT. */
fault_code stdout_check(struct fault *fault);
