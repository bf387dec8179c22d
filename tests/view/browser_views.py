# SPDX-License-Identifier: MIT
"""The views of `ptah view` other than the timeline, for browser.py: source code and assembly, coverage,
the difference of two recordings, large tables, and what the keys do. What is expected is known of the
program by how it is built, or is what `ptah report` and `ptah annotate` print."""
import json
import os
import subprocess

import webdriver

# The lines with their counts: fib() by its recurrence, calls(n) = calls(n-1) + calls(n-2) + 1. Without
# libraries, whose thousands of lines would be counted as well.
PROGRAM = r"""
__asm__(".globl _start\n_start: mov (%rsp), %rdi; lea 8(%rsp), %rsi; call main;"
	"mov %eax, %edi; mov $60, %eax; syscall");
static volatile int sink;
__attribute__((noinline)) static int fib(int n)
{
	if (n < 2) /* fib */
		return n; /* leaf */
	return fib(n - 1) + fib(n - 2); /* inner */
}
__attribute__((noinline)) static void never(void)
{
	sink = 1; /* never */
}
int main(int argc, char **argv)
{
	int i;

	(void)argv;
	for (i = 0; i < 5; i++)
		sink += i; /* loop */
	if (argc > 5)
		never();
	sink = fib(argc > 1 ? 12 : 10);
	return 0;
}
"""


def calls_of_fib(n):
    return 1 if n < 2 else 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2)


def line_of(word):
    return next(i for i, line in enumerate(PROGRAM.split("\n"), 1) if f"/* {word} */" in line)


def build(cc):
    """Builds and records: old.data with fib(12), new.data with fib(10)."""
    with open("views.c", "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    subprocess.run([cc, "-g", "-O0", "-static", "-nostdlib", "-fno-stack-protector", "-o", "views",
                    "views.c"], check=True)
    for name, arguments in (("old.data", ["x"]), ("new.data", [])):
        subprocess.run([os.environ["PTAH"], "record", "-q", "--recorder=qemu", "-o", name, "--",
                        "./views", *arguments], check=True)


def number(text):
    return int(text.replace(",", "").replace("\u2212", "-").replace("+", ""))


def rows_of(browser, selector):
    """The rows of a table that are in view, as {number of the row: cells}."""
    return {int(at): cells for at, cells in browser.js("""
        return [...document.querySelectorAll(arguments[0] + " .grid-row")].filter(r => !r.hidden)
            .map(r => [r.getAttribute("aria-rowindex"), [...r.children].map(c => c.textContent)]);""",
                                                        selector)}


def open_function(browser, name):
    browser.js("""Ptah.open("source", {function: Ptah.table.name.indexOf(arguments[0])},
                            {file: null, line: null, look: null});""", name)
    browser.wait("""const c = document.querySelector(".pane-code .pane-head b");
                    return c && c.textContent == arguments[0] &&
                           document.querySelector(".pane-source .grid-row");""", name)


def test_source(page):
    """Lines have the counts that the program has by construction, taken and not taken."""
    browser = page.browser
    open_function(browser, "fib")
    browser.js("Ptah.current().grids.source.select(0)")
    page.settle()
    rows = {int(cells[3]): cells for cells in rows_of(browser, ".pane-source").values()}
    calls = calls_of_fib(10)
    leaves = (calls + 1) // 2
    for word, count, state in (("fib", calls, "\u2713"), ("leaf", leaves, "\u2713"),
                               ("inner", calls - leaves, "\u2713"), ("never", 0, "\u2717"),
                               ("loop", 5, "\u2713")):
        cells = rows[line_of(word)]
        assert f"/* {word} */" in cells[4], cells
        assert number(cells[1]) == count and cells[0] == state, (word, count, cells)
    share = rows[line_of("fib")][2]
    assert share in (f"{100 * leaves / calls:.2f}%", f"{100 * (calls - leaves) / calls:.2f}%"), share
    page.picture("source-fib")
    page.check("source")


def test_code(page, recording):
    """The assembly is that of ptah annotate, instruction by instruction."""
    annotated = json.loads(subprocess.run(
        [os.environ["PTAH"], "annotate", "--no-predictor", "--format=json", "-i", recording, "fib"],
        check=True, stdout=subprocess.PIPE).stdout)["functions"][0]["code"]
    page.settle()
    shown = rows_of(page.browser, ".pane-code")
    assert len(annotated) > 10
    for at, cells in shown.items():
        row = annotated[at - 2]
        assert number(cells[0]) == row["executed"], (cells, row)
        assert cells[2] == row["address"][2:] and row["instruction"] in cells[3], (cells, row)
        assert str(row["line"]) == cells[4], (cells, row)
    # Functions that are chosen quickly one after the other: the last one is shown.
    page.browser.js("""for (const name of ["main", "fib", "main", "fib"])
                           Ptah.select({function: Ptah.table.name.indexOf(name)});
                       return new Promise(done => requestAnimationFrame(() => setTimeout(done)));""")
    open_function(page.browser, "main")
    open_function(page.browser, "fib")
    # A line marks its instructions.
    page.browser.js("Ptah.current().grids.source.select(arguments[0] - 1)", line_of("leaf"))
    page.settle()
    marked = page.browser.js("""
        return [...document.querySelectorAll(".pane-code .linked")].map(r => r.lastElementChild.textContent)""")
    assert marked and set(marked) == {str(line_of("leaf"))}, marked
    page.check("assembly")


