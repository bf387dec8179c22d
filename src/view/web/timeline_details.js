// SPDX-License-Identifier: MIT
// The panel beside the timeline: the numbers of the selected call, its callers, its source, and what
// can be done with it.
"use strict";

Ptah.timelineDetails = (function () {
	const el = Ptah.el, F = Ptah.format;
	let panel = null, request = null;

	function row(name, value, hint) {
		return [el("dt", {title: hint}, name), el("dd", {title: hint}, value)];
	}

	function place(site) {
		return site && site.file ? Ptah.text(site.file, 300) + (site.line ? ":" + site.line : "") : null;
	}

	// "src/very/long/path/file.c:12" -> "file.c:12"
	function shortPlace(site) {
		const text = place(site);
		return text && text.slice(text.lastIndexOf("/") + 1);
	}

	function openSource(fn, site) {
		const params = site && site.line ? {line: String(site.line), file: site.file || null}
						: {line: null, file: null};
		Ptah.open("source", {function: fn}, params);
	}

	function close() {
		Ptah.timeline.select(null);
	}

	const BEGUN = {
		call: "called", tail: "a tail call: entered by a jump", signal: "entered by a signal",
		interrupt: "entered by an interrupt or exception", syscall: "entered by a system call",
		resumed: "resumed: its stack continues", running: "running when the trace began, or after a loss"
	};
	const ENDED = {
		"return": "returned", tail: "left by a jump, which has ended", unwound: "unwound: longjmp, an exception or sigreturn",
		suspended: "suspended: another stack runs", lost: "lost: it ended where trace is missing",
		exec: "the process executed another program", trace: "open at the end of the trace"
	};

	function heading(title, colour) {
		const swatch = el("span", {class: "tl-swatch"});
		swatch.style.background = colour;
		return el("header", {class: "tl-panel-head"}, swatch, el("h2", {}, title),
			  el("button", {type: "button", class: "icon", "aria-label": "Close", title: "Close (Esc)", onclick: close}, "\u00d7"));
	}

	function actions(place, list) {
		return el("div", {class: "tl-actions"}, list.filter(Boolean).map(function (a) {
			return el("button", {type: "button", title: a.title, onclick: a.run}, a.text);
		}));
	}

	function callActions(s) {
		const source = Ptah.views.some(function (v) { return v.id === "source"; });
		const flame = Ptah.views.some(function (v) { return v.id === "flame"; });
		return actions(s, [
			{text: "Zoom to it", title: "f", run: function () { Ptah.timeline.reveal(s, true); }},
			s.calls === 1 && {text: "Mark every call", title: "Search this function",
				run: function () { Ptah.timelineSearch.choose(s.function, false); }},
			source && {text: "Source", title: "Enter", run: function () { openSource(s.function); }},
			flame && {text: "Flame graph of it", title: "The flame graph of this part of this thread",
				run: function () {
					Ptah.open("flame", {thread: s.thread, from: s.begin, to: s.end});
				}}
		]);
	}

	// A table of the call's figures: all of it, and without what it called.
	function figures(call) {
		const names = [["time", "time"], ["off_time", "not running"], ["instructions", "instructions"], ["cycles", "cycles"]];
		const rows = names.filter(function (n) {
			return call.total && call.total[n[0]] !== undefined && call.total[n[0]] !== null &&
			       !(n[0] === "off_time" && !call.total.off_time) && !(n[0] === "cycles" && !call.total.cycles);
		});
		// No time stamp lies within the call: how long it took is not known, and not 0.
		const timeless = call.total && call.total.time === 0;
		const format = function (kind, n) {
			return kind.endsWith("time") && timeless ? "\u2013" : kind === "time" ? F.length("time", n, true) : kind.endsWith("time") ? F.time(n, true) : F.count(n);
		};
		const table = el("table", {class: "tl-figures"},
			el("thead", {}, el("tr", {}, el("th", {}), el("th", {scope: "col"}, "total"), el("th", {scope: "col"}, "self"))),
			el("tbody", {}, rows.map(function (n) {
				const self = call.self ? call.self[n[0]] : undefined;
				return el("tr", {}, el("th", {scope: "row"}, n[1]),
					  el("td", {class: "number", dataset: {figure: n[0]}}, format(n[0], call.total[n[0]])),
					  el("td", {class: "number"}, self === undefined ? "\u2013" : format(n[0], self)));
			})));
		const t = call.total || {};
		if (t.cycles > 0)
			table.tBodies[0].append(el("tr", {}, el("th", {scope: "row"}, "per cycle"),
				el("td", {class: "number"}, (t.instructions / t.cycles).toFixed(2)),
				el("td", {class: "number"}, call.self && call.self.cycles ? (call.self.instructions / call.self.cycles).toFixed(2) : "\u2013")));
		return table;
	}

	function callers(call, s) {
		if (!call.callers || !call.callers.length)
			return el("p", {class: "dim"}, "It is the outermost call that is known.");
		const list = el("ol", {class: "tl-callers"});
		call.callers.slice(0, 200).forEach(function (c) {
			const at = shortPlace(c.site);
			list.append(el("li", {},
				el("button", {type: "button", class: "link", title: Ptah.name(c.function).slice(0, 400),
					onclick: function () {
						if (c.begin === undefined)
							return;
						const to = {thread: s.thread, depth: c.depth, begin: c.begin,
							    end: c.end === undefined ? s.end : c.end, function: c.function, calls: 1, flags: 0};
						Ptah.timeline.select(to);
						Ptah.timeline.reveal(to, false);
					}}, Ptah.name(c.function).slice(0, 120)),
				at ? el("span", {class: "dim tl-at"}, " calls at " + at) : null));
		});
		const more = (call.callers_left_out || 0) + Math.max(0, call.callers.length - 200);
		if (more)
			list.append(el("li", {class: "dim"}, F.count(more) + " more callers"));
		return list;
	}

	// What all calls of the function come to.
	function whole(id) {
		const t = Ptah.table;
		if (!t || !t.count || t.count[id] === undefined || t.count[id] === null)
			return null;
		const median = t.time_p50 && t.time_p50[id], slow = t.time_p99 && t.time_p99[id];
		return el("section", {}, el("h3", {}, "All its calls"), el("dl", {},
			row("calls", F.count(t.count[id])),
			t.incl_instructions ? row("instructions", F.count(t.incl_instructions[id]), "with what it called") : null,
			t.self_instructions ? row("self", F.count(t.self_instructions[id]), "without what it called") : null,
			median > 0 ? row("median", F.time(median)) : null,
			slow > 0 ? row("99th percentile", F.time(slow)) : null));
	}

	function showCall(s, call) {
		const axis = Ptah.state.axis, flags = call.flags || [];
		const sites = place(call.site), own = place(call);
		const time = call.begin && call.begin.time !== undefined;
		Ptah.append(panel, [
			figures(call),
			call.total && call.total.time === 0 ? el("p", {class: "dim"}, "The trace has no time stamp within this call: how long it took is not known.") : null,
			Ptah.info.coarse && call.total && call.total.time > 0 ? el("p", {class: "dim"}, "Times between stamps are estimates: the call may have taken more time, or less.") : null,
			call.error > 0 && time ? el("p", {class: "dim"}, "Times are known to \u00b1 " + F.time(call.error) + ".") : null,
			call.reduced ? el("p", {class: "dim"}, "This file has no more figures of single calls; ptah view without -o has.") : null,
			el("dl", {},
				time ? row("begins at", F.time(call.begin.time, true)) : null,
				call.begin && call.begin.instructions !== undefined ? row("instruction", F.count(call.begin.instructions)) : null,
				call.begun ? row("begun", BEGUN[call.begun] || call.begun) : null,
				call.ended ? row("ended", ENDED[call.ended] || call.ended) : null,
				row("depth", String(s.depth)),
				row("thread", Ptah.threadName(s.thread)),
				flags.length ? row("but", el("span", {class: "error"}, flags.map(function (f) { return Ptah.text(f); }).join(", "))) : null,
				own ? row("source", el("button", {type: "button", class: "link", title: own,
					onclick: function () { openSource(call.function, call); }}, shortPlace(call))) : null,
				sites ? row("called at", el("button", {type: "button", class: "link", title: sites,
					onclick: function () {
						openSource(call.callers && call.callers.length ? call.callers[0].function : call.function, call.site);
					}}, shortPlace(call.site))) : null),
			el("section", {class: "tl-waits", hidden: true}, el("h3", {}, "Waited")),
			el("section", {}, el("h3", {}, "Callers"), callers(call, s)),
			whole(call.function)
		]);
	}

	// ---- Waits ----

	const waits = Ptah.timelineWaits;

	function link(text, title, run) {
		return el("button", {type: "button", class: "link", title: title, onclick: run}, text);
	}

	function wakerLink(item) {
		return item.waker >= 0 ? link("\u2192 " + Ptah.threadName(item.waker), "The thread that ended the wait (e)",
			function () { waits.go(waits.wakerPlace(item)); }) : null;
	}

	function showWait(s) {
		const item = s.item, one = item.count === 1, woken = item.woken || 0;
		Ptah.append(panel, [heading(item.kind ? waits.title(item) : one ? "system call" : waits.title(item), waits.colourOf(item)),
			one && item.call ? el("p", {class: "tl-call"}, Ptah.text(item.call, 600)) : null,
			el("dl", {},
				row("at", F.time(s.begin, true)),
				row("length", F.time(s.end - s.begin, true)),
				row("thread", Ptah.threadName(s.thread)),
				one && item.in ? row("in", Ptah.text(item.in, 300)) : null,
				one && item.by ? row("ended", Ptah.text(item.by, 400)) : null,
				one && item.waker >= 0 ? row("by", wakerLink(item)) : null,
				one && item.waker_call ? row("in its call", Ptah.text(item.waker_call, 300)) : null,
				one && item.holder ? row("held by", item.holder + (item.holder_in ? " in " + Ptah.text(item.holder_in, 300) : ""), "who had it when the wait began") : null,
				woken > s.begin && woken < s.end ? [row("until then", F.time(woken - s.begin, true)),
					row("then", F.time(s.end - woken, true), "until a processor was free and it ran again")] : null),
			actions(s, [{text: "Zoom to it", title: "f", run: function () { Ptah.timeline.reveal(s, true); }}])]);
	}

	// What a call waited for, what those who ended that waited for, and so on.
	function showChain(s, list) {
		const section = panel.querySelector(".tl-waits");
		const items = list.filter(function (c) { return c.depth === 0; });
		const sum = items.reduce(function (n, c) { return n + Math.min(s.end, c.item.end) - Math.max(s.begin, c.item.at); }, 0);
		section.append(el("p", {}, F.time(sum, true) + " of " + F.length("time", s.end - s.begin, true)));
		const ol = el("ol", {class: "tl-callers"});
		list.forEach(function (c) {
			const li = el("li", {}, link(waits.title(c.item), "Select it", function () { waits.go(waits.place(c.thread, c.item)); }),
				      " " + F.time(c.item.end - c.item.at, true) + ", " + (c.depth ? "of " + Ptah.threadName(c.thread) + ", " : "") +
				      (c.item.count === 1 ? Ptah.text(c.item.by, 300) : ""), " ", wakerLink(c.item));
			li.style.marginLeft = 1.2 * c.depth + "em";
			ol.append(li);
		});
		section.append(ol);
		section.hidden = false;
	}

	async function addWaits(s, call, mine) {
		const from = call.begin && call.begin.time, to = call.end && call.end.time;
		if (from === undefined || to === undefined || !Ptah.data.has("waits"))
			return;
		const list = await waits.follow(s.thread, from, to, mine.signal);
		if (mine.signal.aborted || !panel || !list.length)
			return;
		waits.show(list, s);
		showChain({begin: from, end: to}, list);
	}

	// From a call to its longest wait, and from a wait to the thread that ended it.
	function followWait() {
		const s = Ptah.timeline.my.selected, links = waits.chain().links;
		if (s && s.item && s.item.waker >= 0)
			waits.go(waits.wakerPlace(s.item));
		else if (s && !s.event && links.length)
			waits.go(waits.place(links[0].thread, links[0].item));
	}

	function showEvent(s) {
		const axis = Ptah.state.axis;
		Ptah.append(panel, [heading(Ptah.timeline.EVENTS[s.kind] ? Ptah.timeline.EVENTS[s.kind].name : s.kind,
					    Ptah.timeline.eventColour(s.kind, Ptah.timeline.theme())),
			el("dl", {},
				row("at", F.value(axis, s.begin, true)),
				s.end > s.begin ? row("length", F.length(axis, s.end - s.begin, true)) : null,
				s.count > 1 ? row("events", F.count(s.count) + " close together") : null,
				row("thread", Ptah.threadName(s.thread))),
			s.text ? el("p", {class: "tl-name-full"}, Ptah.text(s.text, 2000)) : null,
			actions(s, [{text: "Zoom to it", title: "f", run: function () { Ptah.timeline.reveal(s, true); }}])]);
	}

	async function show(s) {
		if (request)
			request.abort();
		request = null;
		if (!panel)
			return;
		Ptah.clear(panel);
		const was = panel.hidden;
		panel.hidden = !s;
		if (was !== panel.hidden)
			Ptah.timeline.redraw();
		if (!s)
			return;
		if (s.event) {
			(s.item ? showWait : showEvent)(s);
			return;
		}
		Ptah.append(panel, [heading(s.calls > 1 ? F.count(s.calls) + " calls" : Ptah.name(s.function), Ptah.colour(s.function)),
			s.calls > 1 && s.end === s.begin && Ptah.state.axis === "time" ? el("p", {},
				"The times in the trace do not tell these calls apart: all begin and end between the same two. " +
				"With instructions as the axis ( x ) each can be seen. One of them is ", el("b", {}, Ptah.name(s.function)), ".")
			: s.calls > 1 ? el("p", {}, "They are too short to be drawn one by one here. Most of the " +
				(Ptah.state.axis === "time" ? "time" : "instructions") + " is in ",
				el("b", {}, Ptah.name(s.function)), ".")
				: el("p", {class: "dim tl-object"}, Ptah.object(s.function)),
			callActions(s)]);
		if (s.calls > 1) {
			Ptah.append(panel, el("dl", {}, row("from", F.value(Ptah.state.axis, s.begin, true)),
				row("length", F.length(Ptah.state.axis, s.end - s.begin, true)), row("depth", String(s.depth))));
			return;
		}
		const mine = request = new AbortController();
		try {
			const call = await Ptah.data.get("call", {thread: s.thread, axis: Ptah.state.axis, at: s.begin, depth: s.depth,
								  function: s.ask ? s.function : undefined}, {signal: mine.signal});
			if (mine.signal.aborted)
				return;
			Ptah.timeline.my.details = call;
			showCall(s, call);
			await addWaits(s, call, mine);
		} catch (error) {
			if (error.name !== "AbortError" && !mine.signal.aborted)
				Ptah.append(panel, el("p", {class: "error"}, Ptah.text(error.message, 500)));
		}
	}

	return {
		show: show, openSource: openSource, followWait: followWait,
		attach: function (element) { panel = element; }
	};
})();
