# SPDX-License-Identifier: MIT
"""Chromium by WebDriver, with nothing but Python's standard library: starts chromedriver, and sends
it what https://www.w3.org/TR/webdriver2/ defines. For tests/view/browser.py, and for trying a page
by hand: `python3 -i tests/view/webdriver.py URL` leaves a Browser in `browser`."""
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id in WebDriver

# No proxy of the environment is asked for a page of this machine.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# Keys that have no letter, as in browser.keys("w", KEYS["escape"]).
KEYS = {"escape": "\ue00c", "enter": "\ue007", "tab": "\ue004", "left": "\ue012", "up": "\ue013",
        "right": "\ue014", "down": "\ue015", "shift": "\ue008", "home": "\ue011", "end": "\ue010"}


class Missing(Exception):
    """There is no browser here: the tests that need one are skipped."""


class Failed(Exception):
    """chromedriver refused a command."""


class Browser:
    """A headless Chromium with a new profile that ends with the `with` block."""

    def __init__(self, width=1280, height=800, dark=False, timeout=300):
        driver = shutil.which("chromedriver")
        chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
        if not driver or not chromium:
            raise Missing("no chromium with its chromedriver (Debian: chromium-driver)")
        self.timeout = timeout
        self.folder = tempfile.mkdtemp(prefix="ptah-browser-")
        self.session = None
        # A process group of its own: Chromium's processes end with it, whatever happens.
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True,
                                       start_new_session=True,
                                       env=dict(os.environ, HOME=self.folder, LC_ALL="C.UTF-8",
                                                TMPDIR=self.folder))
        try:
            self._start(chromium, width, height, dark)
        except BaseException:
            self.close()
            raise

    def _start(self, chromium, width, height, dark):
        port = None
        while port is None:
            line = self.driver.stdout.readline()
            if not line:
                raise Missing("chromedriver does not start")
            found = re.search(r"successfully on port (\d+)", line)
            port = found and found.group(1)
        self.root = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-first-run", "--disable-gpu", "--no-sandbox",
                     "--disable-dev-shm-usage", "--disable-background-networking",
                     "--disable-component-update", "--disable-sync", "--mute-audio",
                     "--disable-extensions", "--force-device-scale-factor=1",
                     f"--window-size={width},{height}", f"--user-data-dir={self.folder}/profile",
                     "about:blank"]
        if dark:
            arguments.append("--force-dark-mode")
        wanted = {"browserName": "chrome",
                  "goog:chromeOptions": {"binary": chromium, "args": arguments,
                                         "perfLoggingPrefs": {"enablePage": False}},
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        try:
            answer = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        except Failed as problem:
            raise Missing(f"chromium does not start: {problem}") from problem
        self.session = answer["sessionId"]
        self.version = answer["capabilities"]["browserVersion"]
        self._post("/timeouts", {"script": self.timeout * 1000, "pageLoad": self.timeout * 1000})
        self.resize(width, height)
        self.requests()  # those of the browser's start are dropped

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser, and removes its profile."""
        try:
            if self.session:
                self._send("DELETE", f"/{self.session}")
        except (Failed, OSError):
            pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with DIRECT.open(request, timeout=self.timeout + 10) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            value = json.loads(problem.read())["value"]
            raise Failed(f'{value["error"]}: {value["message"].splitlines()[0]}') from None

    def _post(self, path, body=None):
        return self._send("POST", f"/{self.session}{path}", body or {})

    def open(self, url):
        """Loads a page, and returns when its load event is over."""
        self._post("/url", {"url": url})

    def js(self, text, *arguments):
        """Runs the body of a function in the page; a Promise that it returns is waited for."""
        return self._post("/execute/sync", {"script": text, "args": list(arguments)})

    def wait(self, text, *arguments, what=None):
        """Runs `text` until it returns something true, and returns that."""
        end = time.monotonic() + self.timeout
        while True:
            value = self.js(text, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what or text}")
            time.sleep(0.02)

    def find(self, selector):
        """The first element that the CSS selector matches; Failed if there is none."""
        return self._post("/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        """Clicks on an element, as a user does: it has to be visible and not covered."""
        self._post(f"/element/{self.find(selector)[ELEMENT]}/click")

    def type(self, selector, text):
        """Types text into a field."""
        self._post(f"/element/{self.find(selector)[ELEMENT]}/value", {"text": text})

    def keys(self, *keys):
        """Presses and releases keys one after another, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard",
                                             "actions": actions}]})

    def mouse(self, x, y, press=True, to=None):
        """Moves to a point of the window and clicks there, or drags from there to another."""
        def move(point):
            return {"type": "pointerMove", "duration": 0, "origin": "viewport",
                    "x": int(point[0]), "y": int(point[1])}
        actions = [move((x, y))]
        if press:
            actions.append({"type": "pointerDown", "button": 0})
        if to:
            actions.append(move(to))
        if press:
            actions.append({"type": "pointerUp", "button": 0})
        self._post("/actions", {"actions": [{"type": "pointer", "id": "mouse",
                                             "actions": actions}]})

    def wheel(self, x, y, dy, dx=0):
        """Turns the mouse wheel at a point of the window."""
        self._post("/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": int(x), "y": int(y), "deltaX": int(dx), "deltaY": int(dy),
             "duration": 0, "origin": "viewport"}]}]})

    def resize(self, width, height):
        """Gives the page, without the window's frame, this size."""
        frame = self.js("return [outerWidth - innerWidth, outerHeight - innerHeight]")
        self._post("/window/rect", {"width": width + frame[0], "height": height + frame[1]})

    def screenshot(self, path):
        """Writes what the window shows as a PNG."""
        picture = self._send("GET", f"/{self.session}/screenshot")
        with open(path, "wb") as f:
            f.write(base64.b64decode(picture))

    def console(self):
        """What the page and the browser wrote on the console since the last call, as text. It
        includes exceptions, what the Content-Security-Policy refused, and failed requests."""
        return [f'{entry["level"]} {entry["message"]}'
                for entry in self._post("/se/log", {"type": "browser"})]

    def requests(self):
        """The addresses that the page asked for since the last call, of any kind."""
        urls = []
        for entry in self._post("/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def frames(self, step, seconds=1.0):
        """Runs the JavaScript `step` in every frame (`n` is the frame's number) for some time.
        Returns the frames per second, and the longest time between two of them in seconds."""
        times = self.js("""
            const step = new Function("n", arguments[0]), span = arguments[1] * 1000;
            return new Promise(done => {
                const times = [];
                function frame(now) {
                    times.push(now);
                    if (now - times[0] >= span)
                        return done(times);
                    step(times.length);
                    requestAnimationFrame(frame);
                }
                requestAnimationFrame(frame);
            });""", step, seconds)
        gaps = [(b - a) / 1000 for a, b in zip(times, times[1:])]
        return len(gaps) / sum(gaps), max(gaps)


if __name__ == "__main__":
    browser = Browser()
    if len(sys.argv) > 1:
        browser.open(sys.argv[1])
        print(*browser.console(), sep="\n")
