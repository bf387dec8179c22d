// SPDX-License-Identifier: MIT
// Draws bars into the pixels of an image: a row of bars is one line of pixels, computed once and
// copied down the row. That is many times faster than a rectangle for each bar where no graphics
// processor helps, and it is the same everywhere.
"use strict";

Ptah.raster = (function () {
	// A colour as a pixel of ImageData (bytes R G B A on machines of either order of bytes).
	const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
	function pixel(r, g, b) {
		return LITTLE ? (255 << 24 | b << 16 | g << 8 | r) >>> 0
			      : (r << 24 | g << 16 | b << 8 | 255) >>> 0;
	}
	function parse(hex) {
		return [1, 3, 5].map(function (i) { return parseInt(hex.slice(i, i + 2), 16); });
	}
	function mix(a, b, part) {
		return a.map(function (v, i) { return Math.round(v + (b[i] - v) * part); });
	}
	const packed = function (rgb) { return pixel(rgb[0], rgb[1], rgb[2]); };

	// Pixels by function, for the theme, the kind of colouring and what is searched for: of single
	// calls and of merged ones. Where a function is searched, all others are pale.
	let colours = null;
	function lookup(style, functions) {
		const key = [style.dark, Ptah.colourBy, style.marked, functions].join();
		if (colours && colours.key === key && colours.table === Ptah.table)
			return colours;
		const back = parse(style.background);
		const shades = Ptah.palette.map(function (c) {
			return style.dark ? mix(parse(c), [0, 0, 0], 0.12) : parse(c);
		});
		const single = new Uint32Array(functions + 1), merged = new Uint32Array(functions + 1);
		for (let id = 0; id <= functions; id++) {
			const rgb = shades[Ptah.colourIndex(id)];
			const pale = style.marked !== null && style.marked !== id;
			single[id] = packed(pale ? mix(rgb, back, 0.78) : rgb);
			merged[id] = packed(mix(rgb, back, pale ? 0.86 : 0.42));
		}
		colours = {key: key, table: Ptah.table, single: single, merged: merged, last: functions};
		return colours;
	}

	// The same for bars that are of threads: by the thread's number.
	function threadLookup(style) {
		const back = parse(style.background), n = Ptah.palette.length;
		const single = new Uint32Array(n + 1), merged = new Uint32Array(n + 1);
		for (let i = 0; i <= n; i++) {
			const rgb = parse(Ptah.palette[(i * 2 + (i * 2 >= n ? 1 : 0)) % n]);
			single[i] = packed(style.dark ? mix(rgb, [0, 0, 0], 0.12) : rgb);
			merged[i] = packed(mix(rgb, back, 0.42));
		}
		return {single: single, merged: merged, last: n};
	}

	let image = null, pixels = null, core = null, edge = null, foot = null, written = null;
	function resize(width, height) {
		if (image && image.width === width && image.height === height)
			return;
		image = new ImageData(Math.max(1, width), Math.max(1, height));
		pixels = new Uint32Array(image.data.buffer);
		core = new Uint32Array(image.width);
		edge = new Uint32Array(image.width);
		foot = new Uint32Array(image.width);
		written = new Uint8Array(image.height);
	}

	// A frame begins: no line is written. clearRest() fills those that no row wrote.
	function begin() {
		written.fill(0);
	}
	function clearRest(colour) {
		const W = image.width;
		for (let y = 0; y < image.height; y++)
			if (!written[y])
				pixels.fill(colour, y * W, (y + 1) * W);
	}

	// The first bar from lo to hi that ends after x. Bars of a depth do not overlap.
	function firstAfter(tile, lo, hi, x) {
		while (lo < hi) {
			const middle = (lo + hi) >>> 1;
			if (tile.end[middle] > x || (tile.end[middle] === x && tile.begin[middle] === x))
				hi = middle;
			else
				lo = middle + 1;
		}
		return lo;
	}

	// Fills the lines with the bars of one depth of a piece. Returns how many bars were drawn.
	// `labels` gets the bars that are wide enough for text.
	function fillLines(piece, index, depth, view, style, labels, y) {
		const tile = piece.tile;
		if (depth >= tile.depths)
			return 0;
		const T = Ptah.tile, begin = tile.begin, end = tile.end, fn = tile.function;
		const calls = tile.calls, flags = tile.flags;
		const v0 = view.from, scale = view.scale, W = core.length;
		const from = Math.max(piece.from, v0), to = Math.min(piece.to, view.to);
		const left = Math.max(0, Math.floor((from - v0) * scale));
		const right = Math.min(W, Math.ceil((to - v0) * scale));
		const hi = tile.starts[depth + 1];
		const start = firstAfter(tile, tile.starts[depth], hi, from);
		const single = style.colours.single, merged = style.colours.merged;
		const last = style.colours.last, gap = style.gap, wide = style.labelWidth;
		let i = start;
		for (; i < hi && begin[i] < to; i++) {
			let a = Math.floor((begin[i] - v0) * scale), b = Math.floor((end[i] - v0) * scale);
			const whole = a;
			if (a < left)
				a = left;
			if (b > right)
				b = right;
			const f = fn[i] < last ? fn[i] : style.threads ? fn[i] % last : last;
			// Text begins where the bar does or the view; it runs on over the pieces that follow.
			if (labels && (end[i] - begin[i]) * scale >= wide && (index === 0 || begin[i] >= piece.from)) {
				const e = Math.floor((Math.min(view.to, end[i]) - v0) * scale);
				const x = Math.max(0, whole);
				if (e - x >= wide)
					labels.push({x: x, width: e - x, y: y, function: fn[i], calls: calls[i]});
			}
			if (b - a <= 1) {
				if (a >= W)
					continue;
				if (calls[i] === 1) {
					core[a] = edge[a] = single[f];
				} else if (core[a] === style.base) {
					core[a] = merged[f];
				}
				if (flags[i] & style.flagged)
					foot[a] = style.flag;
				continue;
			}
			const seam = b < right && b - whole > 3 ? 1 : 0;
			if (calls[i] === 1) {
				const c = single[f];
				core.fill(c, a, b - seam);
				edge.fill(c, a, b - seam);
			} else {
				core.fill(merged[f], a, b - seam);
			}
			if (flags[i] & style.flagged)
				foot.fill(flags[i] & T.LOSS ? style.lossFlag : style.flag, a, b - seam);
			if (seam && calls[i] === 1)
				core[b - 1] = edge[b - 1] = gap;
		}
		return i - start;
	}

	// One row of bars, from pixel line y, `height` pixels high.
	function row(pieces, depth, y, height, view, style, labels) {
		const H = image.height, W = image.width, base = style.base;
		if (y >= H || y + height <= 0)
			return 0;
		core.fill(base);
		edge.fill(base);
		foot.fill(0);
		let drawn = 0;
		for (let i = 0; i < pieces.length; i++)
			drawn += fillLines(pieces[i], i, depth, view, style, labels, y);
		const inset = height >= 6 ? Math.round(height / 7) : 0;
		const footLines = height >= 10 ? Math.max(2, Math.round(height / 9)) : 0;
		const bottom = height - (height >= 4 ? Math.max(1, Math.round(view.ratio)) : 0);
		if (footLines && drawn) {
			for (let x = 0; x < W; x++)
				if (foot[x] === 0)
					foot[x] = edge[x];
		}
		for (let k = 0; k < bottom; k++) {
			const line = y + k;
			if (line < 0 || line >= H)
				continue;
			const source = k >= bottom - footLines && footLines && drawn ? foot
				     : k < inset || k >= bottom - inset ? edge : core;
			pixels.set(source, line * W);
			written[line] = 1;
		}
		return drawn;
	}

	return {
		pixel: pixel, parse: parse, mix: mix, packed: packed, lookup: lookup, threadLookup: threadLookup, resize: resize,
		firstAfter: firstAfter, row: row,
		begin: begin, clearRest: clearRest,
		// One line of one colour.
		rule: function (y, colour) {
			if (y < 0 || y >= image.height)
				return;
			pixels.fill(colour, y * image.width, (y + 1) * image.width);
			written[y] = 1;
		},
		image: function () { return image; }
	};
})();
