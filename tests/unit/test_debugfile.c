/*
 * Separate debug files: by build-id and by name, in a root of the test's own. Without a target the
 * root is the tool's: a recorded /proc has a root that is a directory of the test.
 */
#include "base/interruptions.h"
#include "check.h"
#include "elf/debugfile.h"
#include "elf_file.h"
#include "section_file.h"
#include "tree.h"

#include <errno.h>
#include <lzma.h>

enum { PID = 4242 };

static struct tree tree;
static struct procfs proc;
static struct target target = {.proc = &proc, .pid = PID, .pidfd = -1};

#define BY_ID "usr/lib/debug/.build-id/5a/ab00000000000000000000000000000000005a.debug"

/* The debug file's bytes: with that build-id (0: none) and a last byte of its own. */
static struct section_file debug_of(unsigned char id, char mark)
{
    struct section_file file;

    section_file_begin(&file);
    if (id)
        section_file_add_id(&file, id);
    section_file_add(&file, ".mark", SHT_PROGBITS, &mark, 1);
    section_file_end(&file);
    return file;
}

static uint32_t put_debug(const char *name, unsigned char id, char mark)
{
    struct section_file file = debug_of(id, mark);
    char path[256];

    snprintf(path, sizeof path, "root/%s", name);
    CHECK(tree_write_bytes(&tree, path, file.bytes, file.len));
    uint32_t checksum = lzma_crc32(file.bytes, file.len, 0);
    section_file_free(&file);
    return checksum;
}

static void take_away(const char *name)
{
    char path[256], whole[TREE_PATH_MAX];

    snprintf(path, sizeof path, "root/%s", name);
    CHECK(unlink(tree_name(&tree, path, whole)) == 0);
}

/* A module with that build-id and .gnu_debuglink (NULL: none). */
static int module_of(unsigned char id, const char *link, uint32_t checksum)
{
    unsigned char data[512] = {0};
    struct section_file file;

    section_file_begin(&file);
    if (id)
        section_file_add_id(&file, id);
    if (link) {
        size_t at = (strlen(link) + 4) & ~(size_t)3;
        memcpy(data, link, strlen(link));
        memcpy(data + at, &checksum, sizeof checksum);
        section_file_add(&file, ".gnu_debuglink", SHT_PROGBITS, data, at + 4);
    }
    section_file_end(&file);
    int fd = file_put(file.bytes, file.len);
    section_file_free(&file);
    return fd;
}

static struct debugfile found;

/* 0 or -errno; the file that is found is in `found`, closed. */
static int look(unsigned char id, const char *link, uint32_t checksum)
{
    AUTO_CLOSE int module = module_of(id, link, checksum);
    struct debugfile_query query = {&target, "/opt/app/lib.so", module, NULL};
    int rc = debugfile_open(&query, &found);

    if (found.fd >= 0)
        close(found.fd);
    return rc;
}

static bool found_at(const char *path, enum debugfile_way way)
{
    return !found.host && found.way == way && found.path[0] == '/' &&
           strcmp(found.path + 1, path) == 0;
}

static void test_build_id(void)
{
    CHECK(look(0x5a, NULL, 0) == -ENOENT);
    put_debug(BY_ID, 0x5a, 'a');
    CHECK(look(0x5a, NULL, 0) == 0 && found_at(BY_ID, DEBUGFILE_BUILD_ID));
    CHECK(look(0x5b, NULL, 0) == -ENOENT);
    CHECK(look(0, NULL, 0) == -ENOENT);
    put_debug(BY_ID, 0x5b, 'a'); /* the name matches, the file is another */
    CHECK(look(0x5a, NULL, 0) == -ENOENT);
    put_debug(BY_ID, 0, 'a');
    CHECK(look(0x5a, NULL, 0) == -ENOENT);
    take_away(BY_ID);
}

/* The build-id in memory counts, whatever the file has, and works without a file. */
static void test_mapped_id(void)
{
    AUTO_CLOSE int module = module_of(0x11, NULL, 0);
    struct build_id id = {20, {0x5a, 0xab, [19] = 0x5a}};
    struct debugfile_query query = {&target, "/opt/app/lib.so", module, &id};

    put_debug(BY_ID, 0x5a, 'a');
    CHECK(debugfile_open(&query, &found) == 0 && found_at(BY_ID, DEBUGFILE_BUILD_ID));
    util_close(&found.fd);
    query.fd = -1;
    CHECK(debugfile_open(&query, &found) == 0);
    util_close(&found.fd);
    id.len = 1;
    CHECK(debugfile_open(&query, &found) == -ENOENT && found.fd == -1);
    id.len = BUILD_ID_MAX;
    CHECK(debugfile_open(&query, &found) == -ENOENT);
    take_away(BY_ID);
}

