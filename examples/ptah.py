# SPDX-License-Identifier: MIT
"""libptah for Python, through ctypes: as much of it as reading a recording takes.

As a program it prints which functions the instructions of a recording belong to:

    python3 ptah.py perf.data

As a module it gives every block, event and error of every stream:

    with ptah.Session("perf.data") as session:
        for stream in session.streams():
            for item in stream.items():
                if item.type == ptah.ITEM_TYPES["block"]:
                    print(hex(item.ip), item.ninsn)

The library is the file that PTAH_LIBRARY in the environment names, or else the system's. More of
its structs and functions are declared as those below; docs/api.md has the rules they follow.
"""
import collections
import ctypes.util
import os
import sys
from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, Union, byref, c_bool, c_char, c_char_p,
                    c_int, c_int16, c_int32, c_size_t, c_uint, c_uint8, c_uint16, c_uint32,
                    c_uint64, c_void_p, memmove, sizeof)


def members(kind, names):
    return [(name, kind) for name in names.split()]


class Message(Structure):
    _fields_ = [("text", c_char * 1024)]


class Truth(Structure):
    _fields_ = members(c_uint64, "instructions conditional indirect returns path_hash")


class StreamInfo(Structure):
    _fields_ = members(c_int32, "pid tid cpu") + [("comm", c_char * 16)] + members(
        c_uint64, "bytes lost") + [("has_truth", c_bool), ("truth", Truth), ("space", c_int32)]


class Map(Structure):
    _fields_ = members(c_uint64, "address size file_offset") + [("path", c_char_p)]


class FunctionName(Structure):
    _fields_ = [("name", c_char_p), ("named", c_bool), ("path", c_char_p)] + members(
        c_uint64, "start file_offset")


class ItemCode(Structure):
    _fields_ = members(c_uint32, "section space")


class ItemMwait(Structure):
    _fields_ = members(c_uint32, "hints ext")


def union(*fields):
    return type("union", (Union,), {"_fields_": fields})


class Item(Structure):
    """The type decides which members of the unions mean something: event.h has the table."""
    _anonymous_ = ("u1", "u2", "u3", "u4")
    _fields_ = members(c_uint8, "type flags mode") + [
        ("u1", union(*members(c_uint8, "insn_class detail"))),
        ("u2", union(*members(c_uint16, "count ninsn size vector sub_state deepest icnt"),
                     ("status", c_int16)))] + members(c_uint8, "last_size tsc_error") + [
        ("ip", c_uint64),
        ("u3", union(*members(c_uint64, "to end reason pebs_id"))),
        ("u4", union(*members(c_uint64, "value bits cr3 vmcs ratio payload state last interrupts "
                              "cr2 qualification trbv pebs_type cycles packet_tsc"),
                     ("code", ItemCode), ("mwait", ItemMwait)))] + members(c_uint64, "tsc offset")


class ProfileBlock(Structure):
    _fields_ = members(c_uint64, "ip end target count taken unknown version target_version") + members(
        c_uint32, "space section") + [("ninsn", c_uint16)] + members(
            c_uint8, "mode insn_class last_size") + [("truncated", c_bool)]


class Error(Exception):
    """A negative status with its name, as "BAD_FILE", and a sentence."""

    def __init__(self, status, message=b""):
        super().__init__((message or lib.ptah_strerror(status)).decode(errors="replace"))
        self.status, self.name = status, lib.ptah_error_name(status).decode()


def status(value):
    """The result type of functions that return a count, or a negative status."""
    if value < 0:
        raise Error(value)
    return value


lib = CDLL(os.environ.get("PTAH_LIBRARY") or ctypes.util.find_library("ptah") or "libptah.so.1")
libc = CDLL(None)
new = POINTER(c_void_p)
Wants = CFUNCTYPE(c_bool, c_void_p, c_size_t)
Take = CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p)
for function, result, arguments in (
        (libc.free, None, [c_void_p]),
        (lib.ptah_strerror, c_char_p, [c_int]),
        (lib.ptah_error_name, c_char_p, [c_int]),
        (lib.ptah_item_name, c_char_p, [c_uint]),
        (lib.ptah_session_open, c_int, [c_char_p, c_void_p, new, POINTER(Message)]),
        (lib.ptah_session_close, None, [c_void_p]),
        (lib.ptah_session_streams, c_size_t, [c_void_p]),
        (lib.ptah_session_stream_info, status, [c_void_p, c_size_t, POINTER(StreamInfo)]),
        (lib.ptah_session_find_map, c_bool, [c_void_p, c_int32, c_uint64, c_uint64, POINTER(Map)]),
        (lib.ptah_session_profile_pid, c_int32, [c_void_p, c_size_t, c_void_p, c_uint]),
        (lib.ptah_session_count, status, [c_void_p, c_void_p, Wants, Take, c_void_p]),
        (lib.ptah_reader_new, status, [c_void_p, c_size_t, c_void_p, new]),
        (lib.ptah_reader_free, None, [c_void_p]),
        (lib.ptah_reader_read, status, [c_void_p, POINTER(Item), c_size_t]),
        (lib.ptah_profile_blocks, status, [c_void_p, new, POINTER(c_size_t)]),
        (lib.ptah_functions_new, status, [c_void_p, new]),
        (lib.ptah_functions_free, None, [c_void_p]),
        (lib.ptah_functions_name, c_bool,
         [c_void_p, c_int32, c_uint64, c_uint64, POINTER(FunctionName)])):
    function.restype, function.argtypes = result, arguments

