"""Functions, inlined calls and lines of programs of several compilers and linkers, address by
address, compared with eu-addr2line and llvm-symbolizer.
"""

import bisect
import collections
import ctypes.util
import http.server
import itertools
import os
import random
import re
import shutil
import struct
import subprocess
import threading
import unittest
from collections import namedtuple

import hostile
import lib

SOURCES = os.path.join(lib.ROOT, "tests", "symbols")
RESOLVE = os.path.abspath(
    os.environ.get("JEATTACH_RESOLVE", os.path.join(lib.ROOT, "build/tests/symbols/resolve"))
)
STRIDE = 5
# eu-addr2line needs 2 ms for an address: without --long it gets every tenth one.
ADDR2LINE_EVERY = 1 if lib.LONG else 10

# name: the first field of `resolve`, the name in the source; other tools have only the linkage
# name.
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
    """Returns every `stride`-th address of the executable sections that are not linkage tables."""
    found = []
    for line in run(["readelf", "-SW", path]).splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 7 and fields[1] in (".text", ".init", ".fini"):
            start, size = int(fields[3], 16), int(fields[5], 16)
            found.extend(range(start, start + size, stride))
    return found


def place(path, line):
    """Returns None if it is unknown: an STT_FILE symbol (`crtstuff.c:0` of llvm-symbolizer) is no
    place."""
    line = int(line or 0)
    if path in ("", "??") or (line == 0 and not path.startswith("/")):
        return None
    return os.path.normpath(path), line


def resolve(path, addresses, *options, program=RESOLVE):
    """Returns the chain of each address, and the line with the coverage."""
    text = "".join("%x\n" % address for address in addresses)
    lines = run([program, *options, path], input=text.encode()).splitlines()
    chains, at = [], 0
    for address in addresses:
        head = lines[at].split("\t")
        assert int(head[0], 16) == address
        fields = [line.split("\t") for line in lines[at + 1 : at + 1 + int(head[1])]]
        chains.append([Line(f[0], f[1], place(f[2], f[3])) for f in fields])
        at += 1 + len(fields)
    return chains, lines[at].split("\t")


def chain_of(names_and_places):
    """Makes a chain of alternating names and places; an empty one if there is no name."""
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
    # Its exit code is 1 if one address is unknown.
    for line in run(command, may_fail=True, input=text.encode()).splitlines():
        if line.startswith("0x"):
            answers.append([])
        else:
            answers[-1].append(line)
    return [chain_of(answer) for answer in answers]


def symbolizer(path, addresses):
    text = "".join("0x%x\n" % address for address in addresses)
    command = ["llvm-symbolizer", "--inlines", "--functions=linkage", "--no-demangle"]
    answers = run([*command, "--obj=" + path], input=text.encode()).rstrip("\n").split("\n\n")
    return [chain_of(answer.splitlines()) for answer in answers]


def symbol_addresses(program):
    fields = [line.split() for line in run(["nm", "-P", program]).splitlines()]
    return {field[0]: field[2] for field in fields if len(field) > 2}


def without_clone(linkage):
    """"f.part.0.cold" and "f.llvm.123" become f. Rust's older mangling has dots in the name itself.
    """
    return re.sub(r"(\.(cold|part|isra|constprop|lto_priv|localalias|llvm|__uniq)(\.\d+)?)+$", "",
                  linkage)


def demangle(*answers):
    """Returns {mangled: demangled} for all names in the answers."""
    names = {line.linkage for chains in answers for chain in chains for line in chain}
    names = sorted(names | {without_clone(name) for name in names})
    return dict(zip(names, run(["c++filt"], input="\n".join(names).encode()).splitlines()))


FUNCTION, CALL = "subprogram", "inlined_subroutine"


class Scope:
    """A DIE as llvm-dwarfdump shows it: its ranges, its parent, the line of the call."""

    def __init__(self, tag, parent):
        self.tag, self.parent = tag, parent
        self.low, self.ranges, self.call_line = None, [], 0

    def in_function(self):
        return self.parent and (self.parent.tag == FUNCTION or self.parent.in_function())


