"""Generates large programs with a statically linked, prefixed jemalloc (tests/linked.py)."""

import os
import sys

from harness import Failure

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "tests"))
import linked  # noqa: E402

PREFIX = "_rjem_"
SYMBOLS, BULK = 1_000_000, 1 << 30
FUNCTIONS = 400_000  # of 100 bytes, with call frame information: 50 MB

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *kept;
int main(void) { kept = malloc(1000); puts("ready"); fflush(stdout); for (;;) pause(); }
"""

# Names as long as in C++. One in four is static, in one of a thousand source files.
SYMBOL = """.type {name},@function
.size {name},8
{name}: nopl 4(%rax,%rax,1)
ret
"""

PADDING = """
.text
callee: ret
.rept %d
.cfi_startproc
pushq %%rbx
.cfi_def_cfa_offset 16
.cfi_offset 3, -16
movq %%rdi, %%rbx
leaq constant(%%rip), %%rdi
callq callee
leaq variable(%%rip), %%rsi
movl $1000, %%edx
callq callee
.rept 8
movq 16(%%rbx), %%rax
addl $300, 24(%%rbx,%%rax,4)
.endr
popq %%rbx
ret
.cfi_endproc
.endr
.section .rodata
constant: .asciz "constant"
.data
variable: .quad 0
.section .note.GNU-stack,"",@progbits
"""


def symbols_write(path):
    """Writes an assembler file with a million functions and a gigabyte of constants."""
    with open(path, "w", encoding="ascii") as file:
        file.write(".text\n")
        for number in range(SYMBOLS):
            if number % 1000 == 0:
                file.write('.file "part%d.cc"\n' % (number // 1000))
            name = "_ZN7service6moduleILi%dEE12handle_queryERKNS_7requestEm" % number
            if number % 4:
                file.write(".globl %s\n" % name)
            file.write(SYMBOL.format(name=name))
        file.write(".section .rodata\n.zero %d\n" % BULK)
        file.write('.section .note.GNU-stack,"",@progbits\n')


def program_make(directory, name, assembler, strip):
    """Links the assembler file with a program that allocates, and removes the file. Returns the
    program's path."""
    why = linked.missing()
    if why:
        raise Failure(why)
    source, path = os.path.join(directory, name + ".c"), os.path.join(directory, name)
    with open(source, "w", encoding="ascii") as file:
        file.write(PROGRAM)
    try:
        linked.run("gcc", "-O2", "-Dmalloc=%smalloc" % PREFIX, *linked.LINKS["static-pie"],
                   source, assembler, linked.archive(PREFIX, directory), "-o", path, "-lm",
                   "-lpthread", "-ldl", *(["-s"] if strip else []))
    except RuntimeError as error:
        raise Failure(str(error)) from error
    os.unlink(assembler)
    return path


def symbols_make(directory):
    """Builds a program of 1 GB with a .symtab of a million symbols."""
    assembler = os.path.join(directory, "symbols.s")
    symbols_write(assembler)
    return program_make(directory, "symbols", assembler, False)


def stripped_make(directory):
    """Builds a program of 50 MB without any symbol."""
    assembler = os.path.join(directory, "padding.s")
    with open(assembler, "w", encoding="ascii") as file:
        file.write(PADDING % FUNCTIONS)
    return program_make(directory, "stripped", assembler, True)
