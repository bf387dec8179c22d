# SPDX-License-Identifier: MIT
"""Drives the pages of `ptah view` in a headless Chromium as a user does: opens, searches, clicks,
switches views; compares the numbers that are shown with those of `ptah report` and with what is known
of the program by construction; shows hostile names as text; sees that nothing is on the console and
that no request leaves the page. Run by browser.sh, in an empty folder; the argument is the folder
for screenshots. The same pages are tried as served and as one file."""
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser_views  # pylint: disable=wrong-import-position
import browser_waits  # pylint: disable=wrong-import-position
import webdriver  # pylint: disable=wrong-import-position

PTAH = os.environ["PTAH"]
CC = os.environ.get("CC", "cc")

# What an attacker would call a function. Each is called as often as its place says: 1, 2, 3 ...
HOSTILE = [
    b"<script>document.title='pwned'</script>",
    b"\"'><img src=x onerror=document.title='pwned'>",
    b"\x1b[31mred\x07\x01\x7f\xc2\x9b",
    b"\xe2\x80\xaegnp.exe\xe2\x80\xac",
    b"\xff\xfe\x80 is no UTF-8",
    b"newline\nhere\tand\rthere",
    b"&lt;i&gt;&amp;&#60;b",
    b"__proto__",
    b"constructor",
    b"${document.title='pwned'}`{{1+1}}",
    b"</script><!--<script>",
    b"long<b>" + b"L" * 10000,
]
FOLDER = "<img src=x onerror=document.title=1>"  # of the program and its source


def placeholder(i, name):
    """A name that a compiler takes, as long as the hostile one that replaces it in the file."""
    return f"h{i:02}".ljust(len(name), "_")[:len(name)]


