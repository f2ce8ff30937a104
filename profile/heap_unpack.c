#include "profile/heap_unpack.h"
#include "base/library.h"
#include "base/util.h"
#include "host/confined.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    BLOCK = 64 << 10,
    GZIP_FORMAT = 16,
    ZSTD_WINDOW_LOG = 23, /* the 8 MiB that a decoder should have (RFC 8878, 3.1.1.1.2) */
    DECODER_MAX = 12 << 20,
};
#define CPU_MAX_NS (60ull * 1000000000)

static const char *const libraries[] = {[HEAP_GZIP] = "libz.so.1", [HEAP_ZSTD] = "libzstd.so.1"};

#define GZIP_FUNCTIONS(X) X(inflateInit2_) X(inflate) X(inflateReset)
#define ZSTD_FUNCTIONS(X)                                                                          \
    X(ZSTD_createDCtx) X(ZSTD_DCtx_setParameter) X(ZSTD_decompressStream) X(ZSTD_getErrorCode)
#define POINTER(function) __typeof__(function) *function;

struct packed {
    const unsigned char *bytes;
    size_t len;
    uint64_t max;
    int (*decode)(struct packed *packed, unsigned char *block, size_t *n);
    GZIP_FUNCTIONS(POINTER)
    ZSTD_FUNCTIONS(POINTER)
    z_stream stream;
    ZSTD_DCtx *context;
};

enum heap_packing heap_packing(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    if (len > 2 && memcmp(at, "\x1f\x8b", 2) == 0)
        return HEAP_GZIP;
    /* A frame, or one to skip (16 magic numbers), with which pzstd begins. */
    return len > 4 && (memcmp(at, "\x28\xb5\x2f\xfd", 4) == 0 ||
                       ((at[0] & 0xf0) == 0x50 && memcmp(at + 1, "\x2a\x4d\x18", 3) == 0))
               ? HEAP_ZSTD
               : HEAP_PLAIN;
}

/* A decoder takes bytes, and fills a block up to *n. Returns 1; 0: a stream ends; or -errno. */

static int decode_gzip(struct packed *packed, unsigned char *block, size_t *n)
{
    z_stream *stream = &packed->stream;
    const unsigned given = packed->len < UINT32_MAX ? (unsigned)packed->len : UINT32_MAX;
    int rc;

    if (!stream->state && packed->inflateInit2_(stream, MAX_WBITS + GZIP_FORMAT, ZLIB_VERSION,
                                                (int)sizeof *stream) != Z_OK)
        return -ENOMEM;
    stream->next_in = (unsigned char *)(uintptr_t)packed->bytes;
    stream->avail_in = given;
    stream->next_out = block;
    stream->avail_out = (unsigned)*n;
    rc = packed->inflate(stream, Z_NO_FLUSH);
    packed->bytes += given - stream->avail_in;
    packed->len -= given - stream->avail_in;
    *n -= stream->avail_out;
    if (rc == Z_STREAM_END)
        return packed->inflateReset(stream) == Z_OK ? 0 : -EBADMSG;
    return rc == Z_OK || rc == Z_BUF_ERROR ? 1 : -EBADMSG;
}

static int decode_zstd(struct packed *packed, unsigned char *block, size_t *n)
{
    ZSTD_inBuffer in = {packed->bytes, packed->len, 0};
    ZSTD_outBuffer out = {block, *n, 0};

    if (!packed->context) {
        packed->context = packed->ZSTD_createDCtx();
        if (!packed->context)
            return -ENOMEM;
        packed->ZSTD_DCtx_setParameter(packed->context, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    }
    const size_t rc = packed->ZSTD_decompressStream(packed->context, &out, &in);
    packed->bytes += in.pos;
    packed->len -= in.pos;
    *n = out.pos;
    switch (packed->ZSTD_getErrorCode(rc)) {
    case ZSTD_error_no_error:
        return rc > 0;
    case ZSTD_error_frameParameter_windowTooLarge:
    case ZSTD_error_memory_allocation:
        return -ENOMEM;
    default:
        return -EBADMSG;
    }
}

/*
 * Of a file that is cut off, what there is; a NUL then stands where the text ends, as in one whose
 * last pages are lost.
 */
static int unpack_block(struct packed *packed, unsigned char *block, uint64_t *written)
{
    size_t n = BLOCK;
    int rc = packed->decode(packed, block, &n);
    const bool cut = rc > 0 && n < BLOCK && !packed->len;

    if (rc < 0)
        return rc;
    while (rc == 0 && packed->len && !*packed->bytes) { /* as gzip pads it */
        packed->bytes++;
        packed->len--;
    }
    if (cut && !*written && !n)
        return -EBADMSG;
    if (cut)
        block[n++] = '\0';
    if (n > packed->max - *written)
        return -EFBIG;
    if (pwrite(CONFINED_OUT, block, n, (off_t)*written) != (ssize_t)n)
        return errno == EFBIG ? -EFBIG : -ENOMEM;
    *written += n;
    return !cut && (rc || packed->len);
}

static void unpack_confined(void *ctx)
{
    static unsigned char block[BLOCK];
    uint64_t written = 0;
    int rc;

    do
        rc = unpack_block(ctx, block, &written);
    while (rc > 0);
    (void)send(CONFINED_CHANNEL, &rc, sizeof rc, MSG_NOSIGNAL);
}

static bool load(struct packed *packed, enum heap_packing packing)
{
    void *library = library_open(libraries[packing]);

#define LOAD(name) &&(packed->name = LIBRARY_FUNCTION(library, name))
    packed->decode = packing == HEAP_GZIP ? decode_gzip : decode_zstd;
    return library &&
           (packing == HEAP_GZIP ? true GZIP_FUNCTIONS(LOAD) : true ZSTD_FUNCTIONS(LOAD));
}

int heap_unpack(const void *bytes, size_t len, uint64_t max)
{
    struct packed packed = {.bytes = bytes, .len = len, .max = max};
    AUTO_CLOSE int to = -1;
    struct confined child;
    int rc, answer;

    if (!load(&packed, heap_packing(bytes, len)))
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
