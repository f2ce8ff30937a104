/* The names of capabilities (capabilities(7)). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "cap_net_admin, cap_sys_nice and 3 more" of a set with at least one bit. Returns out. */
const char *capabilities_name(uint64_t set, char *out, size_t size);
