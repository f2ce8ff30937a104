"""--help, and whether the man page and the completion files know the same verbs and options."""

import os
import re
import shlex
import shutil
import subprocess

import lib

DOCS = os.path.join(lib.ROOT, "docs")
COLUMNS = 80
OPTION = re.compile(r"^  (?:-(\w), |    )--([a-z-]+)", re.M)


def help_of(*words):
    return lib.run_tool(*words, "--help").text


def summaries():
    """Verb -> its line in the overview."""
    return dict(re.findall(r"^  (\w+) +(.*)$", section(help_of(), "Verbs"), re.M))


def section(text, heading):
    """The paragraph below a heading of --help; empty if there is none."""
    found = re.search(r"^%s.*:\n((?:.+\n)+)" % re.escape(heading), text, re.M)
    return found[1] if found else ""


class VerbOptions:
    """The options of a verb by name without dashes, and the name of each letter."""

    def __init__(self, verb):
        text = help_of(verb)
        own = OPTION.findall(section(text, "Options"))
        profile = OPTION.findall(section(text, "Profile options"))
        everywhere = OPTION.findall(help_of())
        self.common = set(name for _, name in everywhere)
        named = re.findall(r"--([a-z-]+)", section(text, "Profile options (see "))
        listed = re.findall(r"--([a-z-]+)", section(text, "Common options"))
        self.all = set(name for _, name in own + profile) | set(named + listed)
        self.common &= self.all
        self.profile = set(named) | set(name for _, name in profile)
        rows = {name: letter for letter, name in everywhere + own + profile if name in self.all}
        self.lettered = [(letter, name) for name, letter in rows.items() if letter]
        self.letters = dict(self.lettered)


class Help(lib.TestCase):
    def test_overview(self):
        verbs = summaries()
        self.assertGreaterEqual(len(verbs), 14)
        for verb, summary in verbs.items():
            with self.subTest(verb=verb):
                self.assertRegex(summary, r"^[a-z].*[^.]( \.\.\.)?$")
                self.assertRegex(help_of(verb), r"\Ausage: jeattach %s " % verb)
                self.assertEqual(help_of("help", verb), help_of(verb))
        self.assertEqual(lib.run_tool("help").text, help_of())

    def test_width(self):
        """No line is wider than a terminal of 80 columns."""
        for verb in [None, *summaries()]:
            for line in help_of(*[verb] if verb else []).splitlines():
                self.assertLessEqual(len(line), COLUMNS, (verb, line))
        for line in lib.run_tool("no-such-verb").err.splitlines():
            self.assertLessEqual(len(line), COLUMNS, line)

    def test_letters_mean_one_option(self):
        for verb in summaries():
            with self.subTest(verb=verb):
                options = VerbOptions(verb)
                self.assertEqual(len(options.letters), len(options.lettered), options.lettered)

    def test_every_option_is_taken(self):
        """A verb's --help lists exactly the options that it parses."""
        every = set(name for verb in summaries() for name in VerbOptions(verb).all)
        self.assertGreater(len(every), 40)
        for verb in summaries():
            taken = VerbOptions(verb).all
            for name in every:
                with self.subTest(verb=verb, option=name):
                    err = lib.run_tool(verb, "--" + name, "", "--no-such-option").err
                    self.assertEqual(name not in taken, "this verb has no option" in err, err)


    def test_examples(self):
        """Each is a command line that is understood, with a process and files of ours."""
        place = self.directory()
        shutil.copy(os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap"),
                    os.path.join(place, "now.heap"))
        shutil.copy(os.path.join(place, "now.heap"), os.path.join(place, "before.heap"))
        os.mkdir(os.path.join(place, "heaps"))
        gone = str(1 << 22)
        for verb in summaries():
            lines = re.findall(r"^  jeattach(.*?)(?:  .*|)$", help_of(verb).split("\n\n")[1], re.M)
            self.assertTrue(lines, verb)
            for line in lines:
                with self.subTest(line=line):
                    words = shlex.split(re.sub(r"\b4242\b(?!\.)|\bcore\.4242|redis-server|\bapp\b",
                                               gone, line).replace("--all", gone))
                    result = lib.run_tool(*words, cwd=place)
                    self.assertNotEqual(result.code, lib.USAGE, result)


