// SPDX-License-Identifier: MIT
// Flame graphs: where the instructions, cycles or time of the calls went, by caller or by callee. The
// picture (Ptah.flameChart) is also that of the difference of two recordings.
"use strict";
var Ptah = Ptah || {};

// A flame graph in an element: Ptah.flameChart(element, {label, name(node), object(node), colour(node),
// lines(node), chosen(node)}). setData() takes columns: parent (-1: a root), incl, self; parents come
// before their children. lines() are the tooltip's: [[label, text], ...].
Ptah.flameChart = function (element, options) {
	const el = Ptah.el;
	const canvas = el("canvas", {class: "flame-canvas"});
	const spacer = el("div", {class: "flame-spacer"});
	const tip = el("div", {class: "tip", role: "tooltip", hidden: true});
	const speaker = el("div", {class: "unseen", "aria-live": "polite"});
	const root = el("div", {
		class: "flame", tabindex: "0", role: "application", "aria-label": options.label,
		"aria-roledescription": "flame graph"
	}, el("div", {class: "flame-stay"}, canvas), spacer);
	element.append(root, tip, speaker);
	const context = canvas.getContext("2d");

	let data = null, x0 = null, width = null, depth = null, first = null, next = null, last = null;
	let levels = [], total = 0, row = 20, up = false;
	let low = 0, high = 1; // the part of the width in view, of 0..total
	let focus = -1, zoomed = -1, hover = -1, found = null, pending = 0, moving = null;
	let font = "12px sans-serif", widths = new Float32Array(128);

	// ---- Layout ----

	function setData(columns) {
		const n = columns.parent.length;
		data = columns;
		x0 = new Float64Array(n);
		width = new Float64Array(n);
		depth = new Int32Array(n);
		first = new Int32Array(n).fill(-1);
		next = new Int32Array(n).fill(-1);
		last = new Int32Array(n).fill(-1);
		const used = new Float64Array(n);
		levels = [];
		total = 0;
		for (let i = 0; i < n; i++) {
			const p = columns.parent[i];
			width[i] = columns.incl[i];
			if (p < 0) {
				x0[i] = total;
				total += width[i];
			} else {
				x0[i] = x0[p] + used[p];
				used[p] += width[i];
				depth[i] = depth[p] + 1;
				if (last[p] < 0)
					first[p] = i;
				else
					next[last[p]] = i;
				last[p] = i;
			}
			(levels[depth[i]] = levels[depth[i]] || []).push(i);
		}
		levels.forEach(function (level) {
			level.sort(function (a, b) { return x0[a] - x0[b]; });
		});
		levels = levels.map(function (level) { return Int32Array.from(level); });
		low = 0;
		high = total || 1;
		focus = zoomed = hover = -1;
		found = null;
		moving = null;
		place();
		root.scrollTop = up ? root.scrollHeight : 0;
		draw();
	}

	function place() {
		spacer.style.height = Math.max(levels.length * row + 4, 1) + "px";
	}

	function size() {
		const style = getComputedStyle(root), scale = devicePixelRatio || 1;
		const px = parseFloat(style.fontSize) * 0.93;
		row = Math.round(px * 1.6);
		font = px + "px " + style.fontFamily;
		canvas.width = Math.max(1, Math.round(root.clientWidth * scale));
		canvas.height = Math.max(1, Math.round(root.clientHeight * scale));
		canvas.style.width = root.clientWidth + "px";
		canvas.style.height = root.clientHeight + "px";
		context.font = font;
		for (let c = 32; c < 127; c++)
			widths[c] = context.measureText(String.fromCharCode(c)).width;
		place();
		draw();
	}

	// The part of a text that fits.
	function fit(text, room) {
		let used = 0, n = 0;
		const dots = 3 * widths[46];
		let good = 0;
		for (; n < text.length; n++) {
			const c = text.charCodeAt(n);
			used += c < 127 && widths[c] ? widths[c] : widths[77];
			if (used <= room - dots)
				good = n + 1;
			if (used > room)
				return good >= 2 ? text.slice(0, good) + "\u2026" : "";
		}
		return text;
	}

	// The longest form of a name that fits, or what fits of the shortest.
	function label(name, room) {
		const forms = Ptah.nameForms(name);
		const whole = forms.find(function (form) { return fit(form, room) === form; });
		return whole || fit(forms[forms.length - 1], room);
	}

	// ---- Drawing ----

	const yOf = function (d) {
		return (up ? spacer.offsetHeight - 2 - (d + 1) * row : 2 + d * row) - root.scrollTop;
	};

	// The first of a level whose end is right of x.
	function firstAt(level, x) {
		let a = 0, b = level.length;
		while (a < b) {
			const m = (a + b) >> 1;
			if (x0[level[m]] + width[level[m]] <= x)
				a = m + 1;
			else
				b = m;
		}
		return a;
	}

	function draw() {
		if (!pending)
			pending = requestAnimationFrame(paint);
	}

	function paint(now) {
		pending = 0;
		if (moving)
			move(now);
		const scale = devicePixelRatio || 1;
		const w = canvas.width / scale, h = canvas.height / scale;
		context.setTransform(scale, 0, 0, scale, 0, 0);
		context.clearRect(0, 0, w, h);
		if (!data || !levels.length)
			return;
		context.font = font;
		context.textBaseline = "middle";
		const perPixel = (high - low) / w;
		const back = Ptah.themeColour("bg"), line = Ptah.themeColour("line");
		for (let d = 0; d < levels.length; d++) {
			const y = yOf(d);
			if (y + row < 0 || y > h)
				continue;
			const level = levels[d];
			// Nodes narrower than a pixel are one grey bar with their neighbours.
			let thinFrom = -1, thinTo = -1;
			for (let k = firstAt(level, low); k < level.length; k++) {
				const i = level[k];
				if (x0[i] >= high)
					break;
				const a = Math.max(0, (x0[i] - low) / perPixel);
				const b = Math.min(w, (x0[i] + width[i] - low) / perPixel);
				if (b - a < 1.2) {
					if (thinFrom >= 0 && a - thinTo > 0.8) {
						thin(thinFrom, thinTo, y, line);
						thinFrom = -1;
					}
					if (thinFrom < 0)
						thinFrom = a;
					thinTo = Math.max(b, a + 0.6);
					continue;
				}
				box(i, a, b, y, back);
			}
			if (thinFrom >= 0)
				thin(thinFrom, thinTo, y, line);
		}
		if (moving)
			draw();
	}

	function thin(a, b, y, colour) {
		context.globalAlpha = 1;
		context.fillStyle = colour;
		context.fillRect(a, y, Math.max(b - a, 0.6), row - 1);
	}

	function box(i, a, b, y, back) {
		// What was not found, and the callers of what is zoomed to, are paler.
		const pale = found ? !found[i] : zoomed >= 0 && depth[i] < depth[zoomed];
		context.globalAlpha = pale ? 0.35 : 1;
		context.fillStyle = options.colour(i);
		context.fillRect(a, y, Math.max(b - a - 0.7, 0.5), row - 1);
		context.globalAlpha = 1;
		if (i === hover || i === focus) {
			context.strokeStyle = Ptah.themeColour(i === focus ? "accent" : "text");
			context.lineWidth = i === focus ? 2.5 : 1.5;
			context.strokeRect(a + 1, y + 1, Math.max(b - a - 2.7, 1), row - 3);
		}
		if (b - a < 26)
			return;
		const text = label(options.name(i), b - a - 8);
		if (!text)
			return;
		context.fillStyle = pale ? Ptah.themeColour("dim") : options.ink ? options.ink(i) : "#10161f";
		context.fillText(text, a + 4, y + row / 2);
	}

	// ---- Moving ----

	function view(a, b) {
		const span = Math.max(Math.min(b - a, total), total * 1e-12, 1e-9);
		const from = Math.max(0, Math.min(a, total - span));
		return [from, from + span];
	}

	function go(a, b, at_once) {
		const to = view(a, b);
		if (at_once || matchMedia("(prefers-reduced-motion: reduce)").matches) {
			low = to[0];
			high = to[1];
			moving = null;
		} else {
			moving = {from: [low, high], to: to, start: performance.now()};
		}
		draw();
	}

	function move(now) {
		const t = Math.max(0, Math.min(1, (now - moving.start) / 160));
		const e = 1 - (1 - t) * (1 - t);
		low = moving.from[0] + (moving.to[0] - moving.from[0]) * e;
		high = moving.from[1] + (moving.to[1] - moving.from[1]) * e;
		if (t >= 1) {
			low = moving.to[0];
			high = moving.to[1];
			moving = null;
		}
	}

	function zoom(i) {
		zoomed = i;
		if (i < 0)
			go(0, total);
		else
			go(x0[i], x0[i] + width[i]);
		if (i >= 0)
			bringIntoView(i);
		if (options.zoomed)
			options.zoomed(i);
	}

	function bringIntoView(i) {
		const y = yOf(depth[i]);
		if (y < 0)
			root.scrollTop += y - row;
		else if (y + row > root.clientHeight)
			root.scrollTop += y + 2 * row - root.clientHeight;
	}

	function choose(i, speak) {
		focus = i;
		if (i >= 0) {
			bringIntoView(i);
			const end = x0[i] + width[i];
			if (end <= low || x0[i] >= high)
				go(x0[i] + width[i] / 2 - (high - low) / 2,
				   x0[i] + width[i] / 2 + (high - low) / 2);
			if (speak)
				speaker.textContent = options.name(i) + ", " + options.lines(i)
					.map(function (l) { return l[0] + " " + l[1]; }).join(", ");
		}
		if (options.chosen)
			options.chosen(i);
		draw();
	}

	// ---- Mouse and keys ----

	function nodeAt(event) {
		const r = canvas.getBoundingClientRect();
		const x = event.clientX - r.left, y = event.clientY - r.top + root.scrollTop;
		const d = Math.floor((up ? spacer.offsetHeight - 2 - y : y - 2) / row);
		if (!levels[d] || x < 0 || x > r.width)
			return -1;
		const at = low + x / r.width * (high - low);
		const i = levels[d][firstAt(levels[d], at)];
		return i !== undefined && x0[i] <= at ? i : -1;
	}

	function showTip(event, i) {
		tip.hidden = i < 0;
		if (i < 0)
			return;
		Ptah.clear(tip).append(
			el("div", {class: "tip-name"}, options.name(i)),
			el("div", {class: "dim"}, options.object(i)),
			el("table", {}, options.lines(i).map(function (l) {
				return el("tr", {}, el("th", {scope: "row"}, l[0]), el("td", {}, l[1]));
			})));
		const r = tip.getBoundingClientRect();
		tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - r.width - 8)) + "px";
		tip.style.top = (event.clientY + 18 + r.height > innerHeight
					 ? Math.max(4, event.clientY - r.height - 10)
					 : event.clientY + 18) + "px";
	}

	root.addEventListener("mousemove", function (event) {
		const i = data ? nodeAt(event) : -1;
		showTip(event, i);
		canvas.style.cursor = i >= 0 ? "pointer" : "";
		if (i !== hover) {
			hover = i;
			draw();
		}
	});
	root.addEventListener("mouseleave", function () {
		tip.hidden = true;
		hover = -1;
		draw();
	});
	root.addEventListener("click", function (event) {
		const i = data ? nodeAt(event) : -1;
		choose(i);
		zoom(i >= 0 && i === zoomed ? data.parent[i] : i);
	});
	root.addEventListener("scroll", function () {
		tip.hidden = true;
		draw();
	}, {passive: true});
	root.addEventListener("wheel", function (event) {
		const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
		if (!data || !(event.ctrlKey || event.shiftKey || sideways))
			return;
		const span = high - low;
		if (event.ctrlKey) {
			const r = canvas.getBoundingClientRect();
			const at = low + (event.clientX - r.left) / r.width * span;
			const factor = Math.exp(event.deltaY * 0.003);
			go(at - (at - low) * factor, at + (high - at) * factor, true);
		} else {
			const by = (sideways ? event.deltaX : event.deltaY) / root.clientWidth * span;
			go(low + by, high + by, true);
		}
		event.preventDefault();
	}, {passive: false});

	function sibling(i, step) {
		const level = levels[depth[i]];
		return level[level.indexOf(i) + step];
	}

	const isMine = function (event) {
		return event.target === root || Ptah.isForView(event);
	};

	function keydown(event) {
		if (!data || !levels.length || Ptah.isTyping(event.target))
			return false;
		const span = high - low;
		let to;
		switch (event.key) {
		case "w": case "s": {
			const at = (low + high) / 2, half = span / 2 * (event.key === "w" ? 0.7 : 1 / 0.7);
			go(at - half, at + half);
			return true;
		}
		case "a": go(low - span / 4, high - span / 4); return true;
		case "d": go(low + span / 4, high + span / 4); return true;
		case "0": case "Home": choose(-1); zoom(-1); return true;
		case "Escape":
			if (zoomed < 0 && focus < 0)
				return false;
			zoom(zoomed >= 0 ? data.parent[zoomed] : -1);
			choose(zoomed);
			return true;
		case "Backspace": zoom(zoomed >= 0 ? data.parent[zoomed] : -1); return true;
		case "f": case "Enter":
			if (focus < 0 || (event.key === "Enter" && !isMine(event)))
				return false;
			zoom(focus);
			return true;
		case "ArrowDown": case "ArrowUp":
			if (!isMine(event))
				return false;
			if (focus < 0)
				to = levels[0][0];
			else if ((event.key === "ArrowUp") === up)
				to = biggestChild(focus);
			else
				to = data.parent[focus];
			break;
		case "ArrowLeft": case "ArrowRight":
			if (!isMine(event))
				return false;
			to = focus < 0 ? levels[0][0] : sibling(focus, event.key === "ArrowLeft" ? -1 : 1);
			break;
		default: return false;
		}
		if (to !== undefined && to >= 0)
			choose(to, true);
		return true;
	}

	function biggestChild(i) {
		let best = -1;
		for (let c = first[i]; c >= 0; c = next[c])
			if (best < 0 || width[c] > width[best])
				best = c;
		return best;
	}

	// Marks what is found. Returns how many there are and their share, where what is below another
	// one that is found is not added again.
	function search(match) {
		found = null;
		const result = {count: 0, part: 0};
		if (match && data) {
			found = new Uint8Array(data.parent.length);
			const below = new Uint8Array(data.parent.length);
			for (let i = 0; i < found.length; i++) {
				const p = data.parent[i];
				const inside = p >= 0 && (found[p] || below[p]);
				below[i] = inside ? 1 : 0;
				if (!match(options.name(i)))
					continue;
				found[i] = 1;
				result.count++;
				if (!inside)
					result.part += width[i];
			}
		}
		draw();
		return result;
	}

	const observer = new ResizeObserver(size);
	observer.observe(root);

	return {
		element: root,
		setData: setData,
		search: search,
		keydown: keydown,
		draw: draw,
		reset: function () { zoom(-1); },
		total: function () { return total; },
		zoom: zoom,
		choose: choose,
		focused: function () { return focus; },
		setUp: function (on) {
			up = on;
			place();
			root.scrollTop = up ? root.scrollHeight : 0;
			draw();
		},
		// For tests: where a node is, in pixels of the page.
		place: function (i) {
			const r = canvas.getBoundingClientRect();
			const perPixel = (high - low) / r.width;
			return {x: r.left + (Math.max(low, x0[i]) - low) / perPixel,
				y: r.top + yOf(depth[i]), height: row,
				width: (Math.min(high, x0[i] + width[i]) - Math.max(low, x0[i])) / perPixel};
		},
		data: function () { return data; },
		close: function () {
			observer.disconnect();
			if (pending)
				cancelAnimationFrame(pending);
		}
	};
};

