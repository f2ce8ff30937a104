/* Uses of names in one held stop: reads, writes that are read back, and actions. */
#pragma once

#include "jemalloc/names.h"

enum { ACCESS_TEXT_MAX = 1024 }; /* bytes of a text to write, with its NUL */

struct access {
    char name[CTL_NAME_MAX];
    const struct ctl_name *entry; /* NULL: a name that is not in the table, only to be read */
    enum ctl_type type;
    unsigned use;     /* NAME_READ, NAME_WRITE or NAME_ACT */
    uint64_t value;   /* to write, as ctl_op.new_value */
    const char *text; /* to write, CTL_STRING */
    /* out; the texts are the caller's to free (access_free) */
    int rc;       /* mallctl's return */
    bool has_old; /* a write: what it replaced */
    uint64_t old_value;
    char *old_text;
    bool has_now; /* what was read, after a write: read back */
    uint64_t now_value;
    char *now_text;
};

/*
 * Makes the held thread use all names, in order; each has been judged before
 * (name_judge). A name that needs a fresh epoch gets one, unless epoch itself
 * is among them. What mallctl refuses is in access.rc and no fault.
 */
fault_code access_run(struct injection *injection, const struct instance *instance,
                      struct access *list, size_t count, struct fault *fault);

/* False if a value was written and another one was read back. */
bool access_kept(const struct access *access);

void access_free(struct access *list, size_t count);