def scopes_of(path):
    """Returns the functions and inlined calls of a program, outer ones first. The indentation of a
    DIE is its depth."""
    die = re.compile(r"0x[0-9a-f]+:( +)DW_TAG_(\w+)")
    attribute = re.compile(r"\s+DW_AT_(low_pc|high_pc|call_line)\s+\((\w+)\)")
    extent = re.compile(r"\s+\[(0x[0-9a-f]+), (0x[0-9a-f]+)\)")
    scopes, around = [], {}
    for line in run(["llvm-dwarfdump", "--debug-info", path]).splitlines():
        if found := die.match(line):
            depth = len(found[1])
            scopes.append(Scope(found[2], around.get(depth - 2)))
            around[depth] = scopes[-1]
        elif found := extent.match(line):
            scopes[-1].ranges.append((int(found[1], 16), int(found[2], 16)))
        elif found := attribute.match(line):
            value = int(found[2], 0)
            if found[1] == "low_pc":
                scopes[-1].low = value
            elif found[1] == "high_pc":
                scopes[-1].ranges.append((scopes[-1].low, value))
            else:
                scopes[-1].call_line = value
    return [scope for scope in scopes if scope.tag in (FUNCTION, CALL)]


def scopes_at(path, addresses):
    """Returns for each address the functions and inlined calls that contain it, outer ones first.
    """
    found = {address: [] for address in addresses}
    for scope in scopes_of(path):
        for start, end in dict.fromkeys(scope.ranges):
            first, last = (bisect.bisect_left(addresses, bound) for bound in (start, end))
            for address in addresses[first:last]:
                found[address].append(scope)
    return [found[address] for address in addresses]


def call_lines(chain):
    return [line.place[1] if line.place else 0 for line in chain[1:]]


def why_left_out(scopes, answer):
    """Returns why eu-addr2line is wrong about an address that is in `scopes`; None if it is right.
    """
    if not any(scope.tag == FUNCTION for scope in scopes):
        return "in no function: it gives the line of what is before"
    if any(scope.tag == FUNCTION and scope.in_function() for scope in scopes):
        return "in a class within a function, where it does not look"
    if call_lines(answer) != [scope.call_line for scope in reversed(scopes) if scope.tag == CALL]:
        return "it gives other inlined calls than those whose ranges hold the address"
    return None


def is_shortened(mine, other):
    """The tool keeps the short name of one that has more than 1 KiB: no template arguments."""
    parts = mine.split("::")
    return (len(other) > 1024 and "<" not in mine and other.endswith(")") and
            re.search("::".join(re.escape(part) + r"(<.*>)?" for part in parts), other) is not None)