def write_program():
    """Builds the program, and writes the hostile names over the placeholders."""
    names = [n if len(n) > 2 else n.ljust(3, b"!") for n in HOSTILE]
    lines = ["static volatile int sink;"]
    for i, name in enumerate(names):
        lines.append(f'__attribute__((noinline)) void f{i}(void) __asm__("{placeholder(i, name)}");')
        lines.append(f"void f{i}(void) {{ sink += {i}; }}")
    lines.append("__attribute__((noinline)) static int fib(int n)")
    lines.append("{ return n < 2 ? n : fib(n - 1) + fib(n - 2); }")
    lines.append("int main(void)\n{\n\tint i;\n")
    for i in range(len(names)):
        lines.append(f"\tfor (i = 0; i <= {i}; i++)\n\t\tf{i}();")
    lines.append("\tif (sink == -1)\n\t\tsink = 7; /* does not run */")
    lines.append("\tsink = fib(16);\n\treturn 0;\n}")
    os.makedirs(FOLDER, exist_ok=True)
    source, program = FOLDER + "/a&b.c", FOLDER + "/program"
    with open(source, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    subprocess.run([CC, "-g", "-O1", "-fno-optimize-sibling-calls", "-o", program, source],
                   check=True)
    with open(program, "rb") as f:
        content = f.read()
    for i, name in enumerate(names):
        before = placeholder(i, name).encode()
        assert content.count(before + b"\0") >= 1, before[:20]
        content = content.replace(before + b"\0", name + b"\0")
    with open(program, "wb") as f:
        f.write(content)
    return program, names


def ptah(*arguments):
    return subprocess.run([PTAH, *arguments], check=True, stdout=subprocess.PIPE).stdout


@contextlib.contextmanager
def served(*arguments):
    """Runs `ptah view`, and gives the address that it prints."""
    with subprocess.Popen([PTAH, "view", "--no-browser", *arguments], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=300) == 0, "after Ctrl-C"


class Page:
    """A page of `ptah view`, served or in a file."""

    def __init__(self, browser, address, pictures, name):
        self.browser, self.address, self.pictures, self.name = browser, address, pictures, name
        browser.console()
        browser.requests()
        browser.open(address)
        browser.wait("return typeof Ptah == 'object' && Ptah.info && Ptah.info.complete && Ptah.table"
                     " && Ptah.table.complete", what="the recording to be read")

    def show(self, view):
        """Clicks on a tab, and waits for its view."""
        self.browser.click(f"#tab-{view}")
        self.browser.wait("return document.getElementById('view').className == 'view-' + arguments[0]"
                          " && !document.querySelector('.busy')", view)
        self.settle()

    def settle(self):
        """Waits until two frames have been drawn."""
        self.browser.js("return new Promise(done => requestAnimationFrame(() =>"
                        " requestAnimationFrame(() => setTimeout(done))))")

    def picture(self, what):
        if self.name == "served" or what == "timeline":
            self.browser.screenshot(os.path.join(self.pictures, f"{self.name}-{what}.png"))

    def check(self, what):
        """No error was written, nothing was asked of others, no name became an element, and no
        character is shown that would hide or turn round others."""
        errors = self.browser.console()
        assert not errors, f"{self.name}, {what}: on the console: {errors}"
        root = self.address.split("#")[0]
        for url in self.browser.requests():
            # A page in a file asks for itself; a view draws pictures of its own as blob: or data:.
            assert url.startswith((root, "data:", "blob:")), f"{self.name}, {what}: asks for {url}"
        found = self.browser.js("""
            const text = document.documentElement.innerText + document.title;
            const hidden = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/;
            return [document.title, document.querySelectorAll("img, iframe, object, embed, #view script")
                    .length, hidden.test(text), Object.prototype.polluted];""")
        assert "pwned" not in found[0] and found[0] != "1", f"{self.name}, {what}: a name ran"
        assert found[1:3] == [0, False], f"{self.name}, {what}: {found}"


def expected_text(name):
    """What has to stand in the page of a hostile name: its harmless pieces."""
    text = name.decode("utf-8", "replace")
    pieces, piece = [], ""
    for c in text:
        if c.isprintable() and c != "\ufffd":
            piece += c
            continue
        pieces.append(piece)
        piece = ""
    return [p[:300] for p in pieces + [piece] if p]


@functools.lru_cache
def report_rows(recording):
    """Functions as `ptah report` has them: {(name, object): {(calls, inclusive, self)}}; static ones
    may have one name."""
    report = json.loads(ptah("report", "--sort=function,object", "--format=json", "--limit=0",
                             recording))
    rows = {}
    for row in report["rows"]:
        key = row["function"], os.path.basename(row["object"] or "")
        rows.setdefault(key, set()).add((row["calls"], row["instructions"],
                                         row["self_instructions"]))
    return report, rows


def table_rows(browser):
    """The rows of the table in view, as the user reads them: lists of cells."""
    return browser.js("""
        return [...document.querySelectorAll(".grid-row")].filter(r => !r.hidden)
            .sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex"))
            .map(r => [...r.children].map(c => c.textContent));""")


def number(text):
    """A figure of the page, with commas in it."""
    return int(text.replace(",", ""))


def search(page, text):
    """Types into the view's search box, which the key / reaches."""
    page.browser.keys("/")
    page.browser.js("document.activeElement.value = ''")
    page.browser.keys(*text, webdriver.KEYS["enter"])
    page.settle()


def test_functions(page, recording, names):
    """Each row in view has the numbers of ptah report, and hostile names have theirs."""
    report, rows = report_rows(recording)
    page.show("functions")
    page.picture("functions")
    shown = page.browser.wait("return document.querySelectorAll('.grid-row').length > 5") and \
        table_rows(page.browser)
    compared = 0
    for name, path, calls, own, inclusive, *_ in shown:
        row = rows.get((name, os.path.basename(path)))
        if row:
            assert (number(calls), number(inclusive), number(own)) in row, \
                (page.name, name, path, calls, inclusive, own, row)
            compared += 1
    assert compared >= 8, f"{compared} of {len(shown)} rows were found in ptah report"
    # All of the table, in the browser's memory.
    table = page.browser.js("return {name: Ptah.table.name, own: Ptah.table.self_instructions}")
    assert sum(table["own"]) == report["instructions"]

    page.browser.js("document.querySelector('[aria-label=\"Search functions\"]').focus()")
    page.browser.js("document.activeElement.blur()")
    for i, name in enumerate(names):
        if page.name == "file" and 0 < i < len(names) - 1:
            continue  # the same code shows the same table
        piece = max(expected_text(name), key=len)
        word = next(w for w in piece.split() if len(w) > 2)[:40]
        search(page, word)
        found = [r for r in table_rows(page.browser) if all(p in r[0] for p in expected_text(name))]
        assert found, f"{page.name}: {piece[:60]!r} is not shown: {table_rows(page.browser)[:3]}"
        assert any(number(r[2]) == i + 1 for r in found), (piece[:60], found)
    search(page, "script")
    page.picture("hostile")
    page.check("hostile functions")
    # A click selects a function, whose facts appear.
    page.browser.click(".grid-row:not([hidden])")
    page.browser.wait("return document.querySelector('.detail-name')", what="the function's facts")
    page.check("a function is selected")
    search(page, "fib")
    row = next(r for r in table_rows(page.browser) if r[0] == "fib")
    assert number(row[2]) == 3193, row  # calls of fib(16), by its recurrence


def test_flame(page):
    """The whole is as wide as the recording is long, and a click zooms."""
    page.show("flame")
    page.picture("flame")
    page.check("flame graph")
    box = page.browser.js("""const r = document.querySelector(".flame-canvas").getBoundingClientRect();
                             return [r.left, r.top, r.width, r.height];""")
    page.browser.mouse(box[0] + box[2] / 2, box[1] + 50)
    page.settle()
    page.picture("flame-zoomed")
    page.check("a frame is clicked")


def place_of(page, call):
    """The middle of a call's bar in the window, as the timeline has laid it out."""
    return page.browser.js("""
        const t = Ptah.timeline, s = arguments[0], row = t.my.rows.find(r => r.number == s.thread);
        const box = document.querySelector(".tl-bars").getBoundingClientRect();
        const a = Math.max(0, t.toX(s.begin)), b = Math.min(t.width(), t.toX(s.end));
        return [box.left + (a + b) / 2, box.top + row.top + row.lane + (s.depth + 0.5) *
                t.metric[t.my.density] - document.querySelector(".tl-scroll").scrollTop];""", call)


def rest(page):
    """Waits until the timeline has what it asked for and stands still."""
    page.browser.wait("""
        const before = Ptah.timeline.my.frames;
        return new Promise(done => setTimeout(() => done(Ptah.tiles.pending() == 0 &&
            Ptah.timeline.my.frames == before), 40))""", what="the timeline to rest")


def test_timeline(page, recording, names):
    """A search marks the calls and counts them; a click shows a call's numbers; w, s, a and d move."""
    browser = page.browser
    _, rows = report_rows(recording)
    page.show("timeline")
    rest(page)
    page.picture("timeline")
    if browser.js("return Ptah.state.axis") != "instructions":
        browser.keys("x")
    rest(page)
    browser.keys("/", *"fib", webdriver.KEYS["enter"])
    count = browser.wait("return document.querySelector('.tl-count').textContent")
    assert count == "3,193 calls", count
    # The first call of fib is fib(16), in which all others are.
    fib = browser.wait("return Ptah.timeline.my.selected", what="a call to be selected")
    rest(page)
    page.picture("timeline-search")
    inclusive = next(iter(rows["fib", "program"]))[1]
    shown = browser.wait("""
        const cell = document.querySelector(".tl-figures td[data-figure=instructions]");
        return cell && cell.textContent""") if page.name == "served" else None
    assert shown is None or number(shown) == inclusive, (shown, inclusive)
    # Its caller, main, is clicked.
    browser.keys("s", "s", "s", "s")
    rest(page)
    main = dict(fib, depth=fib["depth"] - 1)
    browser.mouse(*place_of(page, main))
    title = browser.wait("return document.querySelector('.tl-panel h2').textContent")
    assert title == "main", title
    page.check("a call is clicked")
    # Two of the keys zoom, two move.
    spans = []
    for key in ("w", "s", "d", "a"):
        browser.keys(key)
        rest(page)
        spans.append(browser.js("return [Ptah.timeline.my.from, Ptah.timeline.my.to]"))
    sizes = [b - a for a, b in spans]
    assert sizes[0] < sizes[1] and spans[2][0] > spans[1][0] > spans[3][0] - 1, spans
    test_keys(page, fib, inclusive)
    # A hostile function is found by its name, and its call drawn and described.
    browser.keys("/", *"script>document", webdriver.KEYS["enter"])
    browser.wait("return document.querySelector('.tl-count').textContent == '1 call'")
    browser.keys("f")
    rest(page)
    browser.wait("return document.querySelector('.tl-panel h2').textContent == arguments[0]",
                 names[0].decode(), what="the hostile name in the panel")
    page.picture("timeline-hostile")
    # Rows without calls there are empty: no pixel was left as it is in an empty image.
    black = browser.js("""
        const canvas = document.querySelector(".tl-bars");
        const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Uint32Array(all.buffer).filter(pixel => pixel == 0xff000000).length;""")
    assert not black, f"{black} black pixels"
    browser.keys(webdriver.KEYS["escape"], "0")
    page.check("timeline")


def press(browser, key):
    """Presses a key, and returns the call that is selected after it."""
    before = browser.js("return Ptah.timeline.my.selected")
    browser.keys(key)
    return browser.wait("""
        const s = Ptah.timeline.my.selected, b = arguments[0];
        return s && (s.begin != b.begin || s.depth != b.depth) ? s : null""", before)


def test_keys(page, fib, inclusive):
    """Without the mouse: n goes through the calls in the order in which they were made, arrows go to
    callers and back, m measures, the address keeps what was measured."""
    browser = page.browser
    browser.keys("/", *"fib", webdriver.KEYS["enter"])
    browser.js("Ptah.timeline.select(arguments[0])", fib)
    # fib(16) calls fib(15), and so on down to fib(1); then fib(2) calls fib(0), and fib(3) fib(1).
    depths = [press(browser, "n")["depth"] - fib["depth"] for _ in range(17)]
    assert depths == [*range(1, 16), 15, 14], depths
    assert press(browser, "N")["depth"] == fib["depth"] + 15
    browser.js("Ptah.timeline.select(arguments[0]); Ptah.timeline.reveal(arguments[0], true)", fib)
    rest(page)
    assert press(browser, webdriver.KEYS["up"])["depth"] == fib["depth"] - 1
    rest(page)
    assert "main" in browser.js("return document.getElementById('tl-live').textContent")
    browser.js("Ptah.timeline.select(arguments[0])", fib)
    browser.keys("m")
    measured = browser.js("return Ptah.state.to - Ptah.state.from")
    assert measured == inclusive, (measured, inclusive)
    shown = browser.wait("return document.querySelector('.tl-measure-text').textContent")
    assert number(shown.split()[0]) == inclusive, shown
    page.picture("timeline-measured")
    browser.wait("return location.hash.includes('from=') && location.hash.includes('axis=instructions')")
    browser.keys(webdriver.KEYS["escape"], webdriver.KEYS["escape"])
    assert browser.js("return Ptah.state.from === null && Ptah.timeline.my.selected === null")
    page.check("keys")


# Stands in for the server: every pixel and depth has a bar of its own.
SYNTHETIC = """
    const depths = arguments[0], real = Ptah.data.get;
    Ptah.info.threads[0].depth = depths;
    Ptah.data.get = function (path, query, options) {
        if (path != "bars")
            return real.call(Ptah.data, path, query, options);
        const n = Math.max(1, Math.round((query.to - query.from) / query.unit));
        const buffer = Ptah.tile.make(n * depths, query.unit, 0), t = Ptah.tile.parse(buffer);
        for (let d = 0, i = 0; d < depths; d++)
            for (let k = 0; k < n; k++, i++) {
                t.begin[i] = query.from + k * query.unit;
                t.end[i] = t.begin[i] + 0.8 * query.unit;
                t.function[i] = (k * 7 + d) % Ptah.table.name.length;
                t.calls[i] = 1 + (k + d) % 3;
                t.depth[i] = d;
            }
        return Promise.resolve(buffer);
    };"""


def test_frames(browser, address, pictures):
    """Zooming and panning with 200,000 bars in view; how many frames a second that gives."""
    browser.open("about:blank")
    page = Page(browser, address + "#view=functions", pictures, "served")
    browser.js(SYNTHETIC, 60)
    page.show("timeline")
    browser.keys("c") # low rows
    # As many bars to a pixel as there ever are: with more, the next level would be drawn.
    browser.js("""
        const t = Ptah.timeline, part = t.width() * devicePixelRatio * 3.8;
        const level = Math.floor(Math.log(t.length() / part) / Math.log(4));
        t.setRange(0, part * Math.pow(4, level));""")
    rest(page)
    page.picture("timeline-dense")
    # Printed and not judged: how fast a page is depends on what else the machine does.
    rate, longest = browser.frames("""
        const t = Ptah.timeline;
        n % 20 < 10 ? t.pan(n % 40 < 20 ? 0.01 : -0.01) : t.zoom(n % 40 < 20 ? 0.99 : 1.01, 300);
        """, 0.5)
    bars = browser.js("return Ptah.timeline.my.bars")
    print(f"{rate:.0f} frames a second, the longest {1000 * longest:.0f} ms, {bars} bars")
    assert rate > 0 and bars >= 200000, f"{bars} bars"


def test_every_view(page):
    """Every tab is shown by its key."""
    browser = page.browser
    tabs = browser.js("return [...document.querySelectorAll('#tabs button')].map(b => b.dataset.view)")
    for key, view in enumerate(tabs, 1):
        browser.js("document.activeElement.blur()")
        browser.keys(str(key))
        browser.wait("return document.getElementById('view').className == 'view-' + arguments[0]", view)
        browser.wait("return !document.querySelector('.busy')")
        page.settle()
        page.picture(f"view-{view}")
        page.check(f"view {view}")


def test_look(page):
    """Light and dark; nothing is wider than the window, large or small; the help opens."""
    browser = page.browser
    before = browser.js("return document.documentElement.dataset.theme")
    browser.keys("t")
    assert browser.js("return document.documentElement.dataset.theme") != before
    page.settle()
    page.picture("other-theme")
    browser.resize(3840, 1080)
    page.settle()
    page.picture("3840")
    wider = browser.js("return document.documentElement.scrollWidth > innerWidth")
    browser.resize(1280, 800)
    browser.keys("t", "?")
    browser.wait("return document.getElementById('help').open")
    page.picture("help")
    browser.keys(webdriver.KEYS["escape"])
    assert not wider and not browser.js("return document.documentElement.scrollWidth > innerWidth")
    page.check("theme, size, help")


def test_refusals(browser, address):
    """The harness notices what it is there to notice: a script of a name, and another's server."""
    browser.open(address)
    browser.console()
    browser.js("""
        const script = document.createElement("script");
        try { script.textContent = "document.title = 'pwned'"; document.body.append(script); } catch (e) {}
        fetch("http://127.0.0.2:9/").catch(() => 0);
        try { document.body.innerHTML = "<b>x"; } catch (e) { console.error("no HTML from text"); }""")
    browser.wait("return new Promise(done => setTimeout(() => done(true), 50))")
    said = "\n".join(browser.console())
    for word in ("no HTML from text", "127.0.0.2"):
        assert word in said, said
    assert browser.js("return document.title") != "pwned"


def test_hit(browser, program, pictures):
    """A recording that was kept for a moment is shown from there on, and says why it was kept."""
    subprocess.run([PTAH, "live", "-q", "--recorder=qemu", "--watch=fib > 10000 instructions",
                    "--hits=1", "--", program], check=True, stdout=subprocess.DEVNULL)
    with served("hit-1.data") as address:
        page = Page(browser, address, pictures, "hit")
        axis, begin, end, hits = browser.js("return [Ptah.state.axis, Ptah.state.from, Ptah.state.to,"
                                            " Ptah.info.hits]")
        assert axis == "time" and [begin, end] == [hits[0]["since"], hits[0]["time"]], hits
        assert browser.js("return Ptah.state.thread") == hits[0]["thread"], hits
        notes = browser.js("return document.getElementById('notes').textContent")
        assert "kept because of: fib > 10000 instructions" in notes, notes
        page.check("a hit")


def test_waits(browser, pictures):
    """What threads waited for, as served and in a file."""
    threads = browser_waits.record(CC)
    if not threads:
        print("waits are left out: the recorder native does not work here")
        return
    ptah("view", "-o", "waits.html", "waits.data")
    with served("waits.data") as address:
        browser_waits.test_waits(Page(browser, address, pictures, "served"), rest, *threads)
    page = Page(browser, "file://" + os.path.abspath("waits.html"), pictures, "file")
    browser_waits.test_waits(page, rest, *threads)


def run(browser, pictures):
    program, names = write_program()
    subprocess.run([PTAH, "record", "-q", "--recorder=qemu", "-o", "perf.data", "--", program],
                   check=True)
    ptah("view", "-o", "page.html", "perf.data")
    with served("perf.data") as address:
        page = Page(browser, address, pictures, "served")
        test_every_view(page)
        test_look(page)
        test_functions(page, "perf.data", names)
        test_flame(page)
        test_timeline(page, "perf.data", names)
        test_frames(browser, address, pictures)
        test_refusals(browser, address)
    test_hit(browser, program, pictures)
    test_waits(browser, pictures)
    browser_views.build(CC)
    with served("old.data", "new.data") as address:
        browser_views.test_views(Page(browser, address, pictures, "two"), "new.data")
    page = Page(browser, "file://" + os.path.abspath("page.html"), pictures, "file")
    test_functions(page, "perf.data", names)
    test_flame(page)
    test_timeline(page, "perf.data", names)


def main():
    pictures = sys.argv[1]
    os.makedirs(pictures, exist_ok=True)
    started = time.monotonic()
    try:
        browser = webdriver.Browser()
    except webdriver.Missing as reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    with browser:
        try:
            run(browser, pictures)
        except BaseException:
            browser.screenshot(os.path.join(pictures, "failure.png"))
            raise
    print(f"{time.monotonic() - started:.1f} seconds with Chromium {browser.version}")


if __name__ == "__main__":
    main()
