# SPDX-License-Identifier: MIT
"""perf_viewer.py SCRIPTS DATABASE: prints what perf's exported-sql-viewer.py (in the folder SCRIPTS)
shows of a database: its reports' menu and its call graph, a line for each path, its call tree, a
line for each call, its table of top calls, and all branches. The models and queries are perf's own; Qt is the
folder qt.
"""
import importlib.util
import os
import re
import sys
import types

scripts, database = sys.argv[1:]
viewer_path = os.path.join(scripts, "exported-sql-viewer.py")
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "qt"), scripts]
sys.argv[1:] = []


class Anything(type):
    """Has every attribute, each of which can be called and combined."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 0


class Window(metaclass=Anything):
    def __init__(self, *args):
        pass


# All the names of Qt that the script uses are classes that do nothing.
names = set(re.findall(r"\bQ[A-Z]\w+", open(viewer_path).read())) - {"QSqlDatabase", "QSqlQuery"}
for part in ("QtCore", "QtGui", "QtWidgets"):
    module = types.ModuleType("PySide2." + part)
    for name in names | {"Qt"}:
        setattr(module, name, Anything(name, (Window,), {}))
    module.Signal = lambda *kinds: None
    module.Slot = lambda *kinds: lambda function: function
    sys.modules[module.__name__] = module

spec = importlib.util.spec_from_file_location("viewer", viewer_path)
viewer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viewer)

dbref = viewer.DBRef(True, database)
db, name = dbref.Open("main")
glb = viewer.Glb(dbref, db, name)


def walk(item, depth, kind):
    """Opens every node of a tree, as a user would who clicks on all of them."""
    if not item.query_done:
        item.Select()
    if depth:
        print(kind, depth, *(item.getData(i) for i in range(8)), sep="\t")
    for i in range(item.childCount()):
        walk(item.getChildItem(i), depth + 1, kind)


print("tables", *viewer.GetTableList(glb))
print("events", *viewer.GetEventList(db))
for word in ("calls", "context_switches"):
    print("selectable", word, viewer.IsSelectable(db, word))
walk(viewer.CallGraphRootItem(glb, viewer.CallGraphModelParams(glb)), 0, "graph")
walk(viewer.CallTreeRootItem(glb, viewer.CallGraphModelParams(glb)), 0, "tree")

# The statements of reports that are tables, as the script builds them.
captured = []
viewer.SQLTableModel.__init__ = lambda self, glb, sql, *rest: captured.append(sql)
class Report:
    where_clause = limit = ""
viewer.TopCallsModel(glb, Report)
query = viewer.QSqlQuery(db)
viewer.QueryExec(query, captured[0])
while query.next():
    print("top", *(query.value(i) for i in range(10)), sep="\t")


class Fetcher:
    """Keeps the statement that a report fetches its rows with."""

    class done:
        @staticmethod
        def connect(function):
            pass

    def __init__(self, glb, sql, prep, add):
        captured.append(sql)

    def Fetch(self, count):
        pass


viewer.SQLFetcher = Fetcher
viewer.TreeModel.__init__ = lambda self, glb, params, parent=None: None
viewer.BranchModel.Update = None
for event in db.connection.execute(
        "SELECT id FROM selected_events WHERE name LIKE 'branches%'").fetchall():
    viewer.BranchModel(glb, event[0], "")
    viewer.QueryExec(query, captured[-1].replace("$$last_id$$", "0").split(" LIMIT")[0])
    while query.next():
        print("branch", *(query.value(i) for i in range(2, 16)), sep="\t")
