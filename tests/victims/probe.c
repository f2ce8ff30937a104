/* The patterns of a probe, and their comparison afterwards. */
#include "probe.h"

#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(offsetof(struct probe, out) == PROBE_OUT, "probe.h");
_Static_assert(offsetof(struct probe, flags_in) == PROBE_FLAGS_IN, "probe.h");
_Static_assert(offsetof(struct probe, flags_out) == PROBE_FLAGS_OUT, "probe.h");
_Static_assert(offsetof(struct probe, rsp_in) == PROBE_RSP_IN, "probe.h");
_Static_assert(offsetof(struct probe, rsp_out) == PROBE_RSP_OUT, "probe.h");
_Static_assert(offsetof(struct probe, xmask) == PROBE_XMASK, "probe.h");
_Static_assert(offsetof(struct probe, x_in) == PROBE_X_IN, "probe.h");
_Static_assert(offsetof(struct probe, x_out) == PROBE_X_OUT, "probe.h");
_Static_assert(offsetof(struct probe, x_clean) == PROBE_X_CLEAN, "probe.h");
_Static_assert(offsetof(struct probe, red_in) == PROBE_RED_IN, "probe.h");
_Static_assert(offsetof(struct probe, red_out) == PROBE_RED_OUT, "probe.h");

/* x87, SSE, AVX, the mask registers, and both halves of AVX-512: not PKRU, not AMX. */
#define COMPONENTS     0xe7u
#define COMPONENT_LAST 7u

/* CF PF AF ZF SF DF OF AC; the others do not belong to the program. */
#define FLAGS_CHECKED 0x40cd5u
#define FLAGS_FIXED   0x202u

#define FXSAVE_FCW       0
#define FXSAVE_FSW       2
#define FXSAVE_FTW       4
#define FXSAVE_MXCSR     24
#define FXSAVE_ST        32
#define FXSAVE_XMM       160
#define FXSAVE_XMM_END   416
#define XSAVE_HEADER_BV  512
#define XSAVE_IMAGE_SIZE 4096

/* Round to zero, flush to zero, and an unmasked inexact result: any computation with it traps. */
#define MXCSR_PATTERN 0xef80u
#define FCW_PATTERN   0x0f5fu
/* The top of the register stack at 3, all eight registers in use. */
#define FSW_PATTERN 0x1800u
#define FTW_PATTERN 0xffu

static const char *const reg_names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8",
                                        "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

size_t probe_component(unsigned int component, size_t *size)
{
    unsigned int eax, ebx, ecx, edx;

    *size = 0;
    if (!__get_cpuid_count(13, 0, &eax, &ebx, &ecx, &edx) || !(eax & (1u << component)))
        return 0;
    __cpuid_count(13, component, eax, ebx, ecx, edx);
    *size = eax;
    return ebx;
}

/* Bits of XCR0 below 32: the components that the kernel lets user code save. */
static unsigned int enabled_components(void)
{
    unsigned int eax, ebx, ecx, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return eax;
}

bool probe_has(unsigned int component)
{
    return (enabled_components() & COMPONENTS) >> component & 1;
}

static void put(unsigned char *image, size_t offset, uint64_t value, size_t size)
{
    memcpy(image + offset, &value, size);
}

static void fill_bytes(unsigned char *area, size_t size, unsigned int seed)
{
    for (size_t i = 0; i < size; i++)
        area[i] = (unsigned char)(seed + i * 7u);
}

static void fill_x87(unsigned char *image)
{
    put(image, FXSAVE_FCW, FCW_PATTERN, 2);
    put(image, FXSAVE_FSW, FSW_PATTERN, 2);
    put(image, FXSAVE_FTW, FTW_PATTERN, 1);
    for (size_t i = 0; i < 8; i++) {
        put(image, FXSAVE_ST + 16 * i, 0x8000000000000001u + (i << 20), 8);
        put(image, FXSAVE_ST + 16 * i + 8, 0x3fff + i, 2);
    }
}

static void fill_image(unsigned char *image, uint64_t mask)
{
    size_t size;

    fill_x87(image);
    put(image, FXSAVE_MXCSR, MXCSR_PATTERN, 4);
    fill_bytes(image + FXSAVE_XMM, FXSAVE_XMM_END - FXSAVE_XMM, 0x11);
    for (unsigned int i = 2; i <= COMPONENT_LAST; i++) {
        size_t offset = probe_component(i, &size);

        if ((mask >> i) & 1)
            fill_bytes(image + offset, size, 0x20u * i + 1);
    }
    put(image, XSAVE_HEADER_BV, mask, 8);
}

