/* A unit (DWARF 4, written by hand) without address ranges; its function has them. */
    .text
    .globl _start, in_rangeless
    .type in_rangeless, @function
_start:
in_rangeless:
    .rept 16
    nop
    .endr
    .size in_rangeless, . - in_rangeless

    .section .debug_abbrev, "", @progbits
    .uleb128 1, 0x11            /* DW_TAG_compile_unit */
    .byte 1
    .uleb128 0x03, 0x08         /* DW_AT_name, DW_FORM_string */
    .uleb128 0, 0
    .uleb128 2, 0x39            /* DW_TAG_namespace */
    .byte 1
    .uleb128 0x03, 0x08
    .uleb128 0, 0
    .uleb128 3, 0x2e            /* DW_TAG_subprogram */
    .byte 0
    .uleb128 0x03, 0x08
    .uleb128 0x3b, 0x0b         /* DW_AT_decl_line, DW_FORM_data1 */
    .uleb128 0x11, 0x01         /* DW_AT_low_pc, DW_FORM_addr */
    .uleb128 0x12, 0x07         /* DW_AT_high_pc, DW_FORM_data8 */
    .uleb128 0, 0
    .byte 0

    .section .debug_info, "", @progbits
    .4byte 2f - 1f
1:  .2byte 4
    .4byte 0                    /* offset of the abbreviations */
    .byte 8
    .uleb128 1
    .asciz "rangeless.c"
    .uleb128 2
    .asciz "space"
    .uleb128 3
    .asciz "function"
    .byte 42
    .8byte in_rangeless
    .8byte 16
    .byte 0, 0
2:
    .section .note.GNU-stack, "", @progbits
