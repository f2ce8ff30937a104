/* The rules of watch in words. */
#pragma once

#include "run/rules.h"

/* "after > there must be a size ..." */
const char *rule_flaw_text(enum rule_flaw flaw);
/* "rss>2G (2.1 GiB, above 2 GiB)", as last measured. Returns out. */
const char *rule_describe(const struct rules *rules, size_t i, char *out, size_t size);
