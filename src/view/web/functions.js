// SPDX-License-Identifier: MIT
// The table of functions: calls, what ran in them, and how their calls are spread from the shortest to
// the longest. Below it the histogram of the function that is selected.
"use strict";
var Ptah = Ptah || {};

(function () {
	const el = Ptah.el, format = Ptah.format;
	const view = {id: "functions", title: "Functions"};
	let grid = null, parts = null, table = null, asker = null, sums = {};

	const UNITS = [["instructions", "Instructions"], ["time", "Time"], ["cycles", "Cycles"]];
	const QUANTILES = ["min", "p50", "p90", "p99", "p999", "max"];
	const WORDS = {min: "shortest", p50: "median", p90: "90%", p99: "99%", p999: "99.9%", max: "longest"};

	function unit() {
		const u = Ptah.state.params.value;
		return UNITS.some(function (v) { return v[0] === u; }) && has(u) ? u : "instructions";
	}
	function has(u) {
		return u === "instructions" || (u === "cycles" ? !!Ptah.info.has_cycles
						: Ptah.info.axes.includes("time"));
	}
	const figure = function (n, exact) {
		return n === null || n === undefined ? "\u2013"
		       : unit() === "time" ? format.length("time", n, exact) : format.count(n);
	};
	const column = function (name) { return table[name] || []; };
	const quantile = function (name, i) {
		const list = table[unit() + "_" + name];
		return list && list[i] !== undefined ? list[i] : null;
	};

	function total(name) {
		if (sums[name] === undefined) {
			let sum = 0;
			column(name).forEach(function (n) { sum += n; });
			sums[name] = sum;
		}
		return sums[name];
	}

	// The whole that inclusive figures are a part of: what ran in all functions themselves.
	const whole = function () { return total("self_" + unit()); };

	function figures(id, title, hint, width) {
		const values = column(id);
		return {
			id: id, title: title, hint: hint, width: width || "8.3em", number: true,
			value: function (i) { return values[i] || 0; },
			fill: function (cell, i) {
				Ptah.fillBar(cell, figure(values[i], false), (values[i] || 0) / whole());
				cell.title = figure(values[i], true) + ", " + format.share(values[i], whole());
			}
		};
	}

	function columns() {
		const u = unit(), word = u === "time" ? "time" : u;
		const list = [{
			id: "name", title: "Function", width: "minmax(13em, 3fr)", style: "name",
			value: function (i) { return Ptah.name(i); },
			fill: function (cell, i) {
				let dot = cell.firstElementChild, label = cell.lastElementChild;
				if (!dot) {
					dot = el("span", {class: "swatch", "aria-hidden": "true"});
					label = el("span", {});
					cell.append(dot, label);
				}
				dot.style.background = Ptah.colour(i);
				label.textContent = cell.title = Ptah.name(i);
			}
		}, {
			id: "object", title: "Object", width: "minmax(6em, 1fr)", style: "name dim",
			value: function (i) { return Ptah.object(i); }
		}, {
			id: "count", title: "Calls", width: "6.5em", number: true,
			hint: "Calls that began in the recording",
			value: function (i) { return column("count")[i] || 0; },
			text: function (i) { return format.count(column("count")[i]); }
		}, figures("self_" + u, "Self", "The " + word + " in the function itself"),
		figures("incl_" + u, "Inclusive", "The " + word + " in the function and in what it called")];
		QUANTILES.slice(1).forEach(function (q) {
			list.push({
				id: q, title: WORDS[q], width: "5.8em", number: true,
				hint: q === "max" ? "The longest call" :
					WORDS[q] + " of the calls are not longer (inclusive, right to 1%)",
				value: function (i) { return quantile(q, i); },
				text: function (i) {
					const n = quantile(q, i);
					return unit() === "time" ? figure(n, false) : format.short(n);
				}
			});
		});
		list.push({
			id: "spread", title: "Spread", width: "7.5em", style: "spread",
			hint: "From the shortest to the longest call (logarithmic); the bar ends at the 90% mark",
			fill: fillSpread
		});
		return list;
	}

	// From the shortest to the longest call on a logarithmic scale that all rows share.
	let scale = null;
	function makeScale() {
		let low = Infinity, high = 0;
		const longest = column(unit() + "_max"), shortest = column(unit() + "_min");
		const median = column(unit() + "_p50");
		longest.forEach(function (n, i) {
			if (!n)
				return;
			high = Math.max(high, n);
			low = Math.min(low, Math.max(1, shortest[i] || median[i] || n));
		});
		scale = high > 0 ? {low: Math.log(low), high: Math.log(Math.max(high, low * 2))} : null;
	}
	const position = function (n) {
		return 100 * (Math.log(Math.max(n, 1)) - scale.low) / (scale.high - scale.low);
	};

	function fillSpread(cell, i) {
		let range = cell.firstElementChild;
		if (!range) {
			range = el("span", {class: "spread-line"});
			cell.append(range, el("span", {class: "spread-box"}), el("span", {class: "spread-mark"}));
		}
		const max = quantile("max", i);
		const shown = scale && max;
		for (const part of cell.children)
			part.hidden = !shown;
		if (!shown) {
			cell.title = "";
			return;
		}
		const p50 = quantile("p50", i), p90 = quantile("p90", i);
		const min = quantile("min", i) || p50;
		const put = function (e, a, b) {
			e.style.left = position(a) + "%";
			e.style.width = Math.max(0, position(b) - position(a)) + "%";
		};
		put(range, min, max);
		put(cell.children[1], min, p90);
		put(cell.children[2], p50, p50);
		cell.title = QUANTILES.map(function (q) {
			return WORDS[q] + " " + figure(quantile(q, i), true);
		}).join("\n");
	}

	// ---- The function that is selected ----

	function showFunction(i) {
		const e = Ptah.clear(parts.detail);
		asker.stop();
		if (i === null || i < 0 || i >= table.name.length) {
			e.append(el("p", {class: "dim"}, "Select a function to see its histogram. ",
				    el("kbd", {}, "/"), " searches, ", el("kbd", {}, "Enter"), " opens its source."));
			return;
		}
		const file = column("file")[i], line = column("line")[i];
		const partial = column("partial")[i];
		const facts = el("dl", {class: "facts"});
		const fact = function (word, text) {
			facts.append(el("dt", {}, word), el("dd", {}, text));
		};
		fact("calls", format.count(column("count")[i]) +
			(partial ? " (" + format.count(partial) + " in part only: not in the histogram)" : ""));
		UNITS.forEach(function (u) {
			const self = column("self_" + u[0])[i], incl = column("incl_" + u[0])[i];
			if (incl === undefined || incl === null || !has(u[0]))
				return;
			const f = function (n) { return u[0] === "time" ? format.length("time", n, true) : format.count(n); };
			fact(u[1].toLowerCase(), f(incl) + " inclusive (" +
				format.share(incl, total("self_" + u[0])) + "), " + f(self) + " self (" +
				format.share(self, total("self_" + u[0])) + ")");
		});
		const picture = el("div", {class: "histogram"});
		e.append(el("div", {class: "detail-side"},
			el("h2", {class: "detail-name"}, el("span", {class: "swatch"}), Ptah.name(i)),
			el("p", {class: "dim"}, [Ptah.object(i), file && Ptah.text(file) + (line ? ":" + line : "")]
				.filter(Boolean).join(" \u00b7 ")),
			facts,
			el("p", {class: "actions"},
				el("button", {type: "button", onclick: function () { openSource(i); }}, "Source"),
				el("button", {type: "button", title: "Marks every call of it", onclick: function () {
					Ptah.open("timeline", {function: i});
				}}, "Calls in the timeline"))),
			picture);
		e.querySelector(".swatch").style.background = Ptah.colour(i);
		showHistogram(picture, i);
	}

	function showHistogram(picture, i) {
		if (!quantile("max", i)) {
			picture.append(el("p", {class: "dim"}, "No call of it is whole in the recording."));
			return;
		}
		asker.ask("histogram", {function: i, value: unit()}).then(function (h) {
			drawHistogram(picture, i, h);
		}).catch(function (error) {
			// A file has the quantiles alone.
			if (error.name !== "AbortError")
				drawQuantiles(picture, i);
		});
	}

	const svg = function (tag, attributes, text) {
		const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
		Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
		if (text !== undefined)
			e.textContent = text;
		return e;
	};

	function legend(i) {
		return el("dl", {class: "facts quantiles"}, QUANTILES.map(function (q) {
			const n = quantile(q, i);
			return n === null ? null : [el("dt", {}, WORDS[q]), el("dd", {class: "number"}, figure(n, true))];
		}));
	}

	function drawQuantiles(picture, i) {
		Ptah.clear(picture).append(legend(i));
	}

	// A column for each bucket; the widths are logarithmic as the buckets are.
	function drawHistogram(picture, i, h) {
		Ptah.clear(picture);
		const n = h.calls.length;
		if (!n) {
			drawQuantiles(picture, i);
			return;
		}
		const W = 720, H = 150, LEFT = 46, BOTTOM = 22, TOP = 8;
		let most = 0, all = 0;
		h.calls.forEach(function (c) {
			most = Math.max(most, c);
			all += c;
		});
		const log = function (v) { return Math.log2(Math.max(v, 0.7)); };
		const low = log(h.low[0]), high = Math.max(log(h.high[n - 1]), low + 1);
		const x = function (v) { return LEFT + (W - LEFT - 8) * (log(v) - low) / (high - low); };
		const y = function (c) { return TOP + (H - TOP - BOTTOM) * (1 - c / most); };
		const picked = svg("svg", {viewBox: "0 0 " + W + " " + H, role: "img", class: "histogram-svg",
			"aria-label": "Histogram of " + unit() + " of " + format.count(all) + " calls, from " +
				figure(h.low[0], true) + " to " + figure(h.high[n - 1], true)});
		[1, 0.5].forEach(function (part) {
			const c = Math.round(most * part);
			if (!c)
				return;
			picked.append(svg("line", {class: "grid-line", x1: LEFT, x2: W - 8, y1: y(c), y2: y(c)}),
				      svg("text", {class: "axis-text", x: LEFT - 5, y: y(c) + 4,
						   "text-anchor": "end"}, format.short(c)));
		});
		for (let k = 0; k < n; k++) {
			if (!h.calls[k])
				continue;
			const a = x(h.low[k]), b = Math.max(x(h.high[k]), a + 1.5);
			const bar = svg("rect", {class: "histogram-bar", x: a, width: Math.max(b - a - 0.8, 1),
						 y: Math.min(y(h.calls[k]), H - BOTTOM - 1.5),
						 height: Math.max(H - BOTTOM - y(h.calls[k]), 1.5)});
			bar.append(svg("title", {}, format.count(h.calls[k]) + " calls (" +
				format.share(h.calls[k], all) + ") of " + figure(h.low[k], true) + " to " +
				figure(h.high[k], true)));
			picked.append(bar);
		}
		picked.append(svg("line", {class: "axis-line", x1: LEFT, x2: W - 8, y1: H - BOTTOM, y2: H - BOTTOM}));
		[[h.low[0], "start"], [h.high[n - 1], "end"]].forEach(function (end) {
			picked.append(svg("text", {class: "axis-text", x: x(end[0]), y: H - 6,
						   "text-anchor": end[1]}, figure(end[0], false)));
		});
		const steps = Math.max(1, Math.ceil((high - low) / 7));
		for (let p = Math.ceil((low + 0.1 * (high - low)) / steps) * steps;
		     p <= high - 0.1 * (high - low); p += steps)
			picked.append(svg("text", {class: "axis-text", x: x(Math.pow(2, p)), y: H - 6,
						   "text-anchor": "middle"}, figure(Math.round(Math.pow(2, p)), false)));
		QUANTILES.slice(1, 5).forEach(function (q) {
			const v = quantile(q, i);
			if (v === null)
				return;
			const line = svg("line", {class: "quantile-line", x1: x(v), x2: x(v), y1: TOP, y2: H - BOTTOM});
			line.append(svg("title", {}, WORDS[q] + " " + figure(v, true)));
			picked.append(line);
		});
		picture.append(picked, legend(i));
	}

	function openSource(i) {
		Ptah.open("source", {function: i}, {file: null, line: null});
	}

	// ---- The view ----

	function fill() {
		sums = {};
		makeScale();
		grid.setColumns(columns());
		grid.setRows(table.name.length, function (i) {
			return String(table.name[i]) + " " + Ptah.object(i);
		});
	}

	view.show = function (element, state) {
		parts = {count: el("span", {class: "dim", role: "status"}), detail: el("section", {
			class: "detail", "aria-label": "The selected function"
		})};
		parts.search = Ptah.searchBox("Search functions", "Search ( / )", function (match) {
			if (table)
				grid.filter(match);
		});
		parts.unit = Ptah.choice("Value", UNITS.filter(function (u) { return has(u[0]); }), unit(),
			function (u) {
				Ptah.state.params.value = u === "instructions" ? null : u;
				Ptah.keepAddress();
				if (!table)
					return;
				fill();
				grid.sort("self_" + u, true);
				showFunction(grid.selected());
			});
		const box = el("div", {class: "grid-box"});
		element.append(el("div", {class: "page"},
			el("div", {class: "bar", role: "toolbar", "aria-label": "Functions"},
				parts.search, parts.unit.element, parts.count),
			box, parts.detail));
		asker = Ptah.asker(parts.detail);
		grid = Ptah.grid(box, {
			label: "Functions", columns: [{id: "name", title: "Function", width: "1fr"}],
			sorted: "self_" + unit(),
			select: function (i) {
				if (Ptah.state.function !== i)
					Ptah.select({function: i});
				else
					showFunction(i);
			},
			open: openSource,
			arranged: function (shown, all) {
				parts.count.textContent = (shown === all ? "" : format.count(shown) + " of ") +
					format.count(all) + " functions" + (table && table.complete === false
						? ": the figures come when all is read"
						: unit() === "time" && Ptah.info.times !== "measured" && Ptah.info.times_text
						? ". Times are " + Ptah.info.times_text : "");
			}
		});
		view.grid = grid;
		table = null;
		Ptah.functions().then(function (columns) {
			if (!grid)
				return;
			table = columns;
			fill();
			grid.sort("self_" + unit(), true);
			if (state.function !== null)
				grid.select(state.function, true);
			showFunction(state.function);
		}).catch(Ptah.fail);
	};
	view.update = function (state) {
		if (!table)
			return;
		grid.refresh();
		if (state.function !== null)
			grid.select(state.function, true);
		showFunction(state.function);
	};
	view.hide = function () {
		asker.stop();
		grid.close();
		grid = table = null;
	};
	view.keydown = function (event) {
		if (event.key !== "/")
			return Ptah.isForView(event) && grid.keydown(event);
		parts.search.focus();
		parts.search.select();
		return true;
	};
	Ptah.on("functions", function (columns) {
		if (!grid || !table || columns === table)
			return;
		table = Ptah.table;
		fill();
	});
	Ptah.views.push(view);
	Ptah.help.push({view: "functions", keys: "\u2191 \u2193", text: "select"},
		       {view: "functions", keys: "Enter", text: "the function's source"},
		       {view: "functions", keys: "/", text: "search: words, or /regular expression/"});
})();
