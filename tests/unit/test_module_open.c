/* The file of a mapping: that file, or none. */
#include "check.h"
#include "elf_file.h"
#include "own.h"
#include "tree.h"

#include <errno.h>
#include <sys/sysmacros.h>

static struct own own;
static struct tree tree;
static struct elf_file file;
static char path[TREE_PATH_MAX];

/* The mapped range of the file, and its module. */
static struct {
    void *base;
    struct module module;
} mapped;

static bool map_file(void)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

    mapped.base = mmap(NULL, sizeof file, PROT_READ, MAP_PRIVATE, fd, 0);
    modules_free(&own.modules);
    if (mapped.base == MAP_FAILED || modules_load(&own.modules, &own.target, NULL) != FAULT_NONE)
        return false;
    const struct module *module = modules_at(&own.modules, (remote_addr)(uintptr_t)mapped.base);
    if (!module)
        return false;
    mapped.module = *module;
    memory_forget(&own.memory);
    return true;
}

static bool write_file(void)
{
    char name[TREE_PATH_MAX];

    return tree_write_bytes(&tree, "new", &file, sizeof file) &&
           rename(tree_name(&tree, "new", name), path) == 0;
}

/* By path alone: no mapping has this range. */
static struct module by_path(void)
{
    struct module module = mapped.module;

    module.first_end += 0x1000;
    return module;
}

static int open_result(const struct module *module)
{
    int fd = module_open(module, &own.target, &own.memory);

    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

static void test_same(void)
{
    struct module module = by_path();

    CHECK(strcmp(module.path, path) == 0 && !module.deleted);
    CHECK(open_result(&mapped.module) == 0);
    CHECK(open_result(&module) == 0);
    CHECK(write_file()); /* a copy: another inode, but the same build-id */
    CHECK(open_result(&module) == 0);
}

static void test_replaced(void)
{
    struct module module = by_path();

    file.note.desc[19]++;
    CHECK(write_file());
    CHECK(open_result(&module) == -ESTALE);
    file.note.desc[19]--;
    file.note.head.n_descsz = 16;
    CHECK(write_file());
    CHECK(open_result(&module) == -ESTALE);
    file.note.head.n_descsz = 20;
    module.deleted = true;
    CHECK(open_result(&module) == -ENOENT);
}

/*
 * The same inode with other bytes, while the mapping has kept its own: written without O_TRUNC,
 * which would take the copied page away.
 */
static void test_overwritten(void)
{
    const struct module module = by_path();
    AUTO_CLOSE int fd = -1;

    CHECK(mprotect(mapped.base, sizeof file, PROT_READ | PROT_WRITE) == 0);
    *(volatile unsigned char *)mapped.base = ELFMAG0; /* from here on a page of its own */
    fd = open(path, O_WRONLY | O_CLOEXEC);
    file.note.desc[0]++;
    CHECK(pwrite(fd, &file, sizeof file, 0) == (ssize_t)sizeof file);
    CHECK(open_result(&module) == -ESTALE);
    CHECK(open_result(&mapped.module) == -ESTALE);
    file.note.desc[0]--;
    CHECK(pwrite(fd, &file, sizeof file, 0) == (ssize_t)sizeof file);
    CHECK(open_result(&module) == 0);
}

/* Nothing that could block, or that is not a regular file. */
static void test_no_file(void)
{
    struct module module = by_path();

    unlink(path);
    CHECK(open_result(&module) == -ENOENT);
    CHECK(mkfifo(path, 0644) == 0);
    CHECK(open_result(&module) == -ESTALE);
    unlink(path);
    if (mknod(path, S_IFCHR | 0644, makedev(1, 99)) == 0) { /* to open it would give ENXIO */
        CHECK(open_result(&module) == -ESTALE);
        unlink(path);
    }
    CHECK(mkdir(path, 0755) == 0);
    CHECK(open_result(&module) == -ESTALE);
    rmdir(path);
    module.inode = 0;
    CHECK(open_result(&module) == -ENOENT);
}

/* Without build-ids, device and inode decide. */
static void test_no_build_id(void)
{
    munmap(mapped.base, sizeof file);
    file.phdrs[1].p_type = PT_NULL;
    CHECK(write_file());
    if (!CHECK(map_file()))
        return;
    struct module module = by_path();
    CHECK(open_result(&module) == 0);
    CHECK(write_file());
    CHECK(open_result(&module) == -ESTALE);
}

/* The device in maps may differ from the file's (overlayfs): the content decides. */
static void test_other_device(void)
{
    struct module module = by_path();
    char copy[sizeof file.strings];

    munmap(mapped.base, sizeof file);
    file.phdrs[0].p_flags = PF_R | PF_X;
    memcpy(copy, file.strings, sizeof copy);
    CHECK(write_file());
    if (!CHECK(map_file()))
        return;
    module = by_path();
    module.dev_major++;
    CHECK(open_result(&module) == 0);
    file.strings[1]++; /* the same headers, other code */
    CHECK(write_file());
    CHECK(open_result(&module) == -ESTALE);
    memcpy(file.strings, copy, sizeof copy);
    file.header.e_flags++;
    CHECK(write_file());
    CHECK(open_result(&module) == -ESTALE);
    file.header.e_flags--;
    CHECK(write_file());
    CHECK(open_result(&module) == 0);
}

/* Nothing executable to compare: no proof. */
static void test_no_code(void)
{
    struct module module;

    munmap(mapped.base, sizeof file);
    file.phdrs[0].p_flags = PF_R;
    CHECK(write_file());
    if (!CHECK(map_file()))
        return;
    module = by_path();
    module.dev_major++;
    CHECK(open_result(&module) == -ESTALE);
}

int main(void)
{
    if (!CHECK(own_open(&own)) || !CHECK(tree_make(&tree)))
        return check_result();
    tree_name(&tree, "lib with space.so", path);
    file_make(&file);
    if (CHECK(write_file()) && CHECK(map_file())) {
        test_overwritten();
        test_same();
        test_replaced();
        test_no_file();
        test_no_build_id();
        test_other_device();
        test_no_code();
    }
    munmap(mapped.base, sizeof file);
    tree_remove(&tree);
    own_close(&own);
    return check_result();
}
