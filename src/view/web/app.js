// SPDX-License-Identifier: MIT
// What all views share: the tabs, the theme, the keys, the selection and the address that keeps it,
// the status line, and small functions for elements, numbers and colours.
"use strict";

// A view registers itself: Ptah.views.push({id, title, key, show(element, state), hide(),
// update(state)}). `key` is a digit. show() gets an empty element; update() is called after the
// selection changed while the view is shown.
Ptah.views = [];

// What the help lists: {keys: "w s", text: "zoom", view: "timeline"}; without `view` it is everywhere.
Ptah.help = [];

// The selection. thread, axis, from and to are of all views: what they show is of this thread (null:
// of all) and of this part of the run (null: the whole). `zoom` is the part that the timeline shows.
Ptah.state = {
	view: null, thread: null, axis: "time", from: null, to: null, function: null, zoom: null,
	params: {}
};
Ptah.info = null;

// ---- Elements ----

// An element; children that are not elements become text. There is no other way to put text into the
// page: names are hostile.
Ptah.el = function (tag, attributes) {
	const e = document.createElement(tag);
	Object.keys(attributes || {}).forEach(function (key) {
		const value = attributes[key];
		if (value === undefined || value === null || value === false)
			return;
		if (key.startsWith("on"))
			e.addEventListener(key.slice(2), value);
		else if (key === "class")
			e.className = value;
		else if (key === "dataset")
			Object.assign(e.dataset, value);
		else if (key === "value" || key === "checked" || key === "disabled")
			e[key] = value;
		else
			e.setAttribute(key, value === true ? "" : value);
	});
	for (let i = 2; i < arguments.length; i++)
		Ptah.append(e, arguments[i]);
	return e;
};

Ptah.append = function (e, child) {
	if (Array.isArray(child))
		child.forEach(function (c) { Ptah.append(e, c); });
	else if (child !== null && child !== undefined && child !== false)
		e.append(child instanceof Node ? child : document.createTextNode(String(child)));
};

Ptah.clear = function (e) {
	e.replaceChildren();
	return e;
};

// A name as text that cannot hide anything: control characters and marks that change the direction
// of text become visible, and a name of 10,000 characters is cut.
Ptah.text = function (name, limit) {
	const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
	const most = limit || 400;
	let s = String(name === null || name === undefined ? "" : name);
	if (s.length > most)
		s = s.slice(0, most - 1) + "\u2026";
	return s.replace(hidden, function (c) {
		const code = c.charCodeAt(0);
		return code < 0x20 ? String.fromCharCode(0x2400 + code)
				   : "\\u" + code.toString(16).padStart(4, "0");
	});
};

// ---- Numbers ----

Ptah.format = (function () {
	// 1234567 -> "1,234,567"
	function count(n) {
		if (n === null || n === undefined || !isFinite(n))
			return "\u2013";
		return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
	}

	// Four digits that matter, with a unit: 12345678 -> "12.35 M".
	function short(n) {
		if (n === null || n === undefined || !isFinite(n))
			return "\u2013";
		const units = ["", " k", " M", " G", " T"];
		let k = 0, v = Math.abs(n);
		while (v >= (k ? 1000 : 10000) && k + 1 < units.length) {
			v /= 1000;
			k++;
		}
		const digits = k === 0 && v === Math.round(v) ? 0 : v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0;
		return k === 0 && digits === 0 ? count(n) : (n < 0 ? "-" : "") + v.toFixed(digits) + units[k];
	}

	// Nanoseconds. All digits that a nanosecond has are shown where `exact`.
	function time(ns, exact) {
		if (ns === null || ns === undefined || !isFinite(ns))
			return "\u2013";
		const a = Math.abs(ns), sign = ns < 0 ? "-" : "";
		if (a < 1000)
			return sign + (a === Math.round(a) ? a : a.toFixed(1)) + " ns";
		const units = [["\u00b5s", 1e3, 3], ["ms", 1e6, 6], ["s", 1e9, 9]];
		const u = a < 1e6 ? units[0] : a < 1e9 ? units[1] : units[2];
		const v = a / u[1];
		if (exact)
			return sign + v.toFixed(u[2]).replace(/\.?0+$/, "") + " " + u[0];
		return sign + v.toFixed(v < 10 ? 3 : v < 100 ? 2 : 1) + " " + u[0];
	}

	// How long something took. Where that is an estimate, it is marked, and never said to be 0.
	function length(axis, n, exact) {
		const estimated = axis === "time" && Ptah.info && Ptah.info.times_estimated && isFinite(n) && n !== null;
		return !estimated ? value(axis, n, exact) : n === 0 ? "<1 \u00b5s" : "~" + value(axis, n, exact);
	}

	function value(axis, n, exact) {
		if (axis === "time")
			return time(n, exact);
		if (axis === "instructions")
			return (exact ? count(n) : short(n)) + (n === 1 ? " instruction" : " instructions");
		if (axis === "cycles")
			return (exact ? count(n) : short(n)) + " cycles";
		return exact ? count(n) : short(n);
	}

	// A part of a whole: "12.34%". Parts that are not 0 are never shown as 0.
	function share(part, whole) {
		if (!(whole > 0) || part === null || part === undefined)
			return "\u2013";
		const p = 100 * part / whole;
		return p !== 0 && p < 0.005 ? "<0.01%" : p.toFixed(2) + "%";
	}

	function address(a) {
		return typeof a === "number" ? "0x" + a.toString(16) : Ptah.text(a);
	}

	return {count: count, short: short, time: time, value: value, length: length, share: share, address: address};
})();

