// SPDX-License-Identifier: MIT
// The difference of two recordings: functions, the flame graph coloured by change, and lines of source.
"use strict";
var Ptah = Ptah || {};

(function () {
	const el = Ptah.el, format = Ptah.format;
	const view = {id: "diff", title: "Difference"};
	let parts = null, asker = null, grid = null, chart = null, answer = null, asked = "";

	const WHAT = [["functions", "Functions"], ["flame", "Flame graph"], ["lines", "Lines"]];
	const what = function () {
		const w = Ptah.state.params.diff;
		return WHAT.some(function (k) { return k[0] === w; }) ? w : "functions";
	};
	const VALUES = [["instructions", "Instructions"], ["time", "Time"], ["cycles", "Cycles"]];
	const value = function () {
		const v = Ptah.state.params.value;
		return v === "time" && Ptah.info.axes.includes("time") ? v
		       : v === "cycles" && Ptah.info.has_cycles ? v : "instructions";
	};
	const side = function () { return Ptah.state.params.side === "old" ? "old" : "new"; };
	const direction = function () { return Ptah.state.params.direction === "up" ? "up" : "down"; };
	const figure = function (n) { return value() === "time" ? format.length("time", n) : format.count(n); };
	const exact = function (n) { return format.length(value(), n, true); };

	function keep(name, chosen, usual) {
		Ptah.state.params[name] = chosen === usual ? null : chosen;
		Ptah.keepAddress();
	}

	// ---- Tables of functions and of lines ----

	function changeColumns(before, after, title, most) {
		const change = function (i) { return after[i] - before[i]; };
		return [{
			id: "change", title: "Difference", width: "11em", number: true,
			hint: title + ": how many more (orange) or fewer (blue) in the new recording",
			value: function (i) { return Math.abs(change(i)); },
			fill: function (cell, i) {
				const c = change(i), dark = Ptah.isDark();
				Ptah.fillBar(cell, Ptah.signed(c, figure), most ? Math.abs(c) / most : 0,
					     Ptah.changeColour(c > 0 ? 0.75 : -0.75, dark));
				cell.title = Ptah.signed(c, exact);
			}
		}, {
			id: "percent", title: "Change", width: "6.5em", number: true,
			hint: "By how much it changed",
			value: function (i) {
				return before[i] ? (after[i] - before[i]) / before[i] : after[i] ? Infinity : 0;
			},
			text: function (i) { return Ptah.changeText(before[i], after[i]); }
		}, {
			id: "old", title: "Old", width: "9em", number: true,
			value: function (i) { return before[i]; }, text: function (i) { return figure(before[i]); }
		}, {
			id: "new", title: "New", width: "9em", number: true,
			value: function (i) { return after[i]; }, text: function (i) { return figure(after[i]); }
		}];
	}

	function largest(before, after) {
		let most = 0;
		before.forEach(function (b, i) { most = Math.max(most, Math.abs(after[i] - b)); });
		return most;
	}

	const count = function (name) {
		return {
			id: name, title: name.replace("_", ", "), width: "9em", number: true, style: "dim",
			value: function (i) { return answer[name][i]; },
			text: function (i) { return format.count(answer[name][i]); }
		};
	};

	function functionColumns() {
		const measure = Ptah.state.params.inclusive ? "incl_" : "self_";
		const before = answer[measure + value() + "_old"], after = answer[measure + value() + "_new"];
		return [{
			id: "name", title: "Function", width: "minmax(14em, 3fr)", style: "name",
			value: function (i) { return answer.name[i]; },
			text: function (i) { return Ptah.text(answer.name[i]); }
		}, {
			id: "object", title: "Object", width: "minmax(7em, 1fr)", style: "name dim",
			value: function (i) { return answer.object[i] || ""; },
			text: function (i) { return Ptah.text(answer.object[i] || ""); }
		}].concat(changeColumns(before, after, measure === "self_" ? "In the function itself"
			: "In the function and what it called", largest(before, after)),
			[count("calls_old"), count("calls_new")]);
	}

	function lineColumns() {
		const before = answer.old, after = answer.new;
		return [{
			id: "name", title: "Line", width: "minmax(14em, 3fr)", style: "name",
			value: function (i) { return answer.name[i]; },
			text: function (i) { return Ptah.text(answer.name[i] || "[no line]"); }
		}, {
			id: "object", title: "Object", width: "minmax(7em, 1fr)", style: "name dim",
			value: function (i) { return answer.object[i] || ""; },
			text: function (i) { return Ptah.text(answer.object[i] || ""); }
		}].concat(changeColumns(before, after, "Instructions", largest(before, after)),
			[count("executed_old"), count("executed_new")]);
	}

	function showTable(lines) {
		parts.box.hidden = false;
		grid = Ptah.grid(parts.box, {
			label: lines ? "Lines of source that changed" : "Functions that changed",
			columns: lines ? lineColumns() : functionColumns(), sorted: "change",
			open: function (i) {
				if (lines && answer.file[i])
					Ptah.open("source", {function: null}, {file: answer.file[i], line: answer.line[i]});
				else if (!lines && answer.function[i] >= 0)
					Ptah.open("source", {function: answer.function[i]}, {file: null, line: null});
				else
					Ptah.note("It is not in the new recording.");
			},
			arranged: function (shown, all) {
				parts.count.textContent = (shown === all ? "" : format.count(shown) + " of ") +
					format.count(all) + (lines ? " lines" : " functions");
			}
		});
		view.grid = grid;
		grid.setRows(answer.name.length, function (i) {
			return (answer.name[i] || "") + " " + (answer.object[i] || "");
		});
	}

	// ---- Flame graph ----

	function nodeName(i) {
		return answer.name && answer.key ? Ptah.text(answer.name[answer.key[i]] || "[no name]") : "";
	}
	const nodeObject = function (i) { return Ptah.text(answer.object[answer.key[i]] || ""); };

	// How much darker a change makes a node: 1 is a twentieth of everything, or a doubling of half.
	function weight(i) {
		const c = answer.incl_new[i] - answer.incl_old[i];
		const whole = Math.max(answer.total_old, answer.total_new);
		if (!c || !whole)
			return 0;
		const relative = Math.abs(c) / Math.max(answer.incl_new[i], answer.incl_old[i]);
		return Math.sign(c) * Math.min(1, 0.15 + 0.85 * Math.sqrt(relative));
	}

	function nodeLines(i) {
		const a = answer.incl_old[i], b = answer.incl_new[i];
		return [["old", exact(a) + " (" + format.share(a, answer.total_old) + ")"],
			["new", exact(b) + " (" + format.share(b, answer.total_new) + ")"],
			["difference", Ptah.signed(b - a, exact)], ["change", Ptah.changeText(a, b)],
			["self, difference", Ptah.signed(answer.self_new[i] - answer.self_old[i], exact)],
			["calls", format.count(answer.count_old[i]) + " \u2192 " + format.count(answer.count_new[i])]];
	}

	function showChosen(i) {
		const e = Ptah.clear(parts.chosen);
		if (i < 0) {
			e.append(el("span", {class: "dim"}, "Widths are of the " + side() +
				" recording; "), legend());
			return;
		}
		const a = answer.incl_old[i], b = answer.incl_new[i];
		e.append(el("b", {}, nodeName(i)), " ", el("span", {class: "dim"}, nodeObject(i)), " ",
			 exact(a), " \u2192 ", exact(b), " (", Ptah.changeText(a, b), ")");
	}

	function legend() {
		const e = el("span", {class: "legend"}, el("span", {}, "less "));
		[-1, -0.5, 0, 0.5, 1].forEach(function (c) {
			const s = el("span", {class: "swatch"});
			s.style.background = Ptah.changeColour(c, Ptah.isDark());
			e.append(s);
		});
		e.append(" more");
		return e;
	}

	function showFlame() {
		parts.box.hidden = false;
		chart = Ptah.flameChart(parts.box, {
			label: "Flame graph of the difference: arrows move between functions, Enter zooms",
			name: nodeName, object: nodeObject, lines: nodeLines, chosen: showChosen,
			colour: function (i) { return Ptah.changeColour(weight(i), Ptah.isDark()); },
			ink: function (i) {
				return Ptah.isDark() ? "#ffffff" : Math.abs(weight(i)) > 0.75 ? "#ffffff" : "#10161f";
			}
		});
		view.chart = chart;
		chart.setData({parent: answer.parent, self: answer["self_" + side()],
			       incl: answer["incl_" + side()]});
		showChosen(-1);
	}

	// ---- The view ----

	function showHead() {
		const e = Ptah.clear(parts.head), d = answer.total_new - answer.total_old;
		const one = function (title, file, n) {
			return el("div", {class: "tile"}, el("div", {class: "tile-title"}, title),
				  el("div", {class: "tile-number"}, format.length(answer.value || value(), n, true)),
				  el("div", {class: "dim path", title: Ptah.text(file, 2000)}, Ptah.text(file, 200)));
		};
		e.append(one("Old", answer.old_file || Ptah.info.old_file, answer.total_old),
			 one("New", answer.new_file || Ptah.info.file, answer.total_new));
		const change = el("div", {class: "tile"}, el("div", {class: "tile-title"}, "Difference"),
			el("div", {class: "tile-number"}, Ptah.changeText(answer.total_old, answer.total_new)),
			el("div", {class: "dim"}, Ptah.signed(d, exact)));
		e.append(change);
		(answer.renamed || []).forEach(function (pair) {
			e.append(el("div", {class: "dim"}, "compared: " + Ptah.text(pair.old) + " with " +
				    Ptah.text(pair.new)));
		});
	}

	function query() {
		if (what() === "lines")
			return {};
		return what() === "flame" ? {direction: direction(), value: value()} : {value: value()};
	}

	function close() {
		if (grid)
			grid.close();
		if (chart)
			chart.close();
		grid = chart = view.grid = view.chart = null;
		Ptah.clear(parts.box);
		Ptah.clear(parts.chosen);
		parts.count.textContent = "";
	}

	function load() {
		parts.flameTools.hidden = what() !== "flame";
		parts.inclusive.element.hidden = what() !== "functions";
		parts.value.element.hidden = what() === "lines";
		const words = JSON.stringify([what(), query()]);
		if (words === asked && answer) {
			draw();
			return;
		}
		asked = words;
		asker.ask("diff/" + what(), query()).then(function (a) {
			answer = a;
			parts.nothing.hidden = true;
			showHead();
			draw();
		}).catch(function (error) {
			if (error.name === "AbortError")
				return;
			asked = "";
			close();
			parts.box.hidden = true;
			parts.nothing.hidden = false;
			Ptah.message(parts.nothing, "The difference cannot be shown", Ptah.text(error.message, 1000));
		});
	}

	function draw() {
		close();
		if (what() === "flame")
			showFlame();
		else
			showTable(what() === "lines");
		parts.search.dispatchEvent(new Event("input"));
	}

	view.show = function (element) {
		parts = {head: el("div", {class: "tiles"}), box: el("div", {class: "grid-box"}),
			 chosen: el("div", {class: "chosen"}), nothing: el("div", {hidden: true}),
			 count: el("span", {class: "dim", role: "status"})};
		parts.what = Ptah.choice("What is compared", WHAT, what(), function (w) {
			keep("diff", w, "functions");
			load();
		});
		parts.value = Ptah.choice("Value", VALUES.filter(function (v) {
			return v[0] === "instructions" || (v[0] === "time" ? Ptah.info.axes.includes("time")
								    : Ptah.info.has_cycles);
		}), value(), function (v) {
			keep("value", v, "instructions");
			load();
		});
		parts.inclusive = Ptah.choice("Figures", [["self", "Self"], ["inclusive", "Inclusive"]],
			Ptah.state.params.inclusive ? "inclusive" : "self", function (f) {
				keep("inclusive", f === "inclusive" ? "1" : null, null);
				load();
			});
		parts.direction = Ptah.choice("Direction", [["down", "By caller"], ["up", "By callee"]],
			direction(), function (d) {
				keep("direction", d, "down");
				load();
			});
		parts.side = Ptah.choice("Widths", [["new", "Widths: new"], ["old", "Widths: old"]], side(),
			function (s) {
				keep("side", s, "new");
				load();
			});
		parts.flameTools = el("span", {class: "choices"}, parts.direction.element, parts.side.element);
		parts.search = Ptah.searchBox("Search", "Search ( / )", function (match) {
			if (grid)
				grid.filter(match);
			else if (chart) {
				const r = chart.search(match);
				parts.count.textContent = match ? r.count + " found" : "";
			}
		});
		element.append(el("div", {class: "page"}, parts.head,
			el("div", {class: "bar", role: "toolbar", "aria-label": "Difference"}, parts.what.element,
				parts.value.element, parts.inclusive.element, parts.flameTools, parts.search,
				parts.count),
			parts.box, parts.chosen, parts.nothing));
		asker = Ptah.asker(parts.box);
		answer = null;
		asked = "";
		load();
	};
	view.update = function () {
		parts.what.set(what());
		parts.value.set(value());
		parts.direction.set(direction());
		parts.side.set(side());
		if (JSON.stringify([what(), query()]) !== asked)
			load();
		if (grid)
			grid.refresh();
		if (chart) {
			chart.draw();
			showChosen(chart.focused());
		}
	};
	view.hide = function () {
		asker.stop();
		close();
	};
	view.keydown = function (event) {
		if (event.key === "/") {
			parts.search.focus();
			parts.search.select();
			return true;
		}
		return chart ? chart.keydown(event) : !!grid && Ptah.isForView(event) && grid.keydown(event);
	};
	view.available = function (info) { return !!info.diff; };
	Ptah.views.push(view);
	Ptah.help.push({view: "diff", keys: "/", text: "search"},
		       {view: "diff", keys: "\u2191 \u2193", text: "select"},
		       {view: "diff", keys: "Enter", text: "the source of the new recording"});
})();