ITEM_TYPES = {}  # "block": 0, ...
while lib.ptah_item_name(len(ITEM_TYPES)):
    ITEM_TYPES[lib.ptah_item_name(len(ITEM_TYPES)).decode()] = len(ITEM_TYPES)


class Session:
    """A recording. Its streams are read before it is closed."""

    def __init__(self, path):
        self.handle, why = c_void_p(), Message()
        code = lib.ptah_session_open(os.fsencode(path), None, byref(self.handle), byref(why))
        if code < 0:
            raise Error(code, why.text)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        lib.ptah_session_close(self.handle)
        self.handle = None

    def streams(self):
        return [Stream(self, i) for i in range(lib.ptah_session_streams(self.handle))]

    def find_map(self, space, address):
        """What a process had mapped at an address; None: nothing is known."""
        found = Map()
        known = lib.ptah_session_find_map(self.handle, space, address, 0, byref(found))
        return found if known else None


class Stream:
    """The trace of one thread, or of one CPU."""

    def __init__(self, session, index):
        self.session, self.index, self.info = session.handle, index, StreamInfo()
        lib.ptah_session_stream_info(self.session, index, byref(self.info))

    def items(self):
        """Every block, event and error, in the order of execution."""
        reader, n = c_void_p(), 1
        lib.ptah_reader_new(self.session, self.index, None, byref(reader))
        try:
            while n:
                batch = (Item * 1024)()  # another one for each call: items may be kept
                n = lib.ptah_reader_read(reader, batch, len(batch))
                yield from batch[:n]
        finally:
            lib.ptah_reader_free(reader)

    def counts(self):
        """Pairs of a process and a block that it ran, with how often: much faster than items()."""
        pairs = []

        def take(_context, _stream, profile):
            blocks, n = c_void_p(), c_size_t()
            lib.ptah_profile_blocks(profile, byref(blocks), byref(n))
            array = (ProfileBlock * n.value)()
            memmove(array, blocks, sizeof(array))  # so that blocks may be kept
            libc.free(blocks)
            pairs.extend((lib.ptah_session_profile_pid(self.session, self.index, profile,
                                                       block.space), block) for block in array)
            return 0

        lib.ptah_session_count(self.session, None, Wants(lambda _, stream: stream == self.index),
                               Take(take), None)
        return pairs


def report(session):
    """Rows of instructions, file, function and address: the most instructions first."""
    counts, address, functions, found = collections.Counter(), {}, c_void_p(), FunctionName()
    lib.ptah_functions_new(session.handle, byref(functions))
    for stream in session.streams():
        for space, block in stream.counts():
            lib.ptah_functions_name(functions, space, block.ip, 0, byref(found))
            path = os.fsdecode(found.path or b"[unknown]")
            # A function is a row, wherever its file was mapped, and so is all code of a file that
            # is in none.
            place = found.file_offset if path.startswith("/") else found.start
            row = path, found.name and found.name.decode(), place if found.name else 0
            counts[row] += block.count * block.ninsn
            address[row] = min(found.start, address.get(row, found.start))
    lib.ptah_functions_free(functions)
    rows = [(n, row[0], row[1] or hex(address[row]), address[row]) for row, n in counts.items()]
    return sorted(rows, key=lambda row: (-row[0], row[3], os.path.basename(row[1])))


if __name__ == "__main__":
    try:
        with Session(sys.argv[1] if len(sys.argv) > 1 else "perf.data") as recording:
            print("instructions", "object", "function", "ip", sep="\t")
            for line in report(recording):
                print(*line[:3], hex(line[3]), sep="\t")
    except Error as error:
        sys.exit("ptah.py: " + str(error))
