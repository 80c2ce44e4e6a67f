"use strict";
// Draws a report from the JSON in the page (see page.py). All text of the program goes in as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");

/** An element with attributes and children; a string is text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const time = (seconds) => (seconds < 1e-3 ? `${Math.round(seconds * 1e6)} µs` : seconds < 1 ? `${(seconds * 1e3).toFixed(1)} ms` : `${seconds.toFixed(2)} s`);
const sum = (times) => Object.values(times).reduce((total, one) => total + one, 0);
const shortFile = (file) => file.split("/").slice(-2).join("/");
/** `Model (/home/me/net.py:3)` as `Model (me/net.py:3)`. */
const shortCode = (code) => code.replace(/\(([^()]*):(\d+)\)$/, (whole, file, line) => `(${shortFile(file)}:${line})`);

function section(id, title, ...children) {
  document.querySelector("nav").append(make("a", { href: "#" + id }, title));
  main.append(make("section", { id }, make("h2", {}, make("a", { class: "here", href: "#" + id }, title)), children));
}
const anchored = (id, text) => make("h3", { id }, make("a", { class: "here", href: "#" + id }, text));

/** A details element whose body is built when it is first opened: a page of thousands of nodes opens at once. */
function folded(summary, build, attributes) {
  const element = make("details", attributes || {}, make("summary", {}, summary));
  let built = false;
  const fill = () => { if (!built) { built = true; element.append(...[build()].flat(Infinity)); } };
  element.addEventListener("toggle", () => element.open && fill());
  element.fill = fill;
  return element;
}

/** A link to a line of the program, if the page has that file. */
function place(file, line) {
  const index = data.files.findIndex((one) => one.path === file);
  const text = `${shortFile(file)}:${line}`;
  return index < 0 ? make("span", { class: "mono", title: file }, text) : make("a", { class: "mono", href: `#line-${index + 1}-${line}`, title: file }, text);
}

// ---- summary ---------------------------------------------------------------------------------------------------------
function summary() {
  const figures = make("div", { class: "figures" });
  for (const [name, value] of Object.entries(data.summary)) figures.append(make("div", {}, make("b", {}, String(value)), name));
  main.append(make("h1", {}, "Stator report"), make("p", { class: "faint" }, data.made));
  section("summary", "Summary", figures, data.times && sum(data.times) ? stageBar(data.times, sum(data.times)) : null,
    make("p", { class: "faint" }, Object.entries(data.times).map(([stage, seconds]) => `${stage} ${time(seconds)}`).join(", ")),
    data.idle.map((text) => make("p", { class: "card" }, text)));
}

function stageBar(times, whole) {
  const bar = make("div", { class: "bar" });
  for (const [stage, seconds] of Object.entries(times))
    if (seconds > 0) bar.append(make("span", { class: stage, style: `width:${(100 * seconds) / whole}%`, title: `${stage}: ${time(seconds)}` }, (100 * seconds) / whole > stage.length + 1 ? stage : ""));
  return bar;
}

// ---- calls -----------------------------------------------------------------------------------------------------------
const KINDS = { hit: "used an entry", break: "used entries around graph breaks", capture: "captured", fallback: "ran uncompiled", sample: "ran uncompiled, to compare" };