class Manual(lib.TestCase):
    """docs/jeattach.1, whose SYNOPSIS has one entry for each verb. Options are documented below
    the heading of their verb, or below `Options of VERB, VERB and VERB`."""

    def setUp(self):
        with open(os.path.join(DOCS, "jeattach.1")) as file:
            self.text = file.read()

    def section(self, heading):
        return re.search(r"^\.Sh %s\n(.*?)^\.Sh " % heading, self.text, re.M | re.S)[1]

    def entries(self):
        """(verb, text) of each entry of the synopsis."""
        for entry in self.section("SYNOPSIS").split(".Nm\n"):
            verb = re.match(r"\.(?:Op )?Cm (\w+)\n", entry)
            if verb:
                yield verb[1], entry

    def test_synopsis_has_each_verb_once(self):
        self.assertEqual(sorted(verb for verb, _ in self.entries()), sorted(summaries()))

    def test_synopsis_is_complete(self):
        for verb, entry in self.entries():
            with self.subTest(verb=verb):
                options = VerbOptions(verb)
                expected = set(options.all)
                if ".Op Ar common options" in entry:
                    expected -= options.common
                else:
                    expected -= {"help", "version"}
                if ".Op Ar profile options" in entry:
                    self.assertTrue(options.profile)
                    expected -= options.profile
                self.assertEqual(sorted(flags(entry, options.letters)), sorted(expected))

    def documented(self):
        """(verbs, names) of each heading that has options; verbs None: those of all."""
        for heading, text in re.findall(r"^\.S[hs] ([^\n]*)\n(.*?)(?=^\.S[hs] )", self.text,
                                        re.M | re.S):
            names = [re.search(r"Fl -([a-z-]+)", line)[1]
                     for line in re.findall(r"^\.It Fl .*", text, re.M)]
            if not names:
                continue
            if heading in ("COMMON OPTIONS", "SELECTING PROCESSES"):
                yield None, names
            else:
                verbs = heading.replace("Options of ", "").replace(" and ", ", ")
                yield verbs.split(", "), names

    def test_every_error_code_is_documented(self):
        """Below the exit status that cli/fault_table.c gives it. `usage` needs no fault."""
        with open(os.path.join(lib.ROOT, "cli", "message.h")) as file:
            numbers = dict(re.findall(r"(EXIT_\w+) = (\d+)", file.read()))
        with open(os.path.join(lib.ROOT, "cli", "fault_table.c")) as file:
            rows = re.findall(r'\{FAULT_\w+, "(\w+)",\s+(EXIT_\w+)', file.read())
        expected = sorted([("usage", "2")] + [(code, numbers[exit]) for code, exit in rows
                                              if code != "failed"])
        text = re.search(r"^\.Ss Error codes\n(.*?)^\.Sh ", self.text, re.M | re.S)[1]
        found = [(code, number)
                 for number, part in re.findall(r"^\.It (\d+)\n(.*?)(?=^\.It \d|\Z)", text,
                                                re.M | re.S)
                 for codes in re.findall(r"^\.It Cm (.*)", part, re.M)
                 for code in codes.split(" , ")]
        self.assertGreater(len(rows), 50)
        self.assertEqual(sorted(found), expected)

    def test_every_option_is_documented(self):
        verbs = {verb: VerbOptions(verb) for verb in summaries()}
        found = {verb: set() for verb in verbs}
        common = []
        for named, names in self.documented():
            self.assertEqual(len(names), len(set(names)), "documented twice below one heading")
            if named is None:
                common += names
                continue
            for verb in named:
                self.assertIn(verb, verbs, "no heading of a verb")
                found[verb].update(names)
        self.assertEqual(sorted(common), sorted(set(name for _, name in OPTION.findall(help_of()))))
        for verb, options in verbs.items():
            with self.subTest(verb=verb):
                self.assertEqual(sorted(found[verb] - options.all), [])
                self.assertEqual(sorted(options.all - options.common - found[verb]), [])


def flags(mdoc, letters):
    """The long names of the options in mdoc text: `Fl qv`, `Fl -count Ar n | Fl -once`."""
    names = set()
    for words in re.findall(r"\bFl ((?:[a-z|-]\S*(?: |$))+)", mdoc, re.M):
        for word in words.replace("|", " ").split():
            names.update([word[1:]] if word.startswith("-") else [letters[c] for c in word])
    return names


