/*
 * .gnu_debugdata: an ELF file with the .symtab of the functions that strip
 * took away, packed with xz, inside the stripped one ("MiniDebugInfo" of
 * Fedora; GDB's manual, "MiniDebugInfo").
 */
#pragma once

enum {
    MINIDEBUG_PACKED_MAX = 64 << 20,   /* bytes of the section that are read at most */
    MINIDEBUG_UNPACKED_MAX = 64 << 20, /* bytes that it may unpack to */
    MINIDEBUG_DECODER_MAX = 80 << 20,  /* bytes of the decoder's own: xz -9 needs 65 MiB */
};

/*
 * Unpacks the .gnu_debugdata of the ELF file fd. Returns a descriptor of a
 * memory file (memfd_create), the caller's to close, or -errno: -ENOENT: there
 * is none; -EFBIG: it is larger than a limit above; -EBADMSG: it is damaged,
 * or no ELF file; -EIO: the file became shorter meanwhile; -ENOMEM.
 */
int minidebug_open(int fd);