function calls() {
  if (!data.calls.length) return;
  const columns = ["Function", "Calls", "Hits", "Captures", "Uncompiled", "A hit takes", "Uncompiled it takes", "Time"];
  const percent = (part, whole) => `${Math.round((100 * part) / Math.max(1, whole))} %`;
  const rows = data.calls.map((one) => {
    const compiled = sum(one.counts) - one.counts.sample, hits = one.counts.hit + one.counts.break;
    const mean = (kind) => (one.counts[kind] ? time(one.seconds[kind] / one.counts[kind]) : "–");
    const [, name, file, number] = one.name.match(/^(.*) \((.*):(\d+)\)$/) || [null, one.name];
    return make("tr", {}, make("td", {}, make("b", {}, name), " ", file ? place(file, Number(number)) : null), [String(compiled), percent(hits, compiled), String(one.counts.capture), String(one.counts.fallback),
      mean(one.counts.hit ? "hit" : "break"), mean("sample"), one.saved == null ? "–" : `${time(Math.abs(one.saved))} ${one.saved < 0 ? "lost" : "saved"}`].map((text, index) => make("td", { "data-column": columns[index + 1] }, text)));
  });
  const head = columns.map((text) => make("th", { scope: "col" }, text));
  section("calls", "Calls", make("div", { class: "scroll" }, make("table", { class: "cards" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows))),
    data.calls.every((one) => one.saved == null) ? make("p", { class: "faint" }, "The time saved is known with stator.watch(compare=True) or python -m stator report --compare.") : null,
    make("h3", {}, `Time line of ${count(data.timeline.length, "call")}`), timeline(),
    make("p", { class: "legend" }, Object.entries(KINDS).map(([kind, words]) => make("span", {}, make("i", { class: `call-${kind}` }), words))));
}

/** Calls as bars over time; those that are too short to see are a pixel wide. The arrow keys step through them. */
function timeline() {
  const end = Math.max(...data.timeline.map((one) => one.at + one.seconds), 1e-9);
  const said = make("p", { class: "mono faint", role: "status" }, "Arrow keys step through the calls.");
  const line = make("div", { class: "bar timeline", tabindex: "0", role: "group", "aria-label": "Calls over time" });
  const bars = data.timeline.map((one, index) => {
    const bar = make("span", { class: `call-${one.kind}`, style: `left:${(100 * one.at) / end}%;width:${(100 * one.seconds) / end}%` });
    bar.addEventListener("mouseenter", () => choose(index));
    line.append(bar);
    return bar;
  });
  let chosen = -1;
  function choose(index) {
    bars[chosen]?.classList.remove("chosen");
    chosen = Math.max(0, Math.min(bars.length - 1, index));
    bars[chosen].classList.add("chosen");
    const one = data.timeline[chosen];
    said.textContent = `call ${chosen + 1}: ${one.code} ${KINDS[one.kind]}, at ${time(one.at)}, ${time(one.seconds)}`;
  }
  line.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && bars.length) { event.preventDefault(); choose(chosen + step); }
  });
  return make("div", {}, line, said);
}

// ---- breaks, recompiles, notes ---------------------------------------------------------------------------------------
function breaks() {
  if (!data.breaks.length) return;
  section("breaks", "Graph breaks", data.breaks.map((one, index) => make("div", { class: "card" },
    anchored(`break-${index + 1}`, `${index + 1}. ${one.reason}`),
    make("p", {}, place(one.file, one.line), " ", make("code", {}, one.source.trim())),
    one.hint ? make("p", {}, "Remedy: " + one.hint) : null,
    make("p", { class: "faint" }, `${one.kind}: see docs/graph-breaks.md#${one.kind}`),
    one.stack.length ? folded(count(one.stack.length, "caller"), () => make("pre", {}, one.stack.join("\n"))) : null)));
}

/** The captures of each function one after the other, with the guard that failed between them. */
function chains() {
  const byCode = new Map();
  data.recompiles.forEach((one, index) => { const key = `${one.code} ${one.line}`; if (!byCode.has(key)) byCode.set(key, []); byCode.get(key).push([one, index]); });
  return [...byCode.values()].map((chain) => make("p", { class: "chain card" }, make("b", { title: chain[0][0].code }, shortCode(chain[0][0].code)), make("br", {}),
    chain[0][0].before == null ? "an earlier capture" : graphLink(chain[0][0].before),
    chain.map(([one, index]) => [" → ", make("a", { href: `#recompile-${index + 1}`, class: "mono" }, one.reasons[0]), " → ", one.after == null ? "runs uncompiled" : graphLink(one.after)])));
}

