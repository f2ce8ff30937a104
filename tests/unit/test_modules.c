/* Modules from the text of /proc/PID/maps. */
#include "check.h"
#include "elf/modules.h"

#include <stdlib.h>
#include <string.h>

static struct modules parse(const char *text)
{
    struct modules modules;

    CHECK(modules_parse(&modules, text, strlen(text)));
    return modules;
}

/* A program, a library with a hole, a deleted one, the vdso, stacks. */
static const char ordinary[] =
    "555555554000-555555556000 r--p 00000000 08:01 100            /usr/bin/my server\n"
    "555555556000-55555555a000 r-xp 00002000 08:01 100            /usr/bin/my server\n"
    "55555555a000-55555555b000 rw-p 00006000 08:01 100            /usr/bin/my server\n"
    "55555555b000-555555580000 rw-p 00000000 00:00 0              [heap]\n"
    "7ffff7a00000-7ffff7a20000 r--p 00000000 08:01 200            /lib/libc.so.6\n"
    "7ffff7a20000-7ffff7b00000 r-xp 00020000 08:01 200            /lib/libc.so.6\n"
    "7ffff7b00000-7ffff7b10000 ---p 00100000 08:01 200            /lib/libc.so.6\n"
    "7ffff7b10000-7ffff7b18000 rw-p 00100000 08:01 200            /lib/libc.so.6\n"
    "7ffff7b18000-7ffff7b20000 rw-p 00000000 00:00 0 \n"
    "7ffff7c00000-7ffff7c01000 r-xp 00000000 08:02 200            /tmp/two\\012lines (deleted)\n"
    "7ffff7c01000-7ffff7c02000 r-xp 00000000 09:02 200            /tmp/other device\n"
    "7ffff7d00000-7ffff7d01000 rw-s 00000000 00:05 7              /memfd:(deleted) (deleted)\n"
    "7ffff7fc0000-7ffff7fc4000 r--p 00000000 00:00 0              [vvar]\n"
    "7ffff7fc4000-7ffff7fc6000 r-xp 00000000 00:00 0              [vdso]\n"
    "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0              [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0      [vsyscall]\n";

static void check_module(const struct module *module, const char *path, bool deleted, size_t hull,
                         size_t code)
{
    CHECK(strcmp(module->path, path) == 0);
    CHECK(module->deleted == deleted);
    CHECK(module->end - module->start == hull);
    CHECK(module->exec_end - module->exec_start == code);
}

static void test_ordinary(void)
{
    struct modules modules = parse(ordinary);

    if (!CHECK(modules.count == 6 && modules.vma_count == 16))
        return;
    check_module(&modules.list[0], "/usr/bin/my server", false, 0x7000, 0x4000);
    check_module(&modules.list[1], "/lib/libc.so.6", false, 0x118000, 0xe0000);
    check_module(&modules.list[2], "/tmp/two\nlines", true, 0x1000, 0x1000);
    check_module(&modules.list[3], "/tmp/other device", false, 0x1000, 0x1000);
    check_module(&modules.list[4], "/memfd:(deleted)", true, 0x1000, 0);
    check_module(&modules.list[5], "[vdso]", false, 0x2000, 0x2000);
    CHECK(modules.list[0].start == 0x555555554000 && modules.list[0].first_end == 0x555555556000);
    CHECK(modules.list[0].exec_start == 0x555555556000);
    CHECK(modules.list[1].first_end == 0x7ffff7a20000 && modules.list[1].inode == 200);
    CHECK(modules.list[2].dev_major == 8 && modules.list[2].dev_minor == 2);
    CHECK(modules.list[5].inode == 0);
    CHECK(strcmp(module_name(&modules.list[0]), "my server") == 0);
    CHECK(strcmp(module_name(&modules.list[5]), "[vdso]") == 0);
    modules_free(&modules);
    CHECK(!modules.vmas && !modules.list && !modules.count && !modules.vma_count);
}

/* The index of the mapping at an address; -1: none. */
static int index_at(const struct modules *modules, remote_addr addr)
{
    const struct vma *vma = modules_vma_at(modules, addr);
    return vma ? (int)(vma - modules->vmas) : -1;
}

