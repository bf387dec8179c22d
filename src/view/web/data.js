// SPDX-License-Identifier: MIT
// Where the page's numbers come from: the server that sent the page, or the answers that a
// self-contained file holds. The views see no difference: both answer Ptah.data.get().
"use strict";
var Ptah = Ptah || {};

// A tile: bars of one thread in columns, as src/view writes them (little endian). The columns are
// views of the buffer; nothing is copied.
Ptah.tile = (function () {
	const MAGIC = 0x31425450; // "PTB1"
	const HEADER = 24;
	const INCOMPLETE = 1, FINEST = 2; // of the header's third value

	function parse(buffer) {
		const head = new DataView(buffer);
		if (buffer.byteLength < HEADER || head.getUint32(0, true) !== MAGIC)
			throw new Error("an answer is not a tile");
		const n = head.getUint32(4, true);
		if (buffer.byteLength < HEADER + n * 28)
			throw new Error("a tile is shorter than its header says");
		const flags = head.getFloat64(16, true);
		let at = HEADER;
		const column = function (type) {
			const array = new type(buffer, at, n);
			at += n * type.BYTES_PER_ELEMENT;
			return array;
		};
		return {
			count: n,
			unit: head.getFloat64(8, true),
			complete: (flags & INCOMPLETE) === 0,
			finest: (flags & FINEST) !== 0,
			begin: column(Float64Array),
			end: column(Float64Array),
			function: column(Uint32Array),
			calls: column(Uint32Array),
			depth: column(Uint16Array),
			flags: column(Uint16Array)
		};
	}

	// Room for a tile of n bars.
	function make(n, unit, flags) {
		const buffer = new ArrayBuffer(HEADER + Math.ceil(n * 28 / 8) * 8);
		const head = new DataView(buffer);
		head.setUint32(0, MAGIC, true);
		head.setUint32(4, n, true);
		head.setFloat64(8, unit, true);
		head.setFloat64(16, flags, true);
		return buffer;
	}

	// The bars of several tiles that `keep(tile, index, i)` wants, as one tile in its order.
	function collect(tiles, unit, flags, keep) {
		const chosen = [];
		tiles.forEach(function (tile, index) {
			for (let i = 0; i < tile.count; i++)
				if (keep(tile, index, i))
					chosen.push([tile, i]);
		});
		chosen.sort(function (a, b) {
			return a[0].depth[a[1]] - b[0].depth[b[1]] ||
			       a[0].begin[a[1]] - b[0].begin[b[1]];
		});
		const buffer = make(chosen.length, unit, flags);
		const to = parse(buffer);
		chosen.forEach(function (from, i) {
			to.begin[i] = from[0].begin[from[1]];
			to.end[i] = from[0].end[from[1]];
			to.function[i] = from[0].function[from[1]];
			to.calls[i] = from[0].calls[from[1]];
			to.depth[i] = from[0].depth[from[1]];
			to.flags[i] = from[0].flags[from[1]];
		});
		return buffer;
	}

	return {
		parse: parse, make: make, collect: collect,
		INCOMPLETE: INCOMPLETE, FINEST: FINEST,
		// Flags of a bar.
		NO_BEGIN: 1, NO_END: 2, LOSS: 4, TAIL: 8, SIGNAL: 16, INTERRUPT: 32, SYSCALL: 64,
		MERGED: 128
	};
})();

