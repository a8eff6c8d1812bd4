"""A headless Chromium, driven over its DevTools protocol: JSON messages, each ended by a NUL, on two pipes."""
import base64
import fcntl
import importlib.resources
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

PROGRAM = shutil.which("chromium")


class Browser:
    def __init__(self, folder, width=1300, height=1400, patience=60):
        self.patience, self.number, self.rest = patience, 0, b""
        from_us, self.to = os.pipe()
        self.came, from_it = os.pipe()
        self.messages = []  # what the page wrote to its console, and what could not be loaded

        def connect():  # Chromium reads descriptor 3 and writes descriptor 4, which may be one of ours.
            copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, 5) for fd in (from_us, from_it)]
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={pathlib.Path(folder) / 'browser'}", f"--window-size={width},{height}",
             "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=connect, start_new_session=True)
        os.close(from_us)
        os.close(from_it)
        self.session = None
        page = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def close(self):
        """Chromium's processes share a group; some still write into its folder when the first one has ended."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for _ in range(250):  # nobody may collect the ended ones
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.02)
        os.close(self.to)
        os.close(self.came)

    def read(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.came], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            came = os.read(self.came, 1 << 20)
            if not came:
                raise EOFError("the browser has ended")
            self.rest += came
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.patience
        while True:
            answer = self.read(end)
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.messages.append(json.dumps(answer["params"]))
            if answer.get("method") == "Page.javascriptDialogOpening":
                self.dialog = answer["params"]["message"]
                self.number += 1
                os.write(self.to, json.dumps({"id": self.number, "method": "Page.handleJavaScriptDialog",
                                              "params": {"accept": True}, "sessionId": self.session}).encode() + b"\0")
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, address):
        self.ask("Page.navigate", url=address)
        self.until("location.href != 'about:blank' && document.readyState == 'complete'")

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, script, found=bool):
        """Waits until the expression's value is as wanted, and returns it."""
        end = time.monotonic() + self.patience
        while True:
            value = self.run(script)
            if found(value):
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"{script}: {value}")
            time.sleep(0.1)

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def barriers(self):
        """What axe-core finds wrong by WCAG 2.1 AA, as lines of text: the rule, the elements, and why."""
        if not self.run("typeof axe == 'object'"):
            script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
            self.run(script + "; 0")
        rules = json.dumps({"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
        found = self.run(f"axe.run(document, {rules}).then(all => [all.passes.length, all.violations.flatMap(one =>"
                         "one.nodes.map(node => `${one.id}: ${node.target}: ${node.failureSummary}`))])")
        if not found[0]:
            raise RuntimeError("axe-core has checked nothing")
        return found[1]
