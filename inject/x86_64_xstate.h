/* The layout of the extended state's components in an XSAVE image. x86-64 only. */
#pragma once

#include <stdint.h>

enum {
    XSTATE_COMPONENTS = 63,
    XSTATE_LEGACY_MXCSR = 24, /* byte offsets in the FXSAVE area */
    XSTATE_LEGACY_XMM = 160,
    XSTATE_BV = 512, /* first word of the XSAVE header */
    XSTATE_HEADER_END = 576,
};

struct xstate_component {
    uint32_t size, offset; /* bytes, standard format; size 0: the CPU does not have it */
};

/*
 * Returns component n, from 2 on (CPUID leaf 0xd). Read once and cached: in a
 * virtual machine each CPUID costs 8 microseconds, and some are needed while a
 * thread is stopped.
 */
struct xstate_component xstate_component(unsigned n);
