/* mallctl, typed: several reads and writes in one stop. */
#pragma once

#include "inject/call.h"
#include "jemalloc/instance.h"

enum ctl_type {
    CTL_BOOL,     /* bool: exactly 1 byte */
    CTL_SIZE,     /* size_t */
    CTL_UINT64,   /* uint64_t */
    CTL_STRING,   /* const char * */
    CTL_UNSIGNED, /* unsigned, uint32_t: 4 bytes */
    CTL_SSIZE,    /* ssize_t */
    CTL_INT64,    /* int64_t */
    CTL_FIXED,    /* fxp_t: 16 bits before the point and 16 behind it */
    CTL_POINTER,  /* an address in the target */
    CTL_VOID,     /* neither read nor written */
    CTL_STRUCT,   /* anything else: ctl_run does not take it */
};

enum { CTL_TEXT_MAX = 4160, CTL_OPS_MAX = 48 };

struct ctl_op {
    const char *name;
    enum ctl_type type;
    bool writes;          /* new_value is written; a readable name gives its former value too */
    bool write_only;      /* prof.dump: EPERM if asked for the old value */
    bool into_buffer;     /* CTL_STRING: jemalloc copies the text to where the old value points */
    uint64_t new_value;   /* all types but CTL_STRING, signed ones as two's complement */
    remote_addr new_text; /* CTL_STRING: an address in the target; 0: a null pointer */
    /* out */
    int rc;         /* mallctl's return: 0, ENOENT, EPERM, EINVAL, EFAULT, EAGAIN */
    uint64_t value; /* as new_value; CTL_STRING: its address */
    char *text;     /* CTL_STRING: the caller's to free; NULL: null pointer or unreadable */
};

/* True if the operation was made, and the value that it read is not 0. */
static inline bool ctl_is_true(const struct ctl_op *op)
{
    return op->rc == 0 && op->value != 0;
}

/* Bytes of a value; 0 for CTL_VOID and CTL_STRUCT. */
size_t ctl_type_size(enum ctl_type type);
/*
 * Runs count operations in order in the held thread. What mallctl refuses is
 * in op.rc and no fault. intercept may be NULL.
 */
fault_code ctl_run(struct injection *injection, const struct instance *instance, struct ctl_op *ops,
                   size_t count, const struct intercept *intercept, struct fault *fault);
void ctl_free(struct ctl_op *ops, size_t count);

/*
 * The first call of an instance that was found by its tables: "version", alone,
 * which must be the text that its constants have. FAULT_UNSUPPORTED otherwise.
 * Of one that was found by name nothing is asked.
 */
fault_code ctl_confirm(struct injection *injection, const struct instance *instance,
                       struct fault *fault);
