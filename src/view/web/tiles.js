// SPDX-License-Identifier: MIT
// The tiles that the timeline draws: asked for by level, kept in a bounded cache, cancelled when they
// are no longer in view. A coarser or finer tile stands in until the right one has come.
"use strict";

Ptah.tiles = (function () {
	const WIDTH = 4096;	   // units of a tile
	const MOST_BARS = 4000000; // of all tiles that are kept: 28 bytes each
	const MOST_TILES = 3000;
	const AT_ONCE = 6; // requests, as many as browsers have to one server

	const cache = new Map();
	let bars = 0, frame = 0, changed = function () {}, failures = 0;

	function keyOf(kind, query, level, index) {
		return kind + "|" + (query.cpu === undefined ? query.thread : query.cpu) + "|" +
		       query.axis + "|" + (query.function === undefined ? "" : query.function) + "|" +
		       level + "|" + index;
	}

	// Where the bars of each depth begin in the tile.
	function prepare(tile) {
		const deepest = tile.count ? tile.depth[tile.count - 1] : -1;
		const starts = new Uint32Array(deepest + 3);
		for (let i = 0; i < tile.count; i++)
			starts[tile.depth[i] + 1]++;
		for (let d = 0; d <= deepest + 1; d++)
			starts[d + 1] += starts[d];
		tile.starts = starts;
		tile.depths = deepest + 1;
		return tile;
	}

	// Answers that are no bars.
	const LISTS = {
		events: function (answer) { return answer.at.length; },
		waits: function (answer) { return answer.items.length; }
	};

	function drop(entry) {
		if (entry.request)
			entry.request.abort();
		if (entry.tile)
			bars -= entry.cost;
		cache.delete(entry.key);
	}

	// Tiles that were not drawn for the longest time go first; the coarsest ones stay.
	function shrink() {
		if (bars <= MOST_BARS && cache.size <= MOST_TILES)
			return;
		const old = Array.from(cache.values()).filter(function (e) {
			return e.used < frame - 1 && e.tile;
		}).sort(function (a, b) { return a.used - b.used; });
		for (let i = 0; i < old.length && (bars > MOST_BARS * 0.8 || cache.size > MOST_TILES * 0.8); i++)
			drop(old[i]);
	}

	async function load(entry) {
		const unit = Math.pow(4, entry.level);
		entry.request = new AbortController();
		try {
			const query = Object.assign({}, entry.query, {
				from: entry.index * WIDTH * unit, to: (entry.index + 1) * WIDTH * unit, unit: unit
			});
			const answer = await Ptah.data.get(entry.kind, query, {signal: entry.request.signal});
			if (!cache.has(entry.key))
				return;
			const tile = LISTS[entry.kind] ? answer : prepare(Ptah.tile.parse(answer));
			if (entry.tile)
				bars -= entry.cost;
			entry.tile = tile;
			entry.cost = LISTS[entry.kind] ? LISTS[entry.kind](tile) : tile.count;
			bars += entry.cost;
			entry.stale = false;
			entry.failed = failures = 0;
		} catch (error) {
			if (error.name === "AbortError")
				cache.delete(entry.key);
			else
				entry.failed = performance.now();
			if (entry.failed && failures++ === 0)
				Ptah.fail(error);
		} finally {
			entry.request = null;
			if (entry.tile)
				shrink();
			changed();
			pump();
		}
	}

	let wanted = [];
	function pump() {
		let running = 0;
		cache.forEach(function (e) { running += e.request ? 1 : 0; });
		for (let i = 0; i < wanted.length && running < AT_ONCE; i++) {
			const e = wanted[i];
			if (e.request || (e.tile && !e.stale) || !cache.has(e.key) ||
			    (e.failed && performance.now() - e.failed < 3000))
				continue;
			running++;
			load(e);
		}
	}

	// ---- What a frame does: begin(), want() and cover() for each row, end() ----

	function begin() {
		frame++;
		wanted = [];
	}

	// The tile, or null; it is asked for if it is not there.
	function want(kind, query, level, index, priority) {
		const key = keyOf(kind, query, level, index);
		let entry = cache.get(key);
		if (!entry) {
			entry = {key: key, kind: kind, query: query, level: level, index: index,
				 tile: null, cost: 0, used: 0, request: null, stale: false, failed: 0};
			cache.set(key, entry);
		}
		entry.used = frame;
		entry.priority = priority;
		if (!entry.tile || entry.stale)
			wanted.push(entry);
		return entry.tile;
	}

	function end() {
		wanted.sort(function (a, b) { return a.priority - b.priority; });
		cache.forEach(function (e) {
			if (e.used !== frame && !e.tile) {
				if (e.request)
					e.request.abort();
				else
					cache.delete(e.key);
			}
		});
		pump();
	}

	function have(kind, query, level, index) {
		const e = cache.get(keyOf(kind, query, level, index));
		if (!e || !e.tile)
			return null;
		e.used = frame;
		return e.tile;
	}

	// What there is instead of a tile that has not come: its four parts if all are there, else the
	// finest coarser tile.
	function standIn(kind, query, level, index, top, pieces) {
		const unit = Math.pow(4, level), from = index * WIDTH * unit, to = from + WIDTH * unit;
		if (level > 0) {
			const parts = [0, 1, 2, 3].map(function (i) {
				return have(kind, query, level - 1, index * 4 + i);
			});
			if (parts.every(Boolean)) {
				parts.forEach(function (tile, i) {
					pieces.push({tile: tile, from: from + i * WIDTH * unit / 4,
						     to: from + (i + 1) * WIDTH * unit / 4});
				});
				return;
			}
		}
		for (let up = level + 1; up <= top; up++) {
			const tile = have(kind, query, up, Math.floor(index / Math.pow(4, up - level)));
			if (tile) {
				pieces.push({tile: tile, from: from, to: to, standIn: true});
				return;
			}
		}
	}

	// Pieces {tile, from, to} that cover [from,to) as far as anything has come, in order. `top` is
	// the level whose first tile holds the whole run.
	function cover(kind, query, level, top, from, to, priority) {
		const width = WIDTH * Math.pow(4, level), pieces = [];
		const first = Math.max(0, Math.floor(from / width)), middle = (from + to) / 2 / width;
		for (let i = first; i * width < to; i++) {
			const tile = want(kind, query, level, i, priority + Math.abs(i + 0.5 - middle) * 0.1);
			if (tile)
				pieces.push({tile: tile, from: i * width, to: (i + 1) * width});
			else
				standIn(kind, query, level, i, top, pieces);
		}
		return pieces;
	}

	return {
		WIDTH: WIDTH, begin: begin, end: end, cover: cover, want: want,
		onchange: function (fn) { changed = fn; },
		// Tiles of what was not read to its end are asked for again.
		refresh: function () {
			cache.forEach(function (e) {
				if (e.tile && e.tile.complete === false)
					e.stale = true;
			});
		},
		pending: function () {
			return wanted.reduce(function (n, e) { return n + (e.tile || (e.failed && !e.request) ? 0 : 1); }, 0);
		},
		statistics: function () {
			return {tiles: cache.size, bars: bars, wanted: wanted.length};
		}
	};
})();
