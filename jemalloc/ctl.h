/* Typed calls of mallctl: several reads and writes in one stop. */
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
    CTL_FIXED,    /* fxp_t: 16 bits before the point, 16 after it */
    CTL_POINTER,  /* an address in the target */
    CTL_VOID,     /* neither read nor written */
    CTL_STRUCT,   /* any other type: ctl_run does not accept it */
};

enum { CTL_TEXT_MAX = 4160, CTL_OPS_MAX = 48 };

struct ctl_op {
    const char *name;
    enum ctl_type type;
    bool writes;        /* writes new_value; also reads the former value, if the name is readable */
    bool write_only;    /* prof.dump: EPERM if the old value is requested */
    bool into_buffer;   /* jemalloc may copy a text to where the old value points (8 bytes) */
    uint64_t new_value; /* not for CTL_STRING; signed types as two's complement */
    remote_addr new_text; /* CTL_STRING: an address in the target; 0: a null pointer */
    /* out */
    int rc;         /* returned by mallctl: 0, ENOENT, EPERM, EINVAL, EFAULT, EAGAIN */
    uint64_t value; /* the value read, like new_value; CTL_STRING: its address */
    char *text;     /* CTL_STRING: ctl_free frees it; NULL: null pointer or unreadable */
};

/* True if mallctl accepted the operation and the value that it read is not 0. */
static inline bool ctl_is_true(const struct ctl_op *op)
{
    return op->rc == 0 && op->value != 0;
}

/* Returns the size of a value in bytes; 0 for CTL_VOID and CTL_STRUCT. */
size_t ctl_type_size(enum ctl_type type);
/*
 * Runs count operations in the stopped thread, in order. A refusal by mallctl is
 * no fault: op.rc has it. intercept may be NULL.
 */
fault_code ctl_run(struct injection *injection, const struct instance *instance, struct ctl_op *ops,
                   size_t count, const struct intercept *intercept, struct fault *fault);
void ctl_free(struct ctl_op *ops, size_t count);

/*
 * Makes the first call of an instance that was found by its tables: it reads
 * "version", which must equal the text among its constants; FAULT_UNSUPPORTED
 * otherwise. Does nothing for an instance that was found by name.
 */
fault_code ctl_confirm(struct injection *injection, const struct instance *instance,
                       struct fault *fault);
