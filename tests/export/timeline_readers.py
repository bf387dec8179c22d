# SPDX-License-Identifier: MIT
"""Readers of timelines, written from the published descriptions of the formats.

Each returns a list of Event in the order of the file; times are nanoseconds.

    read_fxt       fuchsia.dev, "Fuchsia trace format"
    read_perfetto  the messages of perfetto.proto, by Google's protobuf library
    read_chrome    "Trace Event Format"
    read_firefox   docs-developer/processed-profile-format.md of the Firefox Profiler, version 48

They refuse what the description does not allow.
"""
import collections
import json
import os
import struct
import subprocess
import sys
import tempfile

BEGIN, END, INSTANT = "+", "-", "!"

# category: the object of a function; details: {name: text or number}
Event = collections.namedtuple("Event", "kind pid tid ns name category details")


class Refused(Exception):
    pass


def need(condition, text, *values):
    if not condition:
        raise Refused(text % values)


# Fuchsia

class Fxt:
    """One record after the other; `names` are {(pid, tid): name}, processes have the tid None."""

    def __init__(self, data):
        self.data = data
        self.strings = {0: ""}
        self.threads = {}
        self.names = {}
        self.events = []
        self.ticks = None
        need(len(data) % 8 == 0, "%d bytes are no whole words", len(data))
        need(self.word(0) == 0x0016547846040010, "no magic number")
        at = 8
        while at < len(data):
            at += self.record(at)

    def word(self, at):
        need(at + 8 <= len(self.data), "a record is cut off")
        return struct.unpack_from("<Q", self.data, at)[0]

    def text(self, at, size):
        """Text and the place behind its padding."""
        end = at + size
        padded = at + (size + 7) // 8 * 8
        need(padded <= len(self.data), "text is cut off")
        need(not any(self.data[end:padded]), "padding is not 0")
        return self.data[at:end].decode("utf-8"), padded

    def string(self, ref, at):
        """What a reference stands for, and the place behind it."""
        if ref & 0x8000:
            return self.text(at, ref & 0x7fff)
        need(ref in self.strings, "no string %d", ref)
        return self.strings[ref], at

    def record(self, at):
        head = self.word(at)
        size = (head >> 4 & 0xfff) * 8
        need(size and at + size <= len(self.data), "a record of %d bytes at %d", size, at)
        kind = head & 15
        need(kind in (1, 2, 3, 4, 7), "a record of type %d", kind)
        end = {1: self.initialization, 2: self.define_string, 3: self.define_thread,
               4: self.event, 7: self.kernel_object}[kind](head, at + 8)
        need(end == at + size, "a record of type %d: %d of %d bytes", kind, end - at, size)
        return size

    def initialization(self, _, at):
        self.ticks = self.word(at)
        return at + 8

    def define_string(self, head, at):
        index, size = head >> 16 & 0x7fff, head >> 32 & 0x7fff
        need(index and not head >> 47, "string %#x", head)
        self.strings[index], at = self.text(at, size)
        return at

    def define_thread(self, head, at):
        need(head >> 16 & 0xff and not head >> 24, "thread %#x", head)
        self.threads[head >> 16 & 0xff] = self.word(at), self.word(at + 8)
        return at + 16

    def arguments(self, count, at):
        found = {}
        for _ in range(count):
            head, begin = self.word(at), at
            name, at = self.string(head >> 16 & 0xffff, at + 8)
            if head & 15 == 6:
                found[name], at = self.string(head >> 32 & 0xffff, at)
            else:
                need(head & 15 in (4, 8), "an argument of type %d", head & 15)
                found[name] = self.word(at)
                at += 8
            need(at - begin == (head >> 4 & 0xfff) * 8, "the size of an argument")
        return found, at

    def event(self, head, at):
        need(self.ticks == 10**9, "%s ticks per second", self.ticks)
        ticks = self.word(at)
        pid, tid = self.threads[head >> 24 & 0xff]
        category, at = self.string(head >> 32 & 0xffff, at + 8)
        name, at = self.string(head >> 48, at)
        details, at = self.arguments(head >> 20 & 15, at)
        kind = {0: INSTANT, 2: BEGIN, 3: END}[head >> 16 & 15]
        self.events.append(Event(kind, pid, tid, ticks, name, category, details))
        return at

    def kernel_object(self, head, at):
        koid = self.word(at)
        name, at = self.string(head >> 24 & 0xffff, at + 8)
        arguments, at = self.arguments(head >> 40 & 15, at)
        if head >> 16 & 0xff == 1:
            self.names[koid, None] = name
        else:
            need(head >> 16 & 0xff == 2, "an object of another kind")
            self.names[arguments["process"], koid] = name
        return at


