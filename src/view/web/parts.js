// SPDX-License-Identifier: MIT
// What several views are made of: rows of choices, a box to search in, a table that holds as many rows
// as a recording has functions, and the colours of heat and of change.
"use strict";
var Ptah = Ptah || {};

// ---- Small parts ----

// Buttons of which one is pressed: Ptah.choice("Value", [["time", "Time"], ...], "time", change).
Ptah.choice = function (label, choices, chosen, change) {
	const group = Ptah.el("span", {class: "choice", role: "group", "aria-label": label});
	const set = function (value) {
		group.querySelectorAll("button").forEach(function (b) {
			b.setAttribute("aria-pressed", b.dataset.value === value);
		});
	};
	choices.forEach(function (c) {
		group.append(Ptah.el("button", {
			type: "button", dataset: {value: c[0]}, title: c[2], disabled: c[3],
			onclick: function () {
				set(c[0]);
				change(c[0]);
			}
		}, c[1]));
	});
	set(chosen);
	return {element: group, set: set};
};

// A box to search in. `change` is called a moment after the last key, with a function of a text that
// is true for what was searched: words in any order and case, or /a regular expression/.
Ptah.searchBox = function (label, hint, change) {
	let timer = 0;
	const box = Ptah.el("input", {
		type: "search", "aria-label": label, placeholder: hint, spellcheck: "false",
		autocomplete: "off",
		oninput: function () {
			clearTimeout(timer);
			timer = setTimeout(now, 120);
		},
		onkeydown: function (event) {
			if (event.key === "Enter") {
				clearTimeout(timer);
				now();
			} else if (event.key === "Escape" && box.value) {
				box.value = "";
				now();
				event.stopPropagation();
			}
		}
	});
	const now = function () {
		box.setCustomValidity("");
		try {
			change(Ptah.matcher(box.value), box.value);
		} catch (error) {
			box.setCustomValidity(error.message);
			box.reportValidity();
		}
	};
	return box;
};

// null: everything. Throws where the text is no regular expression.
Ptah.matcher = function (text) {
	const words = text.trim();
	if (!words)
		return null;
	if (words.length > 2 && words.startsWith("/") && words.endsWith("/")) {
		const expression = new RegExp(words.slice(1, -1), "i");
		return function (name) { return expression.test(name); };
	}
	const parts = words.toLowerCase().split(/\s+/);
	return function (name) {
		const low = name.toLowerCase();
		return parts.every(function (p) { return low.includes(p); });
	};
};

// A text for people with a message and, below it, what can be done.
Ptah.message = function (element, title, text) {
	Ptah.clear(element).append(Ptah.el("div", {class: "nothing", role: "note"},
		Ptah.el("p", {class: "nothing-title"}, title), text && Ptah.el("p", {class: "dim"}, text)));
};

// The colours of the theme, for canvases.
Ptah.themeColour = function (name) {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
};

// Waits for an answer; answers of questions that were asked before the last one are dropped. `busy`
// gets the class "busy" while it waits.
Ptah.asker = function (busy) {
	let last = null;
	return {
		ask: function (path, query) {
			if (last)
				last.abort();
			const mine = last = new AbortController();
			busy.classList.add("busy");
			return Ptah.data.get(path, query, {signal: mine.signal}).then(function (answer) {
				if (mine !== last)
					throw new DOMException("another question was asked", "AbortError");
				return answer;
			}).finally(function () {
				if (mine === last)
					busy.classList.remove("busy");
			});
		},
		stop: function () {
			if (last)
				last.abort();
			last = null;
			busy.classList.remove("busy");
		}
	};
};

// ---- Heat and change ----

// How hot a part of a whole is, from 0 to 1: a hundredth of the heat still shows.
Ptah.heat = function (part, whole) {
	return part > 0 && whole > 0 ? Math.max(0.04, Math.sqrt(Math.min(1, part / whole))) : 0;
};

