// SPDX-License-Identifier: MIT
// The search of the timeline: a function is chosen by its name, all its calls are marked, and n and
// N go from call to call, however far apart they are.
"use strict";

Ptah.timelineSearch = (function () {
	const el = Ptah.el, line = function () { return Ptah.timeline; };
	const MOST_SHOWN = 12;
	let dom = null, active = 0, found = [], moving = 0;

	// Functions with the text in their name: those that begin with it first, then by calls.
	function matches(text) {
		const t = Ptah.table, list = [];
		if (!t || !text)
			return list;
		const low = text.toLowerCase();
		for (let id = 0; id < t.name.length; id++) {
			const name = String(t.name[id] || "").toLowerCase(), at = name.indexOf(low);
			if (at >= 0)
				list.push({id: id, rank: name === low ? 0 : at === 0 ? 1 : 2,
					   count: (t.count && t.count[id]) || 0});
		}
		list.sort(function (a, b) { return a.rank - b.rank || b.count - a.count || a.id - b.id; });
		return list;
	}

	function showList() {
		const text = dom.input.value.trim();
		found = matches(text);
		active = 0;
		Ptah.clear(dom.list);
		found.slice(0, MOST_SHOWN).forEach(function (f, i) {
			dom.list.append(el("div", {
				role: "option", id: "tl-found-" + i, class: "tl-found", "aria-selected": i === 0,
				onmousedown: function (event) {
					event.preventDefault();
					choose(f.id, true);
				}
			}, el("span", {class: "tl-swatch", dataset: {shade: Ptah.colourIndex(f.id)}}),
			el("span", {class: "tl-found-name"}, Ptah.name(f.id).slice(0, 200)),
			el("span", {class: "dim"}, Ptah.object(f.id).slice(0, 60)),
			el("span", {class: "number"}, f.count ? Ptah.format.count(f.count) : "")));
		});
		dom.list.querySelectorAll(".tl-swatch").forEach(function (e) {
			e.style.background = Ptah.palette[Number(e.dataset.shade)];
		});
		if (found.length > MOST_SHOWN)
			dom.list.append(el("div", {class: "tl-more dim"}, Ptah.format.count(found.length - MOST_SHOWN) + " more: type more of the name"));
		if (text && !found.length)
			dom.list.append(el("div", {class: "tl-more dim"}, Ptah.table ? "No function has this in its name." : "The names are still being read."));
		open(Boolean(text));
	}

	function open(on) {
		dom.list.hidden = !on;
		dom.input.setAttribute("aria-expanded", on);
		mark();
	}

	function mark() {
		const options = dom.list.querySelectorAll(".tl-found");
		options.forEach(function (e, i) { e.setAttribute("aria-selected", i === active); });
		if (!dom.list.hidden && options[active]) {
			dom.input.setAttribute("aria-activedescendant", options[active].id);
			options[active].scrollIntoView({block: "nearest"});
		} else {
			dom.input.removeAttribute("aria-activedescendant");
		}
	}

	// Marks the calls of a function, and goes to the first one from here on.
	function choose(id, go) {
		dom.input.value = id === null ? "" : Ptah.name(id).slice(0, 300);
		open(false);
		Ptah.select({function: id});
		showCount();
		if (id !== null) {
			dom.focus();
			if (go)
				next(1, true);
		}
	}

	function showCount() {
		const id = Ptah.state.function, t = Ptah.table;
		dom.bar.hidden = id === null;
		const n = t && t.count && id !== null ? t.count[id] : null;
		dom.count.textContent = id === null ? "" : n === null || n === undefined ? "marked"
			: Ptah.format.count(n) + (n === 1 ? " call" : " calls");
	}

	function key(event) {
		const shown = Math.min(found.length, MOST_SHOWN);
		if (event.key === "ArrowDown" || event.key === "ArrowUp") {
			if (shown)
				active = (active + (event.key === "ArrowDown" ? 1 : -1) + shown) % shown;
			mark();
		} else if (event.key === "Enter") {
			if (found[active] && !dom.list.hidden)
				choose(found[active].id, true);
			else if (Ptah.state.function !== null)
				next(event.shiftKey ? -1 : 1);
		} else if (event.key === "Escape") {
			if (dom.list.hidden)
				choose(null);
			open(false);
			dom.focus();
		} else {
			return;
		}
		event.preventDefault();
		event.stopPropagation();
	}

	// ---- From call to call ----

	// The marks of a part of a thread, coarse ones first, until a single call is found: a recording
	// with a billion calls takes a few small answers.
	async function seek(thread, level, place, direction, limit, fn) {
		const unit = Math.pow(4, level), width = Ptah.tiles.WIDTH * unit;
		let index = Math.floor((direction > 0 ? place.at : place.at) / width);
		for (; index >= 0 && (direction > 0 ? index * width < limit : (index + 1) * width > limit); index += direction) {
			const t = Ptah.tile.parse(await Ptah.data.get("marks", {
				function: fn, thread: thread, axis: Ptah.state.axis,
				from: index * width, to: (index + 1) * width, unit: unit
			}));
			const order = Array.from({length: t.count}, function (_, i) { return i; });
			order.sort(function (a, b) {
				return direction * (t.begin[a] - t.begin[b] || t.depth[a] - t.depth[b]);
			});
			for (const i of order) {
				const single = t.calls[i] === 1;
				if (single && !beyond(t.begin[i], t.depth[i], place, direction))
					continue;
				if (direction > 0 ? t.begin[i] >= limit || t.end[i] < place.at : t.begin[i] > place.at)
					continue;
				if (single || level === 0 || t.finest) {
					if (!single && !beyond(t.begin[i], t.depth[i], place, direction))
						continue;
					return {thread: thread, begin: t.begin[i], end: t.end[i], depth: t.depth[i],
						function: fn, calls: t.calls[i], flags: t.flags[i]};
				}
				const inner = direction > 0
					? await seek(thread, level - 1, {at: Math.max(place.at, t.begin[i]), depth: place.at < t.begin[i] ? -1 : place.depth, open: place.at < t.begin[i]}, direction, Math.min(limit, t.end[i] + 1), fn)
					: await seek(thread, level - 1, {at: Math.min(place.at, t.end[i]), depth: place.at > t.end[i] ? 1e9 : place.depth}, direction, Math.max(limit, t.begin[i] - 1), fn);
				if (inner)
					return inner;
			}
		}
		return null;
	}

	// Does a call begin after the place (before it)? At the same place, the deeper one comes later.
	function beyond(begin, depth, place, direction) {
		if (begin === place.at)
			return direction > 0 ? depth > place.depth : depth < place.depth;
		return direction > 0 ? begin > place.at : begin < place.at;
	}

	async function next(direction, here) {
		const fn = Ptah.state.function, t = line(), s = t.my.selected;
		if (fn === null) {
			dom.input.focus();
			return;
		}
		const turn = ++moving;
		let place = {at: Math.max(0, t.my.from), depth: -1};
		if (s && !s.event && !here)
			place = {at: s.begin, depth: s.depth};
		else if (direction < 0)
			place = {at: t.my.to, depth: 1e9};
		const top = t.levels().top, limit = direction > 0 ? t.length() + 1 : -1;
		// Threads in their order at the same place: the selected one first.
		const threads = Ptah.info.threads.map(function (x) { return x.number; }).slice(0, 64);
		const slow = setTimeout(function () { Ptah.note("Searching\u2026"); }, 400);
		let best = await nearest(threads, top, place, direction, limit, fn, s && !here ? s.thread : null);
		let round = false;
		if (!best && turn === moving) {
			round = true;
			best = await nearest(threads, top, direction > 0 ? {at: 0, depth: -1} : {at: t.length(), depth: 1e9},
					     direction, limit, fn, null);
		}
		clearTimeout(slow);
		if (turn !== moving)
			return;
		if (!best) {
			Ptah.note("No call of " + Ptah.name(fn).slice(0, 100) + " was found" +
				  (Ptah.data.isEmbedded() ? " in this file: ptah view without -o has every call." : "."));
			return;
		}
		if (round)
			Ptah.note(direction > 0 ? "From the beginning again." : "From the end again.");
		t.select(best, {keys: true});
		t.reveal(best, (best.end - best.begin) < (t.my.to - t.my.from) / t.width() * 3 ||
			 best.end - best.begin > (t.my.to - t.my.from));
	}

	// The call that comes first in any of the threads.
	async function nearest(threads, top, place, direction, limit, fn, current) {
		let best = null;
		for (const thread of threads) {
			// Calls of other threads that begin at the same moment are not lost: they come by order.
			const from = thread === current || current === null ? place
				: {at: place.at, depth: direction > 0 === thread > current ? (direction > 0 ? -1 : 1e9)
											 : (direction > 0 ? 1e9 : -1)};
			const edge = best ? best.begin + (direction > 0 ? 0 : 0) : limit;
			const one = await seek(thread, top, from, direction, best ? (direction > 0 ? Math.min(limit, edge) : Math.max(limit, edge)) : limit, fn);
			if (one && (!best || direction * (one.begin - best.begin) < 0))
				best = one;
		}
		return best;
	}

	function make(focusBars) {
		dom = {focus: focusBars};
		dom.input = el("input", {
			type: "search", id: "tl-search", placeholder: "Search a function  ( / )", role: "combobox",
			"aria-label": "Search a function", "aria-expanded": false, "aria-controls": "tl-found",
			"aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", maxlength: 1000,
			oninput: showList, onkeydown: key, onfocus: function () { dom.input.select(); },
			onblur: function () { setTimeout(function () { open(false); }, 100); }
		});
		dom.input.addEventListener("search", function () {
			if (!dom.input.value && Ptah.state.function !== null)
				choose(null);
		});
		dom.list = el("div", {id: "tl-found", role: "listbox", "aria-label": "Functions found", hidden: true});
		dom.count = el("span", {class: "tl-count", "aria-live": "polite"});
		dom.bar = el("span", {class: "tl-step", hidden: true}, dom.count,
			el("button", {type: "button", class: "icon", title: "Previous call (N)", "aria-label": "Previous call",
				      onclick: function () { next(-1).catch(Ptah.fail); }}, "\u2039"),
			el("button", {type: "button", class: "icon", title: "Next call (n)", "aria-label": "Next call",
				      onclick: function () { next(1).catch(Ptah.fail); }}, "\u203a"),
			el("button", {type: "button", class: "icon", title: "Unmark (Esc)", "aria-label": "Unmark",
				      onclick: function () { choose(null); }}, "\u00d7"));
		return el("div", {class: "tl-search"}, dom.input, dom.bar, dom.list);
	}

	return {
		make: make, next: next, choose: choose, seek: seek,
		focus: function () { dom.input.focus(); },
		// The selection's function may be from another view or from the address.
		update: function () {
			if (!dom)
				return;
			const id = Ptah.state.function;
			if (document.activeElement !== dom.input)
				dom.input.value = id === null ? "" : Ptah.name(id).slice(0, 300);
			showCount();
		}
	};
})();
