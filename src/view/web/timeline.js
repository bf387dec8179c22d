// SPDX-License-Identifier: MIT
// The timeline: a row for each thread with its calls as nested bars, over time or instructions. This
// file has the layout and the drawing; timeline_view.js has what the pointer and the keys do,
// timeline_search.js the search, and timeline_details.js the panel of a call.
"use strict";

Ptah.timeline = (function () {
	const el = Ptah.el, T = Ptah.tile, tiles = Ptah.tiles, raster = Ptah.raster;
	// Heights in CSS pixels; layout() makes them larger on screens of 3840 pixels, as style.css does
	// with the text.
	const SIZES = {LANE: 14, PAD: 6, COLLAPSED: 26, CPU: 20, RULER: 26, OVERVIEW: 34, FONT: 11.5, tall: 18, low: 5};
	const metric = Object.assign({}, SIZES);
	const large = matchMedia("(min-width: 3000px)");

	const my = {
		shown: false, from: 0, to: 1, whole: true, rows: [], height: 0, density: "tall",
		collapsed: new Map(), hover: null, selected: null, measure: null, pointer: null,
		frames: 0, bars: 0, drawTime: 0, coarse: false, events: 0
	};
	let dom = null, queued = false;

	// ---- Places ----

	function length() {
		const l = Ptah.info.length;
		return Math.max(1, (l && l[Ptah.state.axis]) || 1);
	}
	function ratio() { return window.devicePixelRatio || 1; }
	function width() { return Math.max(1, dom.bars.clientWidth); }
	function toX(v) { return (v - my.from) / (my.to - my.from) * width(); }
	function toValue(x) { return my.from + x / width() * (my.to - my.from); }

	// The smallest part that is shown: a few units of the axis fill the screen.
	const CLOSEST = 16;

	function setRange(from, to, quiet) {
		const all = length();
		let size = Math.min(Math.max(to - from, CLOSEST), all * 1.02);
		let start = (from + to) / 2 - size / 2;
		if (Math.abs(to - from - size) < 1e-9)
			start = from;
		start = Math.max(-size * 0.01, Math.min(start, all - size * 0.99));
		if (size >= all)
			start = Math.max(start, -all * 0.01);
		my.from = start;
		my.to = start + size;
		my.whole = start <= 0 && my.to >= all;
		if (!quiet) {
			Ptah.state.zoom = my.whole ? null : [Math.max(0, my.from), my.to];
			Ptah.keepAddress();
		}
		redraw();
	}
	function showAll() { setRange(-length() * 0.005, length() * 1.005); }
	function zoom(factor, x) {
		const at = toValue(x === undefined ? (my.pointer ? my.pointer.x : width() / 2) : x);
		const size = Math.min(Math.max((my.to - my.from) * factor, CLOSEST), length() * 1.02);
		const part = (at - my.from) / (my.to - my.from);
		setRange(at - size * part, at - size * part + size);
	}
	function pan(part) {
		const size = my.to - my.from;
		setRange(my.from + part * size, my.to + part * size);
	}

	// ---- Rows ----

	// A row is of a thread, or of a CPU: then its bars are the turns of threads on it.
	function barHeight(row) {
		if (row.cpu)
			return metric.CPU - 4;
		if (row.collapsed)
			return Math.max(1, Math.min(4, (metric.COLLAPSED - 6) / Math.max(1, row.depth)));
		return metric[my.density];
	}

	// The threads of a process are together, its first thread before the others.
	function inOrder(threads) {
		const begin = {};
		threads.forEach(function (t) {
			const at = (t.begin && t.begin[Ptah.state.axis]) || 0;
			begin[t.pid] = Math.min(begin[t.pid] === undefined ? Infinity : begin[t.pid], at);
		});
		return threads.slice().sort(function (a, b) {
			return begin[a.pid] - begin[b.pid] || a.pid - b.pid || (b.tid === b.pid) - (a.tid === a.pid) ||
			       a.tid - b.tid || a.number - b.number;
		});
	}

	// Threads that do not fit on two screens begin collapsed, except the first.
	function layout() {
		const info = Ptah.info, rows = [];
		Object.keys(SIZES).forEach(function (k) { metric[k] = Math.round(SIZES[k] * (large.matches ? 1.4 : 1) * 2) / 2; });
		const screens = 2.2 * (dom.scroll.clientHeight || 600);
		let top = 0;
		if (Ptah.state.axis === "time" && Ptah.data.has("turns"))
			(info.cpus || []).forEach(function (cpu) {
				rows.push({cpu: true, number: cpu, top: top, height: metric.CPU, depth: 1, lane: 2});
				top += metric.CPU;
			});
		inOrder(info.threads).forEach(function (t, i) {
			const depth = Math.max(1, t.depth || 1);
			const full = metric.LANE + depth * metric[my.density] + metric.PAD;
			let collapsed = my.collapsed.get(t.number);
			if (collapsed === undefined) {
				collapsed = i > 0 && (top + full > screens || i >= 40);
				if (info.complete !== false)
					my.collapsed.set(t.number, collapsed);
			}
			const height = collapsed ? metric.COLLAPSED : Math.max(full, 40);
			rows.push({number: t.number, thread: t, top: top, height: height,
				   depth: depth, collapsed: collapsed, lane: collapsed ? 3 : metric.LANE});
			top += height;
		});
		my.rows = rows;
		my.height = top;
		dom.inner.style.height = top + "px";
		showHeads();
	}

	function showHeads() {
		const info = Ptah.info;
		const key = my.rows.map(function (r) {
			return [r.cpu, r.number, r.top, r.collapsed, r.thread ? r.thread.comm : "",
				r.thread ? r.thread.errors : 0, r.thread ? r.thread.losses : 0].join();
		}).join(";") + Ptah.state.thread;
		if (key === my.headsKey)
			return;
		my.headsKey = key;
		const focused = dom.heads.contains(document.activeElement) &&
				document.activeElement.dataset.row;
		Ptah.clear(dom.heads);
		my.rows.forEach(function (row, i) {
			const place = function (e) {
				e.style.top = row.top + "px";
				e.style.height = row.height + "px";
				dom.heads.append(e);
				if (focused === String(i))
					e.focus();
			};
			if (row.cpu) {
				place(el("div", {class: "tl-head tl-cpu"}, "CPU " + row.number));
				return;
			}
			const t = row.thread;
			const bad = (t.errors || 0) + (t.losses || 0);
			place(el("button", {
				type: "button", class: "tl-head" + (Ptah.state.thread === t.number ? " tl-chosen" : ""),
				"aria-expanded": !row.collapsed, dataset: {row: i},
				title: Ptah.text(t.comm, 200) + " (process " + t.pid + ", thread " + t.tid + ")" +
				       (bad ? ", " + bad + " errors and losses" : ""),
				onclick: function () { toggleRow(row); }
			}, el("span", {class: "tl-arrow", "aria-hidden": "true"}, row.collapsed ? "\u25b8" : "\u25be"),
			el("span", {class: "tl-name"}, Ptah.text(t.comm, 64) || "thread"),
			el("span", {class: "tl-tid"}, t.tid > 0 ? t.tid : ""),
			bad ? el("span", {class: "tl-bad", "aria-label": bad + " errors and losses"}, "\u26a0") : null));
		});
		dom.heads.hidden = !info.threads.length;
	}

	function toggleRow(row) {
		my.collapsed.set(row.number, !row.collapsed);
		my.rows.length = 0;
		layout();
		redraw();
	}

	function rowAt(y) {
		return my.rows.find(function (r) { return y >= r.top && y < r.top + r.height; }) || null;
	}

	// ---- Drawing ----

	function redraw() {
		if (queued || !my.shown)
			return;
		queued = true;
		requestAnimationFrame(function () {
			queued = false;
			if (my.shown)
				draw();
		});
	}

	function fit(canvas, w, h, opaque) {
		const r = ratio(), W = Math.max(1, Math.round(w * r)), H = Math.max(1, Math.round(h * r));
		if (canvas.width !== W || canvas.height !== H) {
			canvas.width = W;
			canvas.height = H;
		}
		return canvas.getContext("2d", {alpha: !opaque});
	}

	let themeOf = null;
	function theme() {
		const dark = Ptah.isDark();
		if (themeOf && themeOf.dark === dark)
			return themeOf;
		const css = getComputedStyle(document.documentElement);
		const get = function (name) { return css.getPropertyValue(name).trim(); };
		themeOf = {
			dark: dark, background: get("--bg"), line: get("--line"), text: get("--text"),
			dim: get("--dim"), accent: get("--accent"), panel: get("--panel"),
			error: get("--error"), warn: get("--warn"),
			font: css.getPropertyValue("--ui") || "sans-serif"
		};
		return themeOf;
	}

	// What the levels need: the level of this zoom, and the level whose first tile holds the run.
	function levels() {
		const perPixel = (my.to - my.from) / (width() * ratio());
		const level = Math.max(0, Math.floor(Math.log(Math.max(1, perPixel)) / Math.log(4) + 1e-9));
		const top = Math.max(0, Math.ceil(Math.log(length() / tiles.WIDTH) / Math.log(4)));
		return {level: Math.min(level, top), top: top};
	}

	function threadQuery(row) {
		return {thread: row.number, axis: Ptah.state.axis};
	}

	function draw() {
		const begun = performance.now(), r = ratio(), w = width(), colours = theme();
		const h = Math.max(1, dom.scroll.clientHeight), scroll = dom.scroll.scrollTop;
		dom.bars.style.height = dom.over.style.height = h + "px";
		dom.over.style.width = dom.top.style.width = w + "px";
		const context = fit(dom.bars, w, h, true);
		raster.resize(dom.bars.width, dom.bars.height);
		const back = raster.parse(colours.background);
		const style = {
			dark: colours.dark, background: colours.background,
			marked: Ptah.state.function, base: raster.packed(back), gap: raster.packed(back),
			flagged: T.LOSS | T.SIGNAL | T.INTERRUPT | T.SYSCALL,
			flag: raster.packed(raster.parse(colours.dark ? "#d48bff" : "#7b2cbf")),
			lossFlag: raster.packed(raster.parse(colours.error)), labelWidth: 30 * r
		};
		const functions = Ptah.table ? Ptah.table.name.length : 0;
		style.colours = raster.lookup(style, functions);
		const turns = Object.assign({}, style, {threads: true, colours: raster.threadLookup(style)});
		const view = {from: my.from, to: my.to, scale: dom.bars.width / (my.to - my.from), ratio: r};
		const at = levels(), labels = [], lanes = [];
		my.bars = 0;
		my.coarse = false;
		raster.begin();
		tiles.begin();
		my.rows.forEach(function (row, i) {
			const y = row.top - scroll;
			// The coarsest tile of every thread stands in for what has not come.
			if (!row.cpu && (y < h && y + row.height > 0 || i < 32))
				tiles.want("bars", threadQuery(row), at.top, 0, 50 + i * 0.01);
			row.pieces = null;
			if (y >= h || y + row.height <= 0)
				return;
			drawRow(row, y, at, view, row.cpu ? turns : style, labels);
			lanes.push(row);
		});
		raster.clearRest(style.base);
		context.putImageData(raster.image(), 0, 0);
		context.setTransform(r, 0, 0, r, 0, 0);
		lanes.forEach(function (row) { drawLane(context, row, row.top - scroll, at, w, colours); });
		drawLabels(context, labels, r, colours);
		if (Ptah.state.axis === "time")
			Ptah.timelineWaits.drawArrows(context, w, colours);
		drawTop(at, w, colours);
		tiles.end();
		drawOver();
		showState();
		my.frames++;
		my.drawTime = performance.now() - begun;
	}

	function drawRow(row, y, at, view, style, labels) {
		const r = view.ratio, cpu = row.cpu;
		const query = cpu ? {cpu: row.number, axis: "time"} : threadQuery(row);
		row.pieces = tiles.cover(cpu ? "turns" : "bars", query, at.level, at.top,
					 Math.max(0, my.from), my.to, 10 + Math.abs(y) * 0.001);
		row.pieces.forEach(function (p) {
			if (p.tile.finest && p.tile.unit > 4 * Math.pow(4, at.level))
				my.coarse = true;
		});
		const height = barHeight(row), first = y + row.lane;
		const bottom = Math.min(y + row.height, dom.scroll.clientHeight);
		let d = Math.max(0, Math.floor(-first / height) - 1);
		for (; d < row.depth; d++) {
			const top = first + d * height;
			if (top >= bottom)
				break;
			const a = Math.round(top * r), b = Math.round((top + height) * r);
			const before = labels.length;
			my.bars += raster.row(row.pieces, d, a, Math.max(1, b - a), view, style,
					      height >= 13 ? labels : null);
			for (let k = before; k < labels.length; k++) {
				labels[k].height = b - a;
				labels[k].cpu = cpu;
			}
		}
		const line = raster.packed(raster.parse(theme().line));
		raster.rule(Math.round((y + row.height) * r) - 1, line);
	}

	// Text of bars. Names are taken apart and measured once.
	let namesOf = null, names = new Map();
	function variants(context, key, make) {
		if (namesOf !== Ptah.table || names.size > 20000) {
			namesOf = Ptah.table;
			names = new Map();
		}
		let list = names.get(key);
		if (!list) {
			list = make().map(function (text) {
				const t = text.length > 160 ? text.slice(0, 159) + "\u2026" : text;
				return {text: t, width: context.measureText(t).width};
			});
			names.set(key, list);
		}
		return list;
	}

	function labelOf(context, l) {
		if (l.calls > 1)
			return [{text: Ptah.format.count(l.calls) + (l.cpu ? " turns" : " calls"), width: 90}];
		if (l.cpu)
			return variants(context, "cpu" + l.function, function () { return [Ptah.threadName(l.function)]; });
		return variants(context, l.function, function () { return Ptah.nameForms(Ptah.name(l.function)); });
	}

	function drawLabels(context, labels, r, colours) {
		context.font = metric.FONT + "px " + colours.font;
		context.textBaseline = "middle";
		const marked = Ptah.state.function;
		labels.forEach(function (l) {
			const room = l.width / r - 8, list = labelOf(context, l);
			const fits = list.find(function (v) { return v.width <= room; });
			let text = fits && fits.text;
			if (!fits) {
				const least = list[list.length - 1], n = Math.floor(least.text.length * room / least.width) - 1;
				if (n < 2)
					return;
				text = least.text.slice(0, n) + "\u2026";
			}
			const dull = l.calls > 1 || (marked !== null && marked !== l.function && !l.cpu);
			context.fillStyle = dull && colours.dark ? "#e4e9f0" : "#12171f";
			context.globalAlpha = dull ? 0.75 : 1;
			context.fillText(text, l.x / r + 4, (l.y + l.height / 2) / r);
		});
		context.globalAlpha = 1;
	}

	// ---- Events: each kind has a shape of its own, so that colour is not needed ----

	const EVENTS = {
		gap: {name: "gap: not recorded by intention", area: true},
		overflow: {name: "overflow: the processor lost trace", area: true},
		loss: {name: "loss: trace that should exist is missing", area: true},
		error: {name: "error of the decoder"},
		signal: {name: "signal"},
		interrupt: {name: "interrupt or exception"},
		syscall: {name: "system call"},
		exec: {name: "executed another program"},
		begin: {name: "the thread begins"},
		end: {name: "the thread ends"}
	};

	function eventColour(kind, colours) {
		if (kind === "error" || kind === "overflow" || kind === "loss")
			return colours.error;
		if (kind === "signal" || kind === "interrupt")
			return colours.dark ? "#d48bff" : "#7b2cbf";
		return kind === "gap" ? colours.dim : colours.dark ? "#8fb8de" : "#3d5a80";
	}

	// An event's sign, in a box of 10 by 10 around (x, y).
	function drawSign(c, kind, x, y, colour) {
		c.fillStyle = c.strokeStyle = colour;
		c.lineWidth = 2;
		c.beginPath();
		if (kind === "error") { // a cross
			c.moveTo(x - 4, y - 4); c.lineTo(x + 4, y + 4);
			c.moveTo(x + 4, y - 4); c.lineTo(x - 4, y + 4);
			c.stroke();
		} else if (kind === "overflow" || kind === "loss") { // a triangle with a bar
			c.moveTo(x, y - 5); c.lineTo(x + 5, y + 4); c.lineTo(x - 5, y + 4);
			c.closePath(); c.fill();
		} else if (kind === "signal") { // a flash
			c.moveTo(x + 1, y - 6); c.lineTo(x - 4, y + 1); c.lineTo(x, y + 1);
			c.lineTo(x - 1, y + 6); c.lineTo(x + 4, y - 1); c.lineTo(x, y - 1);
			c.closePath(); c.fill();
		} else if (kind === "interrupt") { // a diamond
			c.moveTo(x, y - 5); c.lineTo(x + 5, y); c.lineTo(x, y + 5); c.lineTo(x - 5, y);
			c.closePath(); c.fill();
		} else if (kind === "exec" || kind === "begin") { // a flag; a thread's begin
			c.moveTo(x, y + 6); c.lineTo(x, y - 5); c.stroke();
			c.beginPath();
			c.moveTo(x, y - 5); c.lineTo(x + 7, y - 2); c.lineTo(x, y + 1);
			c.closePath();
			if (kind === "exec")
				c.fill();
			else
				c.stroke();
		} else if (kind === "end") {
			c.fillRect(x - 1, y - 5, 2, 11);
		} else if (kind === "gap") {
			c.strokeRect(x - 3, y - 4, 6, 8);
		} else { // a system call: a tooth
			c.moveTo(x - 3, y - 4); c.lineTo(x + 3, y - 4); c.lineTo(x, y + 4);
			c.closePath(); c.fill();
		}
	}

	function hatch(c, x, y, w, h, colour, back) {
		c.save();
		c.beginPath();
		c.rect(x, y, w, h);
		c.clip();
		c.globalAlpha = back;
		c.fillStyle = colour;
		c.fillRect(x, y, w, h);
		c.globalAlpha = 0.7;
		c.strokeStyle = colour;
		c.lineWidth = 1;
		c.beginPath();
		for (let k = x - (x % 8) - h - 8; k < x + w; k += 8) {
			c.moveTo(k, y + h);
			c.lineTo(k + h, y);
		}
		c.stroke();
		c.restore();
	}

	function eachEvent(row, fn) {
		(row.events || []).forEach(function (piece, index) {
			const e = piece.tile;
			for (let i = 0; i < e.at.length; i++)
				if (e.at[i] < Math.min(my.to, piece.to) && e.end[i] >= Math.max(my.from, piece.from) &&
				    (index === 0 || e.at[i] >= piece.from))
					fn(e, i);
		});
	}

	function drawLane(c, row, y, at, w, colours) {
		if (row.cpu)
			return;
		const perPixel = (my.to - my.from) / w;
		const level = Math.min(at.top, Math.max(0, Math.ceil(Math.log(Math.max(1, perPixel * 3)) / Math.log(4))));
		row.events = tiles.cover("events", threadQuery(row), level, at.top, Math.max(0, my.from), my.to, 20);
		drawWaits(c, row, y, level, at, w, colours);
		const last = {}, named = (row.waits || []).some(function (p) { return p.tile.items.length; });
		eachEvent(row, function (e, i) {
			const kind = e.kind[i], colour = eventColour(kind, colours);
			if (kind === "syscall" && named)
				return; // the strips say more
			const x = toX(e.at[i]), end = Math.min(toX(e.end[i]), w + 1);
			const area = kind === "gap" || kind === "overflow" || kind === "loss";
			const from = Math.max(-1, x), size = end - from;
			if (area && size >= 1)
				hatch(c, from, y, Math.max(1, size), row.height - 1, colour, kind === "gap" ? 0.06 : 0.16);
			else if (size >= 2) {
				c.fillStyle = colour;
				c.globalAlpha = 0.45;
				c.fillRect(from, y + 2, size, row.collapsed ? 3 : metric.LANE - 6);
				c.globalAlpha = 1;
			}
			if (row.collapsed && kind === "syscall")
				return;
			if (last[kind] !== undefined && x - last[kind] < 7)
				return;
			last[kind] = x;
			drawSign(c, kind, x < 0 && end > 8 ? 6 : x, y + (row.collapsed ? metric.COLLAPSED / 2 : metric.LANE / 2), colour);
		});
		drawMarks(c, row, y, at, colours);
	}

	function drawWaits(c, row, y, level, at, w, colours) {
		row.waits = null;
		if (Ptah.state.axis !== "time" || !Ptah.data.has("waits"))
			return;
		row.waits = tiles.cover("waits", threadQuery(row), level, at.top, Math.max(0, my.from), my.to, 25);
		c.font = metric.FONT - 1 + "px " + colours.font;
		c.textBaseline = "middle";
		Ptah.timelineWaits.drawStrips(c, row, y + 1, row.collapsed ? metric.COLLAPSED / 2 : metric.LANE - 2, w, colours);
	}

	// Where calls of the searched function are, as ticks above the bars.
	function drawMarks(c, row, y, at, colours) {
		row.marks = null;
		if (Ptah.state.function === null)
			return;
		const query = Object.assign({function: Ptah.state.function}, threadQuery(row));
		row.marks = tiles.cover("marks", query, at.level, at.top, Math.max(0, my.from), my.to, 30);
		c.fillStyle = colours.accent;
		let last = -9;
		row.marks.forEach(function (piece) {
			const t = piece.tile, from = Math.max(piece.from, my.from), to = Math.min(piece.to, my.to);
			for (let i = 0; i < t.count; i++) {
				if (t.end[i] < from || t.begin[i] >= to)
					continue;
				const x = toX(Math.max(t.begin[i], my.from));
				// The marks of a depth are in order; where they crowd, one is enough.
				if (x - last < 1.5 && x >= last)
					continue;
				last = x;
				c.fillRect(Math.round(x) - 1, y + 1, 2, row.collapsed ? metric.COLLAPSED - 3 : metric.LANE - 3);
			}
		});
	}

	// ---- Ruler and overview ----

	function step(perPixel, room) {
		const least = perPixel * room, power = Math.pow(10, Math.floor(Math.log10(least)));
		const s = [1, 2, 5, 10].find(function (k) { return k * power >= least; }) * power;
		return Math.max(1, s);
	}

	function drawTop(at, w, colours) {
		const c = fit(dom.top, w, metric.OVERVIEW + metric.RULER), r = ratio();
		c.setTransform(r, 0, 0, r, 0, 0);
		c.clearRect(0, 0, w, metric.OVERVIEW + metric.RULER);
		drawOverview(c, at, w, colours);
		const axis = Ptah.state.axis, s = step((my.to - my.from) / w, 110);
		const base = Math.max(0, Math.floor(my.from / (s * 10)) * s * 10);
		// Where the digits of all labels would be the same, they are shown once, and offsets from there.
		const deep = base > 0 && s * 1000 < base;
		c.font = metric.FONT - 0.5 + "px " + colours.font;
		c.textBaseline = "middle";
		c.strokeStyle = colours.line;
		c.lineWidth = 1;
		c.beginPath();
		const y = metric.OVERVIEW;
		c.moveTo(0, y + 0.5);
		c.lineTo(w, y + 0.5);
		for (let v = Math.max(0, Math.ceil(my.from / s) * s); v <= Math.min(my.to, length()); v += s) {
			const x = Math.round(toX(v)) + 0.5;
			c.moveTo(x, y + metric.RULER - 9);
			c.lineTo(x, y + metric.RULER);
			for (let k = 1; k < 5; k++) {
				const minor = Math.round(toX(v + s * k / 5)) + 0.5;
				c.moveTo(minor, y + metric.RULER - 4);
				c.lineTo(minor, y + metric.RULER);
			}
		}
		c.stroke();
		c.fillStyle = colours.dim;
		let taken = 0;
		if (deep) {
			const text = Ptah.format.value(axis, base, true) + " +";
			c.fillStyle = colours.text;
			c.fillText(text, 6, y + metric.RULER / 2);
			taken = c.measureText(text).width + 14;
			c.fillStyle = colours.dim;
		}
		for (let v = Math.max(0, Math.ceil(my.from / s) * s); v <= Math.min(my.to, length()); v += s) {
			const x = toX(v) + 4;
			if (x < taken)
				continue;
			const n = deep ? v - base : v;
			c.fillText(axis === "time" ? Ptah.format.time(n, true) : Ptah.format.short(n), x, y + metric.RULER / 2 - 1);
		}
	}

	// The whole run in small, with the part that is shown.
	function drawOverview(c, at, w, colours) {
		const threads = my.rows.filter(function (row) { return !row.cpu; }).slice(0, 16);
		const high = Math.max(1.5, (metric.OVERVIEW - 8) / Math.max(1, threads.length)), all = length();
		const found = threads.map(function (row, i) {
			return tiles.want("bars", threadQuery(row), at.top, 0, 5 + i * 0.01);
		});
		const same = my.small && my.small.w === w && my.small.all === all && my.small.dark === colours.dark &&
			     my.small.ratio === ratio() && my.small.found.length === found.length &&
			     found.every(function (t, i) { return t === my.small.found[i]; });
		if (!same)
			my.small = {w: w, all: all, dark: colours.dark, ratio: ratio(), found: found,
				    canvas: smallPicture(found, w, high, all, colours)};
		c.drawImage(my.small.canvas, 0, 0, w, metric.OVERVIEW);
		const a = Math.max(0, my.from / all * w), b = Math.min(w, my.to / all * w);
		c.fillStyle = colours.background;
		c.globalAlpha = 0.62;
		c.fillRect(0, 0, a, metric.OVERVIEW);
		c.fillRect(b, 0, w - b, metric.OVERVIEW);
		c.globalAlpha = 1;
		c.strokeStyle = colours.accent;
		c.lineWidth = 1.5;
		c.strokeRect(a + 0.75, 0.75, Math.max(3, b - a) - 1.5, metric.OVERVIEW - 1.5);
	}

	// It is drawn again only when its tiles or its size change.
	function smallPicture(found, w, high, all, colours) {
		const canvas = document.createElement("canvas"), r = ratio();
		const c = fit(canvas, w, metric.OVERVIEW);
		c.setTransform(r, 0, 0, r, 0, 0);
		c.fillStyle = colours.panel;
		c.fillRect(0, 0, w, metric.OVERVIEW);
		c.fillStyle = colours.accent;
		found.forEach(function (tile, i) {
			if (!tile)
				return;
			density(tile, Math.ceil(w), all).forEach(function (d, x) {
				c.globalAlpha = d ? 0.18 + 0.72 * d : 0;
				if (d)
					c.fillRect(x, 4 + i * high, 1, Math.max(1, high - 0.7));
			});
		});
		return canvas;
	}

	// How deep the calls are in each pixel, 0 to 1.
	function density(tile, w, all) {
		const deep = new Float32Array(w), scale = w / all;
		for (let i = 0; i < tile.count; i++) {
			const a = Math.max(0, Math.floor(tile.begin[i] * scale));
			const b = Math.min(w - 1, Math.floor(tile.end[i] * scale));
			const d = (tile.depth[i] + 1) / tile.depths;
			for (let x = a; x <= b; x++)
				if (deep[x] < d)
					deep[x] = d;
		}
		return deep;
	}

	// ---- What lies over the bars: hover, selection, measuring ----

	function boxOf(place) {
		const row = my.rows.find(function (r) { return !r.cpu && r.number === place.thread; });
		if (!row)
			return null;
		const height = barHeight(row);
		return {x: toX(place.begin), right: toX(place.end), row: row, height: height,
			y: row.top - dom.scroll.scrollTop + row.lane + place.depth * height};
	}

	// These are elements over the canvas, because a browser draws the whole canvas again for each
	// change in it.
	function putBox(e, place, border) {
		const box = place && boxOf(place), w = width();
		const seen = box && box.right >= -4 && box.x <= w + 4 && box.y + box.height > 0 &&
			     box.y < dom.scroll.clientHeight;
		e.hidden = !seen;
		if (!seen)
			return;
		const x = Math.max(-border - 2, box.x), right = Math.min(w + border + 2, box.right);
		e.style.left = x - border / 2 + "px";
		e.style.top = box.y - border / 2 + "px";
		e.style.width = Math.max(4, right - x - 1) + border + "px";
		e.style.height = Math.max(3, box.height - 1) + border + "px";
	}

	function drawOver() {
		dom.over.style.width = width() + "px";
		putBox(dom.hoverBox, my.hover && !my.hover.event && my.hover.cpu === undefined ? my.hover : null, 2);
		putBox(dom.selectedBox, my.selected && !my.selected.event ? my.selected : null, 4);
		dom.cursor.hidden = !(my.pointer && my.pointer.inside);
		if (!dom.cursor.hidden)
			dom.cursor.style.left = Math.round(my.pointer.x) + "px";
		showMeasure(my.measure || (Ptah.state.from !== null ? [Ptah.state.from, Ptah.state.to] : null));
	}

	function showMeasure(s) {
		const w = width(), a = s ? toX(s[0]) : 0, b = s ? toX(s[1]) : 0;
		dom.measure.hidden = !s || b < 0 || a > w;
		if (dom.measure.hidden)
			return;
		// A part of one thread is shown in its row.
		const row = my.measure || Ptah.state.thread === null ? null : my.rows.find(function (r) {
			return !r.cpu && r.number === Ptah.state.thread;
		});
		const h = dom.scroll.clientHeight, high = row ? row.top - dom.scroll.scrollTop : 0;
		const top = Math.max(0, Math.min(h, high));
		dom.measure.style.top = top + "px";
		dom.measure.style.height = Math.max(0, Math.min(h, row ? high + row.height : h) - top) + "px";
		const x = Math.max(-3, a), right = Math.min(w + 3, b);
		dom.measure.style.left = x + "px";
		dom.measure.style.width = Math.max(1, right - x) + "px";
		const text = Ptah.format.value(Ptah.state.axis, s[1] - s[0], true) + errorText();
		if (dom.measureText.textContent !== text)
			dom.measureText.textContent = text;
		const half = dom.measureText.offsetWidth / 2;
		dom.measureText.style.left = Math.max(half + 2, Math.min(w - half - 2, (x + right) / 2)) - x + "px";
	}

	// By how much a difference of two times can be wrong, if the recording says it.
	function errorText() {
		const e = Ptah.info.time_error || (my.details && my.details.error);
		return Ptah.state.axis === "time" && e > 0 ? " \u00b1 " + Ptah.format.time(2 * e) : "";
	}

	function showState() {
		const pending = tiles.pending();
		let text = "";
		if (pending && my.waited && performance.now() - my.waited > 250)
			text = "reading\u2026";
		else if (my.coarse)
			text = Ptah.data.isEmbedded() ? "No finer detail in this file: ptah view without -o has every call."
						      : "No finer detail here.";
		else if (Ptah.info.times !== "measured" && Ptah.info.times_text && Ptah.state.axis === "time")
			text = "Times are " + Ptah.info.times_text + ".";
		if (!pending)
			my.waited = 0;
		else if (!my.waited) {
			my.waited = performance.now();
			setTimeout(redraw, 300);
		}
		if (dom.state.textContent !== text)
			dom.state.textContent = text;
		dom.state.hidden = !text;
		dom.root.setAttribute("aria-busy", pending > 0);
	}

	// ---- What is at a point ----

	function barAt(row, depth, v, slack) {
		let best = null;
		(row.pieces || []).forEach(function (piece) {
			const t = piece.tile;
			if (depth >= t.depths || v < piece.from - slack || v > piece.to + slack)
				return;
			const hi = t.starts[depth + 1];
			for (let i = raster.firstAfter(t, t.starts[depth], hi, v - slack); i < hi && t.begin[i] <= v + slack; i++) {
				const away = v < t.begin[i] ? t.begin[i] - v : v > t.end[i] ? v - t.end[i] : 0;
				if (!best || away < best.away)
					best = {away: away, thread: row.number, depth: depth, begin: t.begin[i], end: t.end[i],
						function: t.function[i], calls: t.calls[i], flags: t.flags[i]};
			}
		});
		return best;
	}

	function hit(x, y) {
		const row = rowAt(y + dom.scroll.scrollTop);
		if (!row)
			return null;
		const inside = y + dom.scroll.scrollTop - row.top - row.lane;
		const v = toValue(x), slack = (my.to - my.from) / width() * 1.5;
		if (inside < 0 && !row.cpu)
			return Ptah.timelineWaits.at(row, x) || eventAt(row, x);
		const depth = Math.floor(inside / barHeight(row));
		if (depth < 0 || depth >= row.depth)
			return null;
		const bar = barAt(row, depth, v, slack);
		if (bar && row.cpu)
			bar.cpu = row.number;
		return bar || eventAt(row, x, true);
	}

	function eventAt(row, x, areas) {
		let best = null;
		eachEvent(row, function (e, i) {
			const a = toX(e.at[i]), b = toX(e.end[i]);
			const area = b - a > 2 && (e.kind[i] === "gap" || e.kind[i] === "overflow" || e.kind[i] === "loss");
			if (areas && !area)
				return;
			const away = x < a ? a - x : x > b ? x - b : 0;
			if (away <= 6 && (!best || away < best.away))
				best = {away: away, event: true, thread: row.number, kind: e.kind[i], begin: e.at[i],
					end: e.end[i], count: e.count[i], text: e.text[i], depth: 0};
		});
		return best;
	}

	function describe(place) {
		const axis = Ptah.state.axis, lines = [];
		if (place.item) {
			lines.push.apply(lines, Ptah.timelineWaits.describe(place.item));
		} else if (place.event) {
			const kind = EVENTS[place.kind] ? EVENTS[place.kind].name : place.kind;
			lines.push((place.count > 1 ? Ptah.format.count(place.count) + " \u00d7 " : "") + kind);
			if (place.text)
				lines.push(Ptah.text(place.text, 300));
		} else if (place.cpu !== undefined) {
			lines.push((place.calls > 1 ? Ptah.format.count(place.calls) + " turns on CPU " + place.cpu + ", the longest of " : "") +
				   Ptah.threadName(place.function) + (place.calls > 1 ? "" : " on CPU " + place.cpu));
		} else if (place.calls > 1) {
			lines.push(Ptah.format.count(place.calls) + " calls", "most of it in " + Ptah.name(place.function).slice(0, 200));
		} else {
			lines.push(Ptah.name(place.function).slice(0, 300));
			if (Ptah.object(place.function))
				lines.push(Ptah.object(place.function).slice(0, 120));
		}
		if (place.end > place.begin)
			lines.push(Ptah.format.length(axis, place.end - place.begin, true));
		lines.push("at " + Ptah.format.value(axis, place.begin, true));
		const f = place.flags || 0;
		if (f & T.NO_BEGIN)
			lines.push("its beginning is not in the trace");
		if (f & T.NO_END)
			lines.push("its end is not in the trace");
		if (f & T.LOSS)
			lines.push("trace was lost within it");
		if (f & T.SIGNAL)
			lines.push("a signal handler");
		if (f & T.INTERRUPT)
			lines.push("entered by an interrupt or exception");
		if (f & T.SYSCALL)
			lines.push("entered by a system call");
		if (f & T.TAIL)
			lines.push("a tail call");
		return lines;
	}

	// The tooltip, at the pointer.
	function showTip(place, point) {
		const tip = dom.tip;
		if (!place) {
			tip.hidden = true;
			return;
		}
		const lines = describe(place);
		Ptah.clear(tip);
		lines.forEach(function (line, i) {
			tip.append(el("div", {class: i === 0 ? "tl-tip-name" : "tl-tip-line"}, line));
		});
		tip.hidden = false;
		const size = tip.getBoundingClientRect(), area = dom.area.getBoundingClientRect();
		const x = point.x + 14 + dom.heads.offsetWidth, y = point.y + 16 + dom.top.offsetHeight;
		tip.style.left = Math.max(4, Math.min(x, area.width - size.width - 8)) + "px";
		tip.style.top = Math.max(4, y + size.height > area.height ? y - size.height - 28 : y) + "px";
	}

	// ---- Selecting ----

	function select(place, options) {
		my.selected = place;
		my.keyed = Boolean(options && options.keys);
		my.details = null;
		Ptah.timelineWaits.show(null);
		if (!my.keyed)
			dom.tip.hidden = true;
		Ptah.timelineDetails.show(place);
		dom.live.textContent = place ? describe(place).join(", ") + ", depth " + place.depth + ", " +
						Ptah.threadName(place.thread) : "nothing selected";
		redraw();
	}

	// Brings a call into view: its row vertically, and its part if it is not shown.
	function reveal(place, zoomTo) {
		const row = my.rows.find(function (r) { return !r.cpu && r.number === place.thread; });
		if (row && row.collapsed)
			toggleRow(row);
		const box = boxOf(place);
		if (box) {
			const h = dom.scroll.clientHeight;
			if (box.y < 0 || box.y + box.height > h)
				dom.scroll.scrollTop += box.y - h / 3;
		}
		const size = place.end - place.begin;
		if (zoomTo) {
			setRange(place.begin - Math.max(size * 0.1, 2), place.end + Math.max(size * 0.1, 2));
		} else if (place.end <= my.from || place.begin >= my.to) {
			const half = (my.to - my.from) / 2, at = place.begin + Math.min(size, half) / 2;
			setRange(at - half, at + half);
		} else {
			redraw();
		}
	}

	// Brings a thread's row to the top.
	function showThread(number) {
		const row = my.rows.find(function (r) { return !r.cpu && r.number === number; });
		if (row)
			dom.scroll.scrollTop = row.top;
	}

	// The neighbour of the selected call: at its depth, its caller or what it calls.
	function neighbour(key) {
		const s = my.selected;
		const row = s && my.rows.find(function (r) { return !r.cpu && r.number === s.thread; });
		if (!s || s.event || !row || !row.pieces) {
			const visible = my.rows.find(function (r) { return !r.cpu && r.pieces; });
			return visible ? barAt(visible, 0, (my.from + my.to) / 2, my.to - my.from) : null;
		}
		const slack = (my.to - my.from) * 3;
		if (key === "ArrowUp")
			return s.depth > 0 ? barAt(row, s.depth - 1, Math.max(s.begin, my.from), 0) ||
				barAt(row, s.depth - 1, s.begin, slack / width()) : null;
		if (key === "ArrowDown")
			return firstInside(row, s.depth + 1, Math.max(s.begin, my.from), Math.min(s.end, my.to));
		return beside(row, s, key === "ArrowRight" ? 1 : -1);
	}

	// The first call of a depth in a part; one that can be seen goes before shorter ones.
	function firstInside(row, depth, from, to) {
		let first = null, seen = null;
		const visible = (my.to - my.from) / width() * 4;
		row.pieces.forEach(function (piece) {
			const t = piece.tile;
			if (seen || depth >= t.depths)
				return;
			const hi = t.starts[depth + 1];
			for (let i = raster.firstAfter(t, t.starts[depth], hi, from); i < hi && t.begin[i] < to && !seen; i++) {
				const bar = {thread: row.number, depth: depth, begin: t.begin[i], end: t.end[i],
					     function: t.function[i], calls: t.calls[i], flags: t.flags[i]};
				first = first || bar;
				if (bar.end - bar.begin >= visible)
					seen = bar;
			}
		});
		return seen || first;
	}

	function beside(row, s, direction) {
		let best = null;
		row.pieces.forEach(function (piece) {
			const t = piece.tile;
			if (s.depth >= t.depths)
				return;
			for (let i = t.starts[s.depth]; i < t.starts[s.depth + 1]; i++) {
				if (direction > 0 ? t.begin[i] >= s.end && (!best || t.begin[i] < best.begin)
						  : t.end[i] <= s.begin && (!best || t.begin[i] > best.begin))
					best = {thread: row.number, depth: s.depth, begin: t.begin[i], end: t.end[i],
						function: t.function[i], calls: t.calls[i], flags: t.flags[i]};
			}
		});
		return best;
	}

	return {
		my: my, EVENTS: EVENTS, metric: metric, redraw: redraw, drawOver: drawOver, layout: layout,
		setRange: setRange, showAll: showAll, zoom: zoom, pan: pan, toX: toX, toValue: toValue,
		width: width, length: length, levels: levels, hit: hit, showThread: showThread, rowAt: rowAt, showTip: showTip,
		select: select, reveal: reveal, neighbour: neighbour, describe: describe,
		drawSign: drawSign, hatch: hatch, eventColour: eventColour, theme: theme,
		forgetTheme: function () { themeOf = null; },
		attach: function (elements) { dom = elements; my.headsKey = null; },
		dom: function () { return dom; }
	};
})();
