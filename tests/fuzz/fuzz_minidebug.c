/*
 * .gnu_debugdata: the input is the section, or the whole file; its content is read. It is unpacked
 * in this process, too: what a child does, the fuzzer does not see.
 */
#include "elf/minidebug.h"
#include "elf/sections.h"
#include "fuzz.h"
#include "tests/unit/section_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bool visit_one(void *ctx, const char *name, const struct symbol *symbol)
{
    (void)name;
    (void)symbol;
    return ++*(size_t *)ctx < 100000;
}

static int memory_file(const void *bytes, size_t len)
{
    int fd = memfd_create("input", MFD_CLOEXEC);

    expect(fd >= 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len);
    return fd;
}

static void unpack_here(const uint8_t *data, size_t size)
{
    AUTO_CLOSE int to = memory_file(NULL, 0);
    int rc = minidebug_unpack(data, size, to);
    struct stat st;

    expect(rc == 0 || rc == -ENOMEM || rc == -EFBIG || rc == -EBADMSG);
    expect(fstat(to, &st) == 0 && st.st_size <= MINIDEBUG_UNPACKED_MAX);
}

static void unpack(int fd)
{
    AUTO_CLOSE int unpacked = minidebug_open(fd);
    struct stat st;
    size_t count = 0;

    if (unpacked < 0) {
        expect(unpacked == -ENOENT || unpacked == -EFBIG || unpacked == -EBADMSG);
        return;
    }
    expect(fstat(unpacked, &st) == 0 && st.st_size <= MINIDEBUG_UNPACKED_MAX);
    symtab_visit(unpacked, 0, NULL, visit_one, &count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct section_file file;
    AUTO_CLOSE int whole = memory_file(data, size);

    unpack_here(data, size);
    unpack(whole);
    section_file_begin(&file);
    section_file_add(&file, ".gnu_debugdata", SHT_PROGBITS, data, size);
    section_file_end(&file);
    AUTO_CLOSE int wrapped = memory_file(file.bytes, file.len);
    section_file_free(&file);
    unpack(wrapped);
    return 0;
}
