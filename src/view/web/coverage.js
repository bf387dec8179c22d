// SPDX-License-Identifier: MIT
// Coverage: which lines, branches and functions of each source file ran.
"use strict";
var Ptah = Ptah || {};

(function () {
	const el = Ptah.el, format = Ptah.format;
	const view = {id: "coverage", title: "Coverage"};
	let grid = null, parts = null, answer = null, asker = null;

	const KINDS = [["lines", "Lines"], ["branches", "Branches"], ["functions", "Functions"]];
	const found = function (kind, i) { return answer[kind + "_found"][i] || 0; };
	const hit = function (kind, i) { return answer[kind + "_hit"][i] || 0; };

	// Rounded so that only all is 100% and only nothing 0%.
	view.percent = function (part, whole) {
		if (!whole)
			return "\u2013";
		const p = 100 * part / whole;
		if (part === whole || part === 0)
			return p.toFixed(0) + "%";
		return Math.min(99.9, Math.max(0.1, p)).toFixed(1) + "%";
	};

	function meter(part, whole, label) {
		const e = el("span", {class: "meter", role: "img", "aria-label": label},
			     el("span", {class: "meter-hit"}));
		e.firstElementChild.style.width = whole ? 100 * part / whole + "%" : "0";
		e.classList.toggle("none", !whole);
		return e;
	}

	function percentColumn(kind, title) {
		return {
			id: kind, title: title, width: "minmax(9em, 1fr)", number: true,
			hint: title + " that ran, of all that have code",
			value: function (i) { return found(kind, i) ? hit(kind, i) / found(kind, i) : null; },
			fill: function (cell, i) {
				const h = hit(kind, i), f = found(kind, i);
				let m = cell.querySelector(".meter");
				if (!m) {
					m = meter(0, 1, "");
					cell.append(el("span", {class: "meter-text"}), m);
				}
				cell.firstElementChild.textContent = view.percent(h, f);
				m.firstElementChild.style.width = f ? 100 * h / f + "%" : "0";
				m.classList.toggle("none", !f);
				cell.title = f ? format.count(h) + " of " + format.count(f) : "none";
			}
		};
	}

	function countColumn(kind, title, hint) {
		return {
			id: kind + "_count", title: title, hint: hint, width: "8em", number: true, style: "dim",
			value: function (i) { return found(kind, i) - hit(kind, i); },
			text: function (i) { return format.count(found(kind, i) - hit(kind, i)); }
		};
	}

	const columns = [{
		id: "file", title: "File", width: "minmax(16em, 3fr)", style: "name",
		value: function (i) { return answer.file[i]; },
		fill: function (cell, i) { Ptah.fillPath(cell, answer.file[i]); }
	}, percentColumn("lines", "Lines"),
	countColumn("lines", "not run", "Lines with code that did not run"),
	percentColumn("branches", "Branches"),
	countColumn("branches", "not taken", "Directions of branches that were never taken"),
	percentColumn("functions", "Functions")];

	// The sums follow the search: of "src/" those of that folder.
	function showSums() {
		const e = Ptah.clear(parts.sums), rows = grid.shown();
		KINDS.forEach(function (k) {
			let f = 0, h = 0;
			rows.forEach(function (i) {
				f += found(k[0], i);
				h += hit(k[0], i);
			});
			e.append(el("div", {class: "tile", dataset: {kind: k[0]}},
				el("div", {class: "tile-title"}, k[1]),
				el("div", {class: "tile-number"}, view.percent(h, f)),
				meter(h, f, k[1] + ": " + view.percent(h, f)),
				el("div", {class: "dim"}, format.count(h) + " of " + format.count(f))));
		});
	}

	// Libraries with debug information bring thousands of files of which nothing ran.
	const wantsAll = function () { return Ptah.state.params.files === "all"; };
	let match = null;
	function choose() {
		if (!grid.shown().length)
			grid.setRows(answer.file.length, function (i) { return answer.file[i]; });
		grid.filter(function (name, i) {
			return (wantsAll() || hit("lines", i) > 0) && (!match || match(name));
		});
	}

	function open(i) {
		Ptah.open("source", {function: null}, {file: answer.file[i], look: "coverage"});
	}

	view.show = function (element) {
		parts = {sums: el("div", {class: "tiles"}), count: el("span", {class: "dim", role: "status"}),
			 nothing: el("div", {hidden: true})};
		parts.search = Ptah.searchBox("Search files", "Search files ( / )", function (m) {
			match = m;
			if (answer)
				choose();
		});
		parts.files = Ptah.choice("Files", [
			["ran", "Files that ran", "Files of which a line ran"],
			["all", "All files", "All source files of the programs and libraries that ran"]
		], wantsAll() ? "all" : "ran", function (f) {
			Ptah.state.params.files = f === "all" ? "all" : null;
			Ptah.keepAddress();
			if (answer)
				choose();
		});
		const box = el("div", {class: "grid-box"});
		element.append(el("div", {class: "page"}, parts.sums,
			el("div", {class: "bar", role: "toolbar", "aria-label": "Coverage"}, parts.search,
				parts.files.element, parts.count), box, parts.nothing));
		asker = Ptah.asker(box);
		grid = Ptah.grid(box, {
			label: "Source files and how much of them ran", columns: columns, sorted: "file",
			open: open, select: function () {},
			arranged: function (shown, all) {
				if (!answer)
					return;
				parts.count.textContent = format.count(shown) + (shown === all ? " files"
					: " of " + format.count(all) + " files");
				showSums();
			}
		});
		view.grid = grid;
		answer = match = null;
		asker.ask("coverage", {}).then(function (columns) {
			answer = columns;
			box.hidden = !answer.file.length;
			parts.nothing.hidden = !box.hidden;
			if (box.hidden) {
				Ptah.message(parts.nothing, "No source lines are known",
					     "Coverage needs debug information: compile with -g.");
				return;
			}
			choose();
			grid.sort("file", false);
		}).catch(function (error) {
			if (error.name === "AbortError")
				return;
			box.hidden = true;
			parts.nothing.hidden = false;
			Ptah.message(parts.nothing, "There is no coverage to show", Ptah.text(error.message, 1000));
		});
	};
	view.update = function () {
		grid.refresh();
	};
	view.hide = function () {
		asker.stop();
		grid.close();
	};
	view.keydown = function (event) {
		if (event.key === "o" && grid.selected() >= 0) {
			open(grid.selected());
			return true;
		}
		if (event.key !== "/")
			return Ptah.isForView(event) && grid.keydown(event);
		parts.search.focus();
		parts.search.select();
		return true;
	};
	view.available = function () { return Ptah.data.has("coverage"); };
	Ptah.views.push(view);
	Ptah.help.push({view: "coverage", keys: "\u2191 \u2193", text: "select a file"},
		       {view: "coverage", keys: "Enter", text: "its lines"},
		       {view: "coverage", keys: "/", text: "search: the sums are of what was found"});
})();
