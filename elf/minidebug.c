#include "elf/minidebug.h"
#include "base/allowance.h"
#include "elf/sections.h"
#include "host/confined.h"
#include "host/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { BLOCK = 64 << 10, SECONDS_MAX = 10 };

static struct allowance unpacked = {
    .max = MINIDEBUG_RUN_MAX, .per_second = MINIDEBUG_PER_SECOND, .small = MINIDEBUG_SMALL};

static int decoder_error(lzma_ret rc)
{
    switch (rc) {
    case LZMA_OK:
        return 0;
    case LZMA_MEM_ERROR:
        return -ENOMEM;
    case LZMA_MEMLIMIT_ERROR:
        return -EFBIG;
    default:
        return -EBADMSG;
    }
}

/*
 * Each iteration consumes input or produces output, and both are bounded;
 * otherwise LZMA_BUF_ERROR.
 */
int minidebug_unpack(const unsigned char *packed, size_t len, int to)
{
    AUTO_FREE unsigned char *block = malloc(BLOCK);
    lzma_stream stream = LZMA_STREAM_INIT;
    uint64_t written = 0;
    lzma_ret rc;
    int err;

    if (!block)
        return -ENOMEM;
    rc = lzma_stream_decoder(&stream, MINIDEBUG_DECODER_MAX, 0);
    stream.next_in = packed;
    stream.avail_in = len;
    for (err = decoder_error(rc); !err && rc != LZMA_STREAM_END;) {
        stream.next_out = block;
        stream.avail_out = BLOCK;
        rc = lzma_code(&stream, LZMA_FINISH);
        err = rc == LZMA_STREAM_END ? 0 : decoder_error(rc);
        size_t n = BLOCK - stream.avail_out;
        if (!err && n > MINIDEBUG_UNPACKED_MAX - written)
            err = -EFBIG;
        if (!err && pwrite(to, block, n, (off_t)written) != (ssize_t)n)
            err = errno == EFBIG ? -EFBIG : -ENOMEM;
        written += n;
    }
    lzma_end(&stream);
    return err;
}

/* The section, as the file has it. */
struct packed {
    const unsigned char *bytes;
    size_t len;
};

static void unpack_confined(void *ctx)
{
    const struct packed *packed = ctx;
    int rc = minidebug_unpack(packed->bytes, packed->len, CONFINED_OUT);

    (void)send(CONFINED_CHANNEL, &rc, sizeof rc, MSG_NOSIGNAL);
}

/* A child unpacks, as the decoder reads what a stranger has made. */
static int unpack_apart(const struct packed *packed, int to)
{
    const uint64_t share = allowance_share(&unpacked);
    const struct confined_work work = {
        .memory = MINIDEBUG_DECODER_MAX + (4 << 20),
        .out = to,
        .out_max = share < MINIDEBUG_UNPACKED_MAX ? share : MINIDEBUG_UNPACKED_MAX,
        .serve = unpack_confined,
        .ctx = (void *)(uintptr_t)packed,
    };
    struct confined child;
    struct stat st;
    int rc, answer;

    rc = confined_start(&child, &work);
    if (rc)
        return rc;
    rc = confined_receive(&child, &answer, sizeof answer, SECONDS_MAX * 1000000000ull);
    (void)confined_stop(&child);
    if (fstat(to, &st) == 0)
        (void)allowance_take(&unpacked, (uint64_t)st.st_size);
    if (!rc && answer == -EFBIG && share < MINIDEBUG_UNPACKED_MAX)
        return -EDQUOT;
    return rc ? rc : answer > 0 ? -EBADMSG : answer;
}

int minidebug_open(int fd)
{
    AUTO_CLOSE int memory = -1;
    AUTO_FREE unsigned char *bytes = NULL;
    struct sections sections;
    Elf64_Shdr section;
    char magic[SELFMAG];

    if (!sections_open(&sections, fd) || !section_named(&sections, ".gnu_debugdata", &section))
        return -ENOENT;
    if (!section_in_file(&sections, &section) || section.sh_flags & SHF_COMPRESSED ||
        !section.sh_size)
        return -EBADMSG;
    if (section.sh_size > MINIDEBUG_PACKED_MAX)
        return -EFBIG;
    memory = memfd_create("gnu_debugdata", MFD_CLOEXEC);
    if (memory < 0)
        return -errno;
    bytes = malloc(section.sh_size); /* the child has no file to read */
    if (!bytes)
        return -ENOMEM;
    if (!file_read(fd, section.sh_offset, bytes, section.sh_size))
        return -EBADMSG;
    int rc = unpack_apart(&(struct packed){bytes, section.sh_size}, memory);
    if (rc)
        return rc;
    if (!file_read(memory, 0, magic, SELFMAG) || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return -EBADMSG;
    return named_open(memory, O_RDONLY);
}
