# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by its DevTools protocol over two pipes."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120  # seconds for one answer, on a machine that has much else to do


class Browser:
    """One browser with one tab. What the page says (console, exceptions, failed loads) gathers in `said`."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        reads, self.to = os.pipe()
        self.answers, writes = os.pipe()
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" "$@" 3<&{reads} 4>&{writes}', PROGRAM, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--force-color-profile=srgb",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(reads)
        os.close(writes)
        self.number, self.pending, self.session = 0, b"", None
        self.said, self.events = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.to)
        self.process.kill()
        self.process.wait()
        os.close(self.answers)
        self.profile.cleanup()

    def message(self):
        while b"\0" not in self.pending:
            chunk = os.read(self.answers, 1 << 20)
            if not chunk:
                raise RuntimeError("Chromium has ended")
            self.pending += chunk
        text, _, self.pending = self.pending.partition(b"\0")
        return json.loads(text)

    def note(self, message):
        method, what = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(part.get("value", part.get("description"))) for part in what["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append(json.dumps(what["exceptionDetails"])[:500])
        elif method == "Log.entryAdded":
            self.said.append(what["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:", "about:")):
            self.said.append("asks the network for " + what["request"]["url"])

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)
        raise TimeoutError(method)

    def run(self, script):
        """The value of an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def open(self, path, width=1200, dark=False):
        """Opens a page from the disk. Returns the seconds until it was drawn."""
        self.said.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 640)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        begin = time.monotonic()
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        while "Page.loadEventFired" not in self.events:
            self.note(self.message())
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begin

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, path):
        """Writes the whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1})
        path.write_bytes(base64.b64decode(data["data"]))