// Orange for more, blue for less: the pair that all kinds of colour blindness leave apart. `change`
// goes from -1 to 1.
Ptah.changeColour = function (change, dark) {
	const neutral = dark ? [74, 82, 94] : [226, 228, 232];
	const end = change > 0 ? (dark ? [230, 97, 1] : [226, 88, 0])
			       : (dark ? [33, 130, 205] : [46, 125, 200]);
	const part = Math.min(1, Math.abs(change));
	return "rgb(" + neutral.map(function (n, i) {
		return Math.round(n + (end[i] - n) * part);
	}).join(",") + ")";
};

Ptah.signed = function (n, format) {
	const text = (format || Ptah.format.count)(Math.abs(n));
	return n > 0 ? "+" + text : n < 0 ? "\u2212" + text : text;
};

// By how much a figure changed: "+8.10%", "new", "gone", "=".
Ptah.changeText = function (before, after) {
	if (before === after)
		return "=";
	if (!before)
		return "new";
	if (!after)
		return "gone";
	const p = 100 * (after - before) / before;
	const text = Math.abs(p) < 0.005 ? "<0.01" : Math.abs(p).toFixed(2);
	return (p > 0 ? "+" : "\u2212") + text + "%";
};

// ---- The table ----

// A table of any number of rows: only those in view are elements of the page.
//
//	Ptah.grid(element, {label, columns, row: function (i) {...}, open: function (i) {...}})
//
// A column is {id, title, hint, width, number, value(i), text(i), fill(cell, i)}: `width` is one of CSS
// grids; value() is what is sorted by; text() what is shown, or fill() writes into the cell. `select` is
// called when a row is selected, `open` at Enter or a double click.
Ptah.grid = function (element, options) {
	const el = Ptah.el;
	const TALLEST = 15e6; // pixels; browsers place nothing below some number of them
	const serial = Ptah.grid.serial = (Ptah.grid.serial || 0) + 1;
	let columns = options.columns, order = [], count = 0, wanted = null, texts = null;
	let sorted = options.sorted || null, descending = true, selected = -1, height = 26, pending = 0;
	let places = new Int32Array(0), roomBefore = 0;
	const rows = [];

	const head = el("div", {class: "grid-head", role: "row"});
	const body = el("div", {class: "grid-body", role: "rowgroup"});
	const root = el("div", {
		class: "grid", role: "grid", tabindex: "0", "aria-label": options.label,
		"aria-readonly": "true"
	}, el("div", {class: "grid-top", role: "rowgroup"}, head), body);
	element.append(root);

	function makeHead() {
		const widths = columns.map(function (c) { return c.width; }).join(" ");
		Ptah.clear(head);
		root.style.setProperty("--columns", widths);
		columns.forEach(function (c, k) {
			head.append(el("div", {
				role: "columnheader", class: c.number ? "number" : "", title: c.hint,
				"aria-colindex": k + 1,
				"aria-sort": c.id !== sorted ? null : descending ? "descending" : "ascending"
			}, c.value ? el("button", {
				type: "button", class: "grid-sort", tabindex: "-1",
				onclick: function () { sortBy(c.id); }
			}, c.title, el("span", {class: "grid-arrow", "aria-hidden": "true"},
				       c.id !== sorted ? "" : descending ? " \u25be" : " \u25b4")) : c.title));
		});
		root.setAttribute("aria-colcount", columns.length);
	}

	function makeRow() {
		const cells = columns.map(function (c, k) {
			return el("div", {role: "gridcell", class: c.number ? "number" : c.style || "",
					  "aria-colindex": k + 1});
		});
		const e = el("div", {class: "grid-row", role: "row"}, cells);
		const row = {element: e, cells: cells, at: -1};
		e.addEventListener("click", function () {
			if (row.at >= 0)
				select(order[row.at]);
		});
		e.addEventListener("dblclick", function () {
			if (row.at >= 0 && options.open)
				options.open(order[row.at]);
		});
		return row;
	}

	const full = function () { return order.length * height; };
	const room = function () { return Math.max(0, root.clientHeight - head.offsetHeight); };

	// Where the first row in view is, in pixels of all rows.
	function top() {
		if (full() <= TALLEST)
			return root.scrollTop;
		const most = TALLEST - room();
		return Math.min(1, root.scrollTop / most) * (full() - room());
	}

	function scrollTo(pixel) {
		const to = Math.max(0, Math.min(full() - room(), pixel));
		root.scrollTop = full() <= TALLEST ? to : to / (full() - room()) * (TALLEST - room());
	}

	function draw() {
		pending = 0;
		const start = top(), first = Math.floor(start / height);
		const n = Math.min(order.length - first, Math.ceil(room() / height) + 1);
		while (rows.length < n) {
			rows.push(makeRow());
			body.append(rows[rows.length - 1].element);
		}
		for (let k = 0; k < rows.length; k++) {
			// The same element keeps its row while it stays in view.
			const at = n <= 0 ? -1 : first + ((k - first) % rows.length + rows.length) % rows.length;
			const row = rows[k];
			const shown = at >= 0 && at < first + n && at < order.length;
			row.element.hidden = !shown;
			if (!shown) {
				row.at = -1;
				continue;
			}
			row.element.style.transform =
				"translateY(" + (root.scrollTop + at * height - start) + "px)";
			if (row.at === at)
				continue;
			row.at = at;
			fillRow(row);
		}
		mark();
	}

	function fillRow(row) {
		const i = order[row.at];
		row.element.setAttribute("aria-rowindex", row.at + 2);
		row.element.id = "grid-" + serial + "-" + row.at;
		columns.forEach(function (c, k) {
			const cell = row.cells[k];
			if (c.fill) {
				c.fill(cell, i);
				return;
			}
			const text = c.text ? c.text(i) : String(c.value(i));
			if (cell.textContent !== text)
				cell.textContent = text;
			if (!c.number)
				cell.title = text;
		});
		if (options.dress)
			options.dress(row.element, i);
	}

	function mark() {
		let active = null;
		rows.forEach(function (row) {
			const on = row.at >= 0 && order[row.at] === selected;
			row.element.setAttribute("aria-selected", on);
			if (on)
				active = row.element.id;
		});
		if (active)
			root.setAttribute("aria-activedescendant", active);
		else
			root.removeAttribute("aria-activedescendant");
	}

	function later() {
		if (!pending)
			pending = requestAnimationFrame(draw);
	}

	// Everything is written anew.
	function refresh() {
		rows.forEach(function (row) { row.at = -1; });
		body.style.height = Math.min(full(), TALLEST) + "px";
		root.setAttribute("aria-rowcount", order.length + 1);
		later();
	}

	function arrange() {
		const kept = [];
		for (let i = 0; i < count; i++)
			if (!wanted || wanted(texts(i), i))
				kept.push(i);
		const column = columns.find(function (c) { return c.id === sorted; });
		if (column && column.value) {
			const keys = new Array(count);
			kept.forEach(function (i) { keys[i] = column.value(i); });
			const sign = descending ? -1 : 1;
			kept.sort(function (a, b) {
				const x = keys[a], y = keys[b];
				if (x === y)
					return a - b;
				if (x === null || x === undefined)
					return 1;
				if (y === null || y === undefined)
					return -1;
				return x < y ? -sign : sign;
			});
		}
		order = kept;
		places = new Int32Array(count).fill(-1);
		order.forEach(function (i, at) { places[i] = at; });
		refresh();
		if (options.arranged)
			options.arranged(order.length, count);
	}

	function sortBy(id, down) {
		const column = columns.find(function (c) { return c.id === id; });
		descending = down !== undefined ? down
			     : sorted === id ? !descending : !!(column && column.number);
		sorted = id;
		makeHead();
		arrange();
		scrollTo(0);
	}

	function show(i) {
		const at = i < places.length ? places[i] : -1;
		roomBefore = room();
		if (at < 0)
			return;
		const y = at * height;
		if (y < top())
			scrollTo(y);
		else if (y + height > top() + room())
			scrollTo(y + height - room());
		later();
	}

	function select(i, quiet) {
		selected = i;
		mark();
		if (!quiet && options.select && i >= 0)
			options.select(i);
	}

	root.addEventListener("scroll", later, {passive: true});
	// Returns whether the key was one of the table's.
	function keydown(event) {
		if (event.altKey || event.ctrlKey || event.metaKey)
			return false;
		const page = Math.max(1, Math.floor(room() / height) - 1);
		const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
			       Home: -Infinity, End: Infinity};
		if (event.key in steps && order.length) {
			const at = selected >= 0 && selected < places.length ? places[selected] : -1;
			const to = at < 0 && isFinite(steps[event.key]) ? 0
				   : Math.max(0, Math.min(order.length - 1, at + steps[event.key]));
			select(order[to]);
			show(order[to]);
		} else if (event.key === "Enter" && selected >= 0 && options.open) {
			options.open(selected);
		} else {
			return false;
		}
		return true;
	}
	root.addEventListener("keydown", function (event) {
		if (event.target !== root || !keydown(event))
			return;
		event.preventDefault();
		event.stopPropagation();
	});
	// Rows are as high as the text is; the first one in view stays where it is.
	function measure() {
		const line = parseFloat(getComputedStyle(root).getPropertyValue("line-height"));
		const h = Math.ceil((line || 20) + 6);
		if (h === height)
			return;
		const first = top() / height;
		height = h;
		root.style.setProperty("--row", h + "px");
		refresh();
		scrollTo(first * h);
	}
	// A row that was selected and in view stays in view when the table gets lower.
	const observer = new ResizeObserver(function () {
		const at = selected >= 0 && selected < places.length ? places[selected] : -1;
		const seen = at >= 0 && at * height >= top() && at * height < top() + roomBefore;
		measure();
		if (seen && room() < roomBefore)
			show(selected);
		roomBefore = room();
		later();
	});
	observer.observe(root);
	root.style.setProperty("--row", height + "px");
	makeHead();
	measure();

	return {
		element: root,
		// `text(i)` is what filter() searches.
		setRows: function (n, text) {
			count = n;
			texts = text || texts;
			arrange();
		},
		setColumns: function (list) {
			columns = list;
			rows.length = 0;
			Ptah.clear(body);
			makeHead();
			refresh();
		},
		filter: function (match) {
			wanted = match;
			arrange();
			scrollTo(0);
		},
		sort: sortBy,
		select: function (i, quiet) {
			select(i, quiet);
			show(i);
		},
		selected: function () { return selected; },
		shown: function () { return order; },
		refresh: refresh,
		keydown: keydown,
		close: function () {
			observer.disconnect();
			if (pending)
				cancelAnimationFrame(pending);
		}
	};
};

