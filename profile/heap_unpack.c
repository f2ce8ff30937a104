#include "profile/heap_unpack.h"
#include "base/util.h"
#include "host/confined.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 64 << 10, GZIP_FORMAT = 16, DECODER_MAX = 4 << 20 };
#define CPU_MAX_NS (60ull * 1000000000)

bool heap_is_packed(const void *bytes, size_t len)
{
    return len > 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

struct packed {
    const unsigned char *bytes;
    size_t len;
    uint64_t max;
    __typeof__(inflateInit2_) *init;
    __typeof__(inflate) *inflate;
    __typeof__(inflateReset) *reset;
    z_stream stream;
};

static int unpack_block(struct packed *packed, unsigned char *block, uint64_t *written)
{
    z_stream *stream = &packed->stream;
    int rc;

    if (!stream->avail_in) {
        const size_t n = packed->len < UINT32_MAX ? packed->len : UINT32_MAX;
        stream->next_in = (unsigned char *)(uintptr_t)packed->bytes;
        stream->avail_in = (unsigned)n;
        packed->bytes += n;
        packed->len -= n;
    }
    stream->next_out = block;
    stream->avail_out = BLOCK;
    rc = packed->inflate(stream, Z_NO_FLUSH);
    const size_t n = BLOCK - stream->avail_out;
    if (rc != Z_OK && rc != Z_STREAM_END)
        return -EBADMSG;
    if (n > packed->max - *written)
        return -EFBIG;
    if (pwrite(CONFINED_OUT, block, n, (off_t)*written) != (ssize_t)n)
        return errno == EFBIG ? -EFBIG : -ENOMEM;
    *written += n;
    while (rc == Z_STREAM_END && stream->avail_in && !*stream->next_in) { /* as gzip pads it */
        stream->next_in++;
        stream->avail_in--;
    }
    if (rc == Z_STREAM_END && !stream->avail_in && !packed->len)
        return 0;
    return rc == Z_STREAM_END && packed->reset(stream) != Z_OK ? -EBADMSG : 1;
}

static void unpack_confined(void *ctx)
{
    static unsigned char block[BLOCK];
    struct packed *packed = ctx;
    uint64_t written = 0;
    int rc = packed->init(&packed->stream, MAX_WBITS + GZIP_FORMAT, ZLIB_VERSION,
                          (int)sizeof packed->stream) == Z_OK
                 ? 1
                 : -ENOSYS;

    while (rc > 0)
        rc = unpack_block(packed, block, &written);
    (void)send(CONFINED_CHANNEL, &rc, sizeof rc, MSG_NOSIGNAL);
}

int heap_unpack(const void *bytes, size_t len, uint64_t max)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    struct packed packed = {.bytes = bytes, .len = len, .max = max};
    AUTO_CLOSE int to = -1;
    struct confined child;
    int rc, answer;

    if (!library)
        return -ENOSYS;
    packed.init = (__typeof__(packed.init))dlsym(library, "inflateInit2_");
    packed.inflate = (__typeof__(packed.inflate))dlsym(library, "inflate");
    packed.reset = (__typeof__(packed.reset))dlsym(library, "inflateReset");
    if (!packed.init || !packed.inflate || !packed.reset)
        return -ENOSYS;
    to = memfd_create("profile", MFD_CLOEXEC);
    if (to < 0)
        return -errno;
    const struct confined_work work = {
        .memory = DECODER_MAX, .out = to, .out_max = max, .serve = unpack_confined, .ctx = &packed};
    rc = confined_start(&child, &work);
    if (rc)
        return rc;
    rc = confined_receive(&child, &answer, sizeof answer, CPU_MAX_NS);
    (void)confined_stop(&child);
    rc = rc ? rc : answer > 0 ? -EBADMSG : answer;
    return rc ? rc : steal_fd(&to);
}