static void test_link_places(void)
{
    static const char *const places[] = {"opt/app/lib.debug", "opt/app/.debug/lib.debug",
                                         "usr/lib/debug/opt/app/lib.debug"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        uint32_t checksum = put_debug(places[i], 0, 'b');
        CHECK(look(0, "lib.debug", checksum) == 0 && found_at(places[i], DEBUGFILE_LINK));
        CHECK(look(0x5a, "lib.debug", checksum) == 0); /* one of them has no build-id */
        CHECK(look(0, "lib.debug", checksum + 1) == -ENOENT);
        put_debug(places[i], 0, 'c');
        CHECK(look(0, "lib.debug", checksum) == -ENOENT);
        take_away(places[i]);
        CHECK(look(0, "lib.debug", checksum) == -ENOENT);
    }
}

/* If both have build-ids, these decide. */
static void test_link_build_id(void)
{
    uint32_t checksum = put_debug("opt/app/lib.debug", 0x33, 'd');

    CHECK(look(0x33, "lib.debug", checksum + 1) == 0);
    CHECK(look(0x34, "lib.debug", checksum) == -ENOENT);
    CHECK(look(0, "lib.debug", checksum) == 0);
    take_away("opt/app/lib.debug");
}

static void test_link_names(void)
{
    static const char *const names[] = {
        "../lib.debug", "/lib.debug", "app/lib.debug", ".", "..", ""};
    uint32_t checksum = put_debug("opt/lib.debug", 0, 'e');
    char longest[301];

    put_debug("lib.debug", 0, 'e');
    put_debug("opt/app/app/lib.debug", 0, 'e');
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        CHECK(look(0, names[i], checksum) == -ENOENT);
    memset(longest, 'x', 300);
    longest[300] = '\0';
    CHECK(look(0, longest, checksum) == -ENOENT);
    take_away("opt/lib.debug");
    take_away("lib.debug");
    take_away("opt/app/app/lib.debug");
}

/* A section too short for its checksum, without a NUL, too long. */
static void test_link_cut(void)
{
    static const struct {
        const char *data;
        size_t len;
        bool good;
    } rows[] = {{"abc\0\1\0\0\0", 8, true},
                {"abc\0\1\0\0\0", 7, false},
                {"abc", 3, false},
                {"abcdefgh", 8, false},
                {"", 0, false},
                {"\0\0\0\0\1\0\0\0", 8, false},
                {"abcd\0\0\0\0\1\0\0\0", 12, true}};
    char name[NAME_MAX + 1];
    uint32_t checksum;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct section_file file;
        section_file_begin(&file);
        section_file_add(&file, ".gnu_debuglink", SHT_PROGBITS, rows[i].data, rows[i].len);
        section_file_end(&file);
        AUTO_CLOSE int fd = file_put(file.bytes, file.len);
        section_file_free(&file);
        CHECK(debugfile_link(fd, name, &checksum) == rows[i].good);
        CHECK(!rows[i].good || (checksum == 1 && strcmp(name, rows[i].data) == 0));
    }
}

/* Files that would block, act or lead outside are not opened: this test would hang on a FIFO. */
static void test_hostile_places(void)
{
    char path[TREE_PATH_MAX], outside[TREE_PATH_MAX];
    uint32_t checksum = put_debug("opt/app/.debug/lib.debug", 0, 'f');

    tree_name(&tree, "root/opt/app/lib.debug", path);
    CHECK(mkfifo(path, 0644) == 0);
    CHECK(look(0, "lib.debug", checksum) == 0);
    unlink(path);
    CHECK(mkdir(path, 0755) == 0);
    CHECK(look(0, "lib.debug", checksum) == 0);
    rmdir(path);
    CHECK(symlink("lib.debug", path) == 0); /* to itself */
    CHECK(look(0, "lib.debug", checksum) == 0);
    unlink(path);
    CHECK(symlink("/dev/zero", path) == 0);
    CHECK(look(0, "lib.debug", checksum) == 0);
    take_away("opt/app/.debug/lib.debug");
    unlink(path);
    checksum = put_debug("../outside", 0, 'f');
    tree_name(&tree, "outside", outside);
    CHECK(symlink("../../../outside", path) == 0);
    CHECK(look(0, "lib.debug", checksum) == -ENOENT);
    unlink(path);
    CHECK(symlink(outside, path) == 0);
    CHECK(look(0, "lib.debug", checksum) == -ENOENT);
    unlink(path);
    put_debug("inside", 0, 'f');
    CHECK(symlink("/inside", path) == 0); /* as the target sees it */
    CHECK(look(0, "lib.debug", checksum) == 0 && found_at("opt/app/lib.debug", DEBUGFILE_LINK));
    unlink(path);
}

