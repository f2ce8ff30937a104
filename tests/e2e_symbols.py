"""Functions, inlined calls and lines of programs of several compilers and linkers, address by
address, against eu-addr2line and llvm-symbolizer."""

import itertools
import os
import re
import shutil
import subprocess
import unittest
from collections import namedtuple

import lib

SOURCES = os.path.join(lib.ROOT, "tests", "symbols")
RESOLVE = os.path.abspath(
    os.environ.get("JEATTACH_RESOLVE", os.path.join(lib.ROOT, "build", "tests", "symbols", "resolve"))
)
STRIDE = 5

# name: what `resolve` prints first, the name in the source; an oracle has the one it was asked for.
Line = namedtuple("Line", "name linkage place")


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest("%s is not installed" % program)


def run(argv, may_fail=False, **options):
    result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if result.returncode and not may_fail:
        raise AssertionError("%s: %s" % (argv[0], result.stderr.decode(errors="replace")[-2000:]))
    return result.stdout.decode(errors="replace")


def code_addresses(path, stride=STRIDE):
    """Every `stride`-th address of the executable sections that are not linkage tables."""
    found = []
    for line in run(["readelf", "-SW", path]).splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 7 and fields[1] in (".text", ".init", ".fini"):
            start, size = int(fields[3], 16), int(fields[5], 16)
            found.extend(range(start, start + size, stride))
    return found


def place(path, line):
    """None: unknown. The file of an STT_FILE symbol (`crtstuff.c:0` of llvm-symbolizer) is none."""
    line = int(line or 0)
    if path in ("", "??") or (line == 0 and not path.startswith("/")):
        return None
    return os.path.normpath(path), line


def resolve(path, addresses, *options):
    """The chain of each address, and the line of the coverage."""
    text = "".join("%x\n" % address for address in addresses)
    lines = run([RESOLVE, *options, path], input=text.encode()).splitlines()
    chains, at = [], 0
    for address in addresses:
        head = lines[at].split("\t")
        assert int(head[0], 16) == address
        fields = [line.split("\t") for line in lines[at + 1 : at + 1 + int(head[1])]]
        chains.append([Line(f[0], f[1], place(f[2], f[3])) for f in fields])
        at += 1 + len(fields)
    return chains, lines[at].split("\t")


def chain_of(names_and_places):
    """Names and places as they alternate in an oracle's answer; without any name there is none."""
    chain = []
    for name, where in zip(names_and_places[::2], names_and_places[1::2]):
        where = where.split(" (discriminator")[0]
        path, line = where.rsplit(":", 2)[:2] if where.count(":") > 1 else where.rsplit(":", 1)
        name = name.split(" inlined at ")[0]
        chain.append(Line(name, name, place(path, line)))
    return chain if any(line.name != "??" for line in chain) else []


def addr2line(path, addresses, *options):
    text = "".join("0x%x\n" % address for address in addresses)
    command = ["eu-addr2line", "-a", "-i", "-f", "-A", *options, "-e", path]
    answers = []
    # Its exit code is 1 when it knows nothing of one address.
    for line in run(command, may_fail=True, input=text.encode()).splitlines():
        if line.startswith("0x"):
            answers.append([])
        else:
            answers[-1].append(line)
    return [chain_of(answer) for answer in answers]


def symbolizer(path, addresses):
    text = "".join("0x%x\n" % address for address in addresses)
    command = ["llvm-symbolizer", "--inlines", "--functions=linkage", "--no-demangle", "--obj=" + path]
    answers = run(command, input=text.encode()).rstrip("\n").split("\n\n")
    return [chain_of(answer.splitlines()) for answer in answers]


def demangle(*answers):
    """The names in answers, and what they stand for."""
    names = {line.linkage for chains in answers for chain in chains for line in chain}
    names = sorted(names | {name.split(".")[0] for name in names})
    return dict(zip(names, run(["c++filt"], input="\n".join(names).encode()).splitlines()))


