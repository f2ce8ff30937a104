/* Unpacks a compressed heap profile, in a confined child (host/confined.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum heap_packing { HEAP_PLAIN, HEAP_GZIP, HEAP_ZSTD };

/* Tells by its first bytes how a file is compressed. */
enum heap_packing heap_packing(const void *bytes, size_t len);

/*
 * Unpacks what is not HEAP_PLAIN: streams or frames, one after the other, of at most max bytes. A
 * NUL ends the text of a file that is cut off. Returns a file descriptor of a memory file, owned by
 * the caller, or -errno: -ENOSYS: the library is not installed; -ENOMEM: the decoder needs more
 * memory than it may have; -EFBIG: it is larger; -EBADMSG: it is damaged; -ETIME; -EINTR.
 */
int heap_unpack(const void *bytes, size_t len, uint64_t max);
