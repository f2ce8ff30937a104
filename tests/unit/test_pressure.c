/* Pressure files, and the kernel's own. */
#include "attach/pressure.h"
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool parse(const char *text, struct pressure *out)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);
    bool good = copy && pressure_parse(memcpy(copy, text, len), len, out);

    free(copy);
    return good;
}

static void test_texts(void)
{
    struct pressure found;

    CHECK(parse("some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\n"
                "full avg10=0.23 avg60=0.16 avg300=1.08 total=58217404\n",
                &found));
    CHECK(found.stalled_us[PRESSURE_SOME] == 58761459);
    CHECK(found.stalled_us[PRESSURE_FULL] == 58217404);
    CHECK(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7", &found));
    CHECK(found.stalled_us[PRESSURE_SOME] == 7 && found.stalled_us[PRESSURE_FULL] == 0);
}

static void test_wrong_texts(void)
{
    static const char *const texts[] = {
        "",
        "\n",
        "some",
        "some \n",
        "some total=\n",
        "some avg10=0 total=x\n",
        "full avg10=0.23 avg60=0.16 avg300=1.08 total=5\n",
        "some avg10=0 total=99999999999999999999999\n",
        "some avg10=0\nfull total=5\n",
        "something total=5\n",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pressure found;
        if (!CHECK(!parse(texts[i], &found)))
            fprintf(stderr, "  %s", texts[i]);
    }
}

static void test_own(void)
{
    struct procfs proc;
    struct pressure_file file;
    struct pressure first, second;

    if (!CHECK(procfs_open(&proc, "/proc") == 0))
        return;
    int err = pressure_open(&file, &proc, getpid());
    CHECK(err <= 0);
    if (err == 0) {
        CHECK(pressure_read(&file, &first) && pressure_read(&file, &second));
        CHECK(second.stalled_us[PRESSURE_SOME] >= first.stalled_us[PRESSURE_SOME]);
        int fd = pressure_trigger(&file, PRESSURE_SOME, 1999999, 2000000);
        CHECK(fd >= 0 || fd == -EINVAL || fd == -EPERM || fd == -EACCES || fd == -EROFS);
        if (fd >= 0)
            close(fd);
        CHECK(pressure_trigger(&file, PRESSURE_SOME, 1, 60000000) < 0); /* no such window */
    }
    pressure_close(&file);
    pressure_close(&file);
    CHECK(file.fd == -1 && !pressure_read(&file, &first));
    procfs_close(&proc);
}

int main(void)
{
    test_texts();
    test_wrong_texts();
    test_own();
    return check_result();
}
