"""kubectl jeattach: which kubectl commands it runs, in order, and what becomes of their answers. A
stub in the place of kubectl records its words and runs here what would run in the container."""

import json
import os
import shutil
import subprocess

import lib

PLUGIN = os.path.join(lib.ROOT, "packaging", "kubectl-jeattach")
IMAGE = "registry.example/jeattach:0.1"
STUB = r'''#!/usr/bin/env python3
import json, os, sys
here = os.path.dirname(os.path.realpath(__file__))
with open(here + "/pod.json") as file:
    pod = json.load(file)
words = [word for word in sys.argv[1:] if word.split("=")[0] not in ("--namespace", "--context")]
with open(here + "/log", "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\n")
beside = here + "/beside"
if words[:2] == ["auth", "can-i"]:
    sys.exit(words[4].split("=")[1] in pod["forbidden"])
elif words[:2] == ["get", "pod"]:
    if words[2] != "web":
        sys.exit('Error from server (NotFound): pods "%s" not found' % words[2])
    asked = words[4]
    running = open(beside).read() if os.path.exists(beside) else ""
    for part, answer in (("status.phase", pod["phase"]),
                         ("spec.containers", " ".join(pod["containers"])),
                         ("default-container", pod.get("default", "")),
                         ("state.running", running.split("=")[0] + " " if running else ""),
                         ("state.*.reason", pod["reason"]),
                         ("spec.ephemeralContainers", running + " " if running else "")):
        if part in asked:
            print(answer, end="")
            break
elif words[0] == "debug":
    if not pod["reason"]:
        name, image = (next(word.split("=")[1] for word in words if word.startswith(option))
                       for option in ("--container=", "--image="))
        open(beside, "w").write(name + "=" + image)
elif words[0] == "exec":
    inner = words[words.index("--") + 1:]
    if inner[1:] == ["ps", "-q"]:
        print("  PID  NAME\n" + "".join("%5d  victim\n" % pid for pid in pod["pids"]), end="")
        sys.exit(0)
    if inner[0] in ("sh", "cat", "rm") and inner[0] in pod["missing"]:
        sys.exit(126)
    os.environ["PATH"] = here + "/inside:" + os.environ["PATH"]
    os.execvp(inner[0], inner)
'''


