/* mallctl, typed: several reads and writes in one stop. */
#pragma once

#include "inject/call.h"
#include "jemalloc/instance.h"

enum ctl_type {
    CTL_BOOL,   /* bool: exactly 1 byte */
    CTL_SIZE,   /* size_t, also uint64_t */
    CTL_STRING, /* const char * */
};

enum { CTL_TEXT_MAX = 4160, CTL_OPS_MAX = 16 };

struct ctl_op {
    const char *name;
    enum ctl_type type;
    bool writes;          /* new_value is written; a readable name gives its former value too */
    bool write_only;      /* prof.dump: EPERM if asked for the old value */
    uint64_t new_value;   /* CTL_BOOL, CTL_SIZE */
    remote_addr new_text; /* CTL_STRING: an address in the target; 0: a null pointer */
    /* out */
    int rc;         /* mallctl's return: 0, ENOENT, EPERM, EINVAL, EFAULT, EAGAIN */
    uint64_t value; /* CTL_BOOL, CTL_SIZE */
    char *text;     /* CTL_STRING: the caller's to free; NULL: null pointer or unreadable */
};

/*
 * Runs count operations in order in the held thread. What mallctl refuses is
 * in op.rc and no fault. watch may be NULL.
 */
enum fault_code ctl_run(struct injection *injection, const struct instance *instance,
                        struct ctl_op *ops, size_t count, const struct watch *watch,
                        struct fault *fault);
void ctl_free(struct ctl_op *ops, size_t count);

/*
 * The first call of an instance that was found by its tables: "version", alone,
 * which must be the text that its constants have. FAULT_UNSUPPORTED otherwise.
 * Of one that was found by name nothing is asked.
 */
enum fault_code ctl_confirm(struct injection *injection, const struct instance *instance,
                            struct fault *fault);