// Is a key for the view as a whole, and not for the element that has the focus?
Ptah.isForView = function (event) {
	return event.target === document.body || event.target.id === "view" ||
	       !!event.target.closest("#tabs");
};

// The name of a file, then its folder: what tells files apart is seen first.
Ptah.fillPath = function (cell, path) {
	let name = cell.firstElementChild, folder = cell.lastElementChild;
	if (!name) {
		name = Ptah.el("span", {});
		folder = Ptah.el("span", {class: "folder"});
		cell.append(name, folder);
	}
	const cut = path.lastIndexOf("/");
	name.textContent = Ptah.text(path.slice(cut + 1));
	folder.textContent = cut > 0 ? Ptah.text(path.slice(0, cut)) : "";
	cell.title = Ptah.text(path, 2000);
};

// A bar behind a figure: how much of the whole it is.
Ptah.fillBar = function (cell, text, part, colour) {
	let bar = cell.firstElementChild, label = cell.lastElementChild;
	if (!bar) {
		bar = Ptah.el("span", {class: "cell-bar"});
		label = Ptah.el("span", {class: "cell-text"});
		Ptah.clear(cell).append(bar, label);
	}
	bar.style.width = Math.min(100, 100 * (part || 0)) + "%";
	bar.style.background = colour || "";
	bar.classList.toggle("strong", !!colour);
	label.textContent = text;
};