class Plugin(lib.TestCase):
    def setUp(self):
        super().setUp()
        self.here = self.directory()
        os.mkdir(os.path.join(self.here, "inside"))
        os.symlink(lib.TOOL, os.path.join(self.here, "inside", "jeattach"))
        with open(os.path.join(self.here, "kubectl"), "w") as file:
            file.write(STUB)
        os.chmod(file.name, 0o755)
        self.pod()

    def pod(self, **facts):
        with open(os.path.join(self.here, "pod.json"), "w") as file:
            json.dump({"containers": ["app"], "phase": "Running", "reason": "", "forbidden": [],
                       "missing": [], "pids": [], **facts}, file)

    def run_plugin(self, *words, image=IMAGE, plugin=PLUGIN):
        self.forget()
        path = self.here + ":" + os.environ["PATH"]
        environment = {**os.environ, "PATH": path, "JEATTACH_IMAGE": image}
        return subprocess.run([plugin, *map(str, words)], capture_output=True, cwd=self.here,
                              env=environment, stdin=subprocess.DEVNULL, timeout=120)

    def forget(self):
        if os.path.exists(self.log()):
            os.unlink(self.log())

    def log(self):
        return os.path.join(self.here, "log")

    def commands(self):
        """What kubectl was told, less the questions about the pod."""
        if not os.path.exists(self.log()):
            return []
        with open(self.log()) as file:
            rows = [json.loads(line) for line in file]
        return [row for row in rows if "get" not in row]

    def assert_refused(self, result, *parts, fix=True):
        text = result.stderr.decode()
        self.assertEqual((result.returncode, result.stdout), (2, b""), text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual("\nfix:   " in text, fix, text)

    def test_beside_the_container(self):
        """The image is started once; the next call uses its container again."""
        victim = self.victim()
        told = self.run_plugin("web", "-n", "shop", "--", "status", victim.pid, "--json")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertEqual(json.loads(told.stdout)["pid"], victim.pid)
        asked, asked_too, debug, run = self.commands()
        self.assertEqual(asked[1:], "auth can-i create pods/web --subresource=exec --quiet".split())
        self.assertEqual(asked_too[1:],
                         "auth can-i patch pods/web --subresource=ephemeralcontainers --quiet".split())
        name = debug[6].split("=")[1]
        self.assertEqual(debug, ["--namespace=shop", "debug", "web", "--image=" + IMAGE, "--target=app",
                                 "--profile=sysadmin", "--container=" + name, "--quiet", "--",
                                 "sleep", "14400"])
        self.assertRegex(name, r"\Ajeattach-sysadmin-\d+\Z")
        self.assertEqual(run, ["--namespace=shop", "exec", "web", "-c", name, "--", "jeattach",
                               "status", str(victim.pid), "--json"])
        self.run_plugin("web", "--", "status", victim.pid)
        self.assertEqual([row[0] for row in self.commands()], ["auth", "auth", "exec"])
        self.run_plugin("web", "--profile", "general", "--", "status", victim.pid)
        self.assertEqual([row[0] for row in self.commands()], ["auth", "auth", "debug", "exec"])
        self.assert_unharmed(victim)

    def test_only_process(self):
        victim = self.victim()
        self.pod(pids=[victim.pid])
        told = self.run_plugin("web", "--", "status", "--json", "--timeout", "10")
        self.assertEqual(json.loads(told.stdout)["pid"], victim.pid, told.stderr)
        self.assertEqual(self.commands()[-1][-5:],
                         ["status", str(victim.pid), "--json", "--timeout", "10"])
        self.assertIn(b" uses ", self.run_plugin("web").stdout)
        self.run_plugin("web", "--", "stats", "redis-server", "-q") # a name is one, too
        self.assertEqual(self.commands()[-1][-3:], ["stats", "redis-server", "-q"])
        self.run_plugin("web", "--", "mallctl", "opt.prof")
        self.assertEqual(self.commands()[-1][-3:], ["mallctl", str(victim.pid), "opt.prof"])
        self.pod(pids=[victim.pid, 77])
        several = self.run_plugin("web", "--", "status")
        self.assert_refused(several, "   77  victim", "several processes", "-- status PID")
        self.pod()
        self.assert_refused(self.run_plugin("web", "--", "status"), "no process of the container app")
        self.assertIn(b"usage: jeattach leak", self.run_plugin("web", "--", "leak", "--help").stdout)

    def test_file_is_brought_here(self):
        """By the image, whose file is removed there; also into a name with a blank."""
        victim = self.victim()
        for words in (["-o", "a profile.heap"], ["--output=b.html"], ["-oc.heap"]):
            name = words[-1].replace("--output=", "").replace("-oc", "c")
            told = self.run_plugin("web", "--", "dump", victim.pid, *words)
            self.assertEqual((told.returncode, told.stdout), (0, b"%s\n" % name.encode()), told)
            with open(os.path.join(self.here, name), "rb") as file:
                data = file.read()
            self.assertTrue(data.startswith(b"<!DOCTYPE" if "html" in name else b"heap_v2"), data[:40])
            self.assertEqual(os.stat(file.name).st_mode & 0o777, 0o600)
            remote = self.commands()[-1][-1]
            self.assertRegex(remote, r"\A/tmp/out-[A-Za-z0-9._-]+\Z")
            self.assertEqual(self.commands()[-1][-3:-1], ["rm", "-f"])
            self.assertFalse(os.path.exists(remote))
        again = self.run_plugin("web", "--", "dump", victim.pid, "-o", "c.heap")
        self.assert_refused(again, "c.heap exists", "--force")
        for words in (["-o", "c.heap"], ["--output=c.heap"]):
            forced = self.run_plugin("web", "--", "dump", victim.pid, *words, "--force")
            self.assertEqual((forced.returncode, forced.stdout), (0, b"c.heap\n"), forced)
        failed = self.run_plugin("web", "--", "dump", victim.pid, "-o", "f.heap", "--instance", 9)
        self.assertNotEqual(failed.returncode, 0)
        self.assertEqual(self.commands()[-1][-3:-1], ["rm", "-f"])
        self.assertFalse([name for name in os.listdir(self.here) if name.startswith("f.")])
        self.assert_refused(self.run_plugin("web", "--", "watch", victim.pid), "watch writes files")
        streamed = self.run_plugin("web", "--", "dump", victim.pid, "-o", "-")
        self.assertTrue(streamed.stdout.startswith(b"heap_v2"))
        series = self.run_plugin("web", "--", "record", victim.pid, "--every", "1s", "-o", "d.heap")
        self.assert_refused(series, "a series")
        self.pod(missing=["cat"])
        lost = self.run_plugin("web", "--", "dump", victim.pid, "-o", "e.heap")
        self.assert_refused(lost, "cannot bring", fix=False)
        self.assertEqual([name for name in os.listdir(self.here) if name.startswith("e.")], [])

    def test_static_file(self):
        """It is copied, used, and removed, also if it answers with an error."""
        victim = self.victim()
        told = self.run_plugin("web", "--static", lib.TOOL, "--", "status", victim.pid, "--json", image="")
        self.assertEqual(json.loads(told.stdout)["pid"], victim.pid)
        asked, copied, run, removed = self.commands()
        self.assertEqual(asked[4], "--subresource=exec")
        path = copied[-1]
        self.assertEqual(copied[:7], ["exec", "-i", "web", "-c", "app", "--", "sh"])
        self.assertEqual(run[4:6], ["--", path])
        self.assertEqual(removed[4:], ["--", "rm", "-f", path])
        self.assertFalse(os.path.exists(path))
        wrong = self.run_plugin("web", "--static", lib.TOOL, "--", "status", 1 << 22)
        self.assertEqual(wrong.returncode, 3, wrong.stderr)
        self.assertFalse(os.path.exists(self.commands()[1][-1]))
        self.pod(missing=["sh"])
        self.assert_refused(self.run_plugin("web", "--static", lib.TOOL), "cannot copy", "--image")

    def test_static_file_beside_the_plugin(self):
        """Also if the plugin is found by a link."""
        folder = os.path.join(self.here, "plugin")
        os.mkdir(folder)
        shutil.copy(PLUGIN, folder)
        os.symlink(lib.TOOL, os.path.join(folder, "jeattach-static"))
        link = os.path.join(self.here, "kubectl-jeattach")
        os.symlink(os.path.join(folder, "kubectl-jeattach"), link)
        for path in (link, os.path.join(folder, "kubectl-jeattach")):
            told = self.run_plugin("web", "--", "--version", image="", plugin=path)
            self.assertTrue(told.stdout.startswith(b"jeattach "), told)
            self.assertEqual(len(self.commands()), 4)

    def test_rights(self):
        for right, verb in (("exec", "create"), ("ephemeralcontainers", "patch")):
            self.pod(forbidden=[right])
            refused = self.run_plugin("web", "-n", "shop")
            self.assert_refused(refused, "you may not %s pods/%s in the namespace shop" % (verb, right),
                                "verbs: [%s]" % verb)
            self.assertNotIn("debug", sum(self.commands(), []))

    def test_wrong_words(self):
        self.assert_refused(self.run_plugin(), "usage: ", fix=False)
        self.assert_refused(self.run_plugin("web", "leak"), "leak: a pod is named already (web)")
        self.assert_refused(self.run_plugin("web", "--rows", "3"), "unknown option --rows")
        self.assert_refused(self.run_plugin("web", "-c"), "-c needs a value")
        self.assert_refused(self.run_plugin("web", image=""), "there is no jeattach for the pod")
        self.assert_refused(self.run_plugin("web", "-c", "db"), "no container db", "it has: app")
        self.assert_refused(self.run_plugin("other"), "NotFound", fix=False)
        self.pod(phase="Pending")
        self.assert_refused(self.run_plugin("web"), "not running (Pending)", fix=False)
        self.pod(reason="ErrImagePull")
        self.assert_refused(self.run_plugin("web"), "does not start: ErrImagePull")
        helped = self.run_plugin("--help")
        self.assertEqual((helped.returncode, helped.stderr), (0, b""))

    def test_chosen_container(self):
        self.pod(containers=["proxy", "app"], default="app", pids=[])
        told = self.run_plugin("web", "--", "ps")
        self.assertIn(b"the container app, of: proxy app", told.stderr)
        self.assertIn("--target=app", self.commands()[2])


if __name__ == "__main__":
    lib.main()