Ptah.data = (function () {
	const tile = Ptah.tile;

	// "k=v&k=v" in the order of the keys.
	function canonical(query, without) {
		return Object.keys(query || {}).filter(function (key) {
			return query[key] !== undefined && query[key] !== null &&
			       !(without && without.includes(key));
		}).sort().map(function (key) {
			return encodeURIComponent(key) + "=" + encodeURIComponent(query[key]);
		}).join("&");
	}

	// ---- Served ----

	async function fromServer(path, query, options) {
		const words = canonical(query);
		const response = await fetch("api/" + path + (words ? "?" + words : ""), {
			signal: options && options.signal, cache: "no-store", credentials: "omit",
			referrerPolicy: "no-referrer"
		});
		const type = response.headers.get("Content-Type") || "";
		if (!response.ok) {
			const sentence = (await response.text()).slice(0, 1000).trim();
			const error = new Error(sentence || path + ": HTTP status " + response.status);
			error.status = response.status;
			throw error;
		}
		return type.startsWith("application/json") ? response.json()
							   : response.arrayBuffer();
	}

	// ---- In the file ----

	// The file has an index of its answers, and each answer in a block that is never executed. Here:
	// blocks by "path?query"; several where an answer comes in levels and pieces.
	const LEVELS = ["bars", "events", "turns", "waits"];
	const blocks = new Map();

	function findBlocks() {
		const index = document.getElementById("ptah-index");
		if (!index)
			return false;
		JSON.parse(index.textContent).answers.forEach(function (a) {
			const cut = a.query.indexOf("?");
			const path = cut < 0 ? a.query : a.query.slice(0, cut);
			const query = {};
			new URLSearchParams(cut < 0 ? "" : a.query.slice(cut + 1))
				.forEach(function (value, key) { query[key] = value; });
			const piece = LEVELS.includes(path) && query.unit !== undefined;
			const key = path + "?" + canonical(query, piece ? ["from", "to", "unit"] : []);
			const block = {
				id: a.id, json: a.type.startsWith("application/json"), piece: piece,
				unit: Number(query.unit), from: Number(query.from), to: Number(query.to),
				answer: null
			};
			if (!blocks.has(key))
				blocks.set(key, []);
			blocks.get(key).push(block);
		});
		return true;
	}

	function bytesOf(base64) {
		if (Uint8Array.fromBase64)
			return Uint8Array.fromBase64(base64);
		const text = atob(base64);
		const bytes = new Uint8Array(text.length);
		for (let i = 0; i < text.length; i++)
			bytes[i] = text.charCodeAt(i);
		return bytes;
	}

	// Unpacks a block when it is first asked for. The text stays in the page (it may be asked
	// for again after the answer was dropped).
	const KEPT = 48;
	const kept = [];
	function unpack(block) {
		if (block.answer)
			return block.answer;
		const text = document.getElementById(block.id).textContent;
		const stream = new Blob([bytesOf(text.trim())]).stream()
			.pipeThrough(new DecompressionStream("gzip"));
		const response = new Response(stream);
		block.answer = block.json ? response.json() : response.arrayBuffer();
		if (block.piece) {
			kept.push(block);
			if (kept.length > KEPT)
				kept.shift().answer = null;
		}
		return block.answer;
	}

	// The pieces of the coarsest level that is fine enough, else of the finest there is.
	function piecesOf(key, unit, from, to) {
		const all = blocks.get(key);
		if (!all)
			return null;
		const units = all.map(function (b) { return b.unit; });
		const fine = units.filter(function (u) { return u <= unit; });
		const best = fine.length ? Math.max.apply(null, fine) : Math.min.apply(null, units);
		const pieces = all.filter(function (b) {
			return b.unit === best && b.to > from && b.from < to;
		});
		pieces.sort(function (a, b) { return a.from - b.from; });
		return {unit: best, finest: best === Math.min.apply(null, units), pieces: pieces};
	}

	async function barsOf(path, query) {
		const key = path + "?" + canonical(query, ["from", "to", "unit", "function"]);
		const from = Number(query.from), to = Number(query.to);
		const level = piecesOf(key, Number(query.unit), from, to);
		// A small file may have nothing of a thread: then its finest detail is none.
		if (!level)
			return tile.make(0, Infinity, tile.FINEST);
		const tiles = (await Promise.all(level.pieces.map(unpack))).map(tile.parse);
		// A bar that crosses pieces is in each of them: it is taken from the first.
		return tile.collect(tiles, level.unit, level.finest && level.unit > 1 ? tile.FINEST : 0,
			function (t, index, i) {
				return t.begin[i] < to && t.end[i] >= from &&
				       (index === 0 || t.begin[i] >= level.pieces[index].from);
			});
	}

	// Calls of a function, from the finest bars of a thread: in coarser ones, short calls are part of
	// bars of other functions. They are collected once for the function that is searched.
	let collected = null;
	async function callsOf(query) {
		const name = [query.thread, query.axis, query.function].join();
		if (!collected || collected.of !== query.function)
			collected = {of: query.function, lists: new Map()};
		const lists = collected.lists;
		if (!lists.has(name))
			lists.set(name, collect(query));
		return lists.get(name);
	}

	async function collect(query) {
		const key = "bars?" + canonical({thread: query.thread, axis: query.axis});
		const level = piecesOf(key, 1, -Infinity, Infinity), wanted = Number(query.function);
		const list = [];
		for (let p = 0; level && p < level.pieces.length; p++) {
			const t = tile.parse(await unpack(level.pieces[p]));
			for (let i = 0; i < t.count; i++)
				if (t.function[i] === wanted && (p === 0 || t.begin[i] >= level.pieces[p].from))
					list.push([t.depth[i], t.begin[i], t.end[i], t.calls[i], t.flags[i]]);
		}
		list.sort(function (a, b) { return a[0] - b[0] || a[1] - b[1]; });
		return {list: list, unit: level ? level.unit : Infinity};
	}

	// Marks: those calls in a window; neighbours that are shorter than the unit are merged.
	async function marksOf(query) {
		const calls = await callsOf(query);
		const from = Number(query.from), to = Number(query.to), unit = Math.max(Number(query.unit), calls.unit);
		const marks = [];
		let last = null;
		calls.list.forEach(function (c) {
			if (c[1] >= to || c[2] < from)
				return;
			const short = c[2] - c[1] < unit, bucket = Math.floor(c[1] / unit);
			if (short && last && last.short && last.row[0] === c[0] && last.bucket === bucket) {
				last.row[2] = Math.max(last.row[2], c[2]);
				last.row[3] += c[3];
				last.row[4] |= tile.MERGED;
			} else {
				last = {short: short, bucket: bucket, row: c.slice()};
				marks.push(last.row);
			}
		});
		const buffer = tile.make(marks.length, unit, unit <= calls.unit && unit > 1 ? tile.FINEST : 0);
		const t = tile.parse(buffer);
		marks.forEach(function (m, i) {
			t.depth[i] = m[0];
			t.begin[i] = m[1];
			t.end[i] = m[2];
			t.calls[i] = m[3];
			t.flags[i] = m[4];
			t.function[i] = Number(query.function);
		});
		return buffer;
	}

	async function eventsOf(query) {
		const key = "events?" + canonical(query, ["from", "to", "unit"]);
		const from = Number(query.from), to = Number(query.to);
		const level = piecesOf(key, Number(query.unit), from, to);
		if (!level)
			return {unit: 0, complete: true, kind: [], at: [], end: [], depth: [], count: [],
				text: []};
		const parts = await Promise.all(level.pieces.map(unpack));
		const all = {unit: level.unit, complete: true};
		const columns = ["kind", "at", "end", "depth", "count", "text"];
		columns.forEach(function (c) { all[c] = []; });
		parts.forEach(function (part, index) {
			for (let i = 0; i < part.at.length; i++)
				if (part.at[i] < to && part.end[i] >= from &&
				    (index === 0 || part.at[i] >= level.pieces[index].from))
					columns.forEach(function (c) { all[c].push(part[c][i]); });
		});
		return all;
	}

	// Waits are in the file as one piece for each thread.
	async function waitsOf(query) {
		const key = "waits?" + canonical(query, ["from", "to", "unit"]);
		const level = piecesOf(key, Number(query.unit), Number(query.from), Number(query.to));
		const parts = level ? await Promise.all(level.pieces.map(unpack)) : [];
		const items = parts.reduce(function (all, part) { return all.concat(part.items); }, []);
		return {unit: level ? level.unit : 0, complete: true, items: items.filter(function (item) {
			return item.at < Number(query.to) && item.end >= Number(query.from);
		})};
	}

	// The call at a place, as far as the bars of the file say.
	async function callOf(query) {
		const at = Number(query.at), depth = Number(query.depth);
		const buffer = await barsOf("bars", {thread: query.thread, axis: query.axis, from: at,
						     to: at + 1, unit: 1});
		const bars = tile.parse(buffer);
		const callers = [];
		let found = -1;
		for (let i = 0; i < bars.count; i++) {
			if (bars.begin[i] > at || (bars.end[i] <= at && bars.end[i] > bars.begin[i]))
				continue;
			if (bars.depth[i] === depth)
				found = i;
			else if (bars.depth[i] < depth && bars.calls[i] === 1)
				callers.unshift({function: bars.function[i], depth: bars.depth[i],
						 begin: bars.begin[i], end: bars.end[i]});
		}
		if (found < 0)
			throw new Error("This file has no call there.");
		if (bars.calls[found] > 1)
			throw new Error("This file has " + bars.calls[found] +
					" calls there as one bar; `ptah view` without -o has each.");
		const total = {};
		total[query.axis] = bars.end[found] - bars.begin[found];
		const begin = {}, end = {};
		begin[query.axis] = bars.begin[found];
		end[query.axis] = bars.end[found];
		const f = bars.flags[found], flags = [];
		if (f & tile.NO_BEGIN)
			flags.push("no begin");
		if (f & tile.NO_END)
			flags.push("no end");
		if (f & tile.LOSS)
			flags.push("loss");
		return {function: bars.function[found], thread: Number(query.thread), depth: depth,
			begin: begin, end: end, total: total, self: {}, flags: flags,
			callers: callers, reduced: true};
	}

	async function fromFile(path, query) {
		const exact = blocks.get(path + "?" + canonical(query));
		if (exact && !exact[0].piece)
			return unpack(exact[0]);
		let answer = null;
		if (path === "bars" || path === "turns")
			answer = await barsOf(path, query);
		else if (path === "marks")
			answer = await marksOf(query);
		else if (path === "events")
			answer = await eventsOf(query);
		else if (path === "waits")
			answer = await waitsOf(query);
		else if (path === "call")
			answer = await callOf(query);
		if (!answer) {
			const error = new Error("This is not in the file; `ptah view` without -o has it.");
			error.status = 404;
			throw error;
		}
		return answer;
	}

	// The blocks may come after this script: they are looked for at the first question.
	let embedded = null;
	function isEmbedded() {
		if (embedded === null)
			embedded = findBlocks();
		return embedded;
	}

	return {
		isEmbedded: isEmbedded,
		// Does the file hold an answer of this path? A server has all.
		has: function (path) {
			if (!isEmbedded())
				return true;
			for (const key of blocks.keys())
				if (key.startsWith(path + "?"))
					return true;
			return false;
		},
		get: function (path, query, options) {
			return isEmbedded() ? fromFile(path, query || {})
					    : fromServer(path, query, options);
		}
	};
})();