function recompiles() {
  if (!data.recompiles.length) return;
  section("recompiles", "Recompiles", chains(), data.recompiles.map((one, index) => {
    const graphs = [one.before, one.after].map((number) => (number == null ? null : data.captures[number]));
    return make("div", { class: "card" }, anchored(`recompile-${index + 1}`, `${index + 1}. ${shortCode(one.code)}`),
      make("p", {}, place(one.file, one.line), " ", make("code", {}, one.source.trim())),
      make("ul", {}, one.reasons.map((reason) => make("li", {}, reason))),
      make("p", {}, graphs[0] ? graphLink(one.before) : "an earlier capture", " → ", graphs[1] ? graphLink(one.after) : "runs uncompiled"),
      graphs[0] && graphs[1] ? folded("Difference of the two graphs", () => difference(graphs[0].lines, graphs[1].lines)) : null);
  }));
}

const graphLink = (number) => make("a", { href: `#graph-${number + 1}` }, `graph ${number + 1}`);

/** Lines of two texts, those of one alone marked: by the longest common subsequence of what is between equal ends. */
function difference(before, after) {
  let start = 0, end = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const a = before.slice(start, before.length - end), b = after.slice(start, after.length - end);
  const out = make("pre", { class: "diff" });
  const line = (sign, text) => out.append(make("div", { class: sign === "+" ? "add" : sign === "-" ? "del" : null }, `${sign} ${text}`));
  const equal = (lines) => (lines.length > 6 ? out.append(make("div", { class: "faint" }, `  … ${lines.length} equal lines …`)) : lines.forEach((text) => line(" ", text)));
  equal(before.slice(0, start));
  if (a.length * b.length > 4e6) { a.forEach((text) => line("-", text)); b.forEach((text) => line("+", text)); }
  else {
    const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--)
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    let i = 0, j = 0;
    while (i < a.length || j < b.length)
      if (i < a.length && j < b.length && a[i] === b[j]) { line(" ", a[i++]); j++; }
      else if (i < a.length && (j === b.length || longest[i + 1][j] >= longest[i][j + 1])) line("-", a[i++]);
      else line("+", b[j++]);
  }
  equal(before.slice(before.length - end));
  return out;
}

function notes() {
  if (!data.notes.length && !data.mismatched.length) return;
  section("notes", "Notes", data.notes.map((one, index) => make("div", { class: "card" }, anchored(`note-${index + 1}`, one.topic), one.text, " ", place(one.file, one.line))),
    data.mismatched.map((text) => make("pre", { class: "card" }, text)));
}

// ---- the program -----------------------------------------------------------------------------------------------------
function program() {
  if (!data.files.length) return;
  section("program", "Program", make("p", { class: "faint" }, "Green lines have operations in a graph, red ones break it, yellow ones fix a size."),
    data.files.map((file, index) => {
      const marks = new Map();
      const mark = (line, kind, ...text) => { if (!marks.has(line)) marks.set(line, []); marks.get(line).push([kind, text]); };
      data.breaks.forEach((one, number) => one.file === file.path && mark(one.line, "broken", make("a", { href: `#break-${number + 1}` }, `break ${number + 1}`), ": " + one.reason));
      for (const [line, texts] of Object.entries(file.fixed)) for (const text of texts) mark(Number(line), "fixed", text);
      for (const [line, graphs] of Object.entries(file.captured))
        mark(Number(line), "captured", ...Object.entries(graphs).flatMap(([graph, nodes], n) => [n ? ", " : "", graphLink(Number(graph)), `: ${count(nodes, "operation")}`]));
      return folded(make("span", {}, make("b", {}, shortFile(file.path)), make("span", { class: "faint" }, " " + file.path)), () => {
        const list = make("div", { class: "source mono", tabindex: "0" });
        file.lines.forEach((text, row) => {
          const line = file.first + row, found = marks.get(line) || [];
          const kind = ["broken", "fixed", "captured"].find((one) => found.some((mark) => mark[0] === one));
          const id = `line-${index + 1}-${line}`;
          list.append(make("div", { id, class: kind }, make("a", { class: "number", href: "#" + id }, String(line)), text || " ",
            found.map(([, words]) => make("span", { class: "mark" }, words))));
        });
        return list;
      }, { id: `file-${index + 1}`, open: index === 0 });
    }));
}

