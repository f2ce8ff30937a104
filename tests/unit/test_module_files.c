/* Which files a confined child can make the tool open, and gets. */
#include "check.h"
#include "elf_file.h"
#include "profile/symbols/module_files.h"
#include "tree.h"

#include <errno.h>

static int split(const struct symbols_options *options, const char *name, unsigned attempt)
{
    const struct file_wanted wanted = {.what = CHANNEL_SPLIT, .name = name, .attempt = attempt};
    struct module_files files = {.fd = -1};
    const int fd = module_files_want(&files, "/bin/program", options, &wanted);

    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

/* That they are named in debug information is no proof that they belong to it. */
static void test_kinds(const struct tree *tree)
{
    const struct symbols_options options = {.root = tree->path};
    struct elf_file file;

    file_make(&file);
    CHECK(tree_write_bytes(tree, "a.dwo", &file, sizeof file));
    CHECK(split(&options, "/a.dwo", 1) == 0);
    file.header.e_type = ET_CORE;
    CHECK(tree_write_bytes(tree, "core", &file, sizeof file));
    CHECK(split(&options, "/core", 1) == -ENOEXEC);
    CHECK(tree_write(tree, "shadow", "root:$y$j9T$c2VjcmV0:19000:0:99999:7:::\n"));
    CHECK(split(&options, "/shadow", 1) == -ENOEXEC);
}

/* In no other root than that of a target. */
static void test_roots(const struct tree *tree)
{
    const struct target_record record = {.root = open(tree->path, O_PATH | O_DIRECTORY | O_CLOEXEC),
                                         .program = -1};
    const struct target target = {.record = &record};
    const struct symbols_options options = {.target = &target};
    struct tree host;
    struct elf_file file;
    char name[TREE_PATH_MAX];

    file_make(&file);
    if (!CHECK(record.root >= 0 && tree_make(&host)))
        return;
    CHECK(tree_write_bytes(&host, "b.dwo", &file, sizeof file));
    tree_name(&host, "b.dwo", name);
    CHECK(tree_link(tree, "link", name) && tree_link(tree, "up", "../../../../../etc/passwd"));
    for (unsigned attempt = 0; attempt < 6; attempt++) {
        CHECK(split(&options, name, attempt) < 0);
        CHECK(split(&options, "/link", attempt) < 0);
        CHECK(split(&options, "../../../../../etc/passwd", attempt) < 0);
    }
    CHECK(split(&options, "/a.dwo", 0) == 0);
    CHECK(split(&options, "x/../../../a.dwo", 0) < 0); /* there is no x */
    tree_remove(&host);
    close(record.root);
}

int main(void)
{
    struct tree tree;

    if (!CHECK(tree_make(&tree)))
        return check_result();
    test_kinds(&tree);
    test_roots(&tree);
    tree_remove(&tree);
    return check_result();
}