/* An empty terabyte behind a valid header is not read for its checksum. */
static void test_sparse(void)
{
    char path[TREE_PATH_MAX];
    uint32_t checksum = put_debug("opt/app/lib.debug", 0, 'g');

    CHECK(truncate(tree_name(&tree, "root/opt/app/lib.debug", path), (off_t)1 << 40) == 0);
    CHECK(look(0, "lib.debug", checksum) == -EDQUOT);
    take_away("opt/app/lib.debug");
}

/* A checksum ends with the time of what it is part of, and is made when there is time again. */
static void test_no_time(void)
{
    uint32_t checksum = put_debug("opt/app/lib.debug", 0, 't');

    CHECK(interruptions_end_at(1) == UINT64_MAX);
    CHECK(look(0, "lib.debug", checksum) == -EDQUOT);
    CHECK(interruptions_end_at(UINT64_MAX) == 1);
    CHECK(look(0, "lib.debug", checksum) == 0);
    take_away("opt/app/lib.debug");
}

/* A module whose link names the module itself has no other symbols there. */
static void test_itself(void)
{
    struct debugfile_query query = {&target, "/opt/app/lib.debug", -1, NULL};
    struct build_id id = {20, {0x77, 0xab, [19] = 0x77}};
    char path[TREE_PATH_MAX];

    put_debug("opt/app/lib.debug", 0x77, 'h');
    put_debug("usr/lib/debug/.build-id/77/x", 0, 'h');
    AUTO_CLOSE int fd = open(tree_name(&tree, "root/opt/app/lib.debug", path), O_RDONLY);
    CHECK(symlink("/opt/app/lib.debug", tree_name(&tree,
                                                  "root/usr/lib/debug/.build-id/77/"
                                                  "ab000000000000000000000000000000000077.debug",
                                                  path)) == 0);
    query.id = &id;
    CHECK(debugfile_open(&query, &found) == 0); /* the module is another file */
    util_close(&found.fd);
    query.fd = fd;
    CHECK(debugfile_open(&query, &found) == -ENOENT);
    take_away("opt/app/lib.debug");
}

/* Without a target: files of the tool's own root. */
static void test_no_target(void)
{
    char path[TREE_PATH_MAX];
    uint32_t checksum = put_debug("opt/app/lib.debug", 0, 'i');
    AUTO_CLOSE int module = module_of(0, "lib.debug", checksum);
    struct debugfile_query query = {NULL, tree_name(&tree, "root/opt/app/lib.so", path), module,
                                    NULL};

    CHECK(debugfile_open(&query, &found) == 0 && found.way == DEBUGFILE_LINK && !found.host);
    util_close(&found.fd);
    query.path = "relative";
    CHECK(debugfile_open(&query, &found) == -ENOENT);
    query.path = "";
    CHECK(debugfile_open(&query, &found) == -ENOENT);
    take_away("opt/app/lib.debug");
}

int main(void)
{
    char path[TREE_PATH_MAX];

    if (!CHECK(tree_make(&tree)))
        return check_result();
    CHECK(tree_write(&tree, "4242/stat", "") && tree_write(&tree, "root/etc/hostname", ""));
    CHECK(tree_link(&tree, "4242/root", tree_name(&tree, "root", path)));
    if (CHECK(procfs_open(&proc, tree.path) == 0)) {
        test_build_id();
        test_mapped_id();
        test_link_places();
        test_link_build_id();
        test_link_names();
        test_link_cut();
        test_hostile_places();
        test_sparse();
        test_no_time();
        test_itself();
        test_no_target();
    }
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