// ---- graphs ----------------------------------------------------------------------------------------------------------
/** `%name = word target(arguments) -> result` as parts. */
function parse(line) {
  const found = /^%(\S+) = (\S+) (.*)$/s.exec(line);
  const inputs = (text) => [...text.matchAll(/%(\w+)/g)].map((one) => one[1]);
  if (!found) return { name: "output", target: "", inputs: inputs(line), result: "", line };
  const [, name, word, rest] = found;
  const arrow = rest.lastIndexOf(" -> ");
  const call = arrow < 0 ? rest : rest.slice(0, arrow);
  return { name, word, target: call.split("(")[0], inputs: word === "placeholder" ? [] : inputs(call), result: arrow < 0 ? "" : rest.slice(arrow + 4), line };
}

/** Rows of nodes with arcs from each result to its uses. A module is one row until it is opened. */
function drawing(capture) {
  const nodes = capture.lines.map(parse).map((node) => ({ ...node, ...(capture.places[node.name] || {}) }));
  for (const node of nodes) node.path = node.module ? node.module.replace(/^L\['(\w+)'\]/, "$1").split(".") : [];
  const open = new Set();
  if (nodes.length <= 40) for (const node of nodes) node.path.forEach((_, depth) => open.add(node.path.slice(0, depth + 1).join(".")));
  else open.add("self");
  const holder = make("div", { class: "graph" }), detail = make("div", { class: "card detail", role: "status" }, "Choose a node to see its shape and line.");
  const inputs = nodes.filter((node) => node.word === "placeholder").length;
  let showsInputs = inputs <= 8;
  function rows() {
    const shown = [], rowOf = new Map();
    if (!showsInputs && inputs) shown.push({ key: "inputs", label: `▸ ${count(inputs, "input")}`, toggle: () => { showsInputs = true; }, size: inputs, within: [] });
    for (const node of nodes) {
      if (node.word === "placeholder" && !showsInputs) { rowOf.set(node.name, 0); continue; }
      let depth = 0, closed = null;
      for (; depth < node.path.length && closed === null; depth++) {
        const key = node.path.slice(0, depth + 1).join(".");
        const last = shown[shown.length - 1];
        if (!open.has(key)) closed = key;
        else if (!last || !(last.key === key || last.within.some((one) => one === key)))
          shown.push({ key, depth, module: key, label: `▾ ${key}`, within: node.path.map((_, n) => node.path.slice(0, n + 1).join(".")).slice(0, depth + 1) });
      }
      const within = node.path.map((_, n) => node.path.slice(0, n + 1).join("."));
      if (closed !== null) {
        const last = shown[shown.length - 1];
        if (last && last.key === closed && last.size) last.size++;
        else shown.push({ key: closed, depth: depth - 1, module: closed, size: 1, within });
        shown[shown.length - 1].label = `▸ ${closed} (${count(shown[shown.length - 1].size, "node")})`;
      } else shown.push({ key: node.name, node, depth: node.path.length, label: `${node.name}  ${node.target}  ${node.result}`, within });
      rowOf.set(node.name, shown.length - 1);
    }
    return [shown, rowOf];
  }
  function draw(focus) {
    const [shown, rowOf] = rows(), height = 26, width = 110;
    const list = make("ol", {});
    const arcs = new Map();
    for (const node of nodes) for (const input of node.inputs) {
      const from = rowOf.get(input), to = rowOf.get(node.name);
      if (from != null && to != null && from !== to) arcs.set(`${from} ${to}`, [from, to]);
    }
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", width); svg.setAttribute("height", shown.length * height); svg.setAttribute("aria-hidden", "true");
    for (const [from, to] of arcs.values()) {
      const arc = document.createElementNS(svg.namespaceURI, "path");
      const y = [from, to].map((row) => row * height + 12), reach = Math.min(width - 8, 8 + 10 * Math.sqrt(Math.abs(to - from)));
      arc.setAttribute("d", `M${width} ${y[0]} C${width - reach} ${y[0]} ${width - reach} ${y[1]} ${width} ${y[1]}`);
      arc.dataset.ends = `${from} ${to}`;
      svg.append(arc);
    }
    const near = (row) => svg.querySelectorAll("path").forEach((arc) => arc.classList.toggle("near", arc.dataset.ends.split(" ").includes(String(row))));
    shown.forEach((row, index) => {
      const click = () => {
        if (row.toggle) row.toggle();
        else if (row.module) open.has(row.module) ? open.delete(row.module) : open.add(row.module);
        else return describe(row.node);
        draw(row.key);
      };
      list.append(make("li", { style: `padding-left:${(row.depth || 0) * 12}px` },
        make("button", { class: row.node ? "node" : "module", "data-key": row.key, "aria-expanded": row.module ? String(open.has(row.module)) : null, onclick: click, onfocus: () => near(index), onmouseenter: () => near(index) }, row.label)));
    });
    holder.replaceChildren(svg, list);
    if (focus) [...list.querySelectorAll("button")].find((one) => one.dataset.key === focus)?.focus();
  }
  function describe(node) {
    detail.replaceChildren(make("code", {}, node.line), make("p", {}, node.result ? `Result: ${node.result}` : "", node.module ? ` · module ${node.module}` : ""),
      make("p", {}, (node.stack == null ? [] : data.stacks[node.stack]).map(([file, line], n) => [n ? " ← " : "", place(data.strings[file], line)]).flat()));
  }
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.tagName !== "BUTTON") return;
    event.preventDefault();
    const all = [...holder.querySelectorAll("button")];
    all[all.indexOf(event.target) + step]?.focus();
  });
  draw();
  return make("div", {}, holder, detail);
}

