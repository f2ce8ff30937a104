/* /proc/PID/task/TID/syscall. */
#include "check.h"
#include "host/task.h"

#include <stdlib.h>
#include <string.h>

/* Parses a copy of exactly the text's length, so that a read beyond it is noticed. */
static bool parse_text(const char *text, struct proc_syscall *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);
    bool good = copy && parse_syscall(memcpy(copy, text, len), len, out);

    free(copy);
    return good;
}

static void test_asleep(void)
{
    struct proc_syscall call;

    CHECK(parse_text("232 0x4 0x7ffd11112222 0x1 0xffffffffffffffff 0x0 0x8 0x7ffd11112200 "
                     "0x7f1e964dd0ad\n",
                     &call));
    CHECK(call.asleep && call.nr == 232);
    CHECK(call.sp == 0x7ffd11112200 && call.pc == 0x7f1e964dd0ad);
    CHECK(parse_text("0 0x0 0x0 0x0 0x0 0x0 0x0 0x10 0x20\n", &call));
    CHECK(call.asleep && call.nr == 0 && call.sp == 0x10 && call.pc == 0x20);
}

static void test_without_a_call(void)
{
    struct proc_syscall call;

    CHECK(parse_text("-1 0x7ffd11112200 0x401000\n", &call));
    CHECK(call.asleep && call.nr == -1 && call.sp == 0x7ffd11112200 && call.pc == 0x401000);
    CHECK(parse_text("running\n", &call));
    CHECK(!call.asleep && call.nr == -1);
}

static void test_malformed(void)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "run",
                                        "running",
                                        "running \n",
                                        "232\n",
                                        "232 0x4 0x5\n",
                                        "232 1 2 3 4 5 6 7 8\n",
                                        "0x4 0x0 0x0 0x0 0x0 0x0 0x0 0x10 0x20\n",
                                        "-1 0x7ffd11112200\n",
                                        "99999999999 0x0 0x0 0x0 0x0 0x0 0x0 0x10 0x20\n",
                                        "1 0x0 0x0 0x0 0x0 0x0 0x0 0x10 0x11112222333344445\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct proc_syscall call;
        if (!CHECK(!parse_text(texts[i], &call) && !call.asleep))
            fprintf(stderr, "  %s", texts[i]);
    }
}

int main(void)
{
    test_asleep();
    test_without_a_call();
    test_malformed();
    return check_result();
}
