# SPDX-License-Identifier: MIT
"""Compares the answers in a file of ptah view with what other commands print of the recording."""

import base64
import gzip
import json
import re
import struct
import sys


def answers(path):
    """The answers in the file, by question."""
    text = open(path, encoding="utf-8").read()
    index = json.loads(re.search(r'<script[^>]* id="ptah-index"[^>]*>(.*?)</script>', text, re.S).group(1))
    blocks = dict(re.findall(r'<script[^>]* id="(ptah-\d+)"[^>]*>(.*?)</script>', text, re.S))
    return {a["query"]: gzip.decompress(base64.b64decode(blocks[a["id"]])) for a in index["answers"]}


def check_functions(functions, value, rows):
    """The columns of the answer against the rows of ptah calls."""
    assert len(rows["functions"]) > 20, rows
    shown = {}
    for i, name in enumerate(functions["name"]):
        if not functions["count"][i] and not functions["partial"][i]:
            continue
        row = {"calls": functions["count"][i], "partial": functions["partial"][i],
               "total": functions["incl_" + value][i], "self": functions["self_" + value][i]}
        if functions[value + "_calls"][i]:
            for q in ("min", "p50", "p90", "p99", "max"):
                row[q] = functions[value + "_" + q][i]
        key = (name, functions["objects"][functions["object"][i]])
        shown.setdefault(key, []).append(sorted(row.items()))
    expected = {}
    for row in rows["functions"]:
        kept = {k: v for k, v in row.items() if k not in ("object", "function", "ip")}
        expected.setdefault((row["function"], row["object"]), []).append(sorted(kept.items()))
    for of in (shown, expected):
        for list_ in of.values():
            list_.sort()
    assert shown == expected, [(k, shown.get(k), expected.get(k))
                               for k in set(shown) | set(expected) if shown.get(k) != expected.get(k)][:3]


def check_flame(functions, flame, report):
    """The paths of the answer against those of ptah report -g."""
    paths, names = {0: ()}, {}
    for i, function in enumerate(flame["function"]):
        if not i:
            continue
        paths[i] = paths[flame["parent"][i]] + (functions["name"][function],)
        one = names.setdefault(paths[i], [0, 0, 0])
        for k, column in enumerate(("count", "incl", "self")):
            one[k] += flame[column][i]
    reported, rows = {0: ()}, {}
    for node in report["nodes"]:
        reported[node["row"]] = reported[node["parent"]] + (node["function"],)
        one = rows.setdefault(reported[node["row"]], [0, 0, 0])
        for k, column in enumerate(("calls", "instructions", "self_instructions")):
            one[k] += node[column]
    assert names == rows, [(p, names.get(p), rows.get(p))
                           for p in set(names) | set(rows) if names.get(p) != rows.get(p)][:3]
    assert len(rows) > 50


def count_tile(tile):
    """A tile of the finest unit has every call of its thread."""
    magic, n, _, state = struct.unpack_from("<4sIdd", tile)
    assert magic == b"PTB1" and state == 0, (magic, state)
    return sum(struct.unpack_from(f"<{n}I", tile, 24 + 20 * n))


def check_code(found, functions, annotated):
    """Instructions against those of ptah annotate, and lines against those of their files."""
    places, compared = {}, 0
    for i, name in enumerate(functions["name"]):
        places.setdefault((name, functions["objects"][functions["object"][i]]), []).append(i)
    for function in annotated["functions"]:
        one = places.get((function["function"], function["object"]), [])
        if len(one) != 1 or f"code?function={one[0]}" not in found:
            continue
        code = json.loads(found[f"code?function={one[0]}"])
        rows = list(zip(code["address"], code["text"], code["executed"], code["line"], code["branch"],
                        code["taken"], code["unknown"]))
        assert rows == [(r["address"], r["instruction"], r["executed"], r.get("line") or 0,
                         "taken" in r, r.get("taken", 0), r.get("unknown", 0))
                        for r in function["code"]], function["function"]
        compared += 1
    assert compared > 10, compared


def check_source(found):
    """The lines of work.c: fib() was called by its recurrence, cmp() by qsort(); all have text."""
    sources = json.loads(found["sources"])
    number = next(i for i, f in enumerate(sources["file"]) if f.endswith("/work.c"))
    source = json.loads(found[f"source?file={number}"])
    counts = dict(zip(source["line"], source["executed"]))
    line = next(i for i, text in enumerate(source["text"], 1) if "unsigned fib(" in text)
    assert counts[line] == 465, counts  # calls of fib(12)
    assert sum(source["instructions"]) == sources["instructions"][number]
    coverage = json.loads(found["coverage"])
    at = coverage["file"].index(sources["file"][number])
    assert coverage["lines_found"][at] == len(counts), coverage["lines_found"][at]
    assert coverage["functions_found"][at] == coverage["functions_hit"][at] == 4


def check_difference(found, old, new, lines):
    """Both columns against ptah report of each recording, lines against ptah diff."""
    shown = json.loads(found["diff/functions?value=instructions"])
    for side, report in (("old", old), ("new", new)):
        rows = {}
        for row in report["rows"]:
            one = rows.setdefault((row["function"], row["object"].rsplit("/", 1)[-1]), [0, 0, 0])
            for k, column in enumerate(("calls", "instructions", "self_instructions")):
                one[k] += row[column]
        for i, key in enumerate(zip(shown["name"], shown["object"])):
            figures = [shown[c + side][i] for c in ("calls_", "incl_instructions_", "self_instructions_")]
            assert figures == rows.pop(key, [0, 0, 0]), (side, key, figures)
        assert not rows, (side, rows)
        assert shown["total_" + side] == report["instructions"]
        flame = json.loads(found["diff/flame?direction=down&value=instructions"])
        assert sum(flame["self_" + side]) <= report["instructions"]
        assert sum(n for n, parent in zip(flame["incl_" + side], flame["parent"]) if parent < 0) == \
            report["instructions"]
    shown = json.loads(found["diff/lines"])
    columns = ("name", "old", "new", "executed_old", "executed_new")
    key = lambda row: [str(field) for field in row]
    assert sorted(zip(*(shown[c] for c in columns)), key=key) == \
        sorted((tuple(row[c] for c in columns) for row in lines["rows"]), key=key)


def load(name):
    return json.load(open(name + ".json", encoding="utf-8"))


def main():
    found = answers(sys.argv[1])
    info = json.loads(found["info"])
    functions = json.loads(found["functions"])
    report = json.load(open("report.json", encoding="utf-8"))
    for value in ("instructions", "time"):
        check_functions(functions, value, json.load(open(f"calls-{value}.json", encoding="utf-8")))
    check_flame(functions, json.loads(found["flame?direction=down&value=instructions"]), report)
    assert info["complete"] and info["totals"]["instructions"] == report["instructions"], info["totals"]
    assert info["totals"]["calls"] == report["calls"], (info["totals"], report["calls"])
    # The recorder qemu writes times at system calls only, unless it is told otherwise.
    assert info["coarse"] and info["times"] == "simulated", info
    check_code(found, functions, load("annotate"))
    check_source(found)
    check_difference(found, load("old"), load("perf"), load("diff"))
    tiles = [[found[q] for q in found if q.startswith(f"bars?thread={thread}&axis=instructions&from=0&")]
             for thread in range(2)]
    assert len(tiles[0]) > 3
    assert sum(count_tile(of[0]) for of in tiles) >= report["calls"], report["calls"]
    print(f"{len(functions['name'])} functions, {report['calls']} calls, {len(tiles[0])} tiles")


if __name__ == "__main__":
    main()
