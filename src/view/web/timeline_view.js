// SPDX-License-Identifier: MIT
// The timeline as a view of the page: its elements, the pointer, the wheel, touch and the keys.
"use strict";

(function () {
	const el = Ptah.el, line = Ptah.timeline, my = line.my, search = Ptah.timelineSearch;
	let dom = null, drag = null;
	const touches = new Map();

	// ---- Elements ----

	function toolbar() {
		const axis = function (id, text) {
			return el("button", {type: "button", "aria-pressed": Ptah.state.axis === id, dataset: {axis: id},
				title: "The axis is " + text.toLowerCase() + " (x)",
				disabled: !Ptah.info.axes.includes(id), onclick: function () { setAxis(id); }}, text);
		};
		return el("div", {class: "tl-bar", role: "toolbar", "aria-label": "Timeline"},
			el("span", {class: "tl-group", role: "group", "aria-label": "Axis"}, axis("time", "Time"), axis("instructions", "Instructions")),
			el("span", {class: "tl-group", role: "group", "aria-label": "Zoom"},
				el("button", {type: "button", class: "icon", "aria-label": "Zoom out", title: "Zoom out (s)",
					onclick: function () { line.zoom(2, line.width() / 2); }}, "\u2212"),
				el("button", {type: "button", class: "icon", "aria-label": "Zoom in", title: "Zoom in (w)",
					onclick: function () { line.zoom(0.5, line.width() / 2); }}, "+"),
				el("button", {type: "button", title: "The whole run (0)", onclick: line.showAll}, "All")),
			search.make(function () { dom.bars.focus({preventScroll: true}); }),
			el("span", {class: "tl-right"},
				el("label", {class: "dim"}, "colour by ",
					el("select", {id: "tl-colour", onchange: function (event) {
						Ptah.colourBy = event.target.value;
						line.redraw();
					}}, el("option", {value: "function", selected: Ptah.colourBy === "function"}, "function"),
					el("option", {value: "object", selected: Ptah.colourBy === "object"}, "object"))),
				el("button", {type: "button", id: "tl-density", "aria-pressed": my.density === "low", title: "Low rows (c)", onclick: toggleDensity}, "Low rows"),
				el("button", {type: "button", id: "tl-legend-button", "aria-expanded": false, "aria-controls": "tl-legend", title: "What the shapes are (l)", onclick: toggleLegend}, "Legend")));
	}

	function build(root) {
		dom = {root: root};
		dom.top = el("canvas", {class: "tl-top", role: "img", tabindex: "-1",
			"aria-label": "The whole run in small, and the ruler. Drag over the ruler to measure."});
		dom.heads = el("div", {class: "tl-heads", role: "group", "aria-label": "Threads"});
		dom.bars = el("canvas", {class: "tl-bars", tabindex: "0", role: "application",
			"aria-label": "Calls as bars. Arrow keys go from call to call, w and s zoom, a and d move, f zooms to the selected call, question mark lists all keys.",
			"aria-describedby": "tl-live"});
		dom.inner = el("div", {class: "tl-inner"}, dom.heads, dom.bars);
		dom.scroll = el("div", {class: "tl-scroll", tabindex: "-1"}, dom.inner);
		dom.hoverBox = el("div", {class: "tl-box", hidden: true});
		dom.selectedBox = el("div", {class: "tl-box tl-selected", hidden: true});
		dom.cursor = el("div", {class: "tl-cursor", hidden: true});
		dom.measureText = el("span", {class: "tl-measure-text"});
		dom.measure = el("div", {class: "tl-measure", hidden: true}, dom.measureText);
		dom.over = el("div", {class: "tl-over", "aria-hidden": "true"}, dom.measure, dom.cursor, dom.hoverBox, dom.selectedBox);
		dom.tip = el("div", {class: "tl-tip", "aria-hidden": "true", hidden: true});
		dom.state = el("div", {class: "tl-state", hidden: true});
		dom.live = el("div", {id: "tl-live", class: "tl-hidden", "aria-live": "polite"});
		dom.legend = el("div", {id: "tl-legend", class: "tl-legend", hidden: true, role: "region", "aria-label": "Legend"});
		dom.area = el("div", {class: "tl-area"}, el("div", {class: "tl-corner"}), dom.top, dom.scroll, dom.over, dom.tip, dom.state, dom.legend, dom.live);
		dom.panel = el("aside", {class: "tl-panel", "aria-label": "Selected call", hidden: true});
		root.append(el("div", {class: "tl"}, toolbar(), el("div", {class: "tl-main"}, dom.area, dom.panel)));
		line.attach(dom);
		Ptah.timelineDetails.attach(dom.panel);
		listen();
	}

	function setAxis(id) {
		if (id === Ptah.state.axis || !Ptah.info.axes.includes(id))
			return;
		my.selected = my.hover = my.measure = null;
		Ptah.select({axis: id});
	}

	function toggleDensity() {
		my.density = my.density === "tall" ? "low" : "tall";
		document.getElementById("tl-density").setAttribute("aria-pressed", my.density === "low");
		line.layout();
		line.redraw();
	}

	// The legend is drawn by the functions that draw the timeline.
	function toggleLegend() {
		dom.legend.hidden = !dom.legend.hidden;
		document.getElementById("tl-legend-button").setAttribute("aria-expanded", !dom.legend.hidden);
		drawLegend();
	}

	function legendItem(text, paint) {
		const canvas = el("canvas", {width: 44 * 2, height: 18 * 2, "aria-hidden": "true"});
		const c = canvas.getContext("2d");
		c.scale(2, 2);
		paint(c);
		return el("li", {}, canvas, el("span", {}, text));
	}

	function drawLegend() {
		Ptah.clear(dom.legend);
		if (dom.legend.hidden)
			return;
		const colours = line.theme(), shade = Ptah.palette;
		const box = function (c, x, y, w, h, colour, alpha) {
			c.globalAlpha = alpha || 1;
			c.fillStyle = colour;
			c.fillRect(x, y, w, h);
			c.globalAlpha = 1;
		};
		const list = el("ul", {},
			legendItem("a call; its colour is that of its " + Ptah.colourBy, function (c) { box(c, 2, 2, 40, 14, shade[0]); }),
			legendItem("several calls, too short to be drawn one by one: pale, and not as high", function (c) {
				box(c, 2, 4, 12, 10, shade[2], 0.58); box(c, 15, 4, 10, 10, shade[10], 0.58); box(c, 26, 4, 16, 10, shade[4], 0.58);
			}),
			legendItem("a signal handler, an interrupt or a system call: underlined", function (c) {
				box(c, 2, 2, 40, 14, shade[6]); box(c, 2, 13, 40, 3, line.eventColour("signal", colours));
			}),
			legendItem("trace was lost within the call: underlined", function (c) {
				box(c, 2, 2, 40, 14, shade[8]); box(c, 2, 13, 40, 3, colours.error);
			}),
			legendItem("a call of the function that is searched, and its mark above", function (c) {
				box(c, 2, 7, 40, 9, shade[0]); box(c, 2, 1, 2, 5, colours.accent);
			}));
		Ptah.timelineWaits.KINDS.forEach(function (kind) {
			list.append(legendItem("waits for " + kind.name, function (c) {
				box(c, 2, 4, 40, 10, kind.colour);
				if (kind.causes[0] === "processor")
					line.hatch(c, 2, 4, 40, 10, colours.text, 0);
			}));
		});
		list.append(legendItem("a system call in which it did not wait", function (c) { box(c, 2, 4, 40, 10, Ptah.timelineWaits.CALL, 0.55); }),
			legendItem("from the thread that ended a wait to the one that waited; of the selected call thick", function (c) {
				box(c, 8, 2, 2, 14, colours.text, 0.6);
				box(c, 5, 12, 8, 4, colours.text, 0.6);
			}));
		Object.keys(line.EVENTS).forEach(function (kind) {
			list.append(legendItem(line.EVENTS[kind].name, function (c) {
				const colour = line.eventColour(kind, colours);
				if (line.EVENTS[kind].area)
					line.hatch(c, 2, 2, 40, 14, colour, kind === "gap" ? 0.06 : 0.16);
				line.drawSign(c, kind, 22, 9, colour);
			}));
		});
		dom.legend.append(el("h2", {}, "Legend"), list);
	}

	// ---- Pointer ----

	function pointOf(event) {
		const box = dom.bars.getBoundingClientRect();
		return {x: event.clientX - box.left, y: event.clientY - box.top,
			inside: event.clientX >= box.left};
	}

	// Values near an edge of a call snap to it, so that what is measured is exact.
	function snapped(point) {
		const at = line.toValue(point.x), near = point.y >= 0 ? line.hit(point.x, point.y) : null;
		if (near) {
			if (Math.abs(line.toX(near.begin) - point.x) <= 6)
				return near.begin;
			if (Math.abs(line.toX(near.end) - point.x) <= 6)
				return near.end;
		}
		return Math.max(0, Math.min(line.length(), Math.round(at)));
	}

	function onDown(event) {
		if (event.button > 1)
			return;
		const point = pointOf(event), top = event.target === dom.top;
		event.target.setPointerCapture(event.pointerId);
		touches.set(event.pointerId, point);
		dom.bars.focus({preventScroll: true});
		dom.tip.hidden = true;
		if (touches.size === 2) {
			startPinch();
			return;
		}
		const overview = top && event.clientY - dom.top.getBoundingClientRect().top < line.metric.OVERVIEW;
		drag = {x: point.x, y: point.y, moved: false, from: my.from, to: my.to, scroll: dom.scroll.scrollTop,
			kind: overview ? "overview" : top || event.shiftKey ? "measure" : "pan"};
		if (drag.kind === "measure") {
			drag.at = snapped(point);
			const row = top ? null : line.rowAt(point.y + dom.scroll.scrollTop);
			drag.thread = row && !row.cpu ? row.number : null;
		} else if (overview) {
			moveOverview(point);
		}
	}

	function moveOverview(point) {
		const middle = point.x / line.width() * line.length(), half = (my.to - my.from) / 2;
		if (my.whole)
			return;
		line.setRange(middle - half, middle + half);
	}

	function startPinch() {
		const p = Array.from(touches.values());
		drag = {kind: "pinch", from: my.from, to: my.to, a: line.toValue(p[0].x), b: line.toValue(p[1].x), moved: true};
	}

	function movePinch() {
		const p = Array.from(touches.values());
		if (p.length < 2 || Math.abs(p[0].x - p[1].x) < 8)
			return;
		// Both values stay under their fingers.
		const perPixel = (drag.b - drag.a) / (p[1].x - p[0].x);
		if (perPixel <= 0)
			return;
		line.setRange(drag.a - p[0].x * perPixel, drag.a + (line.width() - p[0].x) * perPixel);
	}

	function onMove(event) {
		const point = pointOf(event);
		if (touches.has(event.pointerId))
			touches.set(event.pointerId, point);
		my.pointer = point;
		if (!drag) {
			hover(event.target === dom.bars ? point : null);
			return;
		}
		if (drag.kind === "pinch") {
			movePinch();
			return;
		}
		if (Math.abs(point.x - drag.x) + Math.abs(point.y - drag.y) > 3)
			drag.moved = true;
		if (!drag.moved)
			return;
		if (drag.kind === "pan") {
			const move = (drag.x - point.x) / line.width() * (drag.to - drag.from);
			dom.bars.classList.add("dragged");
			dom.scroll.scrollTop = drag.scroll + drag.y - point.y;
			line.setRange(drag.from + move, drag.to + move);
		} else if (drag.kind === "overview") {
			moveOverview(point);
		} else {
			const at = snapped(point);
			my.measure = [Math.min(at, drag.at), Math.max(at, drag.at)];
			line.drawOver();
		}
	}

	function onUp(event) {
		touches.delete(event.pointerId);
		dom.bars.classList.remove("dragged");
		const was = drag;
		drag = null;
		if (!was || was.kind === "pinch")
			return;
		if (was.kind === "measure" && was.moved && my.measure && my.measure[0] < my.measure[1]) {
			const m = my.measure;
			my.measure = null;
			Ptah.select({from: m[0], to: m[1], thread: was.thread});
		} else if (!was.moved && was.kind === "pan" && event.type === "pointerup") {
			const point = pointOf(event);
			const found = line.hit(point.x, point.y);
			// A turn on a CPU leads to the thread.
			if (found && found.cpu !== undefined)
				line.showThread(found.function);
			else
				line.select(found);
		} else if (!was.moved && was.kind === "measure" && Ptah.state.from !== null) {
			Ptah.select({from: null, to: null, thread: null});
		}
		my.measure = null;
		line.drawOver();
	}

	function hover(point) {
		my.keyed = false;
		my.hover = point && line.hit(point.x, point.y);
		dom.bars.classList.toggle("over", Boolean(my.hover));
		line.showTip(my.hover, point);
		line.drawOver();
	}

	function onLeave() {
		my.pointer = my.hover = null;
		dom.tip.hidden = true;
		line.drawOver();
	}

	// As in Perfetto: with Ctrl (or a pinch of the touchpad) the wheel zooms, with Shift it moves,
	// else it scrolls. Where there is nothing to scroll, and over the ruler, it zooms.
	function onWheel(event) {
		const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
		const dx = event.deltaX * unit, dy = event.deltaY * unit, point = pointOf(event);
		const scrolls = dom.scroll.scrollHeight > dom.scroll.clientHeight + 1 && event.target !== dom.top;
		if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
			line.pan((Math.abs(dx) > Math.abs(dy) ? dx : dy) / line.width());
		} else if (event.ctrlKey || event.metaKey || !scrolls) {
			line.zoom(Math.exp(Math.max(-300, Math.min(300, dy)) * (event.ctrlKey && Math.abs(dy) < 30 ? 0.01 : 0.002)), Math.max(0, point.x));
		} else {
			return;
		}
		dom.tip.hidden = true;
		event.preventDefault();
	}

	function listen() {
		[dom.bars, dom.top].forEach(function (e) {
			e.addEventListener("pointerdown", onDown);
			e.addEventListener("pointermove", onMove);
			e.addEventListener("pointerup", onUp);
			e.addEventListener("pointercancel", onUp);
			e.addEventListener("pointerleave", onLeave);
			e.addEventListener("wheel", onWheel, {passive: false});
		});
		dom.bars.addEventListener("dblclick", function (event) {
			const point = pointOf(event), s = line.hit(point.x, point.y);
			if (s)
				line.reveal(s, true);
		});
		dom.scroll.addEventListener("scroll", function () {
			my.hover = null;
			dom.tip.hidden = true;
			line.redraw();
		});
		dom.observer = new ResizeObserver(function () {
			line.layout();
			line.redraw();
		});
		dom.observer.observe(dom.area);
	}

	// ---- Keys: those of Perfetto ----

	// w a s d act at once, and go on smoothly while they are held.
	const held = new Map();
	let ticking = false;

	function glide(before) {
		requestAnimationFrame(function (now) {
			const span = Math.min(50, now - before);
			ticking = held.size > 0 && my.shown;
			if (!ticking)
				return;
			held.forEach(function (since, key) {
				if (now - since < 180)
					return;
				if (key === "w" || key === "s")
					line.zoom(Math.exp((key === "w" ? -1 : 1) * span * 0.004));
				else
					line.pan((key === "a" ? -1 : 1) * span * 0.0012);
			});
			glide(now);
		});
	}

	function press(key, event) {
		if (event.repeat)
			return;
		if (key === "w" || key === "s")
			line.zoom(key === "w" ? 1 / 1.5 : 1.5);
		else
			line.pan(key === "a" ? -0.12 : 0.12);
		held.set(key, performance.now());
		if (!ticking) {
			ticking = true;
			glide(performance.now());
		}
	}
	addEventListener("keyup", function (event) { held.delete(event.key.toLowerCase()); });
	addEventListener("blur", function () { held.clear(); });

	function arrow(key) {
		const next = line.neighbour(key);
		if (!next)
			return;
		line.select(next, {keys: true});
		line.reveal(next, false);
	}

	const KEYS = {
		f: function () {
			if (my.selected)
				line.reveal(my.selected, true);
			else if (Ptah.state.from !== null)
				line.setRange(Ptah.state.from, Ptah.state.to);
		},
		m: function () {
			const s = my.selected;
			if (s && s.end > s.begin)
				Ptah.select({from: s.begin, to: s.end, thread: s.thread});
		},
		e: Ptah.timelineDetails.followWait,
		"/": function () { search.focus(); },
		n: function () { search.next(1).catch(Ptah.fail); },
		N: function () { search.next(-1).catch(Ptah.fail); },
		0: function () { line.showAll(); },
		x: function () { setAxis(Ptah.state.axis === "time" ? "instructions" : "time"); },
		c: toggleDensity,
		l: toggleLegend,
		Home: function () { line.setRange(0, my.to - my.from); },
		End: function () { line.setRange(line.length() - (my.to - my.from), line.length()); },
		PageDown: function () { dom.scroll.scrollTop += dom.scroll.clientHeight * 0.8; },
		PageUp: function () { dom.scroll.scrollTop -= dom.scroll.clientHeight * 0.8; }
	};

	function escape() {
		if (!dom.legend.hidden)
			toggleLegend();
		else if (my.selected)
			line.select(null);
		else if (Ptah.state.from !== null || Ptah.state.thread !== null)
			Ptah.select({from: null, to: null, thread: null});
		else if (Ptah.state.function !== null)
			search.choose(null);
		else
			return false;
		return true;
	}

	function keydown(event) {
		const key = event.key, onButton = event.target instanceof HTMLButtonElement;
		if (/^[wasdWASD]$/.test(key)) {
			press(key.toLowerCase(), event);
			return true;
		}
		if (key === "Escape")
			return escape();
		if (onButton && (key.startsWith("Arrow") || key === "Enter" || key === " "))
			return false;
		if (key.startsWith("Arrow")) {
			arrow(key);
			return true;
		}
		if (key === "Enter" && my.selected && !my.selected.event) {
			if (my.selected.calls > 1)
				line.reveal(my.selected, true);
			else
				Ptah.timelineDetails.openSource(my.selected.function);
			return true;
		}
		if (Object.prototype.hasOwnProperty.call(KEYS, key)) {
			KEYS[key]();
			return true;
		}
		return false;
	}

	[["w s", "zoom in and out, at the pointer"], ["a d", "move left and right"], ["f", "zoom to the selected call"],
	 ["m", "select the part of the run that the call covers: measured, and shown by all views"],
	 ["\u2190 \u2192", "the call before or after, at the same depth"], ["\u2191 \u2193", "the caller; the first call that it makes"],
	 ["e", "the longest wait of the selected call; from a wait to the thread that ended it"],
	 ["Enter", "the source of the selected call"], ["/", "search a function; all its calls are marked"],
	 ["n N", "the next or previous call of it"], ["0", "the whole run"], ["x", "time or instructions"],
	 ["c", "low rows"], ["l", "legend"], ["Home End", "the beginning, the end of the run"],
	 ["Ctrl+wheel", "zoom; with Shift: move"], ["drag", "move; over the ruler or with Shift: measure, and select"]
	].forEach(function (h) { Ptah.help.push({keys: h[0], text: h[1], view: "timeline"}); });

	// ---- The view ----

	let axisShown = null;
	function apply(state) {
		if (axisShown !== state.axis) {
			axisShown = state.axis;
			my.selected = my.hover = null;
			Ptah.timelineDetails.show(null);
			dom.root.querySelectorAll("[data-axis]").forEach(function (b) {
				b.setAttribute("aria-pressed", b.dataset.axis === state.axis);
			});
			if (state.zoom)
				line.setRange(state.zoom[0], state.zoom[1], true);
			else
				line.showAll();
		} else if (state.zoom && (state.zoom[0] !== Math.max(0, my.from) || state.zoom[1] !== my.to)) {
			line.setRange(state.zoom[0], state.zoom[1], true);
		}
		search.update();
		line.layout();
		line.redraw();
	}

	Ptah.views.push({
		id: "timeline", title: "Timeline",
		show: function (element, state) {
			my.shown = true;
			build(element);
			axisShown = null;
			const selected = my.selected;
			line.layout();
			if (selected && my.selectedAxis === state.axis) {
				apply(state);
				line.select(selected);
			} else {
				apply(state);
			}
			dom.scroll.scrollTop = my.scrolled || 0;
		},
		update: function (state) {
			line.forgetTheme();
			apply(state);
			drawLegend();
		},
		hide: function () {
			my.shown = false;
			my.scrolled = dom.scroll.scrollTop;
			my.selectedAxis = Ptah.state.axis;
			held.clear();
			dom.observer.disconnect();
			Ptah.timelineDetails.attach(null);
		},
		keydown: keydown
	});

	Ptah.tiles.onchange(function () { line.redraw(); });
	Ptah.on("functions", function () {
		if (!my.shown)
			return;
		search.update();
		line.redraw();
		if (my.selected)
			line.select(my.selected, {keys: my.keyed});
	});
	Ptah.on("info", function () {
		Ptah.tiles.refresh();
		if (!my.shown)
			return;
		const whole = my.whole;
		line.layout();
		if (whole)
			line.showAll();
		line.redraw();
	});
})();