def read_fxt(path):
    with open(path, "rb") as file:
        return Fxt(file.read()).events


# Perfetto

def load_messages():
    """The messages of perfetto.proto; None where protoc or the library is missing."""
    folder = tempfile.mkdtemp()
    try:
        subprocess.run(["protoc", "-I", os.path.dirname(os.path.abspath(__file__)),
                        "--python_out=" + folder, "perfetto.proto"], check=True)
        sys.path.insert(0, folder)
        import perfetto_pb2
        return perfetto_pb2
    except (FileNotFoundError, ImportError):
        return None
    finally:
        subprocess.run(["rm", "-r", folder], check=True)


def read_perfetto(path):
    messages = load_messages()
    if not messages:
        return None
    trace = messages.Trace()
    with open(path, "rb") as file:
        data = file.read()
    trace.ParseFromString(data)
    # Unknown fields would be kept, but not known: everything has to be in perfetto.proto.
    copy = messages.Trace()
    copy.CopyFrom(trace)
    copy.DiscardUnknownFields()
    need(len(copy.SerializeToString()) == len(data), "fields that are not in perfetto.proto")

    tables = {"event_categories": {}, "event_names": {}, "debug_annotation_names": {},
              "source_locations": {}}
    tracks, processes, open_slices, events = {}, {}, {}, []
    for i, packet in enumerate(trace.packet):
        need(packet.trusted_packet_sequence_id, "a packet of no sequence")
        need(packet.sequence_flags == (2 if i else 3), "flags %d", packet.sequence_flags)
        for table, entries in tables.items():
            for entry in getattr(packet.interned_data, table):
                need(entry.iid and entry.iid not in entries, "%s %d", table, entry.iid)
                entries[entry.iid] = entry
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                processes[track.uuid] = track.process
            else:
                need(processes[track.parent_uuid].pid == track.thread.pid, "another process")
                tracks[track.uuid] = track.thread
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        thread, stack = tracks[event.track_uuid], open_slices.setdefault(event.track_uuid, [])
        details = {}
        for note in event.debug_annotations:
            need(note.HasField("uint_value") != note.HasField("string_value"), "a note")
            details[tables["debug_annotation_names"][note.name_iid].name] = (
                note.string_value if note.HasField("string_value") else note.uint_value)
        if event.type == 2:
            name, category = stack.pop()
        else:
            name = tables["event_names"][event.name_iid].name
            category = tables["event_categories"][event.category_iids[0]].name
        if event.type == 1:
            stack.append((name, category))
            if event.source_location_iid:
                place = tables["source_locations"][event.source_location_iid]
                need(place.function_name == name, "the place of another function")
                details["place"] = "%s:%d" % (place.file_name.rsplit("/", 1)[-1],
                                              place.line_number)
        events.append(Event({1: BEGIN, 2: END, 3: INSTANT}[event.type], thread.pid, thread.tid,
                            packet.timestamp, name, category, details))
    return events


# Chrome

