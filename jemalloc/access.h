/* Uses names in one stop: reads them, writes values and reads them back, performs actions. */
#pragma once

#include "jemalloc/names.h"

enum { ACCESS_TEXT_MAX = 1024 }; /* bytes of a text to write, with its NUL */

struct access {
    char name[CTL_NAME_MAX];
    const struct ctl_name *entry;
    enum ctl_type type;
    unsigned use;     /* NAME_READ, NAME_WRITE or NAME_ACT */
    uint64_t value;   /* to write, as ctl_op.new_value */
    const char *text; /* to write, CTL_STRING */
    /* out; access_free frees the texts */
    int rc;       /* returned by mallctl */
    bool has_old; /* a write: the value that it replaced */
    uint64_t old_value;
    char *old_text;
    bool has_now; /* the value read; after a write, the value read back */
    uint64_t now_value;
    char *now_text;
};

/*
 * Makes the stopped thread use all names, in order. The caller has judged each
 * of them (name_judge). If a name needs a new epoch, epoch is written first,
 * unless it is in the list itself. A refusal by mallctl is no fault: access.rc
 * has it.
 */
fault_code access_run(struct injection *injection, const struct instance *instance,
                      struct access *list, size_t count, struct fault *fault);

/* False if the value read back is not the value written. */
bool access_kept(const struct access *access);

void access_free(struct access *list, size_t count);
