# SPDX-License-Identifier: MIT
"""Stands in for Qt, so that perf's scripts for databases run without it and without a screen: QtSql
is Python's own sqlite3, and windows are classes that do nothing.
"""