static void test_borders(void)
{
    static const struct {
        remote_addr addr;
        int vma, module;
    } rows[] = {
        {0, -1, -1},
        {0x555555553fff, -1, -1},
        {0x555555554000, 0, 0},
        {0x555555555fff, 0, 0},
        {0x555555556000, 1, 0},
        {0x55555555afff, 2, 0},
        {0x55555555b000, 3, -1},
        {0x55555557ffff, 3, -1},
        {0x555555580000, -1, -1},
        {0x7ffff7b05000, 6, 1},
        {0x7ffff7b17fff, 7, 1},
        {0x7ffff7b18000, 8, -1},
        {0x7ffff7c00fff, 9, 2},
        {0x7ffff7c01000, 10, 3},
        {0x7ffff7c02000, -1, -1},
        {0x7ffff7fc5fff, 13, 5},
        {0x7ffffffde000, 14, -1},
        {0x7fffffffefff, 14, -1},
        {0x7ffffffff000, -1, -1},
        {0xffffffffff600000, 15, -1},
        {0xffffffffff601000, -1, -1},
        {UINT64_MAX, -1, -1},
    };
    struct modules modules = parse(ordinary);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct module *module = modules_at(&modules, rows[i].addr);
        CHECK(index_at(&modules, rows[i].addr) == rows[i].vma);
        CHECK((module ? (int)(module - modules.list) : -1) == rows[i].module);
    }
    modules_free(&modules);
}

/* Only the kernel's own name counts, not a file with that name. */
static void test_stack(void)
{
    struct modules modules = parse("1000-2000 rw-p 0 08:01 5 [stack]\n"
                                   "2000-3000 rw-p 0 00:00 0 /[stack]\n"
                                   "3000-4000 rw-p 0 00:00 0 [stack]x\n"
                                   "4000-5000 rw-p 0 00:00 0 [stack]\n"
                                   "5000-6000 rw-p 0 00:00 0 [stack:77]\n");

    CHECK(modules.vma_count == 5);
    for (size_t i = 0; i < modules.vma_count; i++)
        CHECK(modules.vmas[i].stack == (i == 3));
    modules_free(&modules);
}

/* Only read-only file mappings may be cached. */
static void test_unchanging(void)
{
    static const remote_addr changing[] = {0x55555555a000, 0x55555555b000, 0x7ffff7b00000,
                                           0x7ffff7b10000, 0x7ffff7b18000, 0x7ffff7d00000,
                                           0x7ffff7d01000, 0x7ffff7fc0000, 0x7fffffffe000};
    struct modules modules = parse(ordinary);
    struct memory memory = {.memfd = -1, .mapsfd = -1};

    modules_tell_memory(&modules, &memory);
    CHECK(memory.unchanging_count == 6);
    CHECK(memory_is_unchanging(&memory, 0x555555554000));
    CHECK(memory_is_unchanging(&memory, 0x555555559fff));
    CHECK(memory_is_unchanging(&memory, 0x7ffff7a20000));
    CHECK(memory_is_unchanging(&memory, 0x7ffff7c01fff));
    for (size_t i = 0; i < ARRAY_LEN(changing); i++)
        CHECK(!memory_is_unchanging(&memory, changing[i]));
    memory_close(&memory);
    modules_free(&modules);
}

/* What /proc/PID/mem would show by force, ask a device for, or extend. */
static void test_guarded(void)
{
    static const struct memory_range expected[] = {
        {0x1000, 0x2000}, {0x3000, 0x4000}, {0x4000, 0x5000}, {0x9000, 0xc000}};
    struct modules modules = parse("1000-2000 rw-s 0 00:05 7 /dev/nvidia0\n"
                                   "2000-3000 rw-p 0 00:00 0\n"
                                   "3000-4000 ---p 0 00:00 0\n"
                                   "4000-5000 r--s 0 00:12 8 /sys/devices/pci/resource0\n"
                                   "5000-6000 rw-s 0 00:05 9 /dev/shm/heap\n"
                                   "6000-7000 rw-p 0 00:05 4 /dev/zero\n"
                                   "7000-9000 r-xp 0 08:01 5 /lib/a\n"
                                   "c000-d000 rw-p 0 00:00 0 [stack]\n");
    struct memory memory = {.memfd = -1, .mapsfd = -1};

    modules_tell_memory(&modules, &memory);
    CHECK(memory.guarded_count == ARRAY_LEN(expected) &&
          memcmp(memory.guarded, expected, sizeof expected) == 0);
    memory_close(&memory);
    modules_free(&modules);
}

static void test_bad_lines(void)
{
    struct modules modules = parse("garbage\n"
                                   "3000-4000 r-xp 0 08:01 5 /a\n"
                                   "\n"
                                   "2000-3000 r-xp 0 08:01 6 /before\n"
                                   "3800-4800 r-xp 0 08:01 7 /overlap\n"
                                   "4000-5000 r-xp 1000 08:01 5 /a");

    CHECK(modules.vma_count == 2 && modules.count == 1);
    CHECK(modules.list[0].start == 0x3000 && modules.list[0].end == 0x5000);
    modules_free(&modules);
    modules = parse("");
    CHECK(modules.vma_count == 0 && modules.count == 0 && !modules_vma_at(&modules, 0));
    modules_free(&modules);
}