// ---- Functions and their colours ----

// The table of functions: asked for once, and again after more of the recording was read.
(function () {
	let answer = null;
	function ask() {
		const asked = Ptah.data.get("functions", {}).then(function (columns) {
			Ptah.table = columns;
			Ptah.report("functions");
			return columns;
		}, function (error) {
			if (answer === asked)
				answer = null;
			throw error;
		});
		return asked;
	}
	Ptah.functions = function () {
		answer = answer || ask();
		return answer;
	};
	Ptah.functionsChanged = function () {
		answer = ask();
		return answer;
	};
})();

// The name of a function by its number, as text that can be shown; "#12" until the table has come.
Ptah.name = function (id) {
	const t = Ptah.table;
	return t && t.name[id] !== undefined && t.name[id] !== null ? Ptah.text(t.name[id])
								     : "#" + id;
};
// The file that a function is of, without its folder: `object` is an index into `objects`.
Ptah.object = function (id) {
	const path = Ptah.objectPath(id);
	return Ptah.text(path.slice(path.lastIndexOf("/") + 1));
};
Ptah.objectPath = function (id) {
	const t = Ptah.table, o = t && t.object ? t.object[id] : null;
	return (typeof o === "number" && t.objects ? t.objects[o] : o) || "";
};

// What a name is shortened to where there is no room: itself, without the arguments of its templates,
// and without its namespaces.
Ptah.nameForms = (function () {
	let known = new Map();
	function make(name) {
		let plain = "", depth = 0, last = 0;
		for (let i = 0; i < name.length; i++) {
			const sign = name[i] === "o" && depth === 0 && !/[\w$]/.test(name[i - 1] || " ") &&
				     /^operator\s*(\(\)|\[\]|<=>|->\*?|<<=?|>>=?|&&|\|\||\+\+|--|[-+*\/%^&|=!<>]=|[-+*\/%^&|~!=<>,])/.exec(name.slice(i, i + 16));
			if (sign) {
				plain += sign[0];
				i += sign[0].length - 1;
			} else if (name[i] === "<" && i > 0) {
				depth++;
			} else if (name[i] === ">" && depth > 0) {
				depth--;
			} else if (depth === 0) {
				plain += name[i];
				if (plain.endsWith("::"))
					last = plain.length;
			}
		}
		return [name, plain.trim(), plain.slice(last).trim()].filter(function (t, i, all) {
			return t && all.indexOf(t) === i;
		});
	}
	return function (name) {
		let forms = known.get(name);
		if (!forms) {
			if (known.size > 20000)
				known = new Map();
			forms = make(name);
			known.set(name, forms);
		}
		return forms;
	};
})();

// Colours: Paul Tol's "light" scheme, which people with any common kind of colour blindness can tell
// apart and on which black text can be read, in two shades. A function has its colour by its name, so
// that it has the same in every recording and every view.
Ptah.palette = (function () {
	const base = ["#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33",
		      "#c9b6e4"];
	const shades = [];
	base.forEach(function (c) {
		const rgb = [1, 3, 5].map(function (i) { return parseInt(c.slice(i, i + 2), 16); });
		const mix = function (other, part) {
			return "#" + rgb.map(function (v) {
				return Math.round(v + (other - v) * part).toString(16).padStart(2, "0");
			}).join("");
		};
		shades.push(c, mix(255, 0.3));
	});
	return shades;
})();

