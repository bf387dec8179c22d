# SPDX-License-Identifier: MIT
"""QSqlDatabase and QSqlQuery, as far as perf's scripts use them, on Python's sqlite3."""
import sqlite3

__all__ = ["QSqlDatabase", "QSqlQuery"]


class Error:
    def __init__(self, text):
        self.message = text

    def text(self):
        return self.message


class QSqlDatabase:
    @staticmethod
    def addDatabase(kind, name=""):
        assert kind == "QSQLITE", kind
        return QSqlDatabase()

    def setDatabaseName(self, name):
        self.name = name

    def open(self):
        self.connection = sqlite3.connect(self.name, isolation_level=None)
        return True

    def close(self):
        self.connection.close()


class QSqlQuery:
    def __init__(self, db):
        self.db = db
        self.statement = self.row = self.cursor = None
        self.values = []
        self.error = ""

    def prepare(self, statement):
        self.statement = statement

    def addBindValue(self, value):
        self.values.append(value)

    def exec_(self, statement=None):
        try:
            self.cursor = self.db.connection.execute(statement or self.statement, self.values)
        except sqlite3.Error as error:
            self.error = str(error)
            return False
        self.values = []
        return True

    def next(self):
        self.row = self.cursor.fetchone()
        return self.row is not None

    def value(self, i):
        return self.row[i]

    def lastError(self):
        return Error(self.error)