class Bash(lib.TestCase):
    """docs/completion/jeattach.bash, asked as a shell asks it."""

    def complete(self, *words):
        script = ('. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _jeattach; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        path = os.path.join(DOCS, "completion", "jeattach.bash")
        done = subprocess.run(["bash", "-c", script, path, lib.TOOL, *words], text=True,
                              capture_output=True, timeout=lib.TOOL_TIMEOUT, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_verbs(self):
        expected = [*summaries(), "help"]
        self.assertEqual(sorted(w for w in self.complete("") if w[0] != "-"), sorted(expected))
        self.assertEqual(sorted(self.complete("help", "")), sorted(summaries()))

    def test_bash_options_before_the_verb(self):
        ps = sorted(VerbOptions("ps").all)
        self.assertEqual(sorted(word[2:] for word in self.complete("--")), ps)
        self.assertEqual(sorted(word[2:] for word in self.complete("-q", "--")), ps)
        self.assertEqual(self.complete("-q", "du"), ["dump"])
        self.assertEqual(self.complete("--timeout", "5s", "-q", "dump", "--forma"), ["--format"])
        self.assertEqual(self.complete("-q", "report", "-f", "fla"), ["flame"])

    def test_bash_options(self):
        for verb in summaries():
            with self.subTest(verb=verb):
                offered = self.complete(verb, "--")
                self.assertEqual(len(offered), len(set(offered)))
                self.assertEqual(sorted(word[2:] for word in offered),
                                 sorted(VerbOptions(verb).all))


class Zsh(lib.TestCase):
    """docs/completion/_jeattach, read: where no zsh is installed, it cannot be asked."""

    def setUp(self):
        with open(os.path.join(DOCS, "completion", "_jeattach")) as file:
            self.text = file.read()

    def expand(self, text):
        """The action with the arrays that it names expanded."""
        def array(match):
            found = re.search(r"^  %s=\((.*?)\)$" % match[1], self.text, re.M | re.S)
            return self.expand(found[1]) if found else ""
        return re.sub(r"\$\{?(\w+)", array, text)

    def options(self, verb):
        body = re.search(r"^    %s\)(.*?);;$" % verb, self.text, re.M | re.S)[1]
        specs = re.sub(r"\[[^]]*\]", "[", self.expand(body))  # without descriptions
        specs = re.sub(r"\([^()]*\)", "", specs)  # without exclusions, and values to choose from
        return re.findall(r"--([a-z-]+)(?=[=\[}])", specs)

    def test_zsh_verbs(self):
        verbs = dict(re.findall(r"^    '(\w+):(.*)'$", self.text, re.M))
        verbs.pop("help")
        self.assertEqual(verbs, summaries())

    def test_zsh_options(self):
        for verb in summaries():
            with self.subTest(verb=verb):
                found = self.options(verb)
                self.assertEqual(len(found), len(set(found)), found)
                self.assertEqual(sorted(found), sorted(VerbOptions(verb).all))


class Fish(lib.TestCase):
    """docs/completion/jeattach.fish, read; and asked as a shell asks it, where fish is installed."""

    PATH = os.path.join(DOCS, "completion", "jeattach.fish")

    def setUp(self):
        with open(self.PATH) as file:
            self.text = file.read()
        self.sets = dict(re.findall(r"^set -l (\w+) (.*)$", self.text, re.M))

    def expand(self, text):
        return re.sub(r"\$(\w+)", lambda match: self.sets[match[1]], text)

    def rows(self):
        """(verbs, letter, name) of each option."""
        line = r"^complete -c jeattach -n [\"']__jeattach_verb ([^\"']+)[\"'](?: -s (\w))? -l ([a-z-]+) "
        for verbs, letter, name in re.findall(line, self.text, re.M):
            yield self.expand(verbs).split(), letter, name

    def ask(self, line):
        """The candidates for the end of the line."""
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")
        place = self.directory()
        os.symlink(lib.TOOL, os.path.join(place, "jeattach"))
        env = dict(lib.tool_environment(), HOME=place, PATH=place + ":" + os.environ["PATH"])
        script = 'source $argv[1]; complete -C $argv[2]'
        done = subprocess.run(["fish", "--no-config", "-c", script, self.PATH, line], text=True,
                              capture_output=True, timeout=lib.TOOL_TIMEOUT, check=True, env=env)
        self.assertEqual(done.stderr, "")
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    def test_fish_verbs(self):
        verbs = dict(re.findall(r"(?m)^complete -c jeattach -n __jeattach_no_verb -a (\w+) -d '(.*)'$",
                                self.text))
        self.assertEqual(verbs.pop("help"), "show help, of a verb if one is given")
        self.assertEqual(verbs, summaries())
        self.assertEqual(sorted(self.sets["verbs"].split()), sorted(verbs))
        known = re.search(r"(?m)^set -g __jeattach_verbs (.*)$", self.text)[1].split()
        self.assertEqual(sorted(known), sorted([*verbs, "help"]))

    def test_fish_options(self):
        rows = list(self.rows())
        self.assertEqual(len(rows), len(re.findall(r"(?m)^complete .* -l ", self.text)))
        for verb in summaries():
            with self.subTest(verb=verb):
                options = VerbOptions(verb)
                found = [name for verbs, _, name in rows if verb in verbs]
                self.assertEqual(len(found), len(set(found)), found)
                self.assertEqual(sorted(found), sorted(options.all))
                letters = {letter: name for verbs, letter, name in rows if verb in verbs and letter}
                self.assertEqual(letters, options.letters)

    def test_fish_asked(self):
        for verb in summaries():
            with self.subTest(verb=verb):
                for line in ("jeattach %s --", "jeattach -q %s --"):
                    offered = self.ask(line % verb)
                    self.assertEqual(sorted(word[2:] for word in offered),
                                     sorted(VerbOptions(verb).all))
        self.assertEqual(self.ask("jeattach du"), ["dump"])
        self.assertEqual(sorted(self.ask("jeattach help ")), sorted(summaries()))
        self.assertEqual(self.ask("jeattach report -f fla"), ["flame"])

    def test_fish_processes(self):
        victim = self.victim()
        for line in ("jeattach dump ", "jeattach -q on ", "jeattach stats -p "):
            self.assertIn(str(victim.pid), self.ask(line))
        self.assertIn("victim", self.ask("jeattach stats -n "))
        self.assertIn(str(victim.pid), self.ask("jeattach stats %d --thread " % victim.pid))


class Commands(lib.TestCase):
    """Each command that a page, a message or a benchmark shows is one that the tool takes."""

    FOLDERS = ((".", ".md"), ("docs", (".md", ".1", ".service")), ("docs/kubernetes", ".yaml"),
               ("cli", ".c"), ("cli/output", ".c"), ("cli/verbs", ".c"), ("bench", ""))
    SHOWN = re.compile(r"(?:`|^(?:\$ )?)jeattach ([a-z]+\b[^`\n|;&]*)", re.M)
    SAID = re.compile(r"(?<!kubectl )\bjeattach ([a-z]+\b[^`\"\n|;&]* --[^`\"\n|;&]*)")  # a sentence has no options
    MEASURED = re.compile(r"""(?:tool,|answer\(|call\(|Verb\() ?"([a-z][a-z -]*)\"""")

    def sources(self):
        for folder, ends in self.FOLDERS:
            for name in sorted(os.listdir(os.path.join(lib.ROOT, folder))):
                path = os.path.join(folder, name)
                if name.endswith(ends) and os.path.isfile(os.path.join(lib.ROOT, path)):
                    yield path, lib.read_text(os.path.join(lib.ROOT, path)).replace("\\-", "-")

    def commands(self, path, text):
        text = re.sub(r"kubectl jeattach [^`\n]* -- ", "jeattach ", text)
        shown = self.SHOWN.findall(text) + self.SAID.findall(text)
        for words in shown + (self.MEASURED.findall(text) if path.startswith("bench/") else []):
            yield words.split()[0], re.findall(r"(?<![\w-])--([a-z][a-z-]+)", words)

    def test_commands_exist(self):
        options = {verb: VerbOptions(verb).all | {"help"} for verb in summaries()}
        seen = set()
        for path, text in self.sources():
            for verb, named in self.commands(path, text):
                with self.subTest(path=path, verb=verb):
                    self.assertIn(verb, options)
                    self.assertLessEqual(set(named), options[verb])
                    seen.add(verb)
        self.assertEqual(seen, set(options))

    def test_finds_what_is_gone(self):
        text = "`jeattach grow 1`\n$ jeattach stats 1 --call\n  try jeattach on 1 --soon, or jeattach runs\n"
        self.assertEqual(list(self.commands("docs/x.md", text)),
                         [("grow", []), ("stats", ["call"]), ("stats", ["call"]), ("on", ["soon"])])
        self.assertEqual(list(self.commands("bench/x", 'tool, "grow", pid; Verb("on --call", 1)')),
                         [("grow", []), ("on", ["call"])])


if __name__ == "__main__":
    lib.main()
