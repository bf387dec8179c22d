// SPDX-License-Identifier: MIT
// What threads waited for, in the timeline: a strip in the lane of a thread for each wait, in the
// colour of its cause, with an arrow from the thread that ended it; and for a selected call the chain
// of waits across threads.
"use strict";

Ptah.timelineWaits = (function () {
	// Causes of one kind have one colour. The strips have their names as well, so that colour is not
	// needed.
	const KINDS = [
		{name: "a lock", colour: "#e0696f", causes: ["mutex", "futex", "rwlock", "semaphore", "once", "file lock"]},
		{name: "a condition variable or a barrier", colour: "#e09a4c", causes: ["condition variable", "barrier"]},
		{name: "the end of a thread or a process", colour: "#b99a3e", causes: ["end of thread", "end of process"]},
		{name: "a pipe, a socket, an event", colour: "#6aa5e0", causes: ["pipe", "socket", "eventfd", "poll", "message", "inotify"]},
		{name: "a time or a signal", colour: "#a3a8b0", causes: ["sleep", "timer", "signal"]},
		{name: "a page of memory", colour: "#cc7db6", causes: ["page fault", "page fault or recorder"]},
		{name: "a processor: it could run, but others did", colour: "#d9c64a", causes: ["processor"]},
		{name: "another system call", colour: "#a283d8", causes: []}
	];
	const CALL = "#7c8aa0"; // a system call that is no wait
	const MOST_ARROWS = 400;
	const MOST_LINKS = 60, DEEPEST = 5; // of a chain

	// The chain of the selected call: [{thread, item, depth}]; and the call it is of.
	let chain = [], chainOf = null;

	function colourOf(item) {
		if (!item.kind)
			return CALL;
		const kind = KINDS.find(function (k) { return k.causes.includes(item.cause); });
		return (kind || KINDS[KINDS.length - 1]).colour;
	}

	function title(item) {
		if (item.count > 1)
			return Ptah.format.count(item.count) + (item.kind ? " waits: " + Ptah.text(item.cause, 60) : " system calls");
		return item.kind ? "waits: " + Ptah.text(item.name, 120) : Ptah.text(item.call, 200);
	}

	function each(row, fn) {
		const my = Ptah.timeline.my;
		(row.waits || []).forEach(function (piece, index) {
			piece.tile.items.forEach(function (item) {
				if (item.at < Math.min(my.to, piece.to) && item.end >= Math.max(my.from, piece.from) &&
				    (index === 0 || item.at >= piece.from))
					fn(item);
			});
		});
	}

	// ---- Drawing ----

	function isLinked(row, item) {
		const s = Ptah.timeline.my.selected;
		if (s && s.item && s.thread === row.number && s.item.at === item.at && s.item.call === item.call)
			return true;
		return chain.some(function (c) { return c.thread === row.number && c.item.at === item.at && c.item.kind === item.kind; });
	}

	// The strips of a row, in the `high` pixels from `y` on.
	function drawStrips(c, row, y, high, w, colours) {
		const line = Ptah.timeline;
		each(row, function (item) {
			const x = Math.max(-2, line.toX(item.at)), right = Math.min(w + 2, line.toX(item.end));
			const size = Math.max(item.kind ? 1 : 0.6, right - x);
			c.fillStyle = colourOf(item);
			c.globalAlpha = item.kind ? 1 : 0.55;
			c.fillRect(x, y, size, high);
			c.globalAlpha = 1;
			if (item.cause === "processor" && size > 3)
				line.hatch(c, x, y, size, high, colours.text, 0);
			if (isLinked(row, item)) {
				c.strokeStyle = colours.text;
				c.lineWidth = 2;
				c.strokeRect(x, y, size, high);
			}
			if (size < 34 || high < 9)
				return;
			const text = fitted(c, title(item), size - 8);
			c.fillStyle = "#12171f";
			if (text)
				c.fillText(text, Math.max(0, x) + 4, y + high / 2 + 0.5);
		});
	}

	function fitted(c, text, room) {
		if (c.measureText(text).width <= room)
			return text;
		const n = Math.floor(text.length * room / c.measureText(text).width) - 1;
		return n < 3 ? "" : text.slice(0, n) + "\u2026";
	}

	// From the thread that ended a wait to the one that waited.
	function drawArrow(c, from, to, item, strong, colours) {
		const line = Ptah.timeline, scroll = line.dom().scroll.scrollTop;
		const y0 = from.top - scroll + Math.min(from.height, line.metric.LANE) / 2;
		const y1 = to.top - scroll + Math.min(to.height, line.metric.LANE) / 2;
		const x0 = line.toX(item.woken || item.end), x1 = line.toX(item.end);
		const down = y1 > y0 ? 1 : -1, tip = y1 - down * 5;
		c.strokeStyle = c.fillStyle = strong ? colours.accent : colours.text;
		c.globalAlpha = strong ? 1 : 0.55;
		c.lineWidth = strong ? 2.5 : 1.2;
		c.beginPath();
		c.arc(x0, y0, strong ? 3.5 : 2.5, 0, 2 * Math.PI);
		c.fill();
		c.setLineDash(item.several ? [4, 4] : []);
		c.beginPath();
		c.moveTo(x0, y0);
		c.lineTo(x1, tip - down * 4);
		c.stroke();
		c.setLineDash([]);
		c.beginPath();
		c.moveTo(x1, tip + down);
		c.lineTo(x1 - 4, tip - down * 7);
		c.lineTo(x1 + 4, tip - down * 7);
		c.closePath();
		c.fill();
		c.globalAlpha = 1;
	}

	function drawArrows(c, w, colours) {
		const line = Ptah.timeline, my = line.my, rows = new Map();
		my.arrows = 0;
		my.rows.forEach(function (row) {
			if (!row.cpu)
				rows.set(row.number, row);
		});
		rows.forEach(function (row) {
			each(row, function (item) {
				const from = item.waker >= 0 && item.count === 1 ? rows.get(item.waker) : null;
				if (!from || from === row || my.arrows >= MOST_ARROWS)
					return;
				const strong = isLinked(row, item);
				if (!strong && line.toX(item.end) - line.toX(item.at) < 3)
					return;
				my.arrows++;
				drawArrow(c, from, row, item, strong, colours);
			});
		});
	}

	// ---- What is at a point ----

	function place(thread, item) {
		return {event: true, item: item, thread: thread, begin: item.at, end: item.end, depth: 0};
	}

	// The wait or system call nearest to a point of the lane.
	function at(row, x) {
		const line = Ptah.timeline;
		let best = null;
		each(row, function (item) {
			const a = line.toX(item.at), b = line.toX(item.end);
			const away = x < a ? a - x : x > b ? x - b : 0;
			if (away <= 4 && (!best || away < best.away || (away === best.away && item.end - item.at < best.item.end - best.item.at)))
				best = {away: away, item: item};
		});
		return best && place(row.number, best.item);
	}

	function describe(item) {
		const lines = [title(item)];
		if (item.kind && item.count === 1 && item.call)
			lines.push(Ptah.text(item.call, 300));
		if (item.kind && item.count === 1)
			lines.push(Ptah.text(item.by, 300));
		return lines;
	}

	// ---- Across threads ----

	async function ask(thread, from, to, signal) {
		const answer = await Ptah.data.get("waits", {thread: thread, axis: "time", from: from, to: to, unit: 1}, {signal: signal});
		return answer.items.filter(function (item) { return item.kind && item.end > from && item.at < to; });
	}

	function longest(a, b) {
		return (b.end - b.at) - (a.end - a.at);
	}

	// What a thread waited for in a part, and what the threads that ended these waits waited for until
	// then: [{thread, item, depth}], each followed by those below it.
	async function follow(thread, from, to, signal) {
		const list = [];
		async function add(number, a, b, depth) {
			const items = (await ask(number, a, b, signal)).sort(longest);
			const shown = items.slice(0, depth ? 6 : 20).filter(function (item) { return item.count === 1 || !depth; });
			for (const item of shown) {
				if (list.length >= MOST_LINKS)
					return;
				list.push({thread: number, item: item, depth: depth});
				if (item.waker >= 0 && item.waker !== number && depth < DEEPEST)
					await add(item.waker, item.at, item.woken || item.end, depth + 1);
			}
		}
		await add(thread, from, to, 0);
		return list;
	}

	// Marks the chain of a call in the timeline; null: none.
	function show(list, of) {
		chain = list || [];
		chainOf = of || null;
		Ptah.timeline.redraw();
	}

	// Where the thread was that ended a wait: its system call, or only the moment.
	function wakerPlace(item) {
		const when = item.woken || item.end;
		return place(item.waker, item.waker_at !== undefined
			? {at: item.waker_at, end: item.waker_end === undefined ? item.waker_at : item.waker_end, count: 1, call: item.waker_call}
			: {at: when, end: when, count: 1, call: "when it ended the wait"});
	}

	function go(to) {
		Ptah.timeline.select(to);
		Ptah.timeline.reveal(to, false);
	}

	return {
		KINDS: KINDS, CALL: CALL, colourOf: colourOf, title: title, drawStrips: drawStrips, drawArrows: drawArrows,
		at: at, describe: describe, follow: follow, show: show, place: place, wakerPlace: wakerPlace, go: go,
		chain: function () { return {of: chainOf, links: chain}; }
	};
})();
