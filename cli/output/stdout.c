#include "cli/output/stdout.h"
#include "base/util.h"
#include "run/faults.h"
#include "run/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM_BUFFER = 64 << 10, SIGNALS = 2 /* the second Ctrl-C ends a write */ };

static int stdout_err; /* of the first write that failed */

bool stdout_write(const char *bytes, size_t len)
{
    if (!stdout_err)
        stdout_err = output_write_all(STDOUT_FILENO, (const unsigned char *)bytes, len, SIGNALS);
    errno = stdout_err;
    return !stdout_err;
}

static ssize_t stdout_cookie_write(void *cookie, const char *bytes, size_t len)
{
    (void)cookie;
    return stdout_write(bytes, len) ? (ssize_t)len : 0;
}

void stdout_init(void)
{
    static const cookie_io_functions_t functions = {.write = stdout_cookie_write};
    FILE *stream = fopencookie(NULL, "w", functions);

    if (!stream)
        return;
    setvbuf(stream, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, STREAM_BUFFER);
    stdout = stream;
}

fault_code stdout_check(struct fault *fault)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return FAULT_NONE;
    return output_stdout_failed(fault, stdout_err ? stdout_err : errno);
}

bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
    }
    return false;
}
