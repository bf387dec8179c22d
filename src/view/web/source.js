// SPDX-License-Identifier: MIT
// Source code and assembly with exact counts: how often each line and each instruction was executed, and
// how often each branch was taken and not taken.
"use strict";
var Ptah = Ptah || {};

(function () {
	const el = Ptah.el, format = Ptah.format;
	const view = {id: "source", title: "Source"};
	let parts = null, files = null, source = null, code = null, asked = null;
	let grids = {}, askers = {};

	const look = function () { return Ptah.state.params.look === "coverage" ? "coverage" : "heat"; };

	function setHeat(cell, part, whole) {
		const h = Ptah.heat(part, whole);
		cell.style.background = h ? "color-mix(in srgb, var(--hot) " + (h * 62).toFixed(1) +
					    "%, transparent)" : "";
	}

	// ---- Branches ----

	// "taken 900, not taken 100" in two colours; each branch of a line is a bar.
	function fillBranches(cell, branches) {
		Ptah.clear(cell);
		cell.title = "";
		if (!branches || !branches.length)
			return;
		const titles = [];
		branches.slice(0, 4).forEach(function (b) {
			const known = b.executed - b.unknown, not = known - b.taken;
			const bar = el("span", {class: "branch-bar" + (known && b.taken && not ? "" : " one-way")},
				       el("span", {class: "branch-taken"}), el("span", {class: "branch-not"}));
			bar.children[0].style.width = known ? 100 * b.taken / known + "%" : "0";
			bar.children[1].style.width = known ? 100 * not / known + "%" : "0";
			cell.append(bar);
		});
		branches.forEach(function (b) {
			const known = b.executed - b.unknown;
			titles.push((b.address ? b.address + ": " : "") + "taken " + format.count(b.taken) + " (" +
				format.share(b.taken, known) + "), not taken " + format.count(known - b.taken) +
				(b.unknown ? ", not known " + format.count(b.unknown) : "") +
				(b.missed !== undefined && b.missed !== null
					 ? "; missed by the simulated predictor " + format.count(b.missed) : ""));
		});
		if (branches.length === 1) {
			const b = branches[0], known = b.executed - b.unknown;
			cell.append(el("span", {class: "branch-text"}, format.share(b.taken, known)));
		} else {
			cell.append(el("span", {class: "branch-text"}, branches.length + " branches"));
		}
		cell.title = titles.join("\n");
	}

	// ---- Files ----

	function showFiles() {
		const g = grids.files = Ptah.grid(parts.files, {
			label: "Source files, by the instructions of their lines", sorted: "instructions",
			columns: [{
				id: "file", title: "File", width: "minmax(6em, 1fr)", style: "name",
				value: function (i) { return files.file[i]; },
				fill: function (cell, i) { Ptah.fillPath(cell, files.file[i]); }
			}, {
				id: "instructions", title: "Share", width: "5.5em", number: true,
				hint: "Instructions executed in its lines, of all",
				value: function (i) { return files.instructions[i]; },
				fill: function (cell, i) {
					Ptah.fillBar(cell, format.share(files.instructions[i], files.total),
						     files.instructions[i] / files.total);
					cell.title = format.count(files.instructions[i]) + " instructions";
				}
			}],
			select: function (i) {
				if (!source || source.index !== i)
					Ptah.open("source", {function: null}, {file: files.file[i], line: null});
			}
		});
		g.setRows(files.file.length, function (i) { return files.file[i]; });
	}

	// ---- Source ----

	function makeSource(index, answer) {
		const s = {index: index, answer: answer, lines: [], places: new Map(), row: new Map(),
			   branches: new Map(), most: 0, longest: 40};
		let last = answer.text ? answer.text.length : 0;
		answer.line.forEach(function (line, k) {
			s.row.set(line, k);
			last = Math.max(last, line);
			s.most = Math.max(s.most, answer.instructions[k]);
		});
		// Of a file that is not here, only lines with code are shown.
		for (let line = 1; line <= last; line++)
			if (answer.text || s.row.has(line)) {
				s.places.set(line, s.lines.length);
				s.lines.push(line);
			}
		(answer.branch_line || []).forEach(function (line, k) {
			if (!s.branches.has(line))
				s.branches.set(line, []);
			s.branches.get(line).push({
				address: answer.branch_address && answer.branch_address[k],
				executed: answer.branch_executed[k], taken: answer.branch_taken[k],
				unknown: answer.branch_unknown[k]
			});
		});
		(answer.text || []).forEach(function (t) {
			s.longest = Math.max(s.longest, t.length + 7 * t.split("\t").length - 7);
		});
		s.longest = Math.min(s.longest, 500);
		return s;
	}

	const expandTabs = function (text) {
		if (!text.includes("\t"))
			return text;
		let out = "";
		for (const c of text)
			out += c === "\t" ? " ".repeat(8 - out.length % 8) : c;
		return out;
	};

	function sourceColumns() {
		const a = source.answer;
		const at = function (i) { return source.row.get(source.lines[i]); };
		const branches = function (i) { return source.branches.get(source.lines[i]) || []; };
		return [{
			id: "state", title: "", width: "1.6em", hint: "Did the line run?",
			fill: function (cell, i) {
				const k = at(i);
				const ran = k !== undefined && a.executed[k] > 0;
				const both = branches(i).every(function (b) {
					return b.taken > 0 && b.executed - b.unknown > b.taken;
				});
				cell.textContent = k === undefined ? "" : !ran ? "\u2717" : both ? "\u2713" : "\u25d0";
				cell.className = "state " + (k === undefined ? "" : !ran ? "state-missed"
							     : both ? "state-ran" : "state-part");
				cell.title = k === undefined ? "" : !ran ? "did not run"
					     : both ? "ran" : "ran; some branch went one way only";
			}
		}, {
			id: "executed", title: "Executed", width: countWidth(a.executed), number: true,
			hint: "How often the line was executed",
			fill: function (cell, i) {
				const k = at(i);
				cell.textContent = k === undefined ? "" : format.count(a.executed[k]);
				cell.title = k === undefined ? "" : format.count(a.executed[k]) + " times, " +
					format.count(a.instructions[k]) + " instructions";
				setHeat(cell, k === undefined || look() !== "heat" ? 0 : a.instructions[k], source.most);
			}
		}, {
			id: "branches", title: "Taken", width: "7.6em", style: "branches",
			hint: "Conditional branches of the line: taken (left) and not taken (right)",
			fill: function (cell, i) { fillBranches(cell, branches(i)); }
		}, {
			id: "line", title: "Line", width: "4em", number: true,
			text: function (i) { return String(source.lines[i]); }
		}, {
			id: "text", title: "Source", width: "minmax(" + (source.longest + 2) + "ch, 1fr)", style: "code",
			fill: function (cell, i) {
				const t = a.text && a.text[source.lines[i] - 1];
				const text = t === undefined || t === null ? "" : Ptah.text(expandTabs(t), 2000);
				if (cell.textContent !== text)
					cell.textContent = text;
			}
		}];
	}

	function showSource(line) {
		const a = source.answer;
		if (grids.source)
			grids.source.close();
		Ptah.clear(parts.source);
		const title = el("b", {});
		Ptah.fillPath(title, a.file);
		Ptah.append(Ptah.clear(parts.sourceHead), [title, functionChoice()]);
		parts.sourceNote.textContent = !a.text ? "The file is not here: lines that have code, and their counts."
			: a.newer ? "The file is newer than the program: lines may have moved." : "";
		const g = grids.source = Ptah.grid(parts.source, {
			label: "Lines of " + Ptah.text(a.file), columns: sourceColumns(),
			select: function (i) { markLine(source.lines[i], true); },
			dress: function (row, i) {
				const k = source.row.get(source.lines[i]);
				row.classList.toggle("missed", look() === "coverage" && k !== undefined && !a.executed[k]);
				row.classList.toggle("ran", look() === "coverage" && k !== undefined && a.executed[k] > 0);
				row.classList.toggle("linked", !!code && code.marked === source.lines[i]);
			}
		});
		g.setRows(source.lines.length);
		if (line)
			goToLine(line);
		if (grids.files)
			grids.files.select(source.index, true);
	}

	function goToLine(line) {
		const g = grids.source;
		requestAnimationFrame(function () {
			if (grids.source !== g)
				return;
			// Some lines of context below and above.
			const at = source.places.get(line);
			if (at === undefined)
				return;
			g.select(Math.min(source.lines.length - 1, at + 12), true);
			g.select(Math.max(0, at - 6), true);
			g.select(at, true);
		});
	}

	// The functions of the file, those with most instructions first.
	function functionChoice() {
		const a = source.answer, list = a.function || [];
		if (!list.length)
			return null;
		const select = el("select", {
			"aria-label": "Function of this file", onchange: function () {
				if (select.value !== "")
					Ptah.open("source", {function: Number(select.value)}, {file: null, line: null});
			}
		}, el("option", {value: ""}, list.length + (list.length === 1 ? " function" : " functions")),
			list.map(function (f) {
				return el("option", {value: String(f)}, Ptah.text(Ptah.name(f), 90));
			}));
		if (code && list.includes(code.answer.function))
			select.value = String(code.answer.function);
		return select;
	}

	// ---- Assembly ----

	function makeCode(answer) {
		const c = {answer: answer, most: 0, marked: 0, rows: answer.address.length};
		answer.executed.forEach(function (n) { c.most = Math.max(c.most, n); });
		return c;
	}

	function branchOf(i) {
		const a = code.answer;
		return a.branch[i] ? [{executed: a.executed[i], taken: a.taken[i], unknown: a.unknown[i],
				       missed: a.missed ? a.missed[i] : null}] : null;
	}

	// Room for the longest of the counts.
	function countWidth(counts) {
		let most = 0;
		counts.forEach(function (n) { most = Math.max(most, n); });
		return Math.max(6, 0.62 * format.count(most).length + 1.6).toFixed(1) + "em";
	}

	const codeColumns = [{
		id: "executed", title: "Executed", width: "", number: true,
		fill: function (cell, i) {
			const n = code.answer.executed[i];
			cell.textContent = format.count(n);
			setHeat(cell, n, code.most);
		}
	}, {
		id: "branches", title: "Taken", width: "7.6em", style: "branches",
		fill: function (cell, i) { fillBranches(cell, branchOf(i)); }
	}, {
		id: "address", title: "Address", width: "6.5em", style: "code dim",
		text: function (i) { return code.answer.address[i].replace(/^0x/, ""); }
	}, {
		id: "text", title: "Instruction", width: "minmax(22em, 3fr)", style: "code",
		fill: function (cell, i) {
			const a = code.answer, to = a.to && a.to[i], f = a.to_function && a.to_function[i];
			const text = Ptah.text(a.text[i], 600);
			Ptah.clear(cell).append(text);
			cell.title = a.bytes && a.bytes[i] ? a.bytes[i] : "";
			if (to !== undefined && to !== null && to >= 0)
				cell.append(jump(to < i ? "\u2191" : "\u2193", "Go to where it jumps",
						 function () { grids.code.select(to); }));
			else if (f !== undefined && f !== null && f >= 0)
				cell.append(jump("\u2192", "Go to " + Ptah.name(f), function () {
					Ptah.open("source", {function: f}, {file: null, line: null});
				}));
		}
	}, {
		id: "line", title: "Line", width: "minmax(7em, 1fr)", style: "name dim",
		fill: function (cell, i) {
			const a = code.answer, line = a.line[i];
			const file = a.file[i] >= 0 && files ? files.file[a.file[i]] : null;
			const other = !source || a.file[i] !== source.index;
			cell.textContent = !line ? "" : other && file
				? Ptah.text(file.slice(file.lastIndexOf("/") + 1)) + ":" + line : String(line);
			cell.title = file ? Ptah.text(file) + ":" + line : "";
		}
	}];

	function jump(text, title, go) {
		return el("button", {type: "button", class: "jump", tabindex: "-1", title: title,
				     "aria-label": title, onclick: function (event) {
			event.stopPropagation();
			go();
		}}, text);
	}

	function showCode() {
		if (grids.code)
			grids.code.close();
		grids.code = null;
		Ptah.clear(parts.code);
		Ptah.clear(parts.codeHead);
		parts.page.classList.toggle("with-code", !!code);
		if (!code)
			return;
		const a = code.answer, f = a.function, notes = [];
		if (!a.available)
			notes.push(a.reason || "the code is not available: a row for each block that ran");
		if (a.rewritten)
			notes.push("other instructions ran here at other times: their counts are left out");
		if (a.cut)
			notes.push("only its first 4 MB are shown");
		parts.codeHead.append(el("span", {class: "swatch"}), el("b", {title: Ptah.name(f)}, Ptah.name(f)),
			el("span", {class: "dim"}, format.count(a.instructions) + " instructions, " +
				format.count(a.branches) + " branches"),
			el("button", {type: "button", class: "icon quiet-close", title: "Close the assembly",
				      "aria-label": "Close the assembly", onclick: function () {
				Ptah.open("source", {function: null},
					  source ? {file: files.file[source.index], line: null} : {});
			}}, "\u00d7"));
		parts.codeNote.textContent = notes.join("; ");
		parts.codeHead.firstElementChild.style.background = Ptah.colour(f);
		codeColumns[0].width = countWidth(a.executed);
		grids.code = Ptah.grid(parts.code, {
			label: "Instructions of " + Ptah.name(f), columns: codeColumns,
			select: function (i) {
				if (source && a.file[i] === source.index && a.line[i]) {
					markLine(a.line[i], false);
					grids.source.select(source.places.get(a.line[i]), true);
				}
			},
			dress: function (row, i) {
				row.classList.toggle("linked", !!source && code.marked > 0 &&
						     a.line[i] === code.marked && a.file[i] === source.index);
				row.classList.toggle("idle", !a.executed[i]);
			}
		});
		grids.code.setRows(code.rows);
	}

	// Marks the instructions of a line, and shows the first one.
	function markLine(line, show) {
		if (!code || !source)
			return;
		const a = code.answer;
		code.marked = line;
		grids.source.refresh();
		grids.code.refresh();
		for (let i = 0; show && i < code.rows; i++)
			if (a.line[i] === line && a.file[i] === source.index) {
				grids.code.select(i, true);
				break;
			}
	}

	// ---- What is shown ----

	function fail(element, title) {
		return function (error) {
			if (error.name !== "AbortError")
				Ptah.message(element, title, Ptah.text(error.message, 1000));
		};
	}

	async function load() {
		const state = Ptah.state, params = state.params;
		let id = state.function;
		if (files === null)
			return;
		let index = params.file ? files.file.indexOf(params.file) : -1;
		if (id === null && index < 0)
			id = hottest();
		const words = [id, index, params.line].join(" ");
		if (asked === words)
			return;
		asked = words;
		// A line of a file that is not known is not looked for in another one.
		let line = params.file && index < 0 ? 0 : Number(params.line) || 0;
		let nextCode = null, nextSource = null, problem = null;
		if (id !== null && code && code.answer.function === id)
			nextCode = code;
		else if (id !== null)
			try {
				nextCode = makeCode(await askers.code.ask("code", {function: id}));
			} catch (error) {
				if (error.name === "AbortError")
					return;
				problem = [Ptah.name(id) + " cannot be shown", error];
			}
		if (nextCode && index < 0 && nextCode.answer.source >= 0) {
			index = nextCode.answer.source;
			line = line || nextCode.answer.source_line;
		}
		if (index >= 0 && source && source.index === index)
			nextSource = source;
		else if (index >= 0)
			try {
				nextSource = makeSource(index, await askers.source.ask("source", {file: index}));
			} catch (error) {
				if (error.name === "AbortError")
					return;
				problem = ["The file cannot be shown", error];
			}
		// Meanwhile something else may have been asked for, or another view be shown.
		if (!parts || asked !== words)
			return;
		code = nextCode;
		source = nextSource;
		showCode();
		if (source)
			showSource(line || firstRun());
		else
			showNoSource(problem);
		if (source && code)
			markLine(line, false);
	}

	// Why there is no source: `problem` is a sentence and an error, or null.
	function showNoSource(problem) {
		if (grids.source)
			grids.source.close();
		grids.source = null;
		Ptah.clear(parts.sourceHead);
		parts.sourceNote.textContent = "";
		if (problem)
			fail(parts.source, problem[0])(problem[1]);
		else if (code)
			Ptah.message(parts.source, "No source lines are known for " + Ptah.name(code.answer.function),
				     "Its object has no debug information: compile with -g. The assembly is exact.");
		else
			Ptah.message(parts.source, "No source lines are known",
				     "Compile with -g, and choose a function in the other views for its assembly.");
	}

	// The first line of the file that ran.
	function firstRun() {
		let first = 0;
		source.answer.line.forEach(function (line, k) {
			if (source.answer.executed[k] && (!first || line < first))
				first = line;
		});
		return first;
	}

	function hottest() {
		const self = Ptah.table && Ptah.table.self_instructions;
		let best = null;
		(self || []).forEach(function (n, i) {
			if (n > 0 && (best === null || n > self[best]))
				best = i;
		});
		return best;
	}

	view.show = function (element) {
		parts = {
			files: el("div", {class: "grid-box"}), source: el("div", {class: "grid-box"}),
			code: el("div", {class: "grid-box"}), sourceHead: el("div", {class: "pane-head"}),
			codeHead: el("div", {class: "pane-head"}), sourceNote: el("div", {class: "pane-note warn"}),
			codeNote: el("div", {class: "pane-note warn"})
		};
		parts.search = Ptah.searchBox("Search files", "Search files ( / )", function (match) {
			if (grids.files)
				grids.files.filter(match);
		});
		parts.look = Ptah.choice("Look", [
			["heat", "Heat", "Colours by the instructions of each line"],
			["coverage", "Coverage", "Lines that ran, and lines that did not"]
		], look(), function (l) {
			Ptah.state.params.look = l === "heat" ? null : l;
			Ptah.keepAddress();
			if (grids.source)
				grids.source.refresh();
		});
		parts.page = el("div", {class: "page source-page"},
			el("section", {class: "pane pane-files", "aria-label": "Files"},
				el("div", {class: "pane-head"}, parts.search), parts.files),
			el("section", {class: "pane pane-source", "aria-label": "Source"},
				el("div", {class: "bar"}, parts.sourceHead, parts.look.element), parts.sourceNote,
				parts.source),
			el("section", {class: "pane pane-code", "aria-label": "Assembly"}, parts.codeHead,
				parts.codeNote, parts.code));
		element.append(parts.page);
		view.grids = grids;
		askers = {files: Ptah.asker(parts.files), source: Ptah.asker(parts.source),
			  code: Ptah.asker(parts.code)};
		source = code = asked = null;
		if (!files)
			Ptah.message(parts.source, "Counting how often the code ran \u2026", "");
		Promise.all([files || askers.files.ask("sources", {}), Ptah.functions()]).then(function (all) {
			if (!parts)
				return;
			files = all[0];
			Ptah.clear(parts.source);
			showFiles();
			return load();
		}).catch(fail(parts.source, "The source cannot be shown"));
	};
	view.update = function () {
		parts.look.set(look());
		Object.keys(grids).forEach(function (k) {
			if (grids[k])
				grids[k].refresh();
		});
		load().catch(Ptah.fail);
	};
	view.hide = function () {
		Object.keys(askers).forEach(function (k) { askers[k].stop(); });
		Object.keys(grids).forEach(function (k) {
			if (grids[k])
				grids[k].close();
			grids[k] = null;
		});
		parts = null;
	};
	view.keydown = function (event) {
		if (event.key === "/") {
			parts.search.focus();
			parts.search.select();
			return true;
		}
		if (event.key === "n" || event.key === "N")
			return nextHot(event.key === "n" ? 1 : -1);
		return Ptah.isForView(event) && !!grids.source && grids.source.keydown(event);
	};

	// The next line of those that have most instructions: three quarters of the file's.
	function nextHot(step) {
		if (!source)
			return false;
		const a = source.answer, by = a.line.map(function (line, k) { return k; });
		let sum = 0, all = 0;
		a.instructions.forEach(function (n) { all += n; });
		by.sort(function (x, y) { return a.instructions[y] - a.instructions[x]; });
		const hot = [];
		for (let k = 0; k < by.length && sum < 0.75 * all; k++) {
			sum += a.instructions[by[k]];
			hot.push(a.line[by[k]]);
		}
		hot.sort(function (x, y) { return x - y; });
		const now = source.lines[grids.source.selected()] || 0;
		const to = step > 0 ? hot.find(function (l) { return l > now; })
				    : hot.reverse().find(function (l) { return l < now; });
		if (to)
			grids.source.select(source.places.get(to));
		return true;
	}

	view.available = function () { return Ptah.data.has("code") || Ptah.data.has("source"); };
	Ptah.views.push(view);
	Ptah.help.push({view: "source", keys: "\u2191 \u2193", text: "select a line or an instruction"},
		       {view: "source", keys: "n N", text: "the next, the previous hot line"},
		       {view: "source", keys: "Tab", text: "from the files to the source to the assembly"},
		       {view: "source", keys: "/", text: "search files"});
})();