function graphs() {
  section("graphs", "Graphs", data.captures.map((capture, index) => capture.lines.length ? folded(
    `Graph ${index + 1}: ${shortCode(capture.code)}: ${count(capture.nodes, "node")}, ${count(capture.guards.length, "guard")}, ${time(sum(capture.times))}`,
    () => {
      const text = capture.lines.join("\n");
      return [drawing(capture), folded("As text", () => [make("button", { class: "copy", onclick: (event) => navigator.clipboard?.writeText(text).then(() => { event.target.textContent = "Copied"; }) }, "Copy"), make("pre", {}, text)]),
        capture.symbols.length ? make("p", {}, make("a", { href: `#symbols-${index + 1}` }, count(capture.symbols.length, "symbol"))) : "",
        capture.knowledge.length ? make("div", {}, make("h3", {}, "Known from before"), make("ul", {}, capture.knowledge.map((one) => make("li", {}, one)))) : ""];
    }, { id: `graph-${index + 1}`, class: "card", open: index === 0 }) : null));
}

// ---- symbols ---------------------------------------------------------------------------------------------------------
/** A text with its last `(file:line)` as a link to the line. */
function linked(text) {
  const found = /^(.*)\((\S[^()]*):(\d+)\)(.*)$/.exec(text);
  return found ? [found[1], place(found[2], Number(found[3])), found[4]] : [text];
}

function symbols() {
  const having = [...data.captures.entries()].filter(([, one]) => one.symbols.length || one.relations.length);
  if (!having.length) return;
  section("symbols", "Symbols", having.map(([number, one]) => make("div", { class: "card" }, anchored(`symbols-${number + 1}`, `Graph ${number + 1}: ${shortCode(one.code)}`),
    make("ul", {}, one.symbols.map((text) => make("li", { class: text.includes("specialized to") ? "fixed" : null }, linked(text)))),
    one.relations.length ? [make("h3", {}, "Relations"), make("ul", {}, one.relations.map((text) => make("li", {}, linked(text))))] : null)));
}

