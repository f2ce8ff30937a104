#include "elf/minidebug.h"
#include "base/allowance.h"
#include "base/interruptions.h"
#include "elf/sections.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCK = 64 << 10 };

static struct allowance unpacked = {MINIDEBUG_RUN_MAX, MINIDEBUG_PER_SECOND, 0, 0};

struct unpacking {
    int from, to;
    uint64_t at, left;  /* of the compressed section, in the file */
    uint64_t written;   /* bytes written to the memory file */
    unsigned char *in;  /* BLOCK bytes each */
    unsigned char *out; /* */
    lzma_stream stream;
};

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

/* Gives the decoder the next block of the section. */
static int fill_input(struct unpacking *unpacking)
{
    size_t n = unpacking->left < BLOCK ? (size_t)unpacking->left : BLOCK;

    if (!file_read(unpacking->from, unpacking->at, unpacking->in, n))
        return -EIO;
    unpacking->at += n;
    unpacking->left -= n;
    unpacking->stream.next_in = unpacking->in;
    unpacking->stream.avail_in = n;
    return 0;
}

/* Writes the decoder's output. */
static int drain_output(struct unpacking *unpacking)
{
    size_t n = BLOCK - unpacking->stream.avail_out;

    if (n > MINIDEBUG_UNPACKED_MAX - unpacking->written || !allowance_take(&unpacked, n))
        return -EFBIG;
    if (pwrite(unpacking->to, unpacking->out, n, (off_t)unpacking->written) != (ssize_t)n)
        return -ENOMEM;
    unpacking->written += n;
    unpacking->stream.next_out = unpacking->out;
    unpacking->stream.avail_out = BLOCK;
    return 0;
}

/*
 * Each iteration consumes input or produces output, and both are bounded;
 * otherwise LZMA_BUF_ERROR.
 */
static int unpack_all(struct unpacking *unpacking)
{
    const sig_atomic_t begun = interruptions();
    lzma_ret rc;
    int err;

    do {
        if (interruptions() != begun)
            return -EINTR;
        if (!unpacking->stream.avail_in && unpacking->left && (err = fill_input(unpacking)))
            return err;
        rc = lzma_code(&unpacking->stream, unpacking->left ? LZMA_RUN : LZMA_FINISH);
        if (rc != LZMA_OK && rc != LZMA_STREAM_END)
            return decoder_error(rc);
        if ((err = drain_output(unpacking)))
            return err;
    } while (rc != LZMA_STREAM_END);
    return 0;
}

static int unpack(int from, const Elf64_Shdr *section, int to)
{
    AUTO_FREE unsigned char *blocks = malloc(2 * BLOCK);
    struct unpacking unpacking = {
        .from = from,
        .to = to,
        .at = section->sh_offset,
        .left = section->sh_size,
        .in = blocks,
        .stream = LZMA_STREAM_INIT,
    };
    int rc;

    if (!blocks)
        return -ENOMEM;
    unpacking.out = blocks + BLOCK;
    unpacking.stream.next_out = unpacking.out;
    unpacking.stream.avail_out = BLOCK;
    rc = decoder_error(lzma_stream_decoder(&unpacking.stream, MINIDEBUG_DECODER_MAX, 0));
    if (!rc)
        rc = unpack_all(&unpacking);
    lzma_end(&unpacking.stream);
    return rc;
}

static bool is_elf(int fd)
{
    char magic[SELFMAG];

    return file_read(fd, 0, magic, SELFMAG) && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

int minidebug_open(int fd)
{
    AUTO_CLOSE int memory = -1;
    struct sections sections;
    Elf64_Shdr section;
    int rc;

    if (!sections_open(&sections, fd) || !section_named(&sections, ".gnu_debugdata", &section))
        return -ENOENT;
    if (!section_in_file(&sections, &section) || section.sh_flags & SHF_COMPRESSED)
        return -EBADMSG;
    if (section.sh_size > MINIDEBUG_PACKED_MAX)
        return -EFBIG;
    memory = memfd_create("gnu_debugdata", MFD_CLOEXEC);
    if (memory < 0)
        return -errno;
    rc = unpack(fd, &section, memory);
    if (rc)
        return rc;
    return is_elf(memory) ? steal_fd(&memory) : -EBADMSG;
}
