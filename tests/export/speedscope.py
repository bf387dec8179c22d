#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speedscope.py RELEASE FILE.trace.json: opens the file with speedscope, lets it save what it has
read, and compares that with the file as timeline_readers.py reads it. RELEASE is speedscope's folder
dist/release."""
import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "view"), HERE]
from timeline_readers import BEGIN, END, read_chrome  # noqa: E402
from webdriver import Browser, Missing  # noqa: E402

# speedscope offers what it saves as a download: it is taken from there.
CATCH = """
window.saved = null;
const create = URL.createObjectURL;
URL.createObjectURL = blob => {
    blob.text().then(text => window.saved = text);
    return create.call(URL, blob);
};
"""
SAVE = 'window.dispatchEvent(new KeyboardEvent("keydown", {key: "s", ctrlKey: true}))'


def saved_by_speedscope(release, path):
    with open(path, "rb") as file:
        data = base64.b64encode(file.read()).decode()
    # Its command does the same: a script that hands over the file.
    load = os.path.abspath("load.js")
    with open(load, "w", encoding="utf-8") as file:
        file.write("speedscope.loadFileFromBase64(%s, %s)" %
                   (json.dumps(os.path.basename(path)), json.dumps(data)))
    with Browser() as browser:
        browser.open("file://%s/index.html#localProfilePath=%s" %
                     (os.path.abspath(release), load.lstrip("/")))
        browser.js(CATCH)
        browser.wait("return document.title.startsWith(arguments[0])", os.path.basename(path),
                     what="speedscope to show the file")
        browser.wait(SAVE + "; return window.saved !== null", what="speedscope to save it")
        refused = [line for line in map(str, browser.console()) if "did not match" in line]
        return json.loads(browser.js("return window.saved")), refused


def main():
    release, path = sys.argv[1:]
    wanted = {}
    for event in read_chrome(path):
        if event.kind in (BEGIN, END):
            wanted.setdefault(event.tid, []).append(
                ("O" if event.kind == BEGIN else "C", event.name, event.ns))
    try:
        saved, refused = saved_by_speedscope(release, path)
    except Missing as missing:
        print("SKIP: %s" % missing)
        sys.exit(77)
    if refused:
        sys.exit("speedscope: " + refused[0])
    frames = [frame["name"] for frame in saved["shared"]["frames"]]
    got = {}
    for profile in saved["profiles"]:
        # Times are counted from the first event of the file, in microseconds.
        tid = int(profile["name"].rsplit("(tid ", 1)[1].rstrip(")"))
        got[tid] = [(event["type"], frames[event["frame"]], round(event["at"] * 1000))
                    for event in profile["events"]]
    first = min(events[0][2] for events in wanted.values())
    for tid, events in wanted.items():
        mine = [(kind, name, ns - first) for kind, name, ns in events]
        if got.get(tid) != mine:
            pairs = zip(got.get(tid, []), mine)
            sys.exit("thread %d: %d events of %d; speedscope, Ptah: %s" %
                     (tid, len(got.get(tid, [])), len(mine),
                      next((pair for pair in pairs if pair[0] != pair[1]), "the rest")))
    print("%d threads, %d events" % (len(wanted), sum(map(len, wanted.values()))))


if __name__ == "__main__":
    main()
