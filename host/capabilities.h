/* Sets of capabilities, bit n for capability n (capabilities(7)). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Formats a set with at least one bit: "cap_net_admin, cap_sys_nice and 3 more". Returns out. */
const char *capabilities_name(uint64_t set, char *out, size_t size);

/* True if CAP_SYS_PTRACE is in the set. */
bool capabilities_have_ptrace(uint64_t set);
