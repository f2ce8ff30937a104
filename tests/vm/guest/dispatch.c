/*
 * Syscall user dispatch, which Linux has since 5.11 and reports since 6.4. In between, a process
 * that handles SIGSYS may use it, and the tool uses only a thread that is named.
 */
#include "guest.h"

#include <stdio.h>
#include <sys/utsname.h>

enum { SECONDS = 60 };

static unsigned release(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;

    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2
               ? major * 100 + minor
               : 0;
}

/* tests/victims/forker.c */
static pid_t start_handler(const volatile uint64_t **report)
{
    const char *path = format("%s/report", make_directory());
    struct start start = {.variables = (const char *const[]){"LD_PRELOAD=libjemalloc.so.2",
                                                             "MALLOC_CONF=prof:true", NULL}};

    *report = map_numbers(path);
    if (!*report)
        return 0;
    pid_t pid =
        process_start(&start, (const char *const[]){"/victims/forker", path, "handles", NULL});
    return WAIT_UNTIL((*report)[0] && (*report)[1] > 2, SECONDS) ? pid : 0;
}

static void untold(void)
{
    const volatile uint64_t *report;
    pid_t pid = start_handler(&report);
    bool tells = release() < 511 || release() >= 604;

    REQUIRE(pid, "the target does not start");
    struct result result = TOOL("on", "--call", text_of(pid));
    if (tells)
        REQUIRE(result.code == 0, "refused: %s", result_text(&result));
    else if (!result_is(&result, 7,
                        (const char *const[]){"may have syscall user", "--thread", NULL}))
        return;
    result = TOOL("off", text_of(pid), "--thread", text_of(pid));
    REQUIRE(result.code == 0, "refused by name: %s", result_text(&result));
    REQUIRE(WAIT_UNTIL(report[1] >= 100, SECONDS) && process_alive(pid), "it does not go on");
    check_note("%s", tells ? "used" : "used by name");
}

const struct check dispatch_checks[] = {
    {"dispatch.untold", untold, false},
    {NULL, NULL, false},
};
