/*
 * .gnu_debugdata: an ELF file with the .symtab of the functions that strip
 * removed, compressed with xz, inside the stripped file ("MiniDebugInfo" of
 * Fedora; GDB's manual, "MiniDebugInfo").
 */
#pragma once

#include <stddef.h>

enum {
    MINIDEBUG_PACKED_MAX = 64 << 20,   /* maximum bytes of the section that are read */
    MINIDEBUG_UNPACKED_MAX = 64 << 20, /* maximum bytes of the unpacked file */
    MINIDEBUG_RUN_MAX = 256 << 20,     /* of all the files that a run of the tool unpacks */
    MINIDEBUG_SMALL = 1 << 20,         /* an unpacked file that large ones leave something to */
    MINIDEBUG_PER_SECOND = 16 << 20,   /* by which the bytes of a run are renewed */
    MINIDEBUG_DECODER_MAX = 80 << 20,  /* bytes that the decoder may allocate: xz -9 needs 65 MiB */
};

/*
 * Unpacks the .gnu_debugdata of the ELF file fd. Returns a file descriptor of a
 * memory file (memfd_create), read-only, owned by the caller, or -errno: -ENOENT: there is
 * none; -EFBIG: it exceeds a limit above; -EDQUOT: it exceeds its share of
 * MINIDEBUG_RUN_MAX (base/allowance.h); -EBADMSG: it is damaged, or not an ELF
 * file; -EIO: the file was truncated during the read; -EINTR: a signal to end
 * came meanwhile, or the deadline; -ENOMEM; -ETIME: it takes too long.
 */
int minidebug_open(int fd);

/* Unpacks into a file, in this process. Returns 0 or -errno, as above. */
int minidebug_unpack(const unsigned char *packed, size_t len, int to);