class Programs(lib.TestCase):
    def build(self, cxx, cc, *options, link=()):
        need(cxx, cc, "eu-addr2line", "readelf")
        where = self.directory()
        objects = []
        for source in ("shapes.cc", "main.cc", "plain.c"):
            objects.append(os.path.join(where, source + ".o"))
            compiler = cxx if source.endswith(".cc") else cc
            command = [compiler, "-g", "-O2", *options, "-c", os.path.join(SOURCES, source)]
            run([*command, "-o", objects[-1]])
        program = os.path.join(where, "program")
        run([cxx, *options, *link, *objects, "-o", program])
        return program

    def same_name(self, mine, other, demangled, symbols):
        """A function may have its name from the symbol table: one without a DW_AT_linkage_name, a
        part of one (`.cold`), or one of several at an address (constructors, identical functions).
        """
        if mine.linkage == other.linkage:
            return True
        if mine.linkage in symbols and symbols[mine.linkage] == symbols.get(other.linkage):
            return True
        theirs = demangled[without_clone(other.linkage)]
        if ".llvm." in other.linkage and other.linkage in symbols and mine.linkage not in symbols:
            # Instances with identical code are merged: the symbol and the debug information differ
            # in the brackets and in the hash.
            stem = lambda name: re.sub(r"<.*|::h[0-9a-f]{16}$", "", name)
            return stem(demangled[mine.linkage]) == stem(theirs)
        if mine.linkage.startswith(("_Z", "_R")):
            return demangled[mine.linkage] == theirs
        # Compilers and demanglers write template arguments differently.
        name = re.escape(mine.linkage.split("<")[0])
        return re.search(r"(^|::| )%s([<(]|$)" % name, theirs) is not None

    def assert_equal_chains(self, oracle, ours, theirs, addresses, same):
        self.assertEqual(len(ours), len(theirs))
        different = []
        for address, mine, other in zip(addresses, ours, theirs):
            pairs = list(itertools.zip_longest(mine, other))
            wrong = [pair for pair in pairs if None in pair or not same(*pair)]
            different += ["%x: %s" % (address, wrong[0])] if wrong else []
        print("%s: %d of %d equal" % (oracle, len(ours) - len(different), len(ours)))
        self.assertEqual(different[:5], [])
        self.assertGreater(sum(len(chain) > 1 for chain in theirs), len(addresses) // 50)

    def assert_equal_when_let_go(self, path, addresses, chains):
        """Units that are released and read again, in the order of addresses and in another order.
        """
        for step in 1, 97:
            order = [i for first in range(step) for i in range(first, len(addresses), step)]
            found, _ = resolve(path, [addresses[i] for i in order], program=RESOLVE + "-tight")
            self.assertTrue(found == [chains[i] for i in order])

    def compare(self, program, addr2line_too=False, options=()):
        addresses = code_addresses(program)
        self.assertGreater(len(addresses), 500)
        ours, _ = resolve(program, addresses, *options)
        self.assert_equal_when_let_go(program, addresses, ours)
        need(*["llvm-symbolizer"] if not addr2line_too else [])
        if shutil.which("llvm-symbolizer"):
            theirs = symbolizer(program, addresses)
            self.compare_with("llvm-symbolizer", program, ours, theirs, addresses)
        if not addr2line_too:
            return
        need("llvm-dwarfdump")
        chosen = slice(random.randrange(ADDR2LINE_EVERY), None, ADDR2LINE_EVERY)
        print("eu-addr2line: every %d. address from number %d on" % (chosen.step, chosen.start))
        self.compare_with_addr2line(program, ours[chosen], addresses[chosen])

    def compare_with_addr2line(self, program, ours, addresses):
        """Leaves out addresses for which the debug information itself shows that eu-addr2line is
        wrong."""
        theirs, scopes = addr2line(program, addresses), scopes_at(program, addresses)
        reasons = [why_left_out(*pair) for pair in zip(scopes, theirs)]
        for reason, count in collections.Counter(reasons).items():
            print("eu-addr2line: %d %s" % (count, "left out, " + reason if reason else "compared"))
        for address, chain, here in zip(addresses, ours, scopes):
            lines = [scope.call_line for scope in reversed(here) if scope.tag == CALL]
            self.assertEqual(call_lines(chain), lines, "%x" % address)
        kept = [i for i, reason in enumerate(reasons) if not reason]
        of_kept = lambda all: [all[i] for i in kept]
        self.compare_with(
            "eu-addr2line", program, of_kept(ours), of_kept(theirs), of_kept(addresses)
        )
        # A function without a linkage name has its namespaces here, and not in eu-addr2line.
        named = lambda a, b: (a.name == b.name or ("::" + a.name).endswith("::" + b.name) or
                              is_shortened(a.name, b.name))
        ours, addresses = of_kept(ours), of_kept(addresses)
        theirs = addr2line(program, addresses, "-C")
        self.assert_equal_chains("eu-addr2line -C", ours, theirs, addresses, named)

    def compare_with(self, oracle, program, ours, theirs, addresses):
        names = demangle(ours, theirs), symbol_addresses(program)
        same = lambda a, b: a.place == b.place and self.same_name(a, b, *names)
        self.assert_equal_chains(oracle, ours, theirs, addresses, same)

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

    def split(self, cxx, cc, version, *options):
        """With .dwo files, and without."""
        program = self.build(cxx, cc, "-gsplit-dwarf", "-gdwarf-%d" % version, *options)
        self.compare(program)
        addresses = code_addresses(program, 10 * STRIDE)
        whole, _ = resolve(program, addresses)
        self.assertGreater(sum(len(chain) > 1 for chain in whole), 100)
        for name in os.listdir(os.path.dirname(program)):
            if name.endswith(".dwo"):
                os.unlink(os.path.join(os.path.dirname(program), name))
        less, _ = resolve(program, addresses)
        for chain, full in zip(less, whole):
            self.assertLessEqual(len(chain), 1)
            self.assertEqual([line.place for line in chain], [line.place for line in full[:1]])

    def test_split_gcc(self):
        self.split("g++", "gcc", 5)

    def test_split_gcc_dwarf4(self):
        self.split("g++", "gcc", 4)

    def test_split_clang(self):
        self.split("clang++", "clang", 5, "-Wno-c++17-extensions")

    def test_split_clang_dwarf4(self):
        self.split("clang++", "clang", 4, "-Wno-c++17-extensions")

    def test_split_of_another_build(self):
        """A .dwo file with another id is not used."""
        program = self.build("g++", "gcc", "-gsplit-dwarf")
        directory = os.path.dirname(program)
        run(["g++", "-g", "-O1", "-gsplit-dwarf", "-c", os.path.join(SOURCES, "main.cc"), "-o",
             os.path.join(directory, "main.cc.o")])
        addresses = code_addresses(program, 10 * STRIDE)
        places = [[line.place[0] for line in chain if line.place]
                  for chain in resolve(program, addresses)[0] if len(chain) > 1]
        self.assertTrue(places)
        self.assertFalse([chain for chain in places if chain[-1].endswith("main.cc")])

    def rust(self, *options):
        need("rustc", "llvm-symbolizer")
        program = os.path.join(self.directory(), "program")
        source = os.path.join(SOURCES, "crate.rs")
        command = ["rustc", "-g", "-O", "-Z", "unstable-options", *options, "--crate-name", "probe"]
        environment = dict(os.environ, RUSTC_BOOTSTRAP="1")  # for the choice of a mangling
        run([*command, source, "-o", program], env=environment)
        return program

    def test_rust(self):
        """Every function of the crate and of its dependencies, with both manglings."""
        for mangling in ("legacy", "v0"):
            program = self.rust("-C", "symbol-mangling-version=" + mangling)
            addresses = code_addresses(program, 13)
            ours, _ = resolve(program, addresses)
            self.assert_equal_when_let_go(program, addresses, ours)
            names = {line.name for chain in ours for line in chain}
            self.assertIn("<probe::Square as probe::Shape>::area", names, mangling)
            wrong = [name for name in names if "$LT$" in name or name.startswith(("_ZN", "_R"))]
            self.assertEqual(wrong, [], mangling)
            theirs = symbolizer(program, addresses)
            self.compare_with("llvm-symbolizer", program, ours, theirs, addresses)

    def test_supplement(self):
        """Debug information that dwz moves into a file shared by several programs."""
        need("dwz")
        program = self.build("g++", "gcc")
        other, common = program + ".other", program + ".common"
        shutil.copy(program, other)
        addresses = code_addresses(program)
        before, _ = resolve(program, addresses)
        run(["dwz", "-m", common, "-M", common, program, other])
        self.assertIn(".gnu_debugaltlink", run(["readelf", "-SW", program]))
        self.assertEqual(resolve(program, addresses)[0], before)
        self.assert_equal_when_let_go(program, addresses, before)
        os.unlink(common)
        without, coverage = resolve(program, addresses)
        self.assertEqual([bool(chain) for chain in without], [bool(chain) for chain in before])


class Files(lib.TestCase):
    """Separate debug information is found, and used only if it belongs to the file."""

    def setUp(self):
        need("gcc", "objcopy", "strip", "readelf")
        self.where = self.directory()
        self.program = self.compile("program", "-O2")
        self.addresses = code_addresses(self.program, 3)
        self.full = self.lines(self.program)

    def compile(self, name, *options):
        path = os.path.join(self.where, name)
        source = os.path.join(SOURCES, "plain.c")
        with open(path + ".main.c", "w") as file:
            file.write("long plain_entry(long);\n")
            file.write("int main(int c, char **v) { return v && plain_entry(c) < 0; }\n")
        run(["gcc", "-g", "-Wl,--build-id", *options, source, path + ".main.c", "-o", path])
        return path

    def lines(self, path, *options):
        chains, coverage = resolve(path, self.addresses, *options)
        return chains, coverage[1:5]

    def stripped(self, name="stripped"):
        path = os.path.join(self.where, name)
        run(["strip", self.program, "-o", path])
        return path

    def debug_file(self, path, *options):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        run(["objcopy", "--only-keep-debug", *options, self.program, path])
        return path

    def build_id(self, path):
        for line in run(["readelf", "-n", path]).splitlines():
            if "Build ID:" in line:
                return line.split()[-1]
        raise AssertionError("no build-id: " + path)

    def in_build_id_dir(self, root):
        name = self.build_id(self.program)
        return os.path.join(root, ".build-id", name[:2], name[2:] + ".debug")

    def with_debug_dir(self):
        return self.lines(self.stripped(), "--debug-dir", self.where + "/debug")

    def test_complete(self):
        chains, (asked, named, placed, lack) = self.full
        self.assertEqual((asked, lack), (str(len(self.addresses)), "0"))
        self.assertGreater(int(placed), int(asked) // 3)
        self.assertGreater(max(map(len, chains)), 2)

    def test_stripped(self):
        chains, coverage = self.lines(self.stripped())
        self.assertEqual([line for chain in chains for line in chain if line.place], [])
        self.assertLessEqual(max(map(len, chains)), 1)
        self.assertIn(coverage[3], ("4", "5"))

    def test_section_headers_anywhere(self):
        """The tool reads a file in blocks of 16 KiB; a header may cross a boundary."""
        block, header = 16 << 10, 64
        with open(self.program, "rb") as file:
            content = file.read()
        (start,) = struct.unpack_from("<Q", content, 0x28)
        table = content[start : start + header * struct.unpack_from("<H", content, 0x3C)[0]]
        moved = os.path.join(self.where, "moved")
        for across in range(header // 2, len(table), header):
            at = (len(content) // block + 2) * block - across
            with open(moved, "wb") as file:
                file.write(content[:0x28] + struct.pack("<Q", at) + content[0x30:])
                file.write(bytes(at - len(content)) + table)
            self.assertEqual(self.lines(moved), self.full, "%d of %d" % (across, len(table)))

    def test_build_id_directory(self):
        self.debug_file(self.in_build_id_dir(self.where + "/debug"))
        self.assertEqual(self.with_debug_dir(), self.full)

    def test_build_id_directory_of_a_root(self):
        """Module and debug file below another root, such as an image that is not running."""
        root = os.path.join(self.where, "root")
        inside = os.path.join(root, self.stripped().lstrip("/"))
        os.makedirs(os.path.dirname(inside))
        os.rename(self.where + "/stripped", inside)
        self.debug_file(self.in_build_id_dir(root + "/usr/lib/debug"))
        # `resolve` reads the segments by the path on this side.
        os.symlink(inside, self.where + "/stripped")
        self.assertEqual(self.lines(self.where + "/stripped", "--root", root), self.full)

    def test_debuglink(self):
        stripped = self.stripped()
        debug = self.debug_file(os.path.join(self.where, ".debug", "program.debug"))
        run(["objcopy", "--add-gnu-debuglink=" + debug, stripped])
        self.assertEqual(self.lines(stripped), self.full)

    def test_compressed_debug_file(self):
        packed = "--compress-debug-sections=zlib"
        self.debug_file(self.in_build_id_dir(self.where + "/debug"), packed)
        self.assertEqual(self.with_debug_dir(), self.full)

    def test_another_build(self):
        """A debug file in the right place with another build-id is not used."""
        stripped = self.lines(self.stripped())
        where = self.in_build_id_dir(self.where + "/debug")
        os.makedirs(os.path.dirname(where))
        shutil.copy(self.compile("other", "-O0"), where)
        self.assertEqual(self.with_debug_dir(), stripped)

    def test_minidebug(self):
        need("xz", "nm")
        fields = [line.split() for line in run(["nm", "-P", self.program]).splitlines()]
        functions = [field[0] for field in fields if field[1] in "tT"]
        mini, keep = os.path.join(self.where, "mini"), os.path.join(self.where, "keep")
        with open(keep, "w") as file:
            file.write("\n".join(functions))
        debug = self.debug_file(self.where + "/full/debug")
        run(["objcopy", "-S", "-R", ".comment", "--keep-symbols=" + keep, debug, mini])
        run(["xz", "-k", mini])
        stripped = self.stripped()
        run(["objcopy", "--add-section", ".gnu_debugdata=" + mini + ".xz", stripped])
        names = {line.name for chain in self.lines(stripped)[0] for line in chain}
        self.assertTrue({"outermost", "complain", "plain_entry", "main"} <= names, names)

    def test_split(self):
        """With split DWARF the program has the lines; function names come from the symbol table."""
        chains, coverage = self.lines(self.compile("split", "-O2", "-gsplit-dwarf"))
        self.assertEqual(coverage[:3], self.full[1][:3])
        names = lambda all: {chain[-1].name.split(".")[0] for chain in all if chain}
        self.assertEqual(names(chains), names(self.full[0]))

    def test_split_that_unpacks_to_much(self):
        """Small .dwo files that unpack to much memory are not kept together."""
        units, zeros = 3, os.path.join(self.where, "zeros")
        with open(zeros, "wb") as file:
            file.truncate(96 * hostile.MIB)
        for i in range(units):
            source = os.path.join(self.where, "unit%d.c" % i)
            with open(source, "w") as file:
                name = "unit%d" % i if i else "main"
                file.write("int %s(int c) { return c + %d; }\n" % (name, i))
            run(["gcc", "-g", "-O1", "-gsplit-dwarf", "-c", source, "-o", source[:-1] + "o"])
            for change in ("--update-section=.debug_str.dwo=" + zeros, "--compress-debug-sections"):
                run(["objcopy", change, source[:-1] + "dwo"])
        path = os.path.join(self.where, "units")
        run(["gcc", *(os.path.join(self.where, "unit%d.o" % i) for i in range(units)), "-o", path])
        text = "".join("%x\n" % address for address in code_addresses(path, 1))
        with open(os.path.join(self.where, "addresses"), "w+") as asked:
            asked.write(text)
            asked.seek(0)
            child = subprocess.Popen([RESOLVE, path], stdin=asked, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        self.assertGreater(usage.ru_maxrss << 10, 96 * hostile.MIB)
        self.assertLess(usage.ru_maxrss << 10, hostile.limit(224 * hostile.MIB))

    def test_unit_without_ranges(self):
        """The ranges of its functions are used instead."""
        path = os.path.join(self.where, "rangeless")
        run(["gcc", "-nostdlib", "-static", os.path.join(SOURCES, "rangeless.S"), "-o", path])
        chains, _ = resolve(path, code_addresses(path, 1))
        lines = {line for chain in chains for line in chain}
        self.assertEqual(lines, {("space::function", "function", None)})

    def with_debug_info(self, info, abbreviations, strings=b"\0"):
        """Returns the program with other debug information, of DWARF 4."""
        path = os.path.join(self.where, "forged")
        parts = {"info": info, "abbrev": abbreviations, "str": strings}
        for name, content in parts.items():
            with open(os.path.join(self.where, name), "wb") as file:
                file.write(content)
        sections = [
            "--update-section=.debug_%s=%s/%s" % (name, self.where, name) for name in parts
        ]
        run(["objcopy", *sections, self.program, path])
        return path

    def test_hostile(self):
        """Very many units, and endlessly nested DIEs: bounded time and memory, and names from the
        symbol table nevertheless."""
        # Codes 1, DW_TAG_compile_unit, and 2, DW_TAG_subprogram, with children, no attributes.
        codes = bytes([1, 0x11, 1, 0, 0, 2, 0x2E, 1, 0, 0, 0])
        unit = lambda dies: struct.pack("<IHIB", 7 + len(dies), 4, 0, 8) + dies
        for name, info in (
            ("empty units", unit(b"") * 400000),
            ("units", unit(b"\1") * 400000),
            ("deep", unit(b"\1" + b"\2" * 4000000)),
            ("wide", unit(b"\1" + b"\2\0" * 2000000)),
        ):
            with self.subTest(name):
                path = self.with_debug_info(info, codes)
                chains, end = resolve(path, self.addresses)
                self.assertIn("outermost", {line.name for chain in chains for line in chain})
                self.assertLess(float(end[5]), 10, "seconds")
                self.assertLess(int(end[6]), 800, "MiB")

    def test_beyond_the_section(self):
        """A unit that is longer than its section, and a text that does not end in it: nothing of
        them is shown."""
        # DW_TAG_compile_unit and DW_TAG_subprogram with DW_AT_name, a DW_FORM_strp, and their code.
        codes = b"".join(bytes([number, tag, children, 3, 0x0E, 0x11, 1, 0x12, 7, 0, 0])
                         for number, tag, children in ((1, 0x11, 1), (2, 0x2E, 0))) + b"\0"
        strings = b"unit.c\0forged"
        die = lambda number, name: struct.pack("<BIQQ", number, strings.index(name), 1, 1 << 62)
        dies = die(1, b"unit.c") + die(2, b"forged") + b"\0"
        unit = lambda beyond: struct.pack("<IHIB", 7 + len(dies) + beyond, 4, 0, 8) + dies
        names = {}
        for case, info, text in (("good", unit(0), strings + b"\0"),
                                 ("unit", unit(8), strings + b"\0"), ("text", unit(0), strings)):
            chains, _ = resolve(self.with_debug_info(info, codes, text), self.addresses)
            names[case] = {line.name for chain in chains for line in chain}
        self.assertTrue(any("forged" in name for name in names["good"]), names["good"])
        for case in "unit", "text":
            self.assertFalse(any("forged" in name for name in names[case]), case)
            self.assertIn("outermost", names[case])

    def serve(self, path):
        """Starts a debuginfod that has one file; returns the list of its requests."""
        requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler):
                requests.append(handler.path)
                handler.send_response(200)
                handler.end_headers()
                with open(path, "rb") as file:
                    handler.wfile.write(file.read())

            def log_message(handler, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for name, value in (
            ("DEBUGINFOD_URLS", "http://127.0.0.1:%d" % server.server_port),
            ("DEBUGINFOD_CACHE_PATH", os.path.join(self.where, "cache")),
        ):
            self.addCleanup(os.environ.pop, name, None)
            os.environ[name] = value
        return requests

    def test_debuginfod(self):
        """Servers are asked only with --debuginfod, and their answers are checked."""
        if not ctypes.util.find_library("debuginfod"):
            self.skipTest("libdebuginfod is not installed")
        requests = self.serve(self.debug_file(self.where + "/served"))
        stripped = self.stripped()
        self.assertNotEqual(self.lines(stripped), self.full)
        self.assertEqual(requests, [])
        self.assertEqual(self.lines(stripped, "--debuginfod"), self.full)
        self.assertEqual(requests, ["/buildid/%s/debuginfo" % self.build_id(self.program)])

    def test_debuginfod_of_another_build(self):
        if not ctypes.util.find_library("debuginfod"):
            self.skipTest("libdebuginfod is not installed")
        requests = self.serve(self.compile("other", "-O0"))
        stripped = self.stripped()
        self.assertEqual(self.lines(stripped, "--debuginfod"), self.lines(stripped))
        self.assertEqual(len(requests), 1)

    def test_names_alone(self):
        chains, coverage = self.lines(self.program, "--no-inlines")
        self.assertEqual(coverage[0:2], self.full[1][0:2])
        self.assertEqual(coverage[2], "0")
        self.assertEqual(max(map(len, chains)), 1)

    def linked_by_its_names(self, path, names_too):
        """Makes a DWARF 5 line table whose strings are in a supplement, which .gnu_debugaltlink
        places at that path: that section overlaps the section names, or is them."""
        linked, link = os.path.join(self.where, "linked"), os.path.join(self.where, "link")
        with open(link, "wb") as file:
            file.write(bytes(32))
        source = self.compile("lines", "-O2", "-gdwarf-5")
        run(["objcopy", "--add-section=.gnu_debugaltlink=" + link, source, linked])
        with open(linked, "rb") as file:
            data = bytearray(file.read())
        start, = struct.unpack_from("<Q", data, 0x28)
        count, index = struct.unpack_from("<HH", data, 0x3C)
        headers = [list(struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i))
                   for i in range(count)]
        names = headers[index]
        old = bytes(data[names[4] : names[4] + names[5]])
        before = os.fsencode(path) + b"\0" + bytes(range(1, 21))
        place = {old[each[0] : old.index(b"\0", each[0])]: each for each in headers}
        lines, link = place[b".debug_line"], place[b".gnu_debugaltlink"]
        part = bytes(data[lines[4] : lines[4] + lines[5]])  # DW_FORM_line_strp to DW_FORM_strp_sup
        part = re.sub(rb"(?<=[\x01\x02]\x01)\x1f", b"\x1d", part)
        data[lines[4] : lines[4] + lines[5]] = part
        for each in headers:
            each[0] += len(before)
        names[4], names[5] = len(data), len(before + old)
        if names_too:
            names[0], link[1] = link[0], 8  # the other section has no content
        else:
            link[4], link[5] = names[4], len(before)
        for i, each in enumerate(headers):
            struct.pack_into("<IIQQQQIIQQ", data, start + 64 * i, *each)
        with open(linked, "wb") as file:
            file.write(data + before + old)
        return linked

    def test_path_that_libdw_would_open(self):
        """libdw opens a supplement by itself, at any path in the tool's root."""
        fifo = os.path.join(self.where, "fifo")
        os.mkfifo(fifo)
        for names_too in (False, True):
            with self.subTest(names_too=names_too):
                linked = self.linked_by_its_names(fifo, names_too)
                subprocess.run([RESOLVE, linked], stdout=subprocess.DEVNULL, check=True, timeout=60,
                               input=b"".join(b"%x\n" % at for at in self.addresses))

    def test_cut_short(self):
        """A file that ends anywhere gives fewer names, and never a crash."""
        size = os.path.getsize(self.program)
        cut = os.path.join(self.where, "cut")
        for part in range(1, 40):
            shutil.copy(self.program, cut)
            os.truncate(cut, size * part // 40)
            result = subprocess.run([RESOLVE, cut], input=b"1200\n1234\n", stdout=subprocess.PIPE)
            self.assertIn(result.returncode, (0, 1), part)


if __name__ == "__main__":
    lib.main()
