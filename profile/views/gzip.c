#include "profile/views/gzip.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum { GZIP_BUFFER = 64 << 10, GZIP_FORMAT = 16 }; /* added to windowBits: gzip, not zlib */

struct gzip {
    z_stream stream;
    FILE *out;
    void *library;
    __typeof__(deflate) *deflate;
    __typeof__(deflateEnd) *end;
    bool good;
    unsigned char buffer[GZIP_BUFFER];
};

static bool load_zlib(struct gzip *gzip)
{
    __typeof__(deflateInit2_) *init;

    gzip->library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!gzip->library)
        return false;
    init = (__typeof__(init))dlsym(gzip->library, "deflateInit2_");
    gzip->deflate = (__typeof__(gzip->deflate))dlsym(gzip->library, "deflate");
    gzip->end = (__typeof__(gzip->end))dlsym(gzip->library, "deflateEnd");
    return init && gzip->deflate && gzip->end &&
           init(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + GZIP_FORMAT,
                MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY, ZLIB_VERSION, (int)sizeof gzip->stream) == Z_OK;
}

struct gzip *gzip_open(FILE *out)
{
    struct gzip *gzip = calloc(1, sizeof *gzip);

    if (!gzip)
        return NULL;
    gzip->out = out;
    gzip->good = true;
    if (load_zlib(gzip))
        return gzip;
    if (gzip->library)
        dlclose(gzip->library);
    free(gzip);
    return NULL;
}

static void deflate_input(struct gzip *gzip, int flush)
{
    int rc;

    do {
        gzip->stream.next_out = gzip->buffer;
        gzip->stream.avail_out = sizeof gzip->buffer;
        rc = gzip->deflate(&gzip->stream, flush);
        if (rc == Z_STREAM_ERROR)
            gzip->good = false;
        fwrite(gzip->buffer, 1, sizeof gzip->buffer - gzip->stream.avail_out, gzip->out);
    } while (gzip->good && gzip->stream.avail_out == 0);
    if (flush == Z_FINISH && rc != Z_STREAM_END)
        gzip->good = false;
}

bool gzip_write(struct gzip *gzip, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    while (len > 0 && gzip->good) {
        uInt part = len < INT_MAX ? (uInt)len : INT_MAX;
        gzip->stream.next_in = (unsigned char *)at;
        gzip->stream.avail_in = part;
        deflate_input(gzip, Z_NO_FLUSH);
        at += part;
        len -= part;
    }
    return gzip->good;
}

bool gzip_close(struct gzip *gzip)
{
    bool good;

    gzip->stream.avail_in = 0;
    if (gzip->good)
        deflate_input(gzip, Z_FINISH);
    good = gzip->good;
    gzip->end(&gzip->stream);
    dlclose(gzip->library);
    free(gzip);
    return good;
}
