"""A C++ program whose heap profile has as many stacks, of as many functions, as asked for.

  program_write(DIRECTORY, FUNCTIONS)    its sources
  program STACKS DEPTH                   one live block of each of STACKS calls, DEPTH levels deep

Each function calls one of eight others, through layers that are always inlined.
"""

import os
import random

FILES = 10

HEADER = """#include <cstdlib>
#include <cstring>
namespace app {
void *dispatch(unsigned function, unsigned depth, unsigned long path);
template <class T> struct layer {
    static inline __attribute__((always_inline)) void *make(unsigned n)
    {
        void *block = malloc(sizeof(T) * n);
        memset(block, 1, sizeof(T) * n);
        return block;
    }
};
static inline __attribute__((always_inline)) void *leaf(unsigned n)
{
    return layer<long>::make(n);
}
static inline __attribute__((always_inline)) void *go(unsigned f, unsigned depth, unsigned long path)
{
    return depth == 0 ? leaf(2 + f % 7) : dispatch(f, depth, path);
}
}
"""

MAIN = """#include "app.h"
namespace app {
%(tables)s
typedef void *(*function)(unsigned, unsigned long);
static function *const tables[] = {%(names)s};
void *dispatch(unsigned f, unsigned depth, unsigned long path)
{
    void *block = tables[f / %(per)d][f %% %(per)d](depth, path);
    asm volatile("" : "+r"(block));
    return block;
}
}
int main(int argc, char **argv)
{
    unsigned long count = argc == 3 ? strtoul(argv[1], nullptr, 10) : 0;
    static void *blocks[1 << 20];
    for (unsigned long i = 0; i < count && i < 1 << 20; i++) {
        unsigned long path = (i + 1) * 0x9e3779b97f4a7c15ul;
        blocks[i] = app::dispatch(i %% %(functions)d, atoi(argv[2]), path ^ path >> 29);
    }
    return 0;
}
"""


def module(number, per, functions):
    lines = ['#include "app.h"', "namespace app { namespace mod%d {" % number]
    for i in range(per):
        lines.append("void *func_%d(unsigned depth, unsigned long path)\n{" % i)
        lines.append("    void *block = nullptr;\n    switch (path & 7) {")
        for k in range(8):
            callee = random.randrange(functions)
            lines.append("    case %d: block = go(%d, depth - 1, path >> 3); break;" % (k, callee))
        lines.append('    }\n    asm volatile("" : "+r"(block));\n    return block;\n}')
    names = ", ".join("func_%d" % i for i in range(per))
    lines.append("void *(*table[])(unsigned, unsigned long) = {%s};\n}}" % names)
    return "\n".join(lines) + "\n"


def program_write(directory, functions):
    """The sources, by name; the same each time."""
    random.seed(1)
    per = functions // FILES
    tables = ["namespace mod%d { extern void *(*table[])(unsigned, unsigned long); }" % i
              for i in range(FILES)]
    names = ", ".join("mod%d::table" % i for i in range(FILES))
    texts = {"app.h": HEADER, "main.cc": MAIN % {"tables": "\n".join(tables), "names": names,
                                                 "per": per, "functions": functions}}
    for i in range(FILES):
        texts["m%d.cc" % i] = module(i, per, functions)
    for name, text in texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as out:
            out.write(text)
    return sorted(name for name in texts if name.endswith(".cc"))
