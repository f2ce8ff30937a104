"""A headless Chromium, controlled over its debugging pipe: JSON messages that end in a NUL byte."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
PROGRAM = next(filter(None, map(shutil.which, PROGRAMS)), None)
TIMEOUT = 60


class Browser:
    def __init__(self, width=1200, height=700):
        self.profile = tempfile.mkdtemp(prefix="jeattach-browser.")
        self.received, self.number, self.session = b"", 0, None
        self.errors, self.loaded = [], False
        ours, theirs = os.pipe(), os.pipe()
        # Above 3 and 4, the numbers that they get in the browser.
        source = fcntl.fcntl(ours[0], fcntl.F_DUPFD_CLOEXEC, 16)
        sink = fcntl.fcntl(theirs[1], fcntl.F_DUPFD_CLOEXEC, 16)

        def place():
            os.dup2(source, 3)
            os.dup2(sink, 4)

        self.process = subprocess.Popen(
            [PROGRAM]
            + ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
            + ["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]
            + ["--window-size=%d,%d" % (width, height), "--user-data-dir=" + self.profile],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in (ours[0], theirs[1], source, sink):
            os.close(fd)
        self.to, self.source = ours[1], theirs[0]

    def close(self):
        try:
            self.command("Browser.close", session=False)
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.to)
        os.close(self.source)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline):
        while b"\0" not in self.received:
            if not select.select([self.source], [], [], max(0, deadline - time.monotonic()))[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self.source, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self.received += part
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def command(self, method, session=True, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session and self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(deadline)
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(answer["params"])
            if answer.get("method") == "Page.loadEventFired":
                self.loaded = True
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]

    def open(self, path, fragment=""):
        """Opens a file in a new page, which is the one that the other methods use."""
        self.errors = []
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.command("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.command(domain + ".enable")
        self.loaded = False
        self.command("Page.navigate", url="file://" + os.path.abspath(path) + fragment)
        deadline = time.monotonic() + TIMEOUT
        while not self.loaded and time.monotonic() < deadline:
            self.evaluate("0")
            time.sleep(0.05)

    def evaluate(self, script):
        result = self.command("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    def mouse(self, kind, x, y):
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, x, y):
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def key(self, key, text=None):
        """Presses a key, such as "Enter" or "n"; text: what it types, by default the letter."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38}
        codes.update({"ArrowRight": 39, "ArrowDown": 40})
        text = text or (key if len(key) == 1 else "\r" if key == "Enter" else "")
        event = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        kind = "keyDown" if text else "rawKeyDown"
        self.command("Input.dispatchKeyEvent", type=kind, text=text, **event)
        self.command("Input.dispatchKeyEvent", type="keyUp", **event)

    def size(self, width, height):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, medium="", **features):
        """Emulates a medium, and features such as prefers_color_scheme="dark"."""
        listed = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.command("Emulation.setEmulatedMedia", media=medium, features=listed)

    def accessible(self):
        """Returns the accessibility tree: a list of nodes with role and name."""
        nodes = self.command("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def screenshot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.command("Page.captureScreenshot")["data"]))