Ptah.colourIndex = (function () {
	let indices = [], table = null, of = null;
	function hash(text) {
		let h = 0x811c9dc5;
		for (let i = 0; i < text.length; i++)
			h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
		h ^= h >>> 15;
		return Math.imul(h, 0x2c1b3c6d) >>> 0;
	}
	return function (id) {
		const t = Ptah.table;
		if (t !== table || of !== Ptah.colourBy) {
			table = t;
			of = Ptah.colourBy;
			indices = [];
		}
		let k = indices[id];
		if (k === undefined) {
			const word = of === "object" ? Ptah.objectPath(id) : t ? t.name[id] : null;
			k = (word === null || word === undefined ? id : hash(String(word))) %
			    Ptah.palette.length;
			indices[id] = k;
		}
		return k;
	};
})();
Ptah.colourBy = "function";
Ptah.colour = function (id) {
	return Ptah.palette[Ptah.colourIndex(id)];
};

// ---- Reports between the parts of the page ----

(function () {
	const listeners = {};
	// Ptah.on("selection" | "info" | "functions" | "theme" | "resize", fn)
	Ptah.on = function (what, fn) {
		(listeners[what] = listeners[what] || []).push(fn);
	};
	Ptah.report = function (what, value) {
		(listeners[what] || []).forEach(function (fn) { fn(value); });
	};
})();