static void test_names(void)
{
    struct modules modules = parse("1000-2000 r--p 0 08:01 1 /x (deleted)\n"
                                   "2000-3000 r--p 0 08:01 2 (deleted)\n"
                                   "3000-4000 r--p 0 08:01 3 /x (deleted) \n"
                                   "4000-5000 r--p 0 08:01 4 /a\\012\\01\\0123\\\n"
                                   "5000-6000 r--p 0 08:01 5\n"
                                   "6000-7000 r--p 0 08:01 6 /\n");

    CHECK(modules.count == 6);
    check_module(&modules.list[0], "/x", true, 0x1000, 0);
    check_module(&modules.list[1], "(deleted)", false, 0x1000, 0);
    check_module(&modules.list[2], "/x (deleted) ", false, 0x1000, 0);
    check_module(&modules.list[3], "/a\n\\01\n3\\", false, 0x1000, 0);
    check_module(&modules.list[4], "", false, 0x1000, 0);
    CHECK(strcmp(module_name(&modules.list[5]), "") == 0);
    modules_free(&modules);
}

/* Growth of both lists. */
static void test_many(void)
{
    enum { LINES = 5000, LINE = 64 };
    char *text = malloc((size_t)LINES * LINE), *at = text;

    if (!CHECK(text != NULL))
        return;
    for (int i = 0; i < LINES; i++)
        at += snprintf(at, LINE, "%x-%x r-xp 0 08:01 %d /lib%d\n", (i + 1) * 0x2000,
                       (i + 1) * 0x2000 + 0x1000, i + 1, i);
    struct modules modules = parse(text);
    CHECK(modules.count == LINES && modules.vma_count == LINES);
    for (int i = 0; i < LINES; i++) {
        const struct module *module = modules_at(&modules, (remote_addr)(i + 1) * 0x2000 + 0xfff);
        CHECK(module == &modules.list[i] && module->inode == (uint64_t)i + 1);
        CHECK(!modules_at(&modules, (remote_addr)(i + 1) * 0x2000 + 0x1000));
    }
    modules_free(&modules);
    free(text);
}

/*
 * A process that reads its own library through mmap(2), as symbolizers do, has
 * a second mapping of the file. The ELF header of the code is that of its own
 * group of mappings, not the copy's.
 */
static void test_copy_before(void)
{
    struct modules modules =
        parse("7f0000000000-7f00000e0000 r--p 00000000 08:01 5 /lib/libj.so\n"
              "7f0000100000-7f0000140000 rw-p 00000000 00:00 0 \n"
              "7f0000200000-7f0000220000 r--p 00000000 08:01 5 /lib/libj.so\n"
              "7f0000220000-7f00002c0000 r-xp 00020000 08:01 5 /lib/libj.so\n"
              "7f00002c0000-7f00002e0000 rw-p 000c0000 08:01 5 /lib/libj.so\n");
    const struct module *module = modules_at(&modules, 0x7f0000230000);

    CHECK(module && module->start == 0x7f0000200000 && module->end == 0x7f00002e0000);
    CHECK(module && module->exec_start == 0x7f0000220000);
    modules_free(&modules);
}

/* The same where the linker has put header and code into one segment. */
static void test_copy_before_one_segment(void)
{
    struct modules modules =
        parse("7f0000000000-7f00000e0000 r--p 00000000 08:01 5 /lib/libj.so\n"
              "7f0000200000-7f00002c0000 r-xp 00000000 08:01 5 /lib/libj.so\n"
              "7f00002c0000-7f00002e0000 rw-p 000c0000 08:01 5 /lib/libj.so\n");
    const struct module *module = modules_at(&modules, 0x7f0000230000);

    CHECK(module && module->start == 0x7f0000200000 && module->end == 0x7f00002e0000);
    CHECK(module && module->exec_start == 0x7f0000200000);
    modules_free(&modules);
}

static void test_copy_behind(void)
{
    struct modules modules =
        parse("7f0000200000-7f0000220000 r--p 00000000 08:01 5 /lib/libj.so\n"
              "7f0000220000-7f00002c0000 r-xp 00020000 08:01 5 /lib/libj.so\n"
              "7f00002c0000-7f00002e0000 rw-p 000c0000 08:01 5 /lib/libj.so\n"
              "7f00002e0000-7f00003c0000 r--p 00000000 08:01 5 /lib/libj.so\n");
    const struct module *module = modules_at(&modules, 0x7f0000230000);

    CHECK(module && module->start == 0x7f0000200000 && module->end == 0x7f00002e0000);
    modules_free(&modules);
}