// ---- guards ----------------------------------------------------------------------------------------------------------
/** The steps from the root to what a guard looks at: `L['self']._modules['a'] is ...` -> L['self'], ._modules, ['a']. */
function steps(guard) {
  const text = guard.replace(/^type of /, "");
  const root = /^(?:[A-Za-z_]+\['(?:[^'\\]|\\.)*'\]|[A-Za-z_]\w*)/.exec(text);
  if (!root) return ["others"];
  const found = [root[0]], step = /\.[A-Za-z_]\w*(?:\(\))?|\[(?:'(?:[^'\\]|\\.)*'|[^\]]*)\]/y;
  step.lastIndex = root[0].length;
  for (let one; (one = step.exec(text)); ) found.push(one[0]);
  return found;
}

/** What a step of the guard program looks at: `item r5 = L['x'].y (absent)`, `type r8: type of L['x'] is dict`. */
const lookedAt = (step) => step.replace(/^[a-z ]+ r\d+(?::| =) /, "").replace(/^type of /, "");

function guardTree(indices, stepIndices) {
  const root = { children: new Map(), leaves: [], size: 0, cost: 0 };
  const costs = new Map();  // of a path: how many steps of a check are in its block
  for (const index of stepIndices) {
    let path = "";
    for (const step of steps(lookedAt(data.strings[index]))) { path += step; costs.set(path, (costs.get(path) || 0) + 1); }
  }
  for (const index of indices) {
    let at = root, path = "";
    at.size++;
    for (const step of steps(data.strings[index])) {
      path += step;
      if (!at.children.has(step)) at.children.set(step, { children: new Map(), leaves: [], size: 0, cost: costs.get(path) || 0 });
      at = at.children.get(step);
      at.size++;
    }
    at.leaves.push(data.strings[index]);
  }
  const body = (node) => [...node.leaves.map((text) => make("div", { class: "leaf mono" }, text)),
    ...[...node.children].map(([step, child]) => folded(make("span", { class: "mono" }, step, make("span", { class: "faint" }, ` ${count(child.size, "guard")}${child.cost ? `, ${count(child.cost, "step")} of a check` : ""}`)), () => body(child)))];
  return make("div", { class: "tree" }, body(root));
}

function guards() {
  const found = make("div", { id: "guards-found", role: "status" });
  const trees = make("div", {}, data.captures.map((capture, index) => folded(`Graph ${index + 1}: ${count(capture.guards.length, "guard")}, ${count(capture.steps.length, "step")} of a check`, () => guardTree(capture.guards, capture.steps), { id: `guards-${index + 1}` })));
  const search = make("input", { type: "search", id: "guard-search", placeholder: "Search guards ( / )", "aria-label": "Search guards", oninput: () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    trees.hidden = words.length > 0;
    if (!words.length) return found.replaceChildren();
    const hits = [];
    data.captures.forEach((capture, number) => capture.guards.forEach((index) => { const text = data.strings[index]; if (words.every((word) => text.toLowerCase().includes(word))) hits.push(`${number + 1}: ${text}`); }));
    found.replaceChildren(make("p", { class: "faint" }, count(hits.length, "guard")), make("pre", {}, hits.slice(0, 500).join("\n")));
  } });
  section("guards", "Guards", make("p", { class: "faint" }, "A check takes these steps when nothing is known from the call before; the steps of a dict that did not change are left out, and a call with the same objects compares addresses alone."),
    make("p", {}, search), found, trees);
}

// ---- capture time as a flame graph -----------------------------------------------------------------------------------
function functionAt(file, line) {
  let name = "";
  for (const [first, last, known] of data.functions[file] || []) if (first <= line && line <= last) name = known;
  return `${name || "module level"} (${shortFile(data.strings[file])})`;
}

/** The time of a trace by the functions, or the modules, around each operation. */
function flameTree(capture, by) {
  const root = { name: "trace", seconds: 0, children: new Map() };
  const whole = (capture.times.trace || 0) + (capture.times.shapes || 0);
  for (const one of Object.values(capture.places)) {
    const path = by === "module" ? one.module.replace(/^L\['(\w+)'\]/, "$1").split(".").filter(Boolean)
      : [...(data.stacks[one.stack] || [])].reverse().map(([file, line]) => functionAt(file, line));
    let at = root, seconds = one.share * whole;
    at.seconds += seconds;
    for (const name of path) {
      if (!at.children.has(name)) at.children.set(name, { name, seconds: 0, children: new Map() });
      at = at.children.get(name);
      at.seconds += seconds;
    }
  }
  return root;
}