(function () {
	const state = Ptah.state;
	const $ = function (id) { return document.getElementById(id); };
	const el = Ptah.el;
	let shown = null;

	// ---- The address keeps what is shown ----

	const NUMBERS = ["thread", "from", "to", "function"];

	// The axis that is shown first: not time where the trace has few time stamps and no waits.
	function firstAxis() {
		return Ptah.info.coarse && !Ptah.info.waits && Ptah.info.axes.includes("instructions") ? "instructions" : Ptah.info.axes[0];
	}

	function writeAddress() {
		const words = [];
		const add = function (key, value) {
			words.push(encodeURIComponent(key) + "=" + encodeURIComponent(value));
		};
		if (state.view)
			add("view", state.view);
		NUMBERS.forEach(function (key) {
			if (state[key] !== null)
				add(key, state[key]);
		});
		if (state.axis !== firstAxis() || state.from !== null || state.zoom)
			add("axis", state.axis);
		if (state.zoom)
			add("zoom", state.zoom.map(function (v) { return +v.toFixed(3); }).join("-"));
		Object.keys(state.params).forEach(function (key) {
			if (state.params[key] !== null && state.params[key] !== undefined)
				add("p." + key, state.params[key]);
		});
		const hash = "#" + words.join("&");
		if (hash !== location.hash)
			history.replaceState(null, "", hash);
	}
	let writing = 0;
	Ptah.keepAddress = function () {
		// Browsers limit how often an address may change.
		if (!writing)
			writing = setTimeout(function () {
				writing = 0;
				writeAddress();
			}, 250);
	};

	function readAddress() {
		const read = {view: null, thread: null, from: null, to: null, function: null,
			      axis: firstAxis(), zoom: null, params: {}};
		location.hash.slice(1).split("&").forEach(function (word) {
			const cut = word.indexOf("=");
			if (cut < 0)
				return;
			let key, value;
			try {
				key = decodeURIComponent(word.slice(0, cut));
				value = decodeURIComponent(word.slice(cut + 1));
			} catch (error) {
				return;
			}
			if (NUMBERS.includes(key)) {
				if (isFinite(value) && value !== "" && Number(value) >= 0)
					read[key] = Number(value);
			} else if (key === "view" || key === "axis") {
				read[key] = value;
			} else if (key === "zoom") {
				const part = value.split("-").map(Number);
				if (part.length === 2 && part.every(isFinite) && part[0] < part[1])
					read.zoom = part;
			} else if (key.startsWith("p.")) {
				read.params[key.slice(2)] = value;
			}
		});
		if (read.from === null || read.to === null || read.from > read.to)
			read.from = read.to = null;
		return read;
	}

	// Without a place in the address, the page begins at the moment for which the recording was kept.
	function showHit() {
		const hit = (Ptah.info.hits || []).find(function (h) { return h.time !== undefined; });
		if (!hit || location.hash.length > 1)
			return;
		const room = Math.max((hit.time - hit.since) * 0.2, 1000);
		state.axis = "time";
		state.from = hit.since;
		state.to = hit.time;
		state.zoom = [Math.max(0, hit.since - room), hit.time + room];
		state.thread = hit.thread === undefined ? null : hit.thread;
	}

	// ---- Selection ----

	// Changes the selection and reports it. Without from and to it keeps the part; an axis that
	// changes drops it, because it has other numbers.
	Ptah.select = function (change) {
		if (change.axis !== undefined && change.axis !== state.axis &&
		    change.from === undefined) {
			state.from = state.to = state.zoom = null;
		}
		Object.keys(change).forEach(function (key) { state[key] = change[key]; });
		Ptah.keepAddress();
		showSelection();
		if (shown && shown.update)
			shown.update(state);
		Ptah.report("selection", state);
	};

	function showSelection() {
		const parts = [];
		if (state.thread !== null && Ptah.info)
			parts.push(Ptah.threadName(state.thread));
		if (state.from !== null)
			parts.push(Ptah.format.value(state.axis, state.to - state.from) + " selected");
		const e = Ptah.clear($("selection-text"));
		if (!parts.length)
			return;
		Ptah.append(e, parts.join(" \u00b7 ") + " ");
		e.append(el("button", {
			type: "button", class: "quiet", title: "Show everything in all views",
			onclick: function () { Ptah.select({thread: null, from: null, to: null}); }
		}, "clear"));
	}

	Ptah.thread = function (number) {
		return Ptah.info && Ptah.info.threads.find(function (t) { return t.number === number; });
	};
	Ptah.threadName = function (number) {
		const t = Ptah.thread(number);
		if (!t)
			return "thread " + number;
		return Ptah.text(t.comm, 64) + (t.tid > 0 ? " " + t.tid : "");
	};

	// The query of answers that follow the selection.
	Ptah.selectionQuery = function () {
		const query = {axis: state.axis};
		if (state.thread !== null)
			query.thread = state.thread;
		if (state.from !== null) {
			query.from = state.from;
			query.to = state.to;
		}
		return query;
	};

	// ---- Views ----

	// Shows a view, after changing the selection and the view's parameters:
	// Ptah.open("source", {function: 12}, {line: 30}).
	Ptah.open = function (id, change, params) {
		const view = Ptah.views.find(function (v) { return v.id === id; });
		if (!view)
			return false;
		Object.assign(state, change || {});
		if (params)
			Object.assign(state.params, params);
		if (shown && shown !== view && shown.hide)
			shown.hide();
		const again = shown === view;
		shown = view;
		state.view = id;
		document.body.dataset.view = id;
		document.querySelectorAll("#tabs button").forEach(function (b) {
			const on = b.dataset.view === id;
			b.setAttribute("aria-selected", on);
			b.tabIndex = on ? 0 : -1;
		});
		$("view").setAttribute("aria-labelledby", "tab-" + id);
		showSelection();
		if (again && view.update) {
			view.update(state);
		} else {
			const e = Ptah.clear($("view"));
			e.className = "view-" + id;
			view.show(e, state);
		}
		Ptah.keepAddress();
		Ptah.report("view", id);
		return true;
	};
	Ptah.current = function () { return shown; };

	function makeTabs() {
		const tabs = $("tabs");
		const available = Ptah.views.filter(function (v) {
			return !v.available || v.available(Ptah.info);
		});
		available.forEach(function (view, i) {
			view.key = String(i + 1);
			tabs.append(el("button", {
				type: "button", role: "tab", id: "tab-" + view.id, "aria-controls": "view",
				dataset: {view: view.id}, title: view.title + " (" + view.key + ")",
				onclick: function () { Ptah.open(view.id); },
				onkeydown: function (event) {
					const step = event.key === "ArrowRight" ? 1
						     : event.key === "ArrowLeft" ? -1 : 0;
					if (!step)
						return;
					const next = available[(i + step + available.length) %
							       available.length];
					Ptah.open(next.id);
					$("tab-" + next.id).focus();
					event.preventDefault();
					event.stopPropagation();
				}
			}, view.title));
		});
		return available;
	}

	// ---- Theme ----

	// "auto" follows the system. A page of a file has no storage in some browsers.
	function storedTheme() {
		try {
			return localStorage.getItem("ptah-theme");
		} catch (error) {
			return null;
		}
	}
	let theme = "auto";
	const dark = matchMedia("(prefers-color-scheme: dark)");
	Ptah.isDark = function () {
		return theme === "dark" || (theme === "auto" && dark.matches);
	};
	function setTheme(word, keep) {
		theme = ["light", "dark"].includes(word) ? word : "auto";
		document.documentElement.dataset.theme = Ptah.isDark() ? "dark" : "light";
		const b = $("theme");
		if (b) {
			b.textContent = Ptah.isDark() ? "\u263e" : "\u2600";
			b.setAttribute("aria-label", "Theme: " + (theme === "auto" ? "as the system, " : "") +
				       (Ptah.isDark() ? "dark" : "light"));
			b.title = b.getAttribute("aria-label") + " (t)";
		}
		if (keep)
			try {
				localStorage.setItem("ptah-theme", theme);
			} catch (error) {
				// Not kept, then.
			}
		Ptah.report("theme");
		if (shown && shown.update)
			shown.update(state);
	}
	dark.addEventListener("change", function () { setTheme(theme); });

	// ---- Status line ----

	let noteTimer = 0;
	// Reports something for a moment.
	Ptah.note = function (text, kind) {
		const e = $("status-text");
		e.textContent = Ptah.text(text, 1000);
		e.className = kind === "error" ? "error" : "";
		clearTimeout(noteTimer);
		noteTimer = setTimeout(showInfo, kind === "error" ? 15000 : 5000);
	};
	Ptah.fail = function (error) {
		if (error && error.name === "AbortError")
			return;
		Ptah.note(error && error.message ? error.message : String(error), "error");
	};

	function showInfo() {
		const info = Ptah.info, e = $("status-text");
		e.className = "";
		if (!info)
			return;
		const words = [];
		const totals = info.totals || {};
		if (totals.calls !== undefined)
			words.push(Ptah.format.short(totals.calls) + " calls");
		if (totals.instructions !== undefined)
			words.push(Ptah.format.short(totals.instructions) + " instructions");
		if (info.length && info.length.time)
			words.push(Ptah.format.time(info.length.time));
		words.push(info.threads.length + (info.threads.length === 1 ? " thread" : " threads"));
		if (totals.errors || totals.losses)
			words.push("\u26a0 " + [[totals.errors, "error"], [totals.losses, "loss"]].filter(function (n) {
				return n[0];
			}).map(function (n) {
				return Ptah.format.count(n[0]) + " " + n[1] + (n[0] === 1 ? "" : n[1] === "loss" ? "es" : "s");
			}).join(", "));
		e.textContent = (info.complete === false ? "reading\u2026 so far " : "") +
				words.join(" \u00b7 ");
	}

	function showProgress() {
		const info = Ptah.info, bar = $("progress");
		const done = info.complete !== false;
		bar.hidden = done;
		const percent = Math.round(100 * (info.progress || 0));
		bar.setAttribute("aria-valuenow", percent);
		$("progress-bar").style.width = percent + "%";
		const hits = (info.hits || []).map(function (h) { return "kept because of: " + h.text; });
		const notes = hits.concat(info.notes || []), button = $("notes-button");
		const losses = (info.totals && (info.totals.losses || info.totals.errors)) || 0;
		button.hidden = !notes.length;
		button.textContent = (losses ? "\u26a0 " : "") + notes.length +
				     (notes.length === 1 ? " note" : " notes");
		button.classList.toggle("warn", losses > 0);
		const list = Ptah.clear($("notes"));
		list.append(el("h2", {}, "Notes of the decoder"),
			    el("ul", {}, notes.map(function (n) { return el("li", {}, Ptah.text(n, 2000)); })));
	}

	function toggleNotes(open) {
		const list = $("notes"), on = open === undefined ? list.hidden : open;
		list.hidden = !on;
		$("notes-button").setAttribute("aria-expanded", on);
	}

	// While the recording is still read, what is known grows.
	async function follow() {
		while (Ptah.info.complete === false) {
			await new Promise(function (resolve) { setTimeout(resolve, 400); });
			try {
				const before = Ptah.info;
				Ptah.info = await Ptah.data.get("info", {});
				showProgress();
				showInfo();
				if (Ptah.info.complete !== false || Ptah.info.functions !== before.functions)
					await Ptah.functionsChanged();
				Ptah.report("info");
			} catch (error) {
				Ptah.note("The server does not answer: " + error.message, "error");
				await new Promise(function (resolve) { setTimeout(resolve, 3000); });
			}
		}
		if (shown && shown.update)
			shown.update(state);
	}

	// ---- Help and keys ----

	function showHelp() {
		const d = Ptah.clear($("help"));
		const of = function (view) {
			return Ptah.help.filter(function (h) { return (h.view || null) === view; });
		};
		const table = function (title, rows) {
			return rows.length && el("section", {},
				el("h3", {}, title),
				el("dl", {}, rows.map(function (h) {
					return [el("dt", {}, h.keys.split(" ").map(function (k) {
						return [el("kbd", {}, k), " "];
					})), el("dd", {}, h.text)];
				})));
		};
		Ptah.append(d, [
			el("h2", {id: "help-title"}, "Keys"),
			el("div", {class: "help-columns"}, [
				shown && table(shown.title, of(shown.id)),
				table("Everywhere", of(null))
			]),
			el("p", {class: "dim"}, "ptah " + Ptah.text(Ptah.info ? Ptah.info.version : "") +
				". Everything on this page comes from one recording; nothing is sent anywhere."),
			el("button", {type: "button", onclick: function () { d.close(); }}, "Close")
		]);
		d.showModal();
	}
	Ptah.showHelp = showHelp;
	Ptah.help.push({keys: "1 2 3 \u2026", text: "switch to the first, second, third \u2026 view"},
		       {keys: "t", text: "light or dark"}, {keys: "?", text: "this help"},
		       {keys: "Esc", text: "close, or clear the selection"});

	function isTyping(target) {
		return target instanceof HTMLElement &&
		       (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName) ||
			(target.tagName === "INPUT" && !/^(checkbox|radio|button)$/.test(target.type)));
	}
	Ptah.isTyping = isTyping;

	function onKey(event) {
		if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey ||
		    $("help").open)
			return;
		if (isTyping(event.target)) {
			if (event.key === "Escape")
				event.target.blur();
			return;
		}
		if (shown && shown.keydown && shown.keydown(event)) {
			event.preventDefault();
			return;
		}
		const view = Ptah.views.find(function (v) { return v.key === event.key; });
		if (view)
			Ptah.open(view.id);
		else if (event.key === "?")
			showHelp();
		else if (event.key === "t")
			setTheme(Ptah.isDark() ? "light" : "dark", true);
		else if (event.key === "Escape" && !$("notes").hidden)
			toggleNotes(false);
		else if (event.key === "Escape" && (state.from !== null || state.thread !== null))
			Ptah.select({thread: null, from: null, to: null});
		else
			return;
		event.preventDefault();
	}

	// ---- Start ----

	function explain(error) {
		Ptah.clear($("view")).append(el("div", {class: "failure", role: "alert"},
			el("h2", {}, "The recording cannot be shown"),
			el("p", {}, Ptah.text(error.message, 2000))));
	}

	async function start() {
		setTheme(storedTheme());
		$("tools").append(
			el("button", {type: "button", id: "theme", class: "icon",
				      onclick: function () { setTheme(Ptah.isDark() ? "light" : "dark", true); }}),
			el("button", {type: "button", class: "icon", "aria-label": "Help: the keys",
				      title: "Keys (?)", onclick: showHelp}, "?"));
		setTheme(theme);
		$("notes-button").addEventListener("click", function () { toggleNotes(); });
		document.addEventListener("keydown", onKey);
		try {
			Ptah.info = await Ptah.data.get("info", {});
		} catch (error) {
			explain(error);
			return;
		}
		const info = Ptah.info;
		$("file-name").textContent = Ptah.text(info.file, 120);
		$("file-name").title = Ptah.text(info.command || info.file, 1000);
		document.title = Ptah.text(info.file, 80) + " \u2013 ptah view";
		showProgress();
		showInfo();
		Ptah.functions().catch(Ptah.fail);
		const available = makeTabs();
		Object.assign(state, readAddress());
		if (!info.axes.includes(state.axis))
			state.axis = firstAxis();
		showHit();
		if (!(state.view && Ptah.open(state.view)) && available.length)
			Ptah.open(available[0].id);
		addEventListener("hashchange", function () {
			Object.assign(state, readAddress());
			if (!info.axes.includes(state.axis))
				state.axis = firstAxis();
			if (!(state.view && Ptah.open(state.view)))
				Ptah.select({});
		});
		follow();
	}
	addEventListener("DOMContentLoaded", start);
})();
