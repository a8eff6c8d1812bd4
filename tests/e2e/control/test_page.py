"""The page of a run at "/", in a real browser: numbers, graph, pictures, changes, many sources, a narrow screen."""
import os
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

import browser
import relay
import test_http
from harness import free_port, pipeline

AT_ONCE = 4
LOBBY = ("version: 1\npipeline: lobby\nsources:\n  max: 5\n"
         '  hall: {uri: "lavfi:testsrc=size=160x120:rate=25", realtime: true}\n'
         '  porch: {uri: "lavfi:testsrc2=size=160x120:rate=25", realtime: true}\n'
         '  gone: {uri: "rtsp://127.0.0.1:9/none"}\n'
         'stages:\n  decode: {input: sources.*}\n'
         '  small: {type: preprocess, input: decode, size: 4x2, device: ["sim:0", "sim:1"]}\n'
         '  out: {type: "null", input: small}\n')
OTHER = pipeline(dict(cam='uri: "lavfi:testsrc=size=64x64:rate=50", realtime: true'), name="porch", decode="",
                 large="type: preprocess, size: 640x480", out='type: "null"')


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=10).status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


@unittest.skipUnless(browser.PROGRAM, "needs chromium")
class Page(test_http.Http):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(self.folder)
        self.addCleanup(self.browser.close)

    def text(self, selector):
        return self.browser.run(f"[...document.querySelectorAll({selector!r})].map(one => one.textContent)")

    def shot(self, name):
        """For people who look at them: MILLRACE_SCREENSHOTS names a folder."""
        if os.environ.get("MILLRACE_SCREENSHOTS"):
            self.browser.screenshot(os.path.join(os.environ["MILLRACE_SCREENSHOTS"], name + ".png"))

    def assert_read_aloud(self):
        """What the browser gives to a screen reader: each control and picture has a name, tables have headers, parts
        have headings, and news are announced."""
        self.browser.ask("Accessibility.enable")
        nodes = [one for one in self.browser.ask("Accessibility.getFullAXTree")["nodes"] if not one["ignored"]]
        named = [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in nodes]
        controls = [one for one in named if one[0] in ("button", "textbox", "searchbox", "combobox", "image", "group",
                                                       "graphics-symbol", "region", "table", "log", "rowheader")]
        self.assertEqual([one for one in controls if not one[1].strip()], [])
        self.assertEqual(sorted(name for role, name in controls if role == "button" and name.startswith("Remove")),
                         ["Remove gone", "Remove hall", "Remove porch"])
        self.assertIn(("rowheader", "hall"), named)
        self.assertIn("status", [role for role, _ in named])
        # Numbers change, and the keyboard stays where it was.
        self.browser.run("(document.querySelector('[aria-label=\"Remove hall\"]')).focus()")
        frames = "document.activeElement.closest('tr').cells[2].textContent"
        first = self.browser.run(frames)
        self.browser.until(frames, lambda text: text != first)
        self.assertEqual(self.browser.run("document.activeElement.ariaLabel"), "Remove hall")

    def test_a_run_is_seen_and_changed(self):
        child = self.start(LOBBY)
        page = self.browser
        page.open(self.at + "/")
        page.until("document.querySelector('#rate').textContent", lambda text: text and float(text.split()[0]) > 0)
        self.assertEqual(self.text("h1"), ["lobby"])
        self.assertIn("gone", page.until("document.querySelector('#health').textContent", lambda text: "gone" in text))
        stages = self.text("g.stage")
        for wanted in ("decode", "small", "out", "up to 5 sources"):
            self.assertTrue(any(wanted in one for one in stages), stages)
        # Sources in trouble come first.
        rows = page.until("[...document.querySelectorAll('#sources tr')].map(one => one.textContent)",
                          lambda rows: len(rows) == 3 and rows[0].startswith("goneaway"))
        self.assertTrue(any("porch" in one for one in rows), rows)
        # A picture, chosen with the keyboard.
        page.run("document.querySelector('g.stage[aria-label^=decode]').dispatchEvent("
                 "new KeyboardEvent('keydown', {key: 'Enter'}))")
        size = page.until("(c => c && [c.width, c.height, new Set(c.getContext('2d').getImageData(0, 0, c.width, "
                          "c.height).data).size])(document.querySelector('#seen canvas'))")
        self.assertEqual(size[:2], [160, 120])
        self.assertGreater(size[2], 20)  # it is no empty picture
        self.shot("page")
        self.assertEqual(page.barriers(), [])
        self.assert_read_aloud()
        # A device is disabled, with a question before.
        page.until("document.querySelectorAll('#devices tr').length", lambda count: count == 2)
        page.run("document.querySelector('#devices button').click()")
        page.until("document.querySelector('#devices tr').textContent", lambda text: "disabled" in text)
        self.assertIn("sim:0", page.dialog)
        # A source is added, and another one removed.
        page.run("(form => { form.id.value = 'door'; form.elements.id.value = 'door'; form.elements.options.value = "
                 "'uri=lavfi:testsrc=size=32x32:rate=25 realtime=true'; form.requestSubmit(); })"
                 "(document.querySelector('#add'))")
        page.until("document.querySelector('#sources').textContent", lambda text: "door" in text)
        page.run("[...document.querySelectorAll('#sources tr')].find(one => one.textContent.includes('gone'))"
                 ".querySelector('button').click()")
        page.until("[...document.querySelectorAll('#sources tr')].find(one => one.textContent.startsWith('gone'))"
                   "?.textContent", lambda text: not text or "away" not in text)
        self.assertIn("door is added", self.text("#log")[0])
        # A narrow screen needs no sideways scrolling of the page itself.
        page.size(390, 800)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
        self.shot("phone")
        self.assertEqual(page.barriers(), [])
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.assertNotEqual(page.run("getComputedStyle(document.querySelector('header')).backgroundColor"),
                            "rgb(255, 255, 255)")
        self.assertEqual(page.barriers(), [])
        self.shot("dark")
        self.assertEqual(page.messages, [])
        page.run("document.querySelector('#drain').click()")
        self.ended(child)

    def test_a_user_logs_in(self):
        self.write(test_http.TOKEN + "\n", "http.token").chmod(0o600)
        child = self.start(LOBBY + f"http: {{token_file: {self.folder / 'http.token'}}}\n")
        page = self.browser
        page.open(self.at + "/")
        enter = ("(text => { document.querySelector('#token').value = text; document.querySelector('form')"
                 ".requestSubmit(); })")
        page.run(f"{enter}('wrong-token-of-some-length')")
        page.until("document.querySelector('[role=alert]').textContent", lambda text: "not the token" in text)
        self.shot("login")
        self.assertEqual(page.barriers(), [])
        page.run(f"{enter}('{test_http.TOKEN}')")
        page.until("document.querySelector('#rate')?.textContent", lambda text: text and float(text.split()[0]) > 0)
        self.assertEqual([one for one in page.messages if "401" not in one], [])  # the browser reports those
        # A change is sent with the cookie too.
        page.run("document.querySelector('#drain').click()")
        self.ended(child)

    def test_a_token_leaves_the_address(self):
        self.write(test_http.TOKEN + "\n", "http.token").chmod(0o600)
        self.start(LOBBY + f"http: {{token_file: {self.folder / 'http.token'}}}\n")
        page = self.browser
        page.open(f"{self.at}/?token={test_http.TOKEN}")
        page.until("document.querySelector('#rate')?.textContent", lambda text: text and float(text.split()[0]) > 0)
        self.assertEqual(page.run("location.href"), self.at + "/")
        self.assertEqual(page.messages, [])

    @unittest.skipUnless(shutil.which("nginx"), "needs nginx")
    def test_a_proxy_serves_it_below_a_path(self):
        """As the document has it: two runs, each below its own path."""
        self.write(test_http.TOKEN + "\n", "http.token").chmod(0o600)
        child = self.start(LOBBY + f"http: {{token_file: {self.folder / 'http.token'}, hosts: [localhost]}}\n")
        port, folder = free_port(), self.folder
        folder.chmod(0o755)
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n"
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.write(f"daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\nhttp {{\n{temporary}"
                            f"access_log off;\nserver {{\nlisten 127.0.0.1:{port};\nlocation = /lobby {{\n"
                            f"proxy_pass {self.at}/;\nproxy_set_header Host $http_host;\n}}\nlocation /lobby/ {{\n"
                            f"proxy_pass {self.at}/;\nproxy_set_header Host $http_host;\n}}\n}}\n}}\n", "nginx.conf")
        self.spawn(["nginx", "-c", config, "-e", folder / "start.log"], stderr=subprocess.DEVNULL)
        below = f"http://127.0.0.1:{port}/lobby/"
        self.wait_until(lambda: answers(below + "livez"), folder / "start.log")
        page = self.browser
        page.open(f"{below}?token={test_http.TOKEN}")
        page.until("document.querySelector('#rate')?.textContent", lambda text: text and float(text.split()[0]) > 0)
        self.assertEqual(page.run("location.href"), below)
        self.assertEqual(page.messages, [])
        # A proxy may also pass the path on without the slash.
        page.open(below.rstrip("/"))
        page.until("location.href", lambda text: text == below)
        page.until("document.querySelector('#rate')?.textContent", lambda text: text and float(text.split()[0]) > 0)
        page.run("document.querySelector('#drain').click()")
        self.ended(child)

    def start_there(self, text):
        child = self.start(text, http=self.at.removeprefix("http://"), wait=False)
        self.wait_until(lambda: answers(self.at + "/readyz"), self.log, child)
        return child

    def test_connections_that_are_lost(self):
        """A network forgets the page's connections; a proxy has no server; another run begins at the same address."""
        self.at = f"http://127.0.0.1:{free_port()}"
        child = self.start_there(LOBBY)
        between, page = relay.Relay(self, int(self.at.rsplit(":", 1)[1])), self.browser
        health = "document.querySelector('#health').textContent"
        page.open(between.address + "/")
        page.until(health, lambda text: "gone" in text)
        page.until("document.querySelector('#log').textContent", lambda text: "gone" in text)
        lines = page.run("[...document.querySelector('#log').childNodes].map(line => line.textContent)")
        for happens in (between.lose, between.refuse):
            happens()
            page.until(health, lambda text: text == "not connected")
            between.pass_on()
            page.until(health, lambda text: "gone" in text)
            page.until("document.querySelector('#rate').textContent", lambda text: text and float(text.split()[0]) > 0)
        again = page.run("[...document.querySelector('#log').childNodes].map(line => line.textContent)")
        self.assertEqual(again[:len(lines)], lines)
        self.assertEqual([line for line in lines if again.count(line) > lines.count(line)], [])
        child.kill()
        child.wait()
        self.start_there(OTHER)
        page.until("document.querySelector('h1')?.textContent", lambda text: text == "porch")
        page.until("[...document.querySelectorAll('g.stage')].map(one => one.textContent).join()",
                   lambda text: "large" in text)

    def test_a_thousand_sources(self):
        many = pipeline({f"s{i:04d}": 'uri: "rtsp://127.0.0.1:9/none"' for i in range(1000)}, name="many",
                        decode="input: sources.*", out='type: "null"')
        self.start(many, wait=False)
        page = self.browser
        page.open(self.at + "/")
        page.until("document.querySelectorAll('#sources tr').length", lambda count: count == 201)
        self.assertIn("and 800 more", self.text("#sources tr:last-child")[0])
        self.assertEqual(len(self.text("g.stage")), 3)
        page.run("(find => { find.value = 's0777'; find.oninput(); })(document.querySelector('#find'))")
        self.assertEqual(len(self.text("#sources tr")), 1)