(function () {
	const el = Ptah.el;
	const view = {id: "flame", title: "Flame graph"};
	let chart = null, asker = null, parts = null, answer = null, asked = "", again = 0;

	const VALUES = [["instructions", "Instructions"], ["time", "Time"], ["cycles", "Cycles"]];
	const value = function () {
		const chosen = Ptah.state.params.value;
		return VALUES.some(function (v) { return v[0] === chosen; }) && has(chosen) ? chosen
		       : "instructions";
	};
	const direction = function () { return Ptah.state.params.direction === "up" ? "up" : "down"; };

	function has(what) {
		const info = Ptah.info;
		return what === "instructions" || (what === "cycles" ? !!info.has_cycles
						   : info.axes.includes("time"));
	}

	// Answers of everything are asked for in the same words each time: a file holds them.
	function query() {
		const q = {direction: direction(), value: value()};
		const state = Ptah.state;
		if (state.thread !== null)
			q.thread = state.thread;
		if (state.from !== null) {
			q.axis = state.axis;
			q.from = Math.floor(state.from);
			q.to = Math.ceil(state.to);
		}
		return q;
	}

	function name(i) {
		const special = answer.special && answer.special[i];
		return special ? Ptah.text(special) : Ptah.name(answer.function[i]);
	}

	const figure = function (n) { return Ptah.format.length(value(), n, true); };

	function lines(i) {
		const p = answer.parent[i], rows = [];
		rows.push([direction() === "up" ? "through this path" : "inclusive", figure(answer.incl[i])],
			  ["of all", Ptah.format.share(answer.incl[i], chart.total())]);
		if (p >= 0)
			rows.push([direction() === "up" ? "of the function below" : "of its caller",
				   Ptah.format.share(answer.incl[i], answer.incl[p])]);
		if (answer.self)
			rows.push(["self", figure(answer.self[i]) + " (" +
				   Ptah.format.share(answer.self[i], chart.total()) + ")"]);
		if (answer.count && answer.count[i])
			rows.push(["calls", Ptah.format.count(answer.count[i])]);
		return rows;
	}

	// What the picture leaves out.
	function caveats() {
		const words = [];
		if (answer.complete === false)
			words.push("The recording is still being read.");
		if (value() === "time" && Ptah.info.times !== "measured" && Ptah.info.times_text)
			words.push("Times are " + Ptah.info.times_text + ".");
		if (answer.left_out)
			words.push(Ptah.format.count(answer.left_out) + " paths with less than " +
				   figure(answer.least) + " are left out.");
		if (answer.exact === false)
			words.push("There were too many paths: some are folded.");
		return words.join(" ");
	}

	function scope() {
		const state = Ptah.state, words = [];
		words.push(state.thread === null ? "All threads" : Ptah.threadName(state.thread));
		if (state.from !== null)
			words.push("the selected " + Ptah.format.value(state.axis, state.to - state.from));
		return words.join(", ");
	}

	function showChosen(i) {
		const e = Ptah.clear(parts.chosen);
		if (i < 0) {
			e.append(el("span", {class: "dim"}, parts.found ||
				"Click a function to zoom; arrows move, / searches, ? lists the keys. "),
				 el("span", {class: "warn"}, answer ? caveats() : ""));
			return;
		}
		const f = answer.function[i], real = !(answer.special && answer.special[i]);
		e.append(el("b", {}, name(i)), " ",
			 el("span", {class: "dim"}, real ? Ptah.object(f) : ""), " ",
			 figure(answer.incl[i]), " (", Ptah.format.share(answer.incl[i], chart.total()), ")");
		if (answer.self)
			e.append(", self ", figure(answer.self[i]));
		if (!real)
			return;
		e.append(" ", el("button", {type: "button", class: "link", onclick: function () {
			Ptah.open("source", {function: f}, {file: null, line: null});
		}}, "Source"), " ", el("button", {type: "button", class: "link", onclick: function () {
			Ptah.open("functions", {function: f});
		}}, "In the table"), " ", el("button", {
			type: "button", class: "link", title: "Marks its calls in the timeline",
			onclick: function () { Ptah.open("timeline", {function: f}); }
		}, "In the timeline"));
	}

	function load() {
		const q = query(), words = JSON.stringify(q);
		clearTimeout(again);
		parts.scope.textContent = scope();
		if (words === asked && answer) {
			chart.draw();
			return;
		}
		asked = words;
		Promise.all([asker.ask("flame", q), Ptah.functions()]).then(function (all) {
			answer = all[0];
			if (answer.complete === false)
				again = setTimeout(function () {
					asked = "";
					if (chart)
						load();
				}, 1500);
			parts.nothing.hidden = true;
			chart.element.hidden = false;
			if (!answer.parent.length || !answer.incl.some(function (n) { return n > 0; })) {
				chart.element.hidden = true;
				parts.nothing.hidden = false;
				if (answer.complete === false)
					Ptah.message(parts.nothing, "The recording is being read \u2026",
						     "The flame graph appears as soon as all calls are known.");
				else
					Ptah.message(parts.nothing, "No calls ran here",
						     "Choose another thread, or another part of the timeline.");
			}
			chart.setData(answer);
			parts.found = "";
			parts.search.dispatchEvent(new Event("input"));
			showChosen(-1);
		}).catch(function (error) {
			if (error.name === "AbortError")
				return;
			asked = "";
			chart.element.hidden = true;
			parts.nothing.hidden = false;
			Ptah.message(parts.nothing, "There is no flame graph of this",
				     Ptah.text(error.message, 1000));
		});
	}

	function threadChoice() {
		const select = el("select", {
			"aria-label": "Thread", onchange: function () {
				Ptah.select({thread: select.value === "" ? null : Number(select.value)});
			}
		}, el("option", {value: ""}, "All threads"), Ptah.info.threads.map(function (t) {
			return el("option", {value: String(t.number)}, Ptah.threadName(t.number));
		}));
		return select;
	}

	view.show = function (element) {
		parts = {found: ""};
		parts.direction = Ptah.choice("Direction", [
			["down", "By caller", "What each function called, from the outermost on"],
			["up", "By callee", "Each function, and who called it"]
		], direction(), function (d) {
			Ptah.state.params.direction = d === "up" ? "up" : null;
			Ptah.keepAddress();
			load();
		});
		parts.value = Ptah.choice("Value", VALUES.filter(function (v) { return has(v[0]); }), value(),
			function (v) {
				Ptah.state.params.value = v === "instructions" ? null : v;
				Ptah.keepAddress();
				load();
			});
		parts.way = Ptah.choice("Growth", [
			["icicle", "Down", "The outermost functions on top"],
			["flame", "Up", "The outermost functions below: flames"]
		], Ptah.state.params.grow === "up" ? "flame" : "icicle", function (w) {
			Ptah.state.params.grow = w === "flame" ? "up" : null;
			Ptah.keepAddress();
			chart.setUp(w === "flame");
		});
		parts.search = Ptah.searchBox("Search functions", "Search ( / )", function (match, text) {
			const r = chart.search(match);
			parts.found = !match ? "" : r.count + " found, " +
				Ptah.format.share(r.part, chart.total()) + " of all is in them";
			if (text || chart.focused() < 0)
				showChosen(chart.focused());
			parts.matches.textContent = parts.found;
		});
		parts.matches = el("span", {class: "dim", role: "status"});
		parts.thread = threadChoice();
		parts.scope = el("span", {class: "dim scope"});
		parts.chosen = el("div", {class: "chosen"});
		parts.nothing = el("div", {class: "nothing-box", hidden: true});
		const box = el("div", {class: "flame-box"});
		element.append(el("div", {class: "page"},
			el("div", {class: "bar", role: "toolbar", "aria-label": "Flame graph"},
				parts.direction.element, parts.value.element, parts.way.element, parts.thread,
				el("button", {type: "button", title: "Everything (0)",
					      onclick: function () { chart.reset(); }}, "Reset"),
				parts.search, parts.matches, parts.scope),
			box, parts.nothing, parts.chosen));
		chart = Ptah.flameChart(box, {
			label: "Flame graph: arrows move between functions, Enter zooms, Escape goes back",
			name: name,
			object: function (i) {
				return answer.special && answer.special[i] ? "" : Ptah.object(answer.function[i]);
			},
			colour: function (i) {
				return answer.special && answer.special[i] ? Ptah.themeColour("line")
									   : Ptah.colour(answer.function[i]);
			},
			lines: lines,
			chosen: showChosen
		});
		view.chart = chart;
		chart.setUp(Ptah.state.params.grow === "up");
		asker = Ptah.asker(box);
		answer = null;
		asked = "";
		view.update();
	};
	view.update = function () {
		parts.thread.value = Ptah.state.thread === null ? "" : String(Ptah.state.thread);
		parts.direction.set(direction());
		parts.value.set(value());
		load();
	};
	view.hide = function () {
		clearTimeout(again);
		asker.stop();
		chart.close();
		chart = null;
	};
	view.keydown = function (event) {
		if (event.key === "/") {
			parts.search.focus();
			parts.search.select();
			return true;
		}
		return chart.keydown(event);
	};
	Ptah.views.push(view);

	Ptah.help.push({view: "flame", keys: "w s", text: "zoom in and out"},
		       {view: "flame", keys: "a d", text: "left and right"},
		       {view: "flame", keys: "\u2190 \u2191 \u2192 \u2193", text: "to the next function"},
		       {view: "flame", keys: "f Enter", text: "zoom to the function"},
		       {view: "flame", keys: "Esc", text: "to its caller"},
		       {view: "flame", keys: "0", text: "everything"},
		       {view: "flame", keys: "/", text: "search"});
	Ptah.on("functions", function () {
		if (chart)
			chart.draw();
	});
})();
