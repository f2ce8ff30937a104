/* .gnu_debugdata: unpacked, damaged, and a decompression bomb. */
#include "check.h"
#include "elf/minidebug.h"
#include "elf/sections.h"
#include "elf_file.h"
#include "section_file.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>

enum { PACKED_MAX = 1 << 20 };

static unsigned char packed[PACKED_MAX];

/* xz of len bytes, with a dictionary of that size; returns the length. */
static size_t pack(const void *data, size_t len, uint32_t dictionary)
{
    lzma_options_lzma options;
    lzma_filter filters[2] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    size_t used = 0;

    if (!CHECK(!lzma_lzma_preset(&options, 0)))
        return 0;
    options.dict_size = dictionary;
    CHECK(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, NULL, data, len, packed, &used,
                                    sizeof packed) == LZMA_OK);
    return used;
}

/* minidebug_open of a file with the first len bytes of the compressed data. */
static int open_of(size_t len, uint64_t flags)
{
    struct section_file file;

    section_file_begin(&file);
    section_file_add(&file, ".gnu_debugdata", SHT_PROGBITS, packed, len)->sh_flags = flags;
    section_file_end(&file);
    AUTO_CLOSE int fd = file_put(file.bytes, file.len);
    section_file_free(&file);
    return minidebug_open(fd);
}

static int error_of(size_t len)
{
    AUTO_CLOSE int fd = open_of(len, 0);
    return fd < 0 ? fd : 0;
}

static bool count_one(void *ctx, const char *name, const struct symbol *symbol)
{
    (void)name;
    (void)symbol;
    ++*(size_t *)ctx;
    return true;
}

static void test_whole(void)
{
    struct elf_file inner, read_back;
    size_t count = 0;

    file_make(&inner);
    AUTO_CLOSE int fd = open_of(pack(&inner, sizeof inner, 1 << 16), 0);
    if (!CHECK(fd >= 0))
        return;
    CHECK(file_read(fd, 0, &read_back, sizeof read_back));
    CHECK(memcmp(&inner, &read_back, sizeof inner) == 0);
    CHECK(symtab_visit(fd, 0, NULL, count_one, &count) && count == 4);
}

static void test_damaged(void)
{
    struct elf_file inner;
    size_t len;

    file_make(&inner);
    len = pack(&inner, sizeof inner, 1 << 16);
    for (size_t n = 0; n < len; n++)
        CHECK(error_of(n) == -EBADMSG);
    CHECK(error_of(len) == 0);
    packed[len] = 'x'; /* data after the stream does not matter */
    CHECK(error_of(len + 1) == 0);
    AUTO_CLOSE int compressed = open_of(len, SHF_COMPRESSED);
    CHECK(compressed == -EBADMSG);
    packed[len / 2] ^= 0x10;
    CHECK(error_of(len) == -EBADMSG);
    CHECK(error_of(pack("no ELF file", 11, 1 << 16)) == -EBADMSG);
    CHECK(error_of(pack("", 0, 1 << 16)) == -EBADMSG);
}

static void test_absent(void)
{
    struct elf_file plain;

    file_make(&plain);
    AUTO_CLOSE int fd = file_put(&plain, sizeof plain);
    CHECK(minidebug_open(fd) == -ENOENT);
    CHECK(minidebug_open(-1) == -ENOENT);
}

/* The limit itself is allowed; one byte more is not. 64 MiB of zeros compress to 10 KB. */
static void test_explodes(void)
{
    AUTO_FREE unsigned char *zeros = calloc(1, MINIDEBUG_UNPACKED_MAX + 1);
    struct stat st;

    if (!CHECK(zeros != NULL))
        return;
    memcpy(zeros, ELFMAG, SELFMAG);
    AUTO_CLOSE int fd = open_of(pack(zeros, MINIDEBUG_UNPACKED_MAX, 1 << 16), 0);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == MINIDEBUG_UNPACKED_MAX);
    CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY); /* a confined child gets it */
    CHECK(error_of(pack(zeros, MINIDEBUG_UNPACKED_MAX + 1, 1 << 16)) == -EFBIG);
}

/* A block header with a dictionary of 1 GiB: 0x25 in its one byte of properties. */
static void test_dictionary(void)
{
    struct elf_file inner;
    size_t len;

    file_make(&inner);
    CHECK(error_of(pack(&inner, sizeof inner, 64 << 20)) == 0); /* that of xz -9 */
    len = pack(&inner, sizeof inner, 128 << 20);
    CHECK(error_of(len) == -EFBIG);
}

/* The section ends beyond the file, or is larger than the limit. */
static void test_borders(void)
{
    static const uint64_t sizes[] = {1ull << 30, UINT64_MAX, 1ull << 41};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct section_file file;
        section_file_begin(&file);
        section_file_add(&file, ".gnu_debugdata", SHT_PROGBITS, "x", 1)->sh_size = sizes[i];
        section_file_end(&file);
        AUTO_CLOSE int fd = file_put(file.bytes, file.len);
        section_file_free(&file);
        CHECK(minidebug_open(fd) == -EBADMSG);
        CHECK(ftruncate(fd, (off_t)1 << 40) == 0); /* sparse */
        CHECK(minidebug_open(fd) == (i == 0 ? -EFBIG : -EBADMSG));
    }
}

int main(void)
{
    test_whole();
    test_damaged();
    test_absent();
    test_explodes();
    test_dictionary();
    test_borders();
    return check_result();
}
