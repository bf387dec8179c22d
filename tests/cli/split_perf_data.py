#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes a perf.data file with Intel PT apart, as libipt's scripts do: raw trace, files of records,
and the options of ptxed that say the rest.

    split_perf_data.py FILE PREFIX [CPU]

writes PREFIX-aux-idxN.bin for each stream, PREFIX-sideband-cpuN.pevent and
PREFIX-sideband.pevent (records without a CPU), and prints the options, one word a line. With CPU,
the records of that CPU are the primary ones. Written from perf.data-file-format.txt and
perf_event.h, and independent of Ptah.
"""
import os
import struct
import sys

AUXTRACE_INFO, AUXTRACE, FINISHED_ROUND = 70, 71, 68
TID, TIME, ID, CPU, STREAM_ID, IDENTIFIER = 2, 4, 0x40, 0x80, 0x200, 0x10000


def main(path, prefix, primary=None):
    data = open(path, "rb").read()
    assert data[:8] == b"PERFILE2", "not a perf.data"
    entry, attrs, attrs_size, start, size = struct.unpack_from("<5Q", data, 16)
    types, configs = [], []  # (id, sample type); (type of the PMU, config)
    for at in range(attrs, attrs + attrs_size, entry):
        configs.append(struct.unpack_from("<I4xQ", data, at))
        sample_type = struct.unpack_from("<Q", data, at + 24)[0]
        ids, ids_size = struct.unpack_from("<QQ", data, at + entry - 16)
        for i in range(ids, ids + ids_size, 8):
            if not types:
                types.append((0, sample_type))
            types.append((struct.unpack_from("<Q", data, i)[0], sample_type))
    # Where the trailer of a record has the CPU: after it at most the identifier.
    sample_type = types[0][1] if types else 0
    from_end = 8 * (1 + bool(sample_type & IDENTIFIER))
    options, files = [], {}

    def add(name, content):
        files.setdefault(name, bytearray()).extend(content)

    at = start
    while at < start + size:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        record = data[at : at + length]
        at += length
        if kind == AUXTRACE:
            trace, _, _, index = struct.unpack_from("<QQQI", record, 8)
            add("%s-aux-idx%d.bin" % (prefix, index), data[at : at + trace])
            at += trace
        elif kind == AUXTRACE_INFO:
            info = struct.unpack_from("<17Q", record, 16)
            config = [config for pmu, config in configs if pmu == info[0]][0]
            for name, value in (
                ("pevent:time-shift", info[1]),
                ("pevent:time-mult", info[2]),
                ("pevent:time-zero", info[3]),
                ("cpuid-0x15.ebx", info[12]),
                ("cpuid-0x15.eax", info[13]),
                ("nom-freq", info[15]),
                ("mtc-freq", config >> 14 & 15),
            ):
                options += ["--" + name, str(value)]
        elif kind != FINISHED_ROUND:
            cpu = 0xFFFFFFFF
            if kind < 64 and sample_type & CPU:
                cpu = struct.unpack_from("<I", record, length - from_end)[0]
            name = "-cpu%d" % cpu if cpu != 0xFFFFFFFF else ""
            add("%s-sideband%s.pevent" % (prefix, name), record)
    for event, sample_type in types:
        options += ["--pevent:sample-config", "%d:0x%x" % (event, sample_type)]
    for name in sorted(files):
        with open(name, "wb") as out:
            out.write(files[name])
        if name.endswith(".pevent"):
            second = primary is not None and not name.endswith("-cpu%s.pevent" % primary)
            options += ["--pevent:" + ("secondary" if second else "primary"), name]
    print("\n".join(options))


main(*sys.argv[1:])