bool probe_init(struct probe *probe)
{
    unsigned char *images = aligned_alloc(64, (size_t)3 * XSAVE_IMAGE_SIZE);

    memset(probe, 0, sizeof(*probe));
    probe->xmask = enabled_components() & COMPONENTS;
    if (!images || !probe->xmask)
        return false;
    memset(images, 0, (size_t)3 * XSAVE_IMAGE_SIZE);
    probe->x_in = images;
    probe->x_out = images + XSAVE_IMAGE_SIZE;
    probe->x_clean = images + (size_t)2 * XSAVE_IMAGE_SIZE;
    fill_image(probe->x_in, probe->xmask);
    put(probe->x_clean, FXSAVE_MXCSR, 0x1f80, 4);
    return true;
}

void probe_fill(struct probe *probe, uint64_t seed)
{
    for (uint64_t i = 0; i < PROBE_REGS; i++)
        probe->in[i] = (seed << 32) ^ (0xa5a50000c3c30000u + i * 0x0101010101u);
    for (uint64_t i = 0; i < PROBE_RED_WORDS; i++)
        probe->red_in[i] = (seed << 24) ^ (0x5a5a5a5a00000000u + i * 0x11111u);
    probe->flags_in = FLAGS_FIXED | FLAGS_CHECKED;
    if (seed & 1)
        probe->flags_in = FLAGS_FIXED | 0x40401u;
}

static bool check_general(const struct probe *probe, bool spin, char *text, size_t size)
{
    for (int i = 0; i < PROBE_REGS; i++) {
        if (i == PROBE_RCX || (!spin && (i == PROBE_RAX || i == PROBE_R11)))
            continue;
        if (probe->out[i] == probe->in[i])
            continue;
        snprintf(text, size, "register %s: %#lx, was %#lx", reg_names[i], probe->out[i],
                 probe->in[i]);
        return false;
    }
    return true;
}

static bool check_words(const struct probe *probe, char *text, size_t size)
{
    if ((probe->flags_out ^ probe->flags_in) & FLAGS_CHECKED) {
        snprintf(text, size, "flags: %#lx, were %#lx", probe->flags_out, probe->flags_in);
        return false;
    }
    if (probe->rsp_out != probe->rsp_in) {
        snprintf(text, size, "rsp: %#lx, was %#lx", probe->rsp_out, probe->rsp_in);
        return false;
    }
    for (int i = 0; i < PROBE_RED_WORDS; i++) {
        if (probe->red_out[i] == probe->red_in[i])
            continue;
        snprintf(text, size, "red zone: byte -%d: %#lx, was %#lx", 128 - 8 * i, probe->red_out[i],
                 probe->red_in[i]);
        return false;
    }
    return true;
}

static bool same_part(const struct probe *probe, size_t offset, size_t part, const char *name,
                      char *text, size_t size)
{
    const unsigned char *in = probe->x_in, *out = probe->x_out;

    for (size_t i = offset; i < offset + part; i++) {
        if (in[i] == out[i])
            continue;
        snprintf(text, size, "%s: byte %zu: %#x, was %#x", name, i - offset, out[i], in[i]);
        return false;
    }
    return true;
}

/* The x87 instruction and data pointers are left out: CPUs differ in when they save them. */
static bool check_legacy(const struct probe *probe, char *text, size_t size)
{
    if (!same_part(probe, FXSAVE_FCW, 5, "x87 control", text, size) ||
        !same_part(probe, FXSAVE_MXCSR, 4, "mxcsr", text, size) ||
        !same_part(probe, FXSAVE_XMM, FXSAVE_XMM_END - FXSAVE_XMM, "xmm0-15", text, size))
        return false;
    for (size_t i = 0; i < 8; i++) {
        if (!same_part(probe, FXSAVE_ST + 16 * i, 10, "st", text, size))
            return false;
    }
    return true;
}

static bool check_extended(const struct probe *probe, char *text, size_t size)
{
    static const char *const names[] = {0, 0, "ymm0-15", 0, 0, "k0-7", "zmm0-15", "zmm16-31"};
    size_t part;

    for (unsigned int i = 2; i <= COMPONENT_LAST; i++) {
        size_t offset = probe_component(i, &part);

        if (((probe->xmask >> i) & 1) && !same_part(probe, offset, part, names[i], text, size))
            return false;
    }
    return true;
}

bool probe_check(const struct probe *probe, bool spin, char *text, size_t size)
{
    return check_general(probe, spin, text, size) && check_words(probe, text, size) &&
           check_legacy(probe, text, size) && check_extended(probe, text, size);
}
