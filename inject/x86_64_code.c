/* x86-64: code sequences that a target already contains, and calls before a return address. */
#include "inject/arch.h"

#include <stdint.h>
#include <string.h>

uint32_t arch_rseq_signature(void)
{
    return 0x53053053;
}

static size_t find_bytes(const unsigned char *code, size_t len, const void *bytes, size_t n)
{
    const unsigned char *at = memmem(code, len, bytes, n);
    return at ? (size_t)(at - code) : SIZE_MAX;
}

/*
 * glibc's syscall(): syscall; cmp $-4095,%rax; jae ...; ret. The jae branch,
 * which sets errno, is taken only if the call fails. Otherwise any syscall;
 * ret.
 */
size_t arch_find_syscall_return(const unsigned char *code, size_t len)
{
    static const unsigned char glibc[] = {0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0,
                                          0xff, 0xff, 0x73, 0x01, 0xc3};
    static const unsigned char plain[] = {0x0f, 0x05, 0xc3};
    size_t at = find_bytes(code, len, glibc, sizeof glibc);

    return at != SIZE_MAX ? at : find_bytes(code, len, plain, sizeof plain);
}

/*
 * __restore_rt: mov $15,%rax; syscall. Unwinders recognize exactly these bytes,
 * so every libc has them.
 */
size_t arch_find_sigreturn(const unsigned char *code, size_t len)
{
    static const unsigned char bytes[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

    return find_bytes(code, len, bytes, sizeof bytes);
}

/*
 * mov %rax,disp(%rdi); ret  or  mov %rax,disp(%rbx); pop %rbx; ret, disp absent
 * or one byte. Setters and constructors end in this way in every C library.
 * Returns the length of such a sequence at code, including its return; 0: none
 * in the len bytes there.
 */
static size_t store_length(const unsigned char *code, size_t len, unsigned char *form, int8_t *disp)
{
    if (len < 4 || code[0] != 0x48 || code[1] != 0x89)
        return 0;
    unsigned mod = code[2] >> 6, regs = code[2] & 0x3f;
    size_t at = 3 + mod, whole = at + (regs == 3 ? 2 : 1);
    if (mod > 1 || (regs != 7 && regs != 3) || whole > len)
        return 0;
    *disp = mod ? (int8_t)code[3] : 0;
    *form = regs == 7 ? ARCH_STORE_PLAIN : ARCH_STORE_POPS;
    if (regs == 3 && code[at] != 0x5b)
        return 0;
    return code[whole - 1] == 0xc3 ? whole : 0;
}

/* Returns are rare: from each of them, checks backwards where the store would start. */
static size_t find_store_form(const unsigned char *code, size_t len, bool pops)
{
    const unsigned char *ret = code + 5;

    while (len > 5 && (ret = memchr(ret, 0xc3, (size_t)(code + len - ret)))) {
        for (size_t length = 4; length <= 6; length++) {
            const unsigned char *start = ret + 1 - length;
            unsigned char form;
            int8_t disp;
            if (store_length(start, length, &form, &disp) == length &&
                (!pops || form == ARCH_STORE_POPS))
                return (size_t)(start - code);
        }
        ret++;
    }
    return SIZE_MAX;
}

size_t arch_find_store_pops(const unsigned char *code, size_t len)
{
    return find_store_form(code, len, true);
}

size_t arch_find_store(const unsigned char *code, size_t len)
{
    return find_store_form(code, len, false);
}

void arch_decode_store(struct arch_gadgets *gadgets, remote_addr address,
                       const unsigned char code[8])
{
    if (store_length(code, 8, &gadgets->store_form, &gadgets->store_disp))
        gadgets->store = address;
}

/*
 * Returns the length of a call through ModRM (ff /2), of which len bytes are at
 * code; 0: it is none.
 */
static size_t indirect_call_len(const unsigned char *code, size_t len)
{
    unsigned mod = code[1] >> 6, reg = (code[1] >> 3) & 7, rm = code[1] & 7;
    bool sib = mod != 3 && rm == 4;
    size_t head = sib ? 3 : 2; /* opcode, ModRM, optional SIB */

    if (code[0] != 0xff || reg != 2 || head > len)
        return 0;
    if (mod == 1)
        return head + 1;
    if (mod == 2 || (mod == 0 && rm == 5) || (mod == 0 && sib && (code[2] & 7) == 5))
        return head + 4;
    return head;
}

static bool follows_indirect_call(const unsigned char before[8])
{
    for (size_t len = 2; len <= 7; len++)
        if (indirect_call_len(before + 8 - len, len) == len)
            return true;
    return false;
}

bool arch_follows_call(const unsigned char before[8])
{
    return before[3] == 0xe8 /* call rel32 */ || follows_indirect_call(before);
}

bool arch_follows_direct_call(const unsigned char before[8])
{
    return before[3] == 0xe8 && !follows_indirect_call(before);
}