def test_coverage(page):
    """One line of views.c did not run, and one way of one branch was not gone."""
    browser = page.browser
    page.show("coverage")
    browser.wait("return document.querySelector('.tile-number')")
    browser.keys("/", *"views.c")
    browser.wait("""const r = [...document.querySelectorAll(".grid-row")].filter(r => !r.hidden);
                    return r.length == 1 && r[0].textContent.startsWith("views.c")""")
    tiles = browser.js("""return [...document.querySelectorAll(".tile")].map(
                              t => t.lastElementChild.textContent.split(" of ").map(Number))""")
    (lines, all_lines), (ways, all_ways), (functions, all_functions) = tiles
    assert (functions, all_functions) == (2, 3), tiles
    # never() has three lines: its head, its body and its end; its call is one more.
    assert all_lines - lines == 4, tiles
    # if (n < 2), for, if (argc > 5) and argc > 1: of the last two one way each was gone.
    assert (ways, all_ways) == (6, 8), tiles
    page.picture("coverage")
    browser.js("document.activeElement.blur(); Ptah.current().grid.select(Ptah.current().grid.shown()[0])")
    browser.keys(webdriver.KEYS["enter"])
    browser.wait("return document.querySelector('.pane-source .grid-row.missed')")
    page.picture("coverage-source")
    # A function that is opened next is shown in its own place, not in the file that was open.
    page.show("functions")
    browser.js("Ptah.current().grid.select(Ptah.table.name.indexOf('main'))")
    browser.keys(webdriver.KEYS["enter"])
    browser.wait("""const r = document.querySelector(".pane-source .grid-row[aria-selected=true]");
                    return r && Math.abs(Number(r.children[3].textContent) - arguments[0]) < 7""",
                 line_of("loop"))
    page.check("coverage")


def test_difference(page):
    """fib() was called less often, by as much as the recurrence says; other functions as often."""
    browser = page.browser
    old, new = calls_of_fib(12), calls_of_fib(10)
    page.show("diff")
    browser.wait("return document.querySelector('.grid-row')")
    browser.keys("/", *"fib views")
    browser.wait("""const r = [...document.querySelectorAll(".grid-row")].filter(r => !r.hidden);
                    return r.length == 1 && r[0].firstElementChild.textContent == "fib" """)
    cells = next(iter(rows_of(browser, "").values()))
    assert (number(cells[6]), number(cells[7])) == (old, new), cells
    assert number(cells[5]) - number(cells[4]) == number(cells[2]) < 0, cells
    page.picture("difference")
    browser.js("document.activeElement.blur(); Ptah.open('diff', {}, {diff: 'lines'})")
    browser.wait("return document.querySelector('[aria-label^=Lines] .grid-row')")
    browser.js("Ptah.current().grid.filter(t => t.startsWith('views.c:'))")
    page.settle()
    row = next(c for c in rows_of(browser, "").values()
               if c[0].startswith(f"views.c:{line_of('fib')} "))
    assert (number(row[6]), number(row[7])) == (old, new), row
    page.picture("difference-lines")
    browser.js("Ptah.open('diff', {}, {diff: 'flame'})")
    browser.wait("return Ptah.current().chart && Ptah.current().chart.data()")
    page.settle()
    # The root of all is as wide as the recording has instructions.
    total = browser.js("return Ptah.current().chart.total()")
    assert total == browser.js("return Ptah.info.totals.instructions"), total
    page.picture("difference-flame")
    page.check("difference")


def test_flame_keys(page):
    """By the keys alone: a function is searched, found, zoomed to and left; its share is shown."""
    browser = page.browser
    page.show("flame")
    browser.wait("return Ptah.current().chart.data()")
    browser.keys(webdriver.KEYS["down"], webdriver.KEYS["down"])
    first = browser.js("return document.querySelector('.chosen b').textContent")
    browser.keys("f")
    browser.wait("return Ptah.current().chart.focused() >= 0")
    browser.keys("0", "/", *"main", webdriver.KEYS["enter"])
    page.settle()
    assert "found" in browser.js("return document.querySelector('.bar [role=status]').textContent")
    assert first
    data = browser.js("""const d = Ptah.current().chart.data();
                         return {parent: d.parent, incl: d.incl, self: d.self};""")
    below = [0] * len(data["incl"])
    for parent, inclusive in zip(data["parent"], data["incl"]):
        if parent >= 0:
            below[parent] += inclusive
    assert all(i == s + b for i, s, b in zip(data["incl"], data["self"], below))
    browser.js("document.activeElement.blur()")
    page.check("flame graph by keys")


def test_large_table(page):
    """A hundred thousand rows: few elements, and the last one is a key away."""
    browser = page.browser
    browser.js("""
        const e = document.createElement("div");
        e.className = "grid-box";
        e.id = "large";
        e.style.cssText = "position:fixed;inset:0;z-index:9;background:white";
        document.body.append(e);
        window.large = Ptah.grid(e, {label: "large", columns: [
            {id: "n", title: "n", width: "1fr", number: true, value: i => i, text: i => String(i)}]});
        large.setRows(100000, i => String(i));
        large.element.focus();""")
    browser.keys(webdriver.KEYS["end"])
    browser.wait("return [...document.querySelectorAll('#large .grid-row')].some("
                 "r => !r.hidden && r.textContent == '99999')")
    assert browser.js("return document.querySelectorAll('#large .grid-row').length") < 100
    browser.js("large.filter(t => t == '54321')")
    browser.wait("return [...document.querySelectorAll('#large .grid-row')].filter("
                 "r => !r.hidden).map(r => r.textContent).join() == '54321'")
    browser.js("large.close(); document.getElementById('large').remove()")
    page.check("large table")


def test_views(page, recording):
    """All of them, with a page of `ptah view old.data new.data`."""
    test_source(page)
    test_code(page, recording)
    test_coverage(page)
    test_difference(page)
    test_flame_keys(page)
    test_large_table(page)