function flame(capture) {
  const holder = make("div", { class: "flame" }), said = make("p", { class: "mono faint", role: "status" });
  const tell = (node, root) => { said.textContent = `${node.name}: ${time(node.seconds)}, ${Math.round((100 * node.seconds) / (root.seconds || 1))} %`; };
  function draw(by) {
    const root = flameTree(capture, by);
    const row = (node) => {
      const inner = [...node.children.values()].sort((a, b) => b.seconds - a.seconds).filter((child) => child.seconds > root.seconds / 500);
      return make("div", { class: "flame-node", style: `flex:${node.seconds} 1 0` },
        make("button", { onfocus: () => tell(node, root), onmouseenter: () => tell(node, root) }, node.name),
        inner.length ? make("div", { class: "flame-row" }, inner.map(row), make("div", { style: `flex:${Math.max(0, node.seconds - inner.reduce((total, one) => total + one.seconds, 0))} 1 0` })) : null);
    };
    holder.replaceChildren(row(root));
    tell(root, root);
  }
  draw("function");
  return make("div", {}, make("p", {}, ["function", "module"].map((by) => make("button", { class: "copy", onclick: () => draw(by) }, `by ${by}`))), holder, said);
}

// ---- time ------------------------------------------------------------------------------------------------------------
function times() {
  if (!data.events.length) return;
  const end = Math.max(...data.events.map((one) => one.at), 1e-9), most = Math.max(...data.captures.map((one) => sum(one.times)), 1e-9);
  const line = make("div", { class: "bar", title: "When each capture happened" });
  for (const one of data.events) {
    const began = Math.max(0, one.at - one.seconds);
    line.append(make("span", { class: one.kind === "capture" ? "trace" : one.kind === "recompile" ? "guards" : "backend", title: `${one.kind} ${one.code}: at ${time(began)}, ${time(one.seconds)}`,
      style: `position:absolute;left:${(100 * began) / end}%;width:${Math.max((100 * one.seconds) / end, 0.2)}%` }));
  }
  section("times", "Times", make("h3", {}, `Captures over ${time(end)}`), line,
    make("p", { class: "faint" }, "Blue is a first capture, ochre a recompile, red a frame that stays uncompiled. Calls are in their own section."),
    make("h3", {}, "Each capture by stage"),
    [...data.captures.entries()].sort((a, b) => sum(b[1].times) - sum(a[1].times)).slice(0, 100).map(([number, capture]) => {
      const whole = sum(capture.times), bar = stageBar(capture.times, whole);
      bar.style.width = `${(100 * whole) / most}%`;
      return make("div", {}, make("div", { class: "mono" }, graphLink(number), ` ${shortCode(capture.code)} ${time(whole)}`), bar,
        Object.keys(capture.places).length ? folded("Flame graph of the trace", () => flame(capture), { id: `flame-${number + 1}` }) : null);
    }));
}

/** Opens what the address names, and what is around it. */
function follow() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  const file = /^line-(\d+)-/.exec(id);
  const holder = file && document.getElementById(`file-${file[1]}`);
  if (holder) { holder.fill(); holder.open = true; }
  const target = document.getElementById(id);
  for (let around = target; around; around = around.parentElement) if (around.tagName === "DETAILS") { around.fill?.(); around.open = true; }
  // What was built just now was not there when the browser looked for the target.
  if (target && !target.matches(":target")) location.replace(location.hash);
  target?.scrollIntoView();
}

summary(); calls(); breaks(); recompiles(); program(); graphs(); symbols(); guards(); times(); notes();
document.querySelectorAll("details[open]").forEach((one) => one.fill?.());
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
  const search = document.getElementById("guard-search");
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(event.target.tagName)) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && event.target === search) { search.value = ""; search.dispatchEvent(new Event("input")); search.blur(); }
});
follow();
