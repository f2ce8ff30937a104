/* Pressure files: recorded ones, and the kernel's own. */
#include "check.h"
#include "host/pressure.h"
#include "tree.h"

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

/* ---- cgroups with other files ---- */

static const char psi_text[] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
                               "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";

/* A /proc in which process 42 is in the cgroup /g, of a cgroup2 mount that is the directory v2. */
static bool make_group(struct tree *tree, struct procfs *proc)
{
    char line[TREE_PATH_MAX + 128], path[TREE_PATH_MAX], group[TREE_PATH_MAX];

    snprintf(line, sizeof line, "36 35 0:32 / %s rw - cgroup2 cgroup rw\n",
             tree_name(tree, "v2", path));
    tree_parents(tree_name(tree, "v2/g/x", group));
    return tree_write(tree, "proc/self/mountinfo", line) &&
           tree_link(tree, "proc/self/root", "/") && tree_write(tree, "proc/42/mountinfo", line) &&
           tree_write(tree, "proc/42/cgroup", "0::/g\n") && tree_write(tree, "other", psi_text) &&
           procfs_open(proc, tree_name(tree, "proc", path)) == 0;
}

static bool is_untouched(const struct tree *tree, const char *name)
{
    char path[TREE_PATH_MAX], text[256] = "";
    int fd = open(tree_name(tree, name, path), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    close(fd);
    return n == (ssize_t)strlen(psi_text) && strcmp(text, psi_text) == 0;
}

/* fill makes the file that replaces the cgroup's; exchange replaces it between the open and the
   trigger. */
static void look_at_group(void (*fill)(const char *path, const char *other),
                          void (*exchange)(const char *path, const char *other))
{
    char at[TREE_PATH_MAX], other[TREE_PATH_MAX];
    struct pressure_file file;
    struct procfs proc;
    struct tree tree;

    if (!CHECK(tree_make(&tree)))
        return;
    if (CHECK(make_group(&tree, &proc))) {
        tree_name(&tree, "v2/g/memory.pressure", at);
        fill(at, tree_name(&tree, "other", other));
        int err = pressure_open(&file, &proc, 42);
        CHECK(exchange ? !err && !file.whole_host : err || file.whole_host);
        if (exchange)
            exchange(at, other);
        int fd = err ? -1 : pressure_trigger(&file, PRESSURE_SOME, 150000, 2000000);
        if (fd >= 0)
            close(fd);
        CHECK(is_untouched(&tree, "other"));
        pressure_close(&file);
        procfs_close(&proc);
    }
    tree_remove(&tree);
}

/* On the recording's file system it counts as a cgroup's own; e2e.hostile_paths has a /proc. */
static void put_file(const char *path, const char *other)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    (void)other;
    CHECK(fd >= 0 && write(fd, psi_text, strlen(psi_text)) == (ssize_t)strlen(psi_text));
    close(fd);
}

static void put_link(const char *path, const char *other)
{
    CHECK(symlink(other, path) == 0);
}

/* Nobody will ever write to it: an open for reading waits for ever. */
static void put_fifo(const char *path, const char *other)
{
    (void)other;
    CHECK(mkfifo(path, 0600) == 0);
}

static void put_host(const char *path, const char *other)
{
    (void)other;
    CHECK(symlink("/proc/pressure/memory", path) == 0);
}

static void exchange_for_other(const char *path, const char *other)
{
    CHECK(unlink(path) == 0 && link(other, path) == 0);
}

static void test_forged_groups(void)
{
    look_at_group(put_file, exchange_for_other);
    look_at_group(put_link, NULL);
    look_at_group(put_host, NULL);
    look_at_group(put_fifo, NULL);
}

int main(void)
{
    alarm(40);
    test_texts();
    test_wrong_texts();
    test_own();
    test_forged_groups();
    return check_result();
}
