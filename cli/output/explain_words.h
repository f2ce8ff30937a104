/* The words of explain that its screen and its JSON share. */
#pragma once

#include "cli/message.h"
#include "cli/output/advice.h"
#include "run/explain/explain.h"

enum {
    EXPLAIN_VERDICT = 768,
    EXPLAIN_COMMAND = MESSAGE_LINE,
    OWN_LIMIT_TEXT = 128,
    ROUGH_TIME = 16
};

/* Writes the answer in one sentence. Returns out. */
const char *explain_verdict(const struct explain *explain, char out[EXPLAIN_VERDICT]);

/* Writes what has grown in a longer look, with its parts; "": there was none. Returns out. */
const char *explain_growth(const struct explain *explain, char out[EXPLAIN_VERDICT]);

/* Writes "-m 1 GiB: its items grow up to that"; NULL: no limit of its own is known. */
const char *own_limit_text(const struct own_limit *limit, const char *comm,
                           char out[OWN_LIMIT_TEXT]);

/* Writes a time as the nearest of a few: "20 min". Returns out. */
const char *time_rough(uint64_t seconds, char out[ROUGH_TIME]);

/* Returns the fact that comes first, in JSON: "between"; NULL: nothing is known. */
const char *explain_headline_name(const struct explain *explain);

/* Fills in what can be done about free memory, where that is a fact. */
void explain_advice(const struct explain *explain, struct advice *advice);

/* Writes the next command, or the remedy if a right is missing. Returns out. */
const char *explain_command(const struct explain *explain, const struct subject *subject,
                            char out[EXPLAIN_COMMAND]);
/* Returns the reason for it, a sentence without a full stop; out may have it. */
const char *explain_reason(const struct explain *explain, char out[EXPLAIN_COMMAND]);
/* Returns its name in JSON: "leak". */
const char *explain_step_name(enum explain_step step);

/* What a cgroup has: "page cache". */
struct group_label {
    const char *json, *words;
};
extern const struct group_label group_labels[GROUP_KINDS];

/* What the kernel counts apart: in rows, in JSON, and in a sentence about what is outside. */
struct kind_label {
    const char *name, *json, *meaning, *words;
};
extern const struct kind_label kind_labels[OUTSIDE_KINDS];

/* Returns the name of an allocator: "glibc malloc". */
const char *heap_kind_name(enum heap_kind kind);
/* Writes the names of all that are set: "Go", "Python, glibc malloc"; "" if there is none. */
const char *heap_kinds_text(unsigned kinds, char *out, size_t size);
