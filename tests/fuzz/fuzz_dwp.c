/*
 * A program and its DWARF package: the input begins with the program's length in four
 * bytes. The package is where the program's is sought; no other file is.
 */
#include "fuzz.h"
#include "profile/symbols/dwp_index.h"
#include "profile/symbols/symbols.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { ADDRESSES = 48 };

static char root[] = "/tmp/jeattach-fuzz.XXXXXX";
static int program = -1, package = -1;

static void clean_up(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/module.dwp", root);
    unlink(path);
    rmdir(root);
}

static int open_program(void *ctx, const struct symbol_mapping *mapping)
{
    int fd = fcntl(program, F_DUPFD_CLOEXEC, 0);

    (void)ctx;
    (void)mapping;
    expect(fd >= 0);
    return fd;
}

static void open_files(void)
{
    char path[64];

    expect(mkdtemp(root) != NULL);
    snprintf(path, sizeof path, "%s/module.dwp", root);
    program = memfd_create("program", MFD_CLOEXEC);
    package = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    expect(program >= 0 && package >= 0 && atexit(clean_up) == 0);
}

static void fill(int fd, const uint8_t *data, size_t size)
{
    expect(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

static void look_up(size_t size)
{
    const struct symbol_mapping mapping = {.end = size, .path = "/module"};
    const struct symbols_options options = {.open = open_program, .root = root};
    struct symbols *symbols = symbols_new(&mapping, 1, &options);
    struct symbols_coverage coverage;

    expect(symbols != NULL);
    for (uint64_t i = 0; i < ADDRESSES; i++) {
        const struct symbol_line *lines;
        size_t count = symbols_lines(symbols, (i % 2 ? 0x1000 : 0x200) + i / 2 * 7, &lines);
        for (size_t j = 0; j < count; j++) {
            expect(lines[j].function && *lines[j].function && lines[j].linkage);
            expect(!lines[j].file || strlen(lines[j].file) < SIZE_MAX);
        }
    }
    expect(symbols_coverage(symbols, 0, &coverage));
    expect(!coverage.split_missing == !coverage.split_path);
    symbols_free(symbols);
}

static void look_into_index(const uint8_t *data, size_t size)
{
    struct dwp_unit unit;
    uint64_t id;

    for (size_t at = 16; at + sizeof id <= size && at < 1024; at += sizeof id) {
        memcpy(&id, data + at, sizeof id);
        if (dwp_find(data, size, id, &unit))
            expect(unit.has[DWP_INFO] && unit.has[DWP_ABBREV]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t len;

    look_into_index(data, size);
    if (size < sizeof len)
        return 0;
    memcpy(&len, data, sizeof len);
    if (len > size - sizeof len)
        return 0;
    if (program < 0)
        open_files();
    fill(program, data + sizeof len, len);
    fill(package, data + sizeof len + len, size - sizeof len - len);
    look_up(len);
    return 0;
}