class Programs(lib.TestCase):
    def build(self, cxx, cc, *options, link=()):
        need(cxx, cc, "eu-addr2line", "readelf")
        where = self.directory()
        objects = []
        for source in ("shapes.cc", "main.cc", "plain.c"):
            objects.append(os.path.join(where, source + ".o"))
            compiler = cxx if source.endswith(".cc") else cc
            run([compiler, "-g", "-O2", *options, "-c", os.path.join(SOURCES, source), "-o", objects[-1]])
        program = os.path.join(where, "program")
        run([cxx, *options, *link, *objects, "-o", program])
        return program

    def same_name(self, mine, other, demangled):
        """A function may be named by the symbol table: one without a DW_AT_linkage_name, a part of
        one (`.cold`), or one of several of an address (the constructors of a class)."""
        if mine.linkage == other.linkage:
            return True
        theirs = demangled[other.linkage.split(".")[0]]
        if mine.linkage.startswith(("_Z", "_R")):
            return demangled[mine.linkage] == theirs
        # Compilers and demanglers write the arguments of templates differently.
        name = re.escape(mine.linkage.split("<")[0])
        return re.search(r"(^|::| )%s([<(]|$)" % name, theirs) is not None

    def assert_equal_chains(self, oracle, ours, theirs, addresses, same, allowed=0):
        self.assertEqual(len(ours), len(theirs))
        different = []
        for address, mine, other in zip(addresses, ours, theirs):
            pairs = list(itertools.zip_longest(mine, other))
            wrong = [pair for pair in pairs if None in pair or not same(*pair)]
            different += ["%x: %s" % (address, wrong[0])] if wrong else []
        print("%s: %d of %d equal" % (oracle, len(ours) - len(different), len(ours)))
        self.assertLessEqual(len(different), allowed, "\n".join(different[:5]))
        self.assertGreater(sum(len(chain) > 1 for chain in theirs), len(addresses) // 50)

    def compare(self, program, addr2line_too=False, options=()):
        addresses = code_addresses(program)
        self.assertGreater(len(addresses), 500)
        ours, _ = resolve(program, addresses, *options)
        need(*["llvm-symbolizer"] if not addr2line_too else [])
        if shutil.which("llvm-symbolizer"):
            self.compare_with("llvm-symbolizer", ours, symbolizer(program, addresses), addresses)
        if not addr2line_too:
            return
        # It does not enter a class within a function, and gives what is in no function or unit the
        # line of what is before; llvm-symbolizer agrees about these.
        known = [
            i
            for i, chain in enumerate(ours)
            if chain and chain[-1].place and "::Local::" not in chain[-1].name
        ]
        addresses, ours = [addresses[i] for i in known], [ours[i] for i in known]
        # Nor does it find an inlined call whose range reaches out of that of its caller.
        few = len(addresses) // 200
        self.compare_with("eu-addr2line", ours, addr2line(program, addresses), addresses, few)
        # A function without a linkage name has its namespaces here, and not there.
        named = lambda a, b: a.name == b.name or ("::" + a.name).endswith("::" + b.name)
        theirs = addr2line(program, addresses, "-C")
        self.assert_equal_chains("eu-addr2line -C", ours, theirs, addresses, named, few)

    def compare_with(self, oracle, ours, theirs, addresses, allowed=0):
        demangled = demangle(ours, theirs)
        same = lambda a, b: a.place == b.place and self.same_name(a, b, demangled)
        self.assert_equal_chains(oracle, ours, theirs, addresses, same, allowed)

    def test_gcc(self):
        self.compare(self.build("g++", "gcc"), addr2line_too=True)

    def test_gcc_no_pie(self):
        self.compare(self.build("g++", "gcc", "-no-pie", "-fno-pie"), addr2line_too=True)

    def test_gcc_dwarf4(self):
        self.compare(self.build("g++", "gcc", "-gdwarf-4"), addr2line_too=True)

    def test_gcc_sections(self):
        """Functions in sections of their own, some of which the linker drops."""
        options = ("-ffunction-sections", "-fdata-sections")
        self.compare(self.build("g++", "gcc", *options, link=["-Wl,--gc-sections"]))

    def test_gcc_compressed(self):
        self.compare(self.build("g++", "gcc", "-gz"), addr2line_too=True)

    def test_gcc_lto(self):
        self.compare(self.build("g++", "gcc", "-flto"))

    def test_clang(self):
        self.compare(self.build("clang++", "clang"))

    def test_clang_dwarf4(self):
        self.compare(self.build("clang++", "clang", "-gdwarf-4"))

    def test_lld(self):
        need("ld.lld")
        self.compare(self.build("clang++", "clang", link=["-fuse-ld=lld"]))

    def test_lld_no_pie(self):
        need("ld.lld")
        options = ("-no-pie", "-fno-pie", "-ffunction-sections")
        link = ["-fuse-ld=lld", "-Wl,--gc-sections"]
        self.compare(self.build("clang++", "clang", *options, link=link))


if __name__ == "__main__":
    lib.main()
