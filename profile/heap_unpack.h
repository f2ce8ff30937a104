/* Unpacks a compressed heap profile, in a confined child (host/confined.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if it begins as a gzip stream does. */
bool heap_is_packed(const void *bytes, size_t len);

/*
 * Unpacks gzip streams, one after the other, of at most max bytes. Returns a file descriptor of a
 * memory file, owned by the caller, or -errno: -ENOSYS: zlib is not installed; -EFBIG: it is
 * larger; -EBADMSG: it is damaged; -ETIME; -EINTR.
 */
int heap_unpack(const void *bytes, size_t len, uint64_t max);