/* Cases that must stay one module: a page of the file mapped twice, a hole that is older than its
   end. */
static void test_offsets_of_one(void)
{
    struct modules modules = parse("10000-11000 r--p 00000000 08:01 5 /tiny\n"
                                   "11000-12000 r-xp 00000000 08:01 5 /tiny\n"
                                   "12000-13000 rw-p 00000000 08:01 5 /tiny\n"
                                   "20000-30000 r-xp 00000000 08:01 6 /old\n"
                                   "30000-90000 ---p 00010000 08:01 6 /old\n"
                                   "90000-91000 r--p 00010000 08:01 6 /old\n"
                                   "91000-92000 rw-p 00011000 08:01 6 /old\n");

    CHECK(modules.count == 2);
    CHECK(modules.list[0].start == 0x10000 && modules.list[0].end == 0x13000);
    CHECK(modules.list[1].start == 0x20000 && modules.list[1].end == 0x92000);
    modules_free(&modules);
}

/* Code that a program has moved into anonymous memory, all of it; a JIT's code has no module. */
static void test_moved_code(void)
{
    static const char moved[] =
        "555555400000-555555600000 r--p 00000000 08:01 100            /usr/bin/huge\n"
        "555555600000-555555c00000 r-xp 00000000 00:00 0 \n"
        "555555c00000-555555c10000 rw-p 00800000 08:01 100            /usr/bin/huge\n"
        "555555d00000-555555d10000 r-xp 00000000 00:00 0 \n"
        "7ffff7a00000-7ffff7a20000 r--p 00000000 08:01 200            /lib/libc.so.6\n"
        "7ffff7a20000-7ffff7b00000 r-xp 00020000 08:01 200            /lib/libc.so.6\n"
        "7ffff7b00000-7ffff7b10000 r-xp 00000000 00:00 0 \n"
        "7ffff7b10000-7ffff7b18000 rw-p 00100000 08:01 200            /lib/libc.so.6\n";
    struct modules modules = parse(moved);

    if (CHECK(modules.count == 2)) {
        check_module(&modules.list[0], "/usr/bin/huge", false, 0x810000, 0x600000);
        check_module(&modules.list[1], "/lib/libc.so.6", false, 0x118000, 0xe0000);
    }
    modules_free(&modules);
}

static bool is_same(const char *a, const char *b)
{
    struct modules x = parse(a), y = parse(b);
    bool same = modules_same_code(&x, &y);

    CHECK(same == modules_same_code(&y, &x));
    modules_free(&x);
    modules_free(&y);
    return same;
}

#define APP   "1000-2000 r-xp 00000000 08:02 1 /bin/app\n"
#define LIB   "8000-9000 r-xp 00000000 08:02 2 /lib/a.so\n"
#define OTHER "8000-9000 r-xp 00000000 08:02 3 /lib/a.so\n"
#define MOVED "9000-a000 r-xp 00000000 08:02 2 /lib/a.so\n"
#define GONE  "8000-9000 r-xp 00000000 08:02 2 /lib/a.so (deleted)\n"

/* Heaps, stacks and code made at run time come and go. */
static void test_same_code(void)
{
    CHECK(is_same(APP LIB, APP LIB) && is_same("", ""));
    CHECK(is_same(APP LIB, APP "3000-4000 rw-p 00000000 00:00 0\n" LIB));
    CHECK(is_same(APP LIB, APP "3000-4000 rwxp 00000000 00:00 0\n" LIB));
    CHECK(is_same(APP LIB, APP LIB "9000-a000 rw-p 00001000 08:02 2 /lib/a.so\n"));
    CHECK(!is_same(APP, APP LIB) && !is_same("", APP) && !is_same(APP, LIB));
    CHECK(!is_same(APP LIB, APP OTHER) && !is_same(APP LIB, APP MOVED));
    CHECK(!is_same(APP LIB, APP GONE));
}

int main(void)
{
    test_same_code();
    test_ordinary();
    test_moved_code();
    test_borders();
    test_stack();
    test_unchanging();
    test_guarded();
    test_bad_lines();
    test_names();
    test_many();
    test_copy_before();
    test_copy_before_one_segment();
    test_copy_behind();
    test_offsets_of_one();
    return check_result();
}