def read_chrome(path):
    def refuse(text):
        raise Refused("the constant " + text)

    with open(path, encoding="utf-8") as file:
        # Numbers as text: a microsecond with three digits is no exact binary number.
        trace = json.load(file, parse_float=str, parse_constant=refuse)
    events, open_slices = [], {}
    for event in trace["traceEvents"]:
        phase = event["ph"]
        if phase == "M":
            need(event["name"] in ("process_name", "thread_name"), "metadata")
            continue
        micros, point, rest = event["ts"].partition(".")
        need(point and len(rest) == 3, "the time %s", event["ts"])
        stack = open_slices.setdefault((event["pid"], event["tid"]), [])
        category = event.get("cat")
        if phase == "B":
            stack.append((event["name"], category))
        elif phase == "E":
            name, category = stack.pop()
            need(name == event["name"], "the end of %s in %s", event["name"], name)
        else:
            need(phase == "i" and event["s"] == "t", "the phase %s", phase)
        events.append(Event({"B": BEGIN, "E": END, "i": INSTANT}[phase], event["pid"],
                            event["tid"], int(micros) * 1000 + int(rest), event["name"], category,
                            event.get("args", {})))
    return events


# Firefox

def to_ns(ms):
    whole, _, rest = str(ms).partition(".")
    return int(whole) * 10**6 + int(rest.ljust(6, "0"))


def check_table(thread, name, columns):
    table = thread[name]
    need(set(columns) <= set(table), "%s lacks %s", name, set(columns) - set(table))
    for column in columns:
        need(len(table[column]) == table["length"], "%s.%s", name, column)
    return table


def read_firefox_thread(thread):
    strings = thread["stringArray"]
    stacks = check_table(thread, "stackTable", ("prefix", "frame", "category", "subcategory"))
    frames = check_table(thread, "frameTable", (
        "address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol",
        "innerWindowID", "implementation", "line", "column"))
    functions = check_table(thread, "funcTable", (
        "name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"))
    resources = check_table(thread, "resourceTable", ("lib", "name", "host", "type"))
    samples = check_table(thread, "samples", ("stack", "time", "weight"))
    markers = check_table(thread, "markers", (
        "data", "name", "startTime", "endTime", "phase", "category"))
    need(samples["weightType"] == "tracing-ms", "the weight type")
    pid, tid = int(thread["pid"]), thread["tid"]
    events, now = [], None

    def function(stack):
        func = frames["func"][stacks["frame"][stack]]
        return (strings[functions["name"][func]],
                strings[resources["name"][functions["resource"][func]]])

    times = [to_ns(time) for time in samples["time"]]
    for i, stack in enumerate(samples["stack"]):
        weight = times[i + 1] - times[i] if i + 1 < len(times) else 0
        need(to_ns(samples["weight"][i]) == weight >= 0, "the weight of sample %d", i)
        prefix = None if stack is None else stacks["prefix"][stack]
        need(prefix is None or prefix < stack, "a stack before its prefix")
        if stack is not None and prefix == now:
            events.append(Event(BEGIN, pid, tid, times[i], *function(stack), {}))
        else:
            need(now is not None and stacks["prefix"][now] == stack, "sample %d: two steps", i)
            events.append(Event(END, pid, tid, times[i], *function(now), {}))
        now = stack
    for i, name in enumerate(markers["name"]):
        data = markers["data"][i]
        need(data["type"] == "ptah", "a marker of another type")
        end = markers["endTime"][i]
        need(markers["phase"][i] == (0 if end is None else 1), "the phase of marker %d", i)
        events.append(Event(INSTANT, pid, tid, to_ns(markers["startTime"][i]), strings[name],
                            "event" if end is None else to_ns(end), data["details"]))
    return events


def read_firefox(path):
    with open(path, encoding="utf-8") as file:
        profile = json.load(file, parse_float=str)
    need(profile["meta"]["preprocessedProfileVersion"] == 48, "the version")
    need(profile["meta"]["markerSchema"][0]["name"] == "ptah", "the schema of markers")
    return [event for thread in profile["threads"] for event in read_firefox_thread(thread)]


READERS = {"fxt": read_fxt, "perfetto": read_perfetto, "chrome": read_chrome,
           "firefox": read_firefox}
