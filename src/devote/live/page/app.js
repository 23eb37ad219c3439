"use strict";
// The page of `devote watch`: asks /api and draws. Nothing comes from elsewhere; no build step.
const $ = (id) => document.getElementById(id);
const INKS = { light: ["#0b5cad", "#c2410c", "#15803d", "#9333ea", "#b91c1c", "#0e7490", "#a16207", "#be185d"],
  dark: ["#6cb0ff", "#ff9e64", "#6ee7a0", "#c99bff", "#ff8b80", "#5ad4e6", "#f2cc60", "#ff8fc4"] };
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const PLAIN = { light: { wall: [60, 60, 66], none: [245, 245, 245] }, dark: { wall: [47, 53, 61], none: [198, 204, 212] } };
const FLAT = [154, 160, 168], TRACKS = ["#ffffff", "#ff6fae", "#ffa630", "#7fdcff"];
const FIRST = ["explore/coverage", "eval/mean_reward", "rollout/ep_rew_mean", "explore/novelty"];  // metrics to begin with
const darkness = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => (darkness.matches ? "dark" : "light");

const runs = new Map(), compared = new Set(), rows = new Map();
let studies = {}, view = {}, details = null, shown = null, ranges = null, bin = null, playing = 0, asked = 0, turns = 0;

async function json(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}
function node(tag, more = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(more)) name in made ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
const number = (x, digits = 4) => x === null || x === undefined || !isFinite(x) ? "–"
  : Number.isInteger(x) ? x.toLocaleString("en") : Math.abs(x) < 1e-4 && x !== 0 ? x.toPrecision(Math.min(digits, 3))
  : Number(x.toPrecision(Math.abs(x) >= 1e4 ? 15 : digits)).toLocaleString("en", { maximumFractionDigits: Math.abs(x) >= 1e3 ? 0 : 12 });
const short = (x) => Math.abs(x) >= 1e6 ? `${number(x / 1e6, 3)}M` : Math.abs(x) >= 1e4 ? `${number(x / 1e3, 3)}k` : number(x, 3);
const time = (s) => s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
const steps = (run) => run.state === "finished" ? `${number(run.step)} steps` : `${number(run.step)} of ${number(run.steps)} steps`;
const code = (text) => node("code", {}, text);

// The list of runs and studies.

function row(run) {
  if (!rows.has(run.id)) {
    const box = node("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, title: "Compare: show its curves too" });
    box.addEventListener("change", () => { box.checked ? compared.add(run.id) : compared.delete(run.id); drawCurves(); });
    const made = node("li", {}, box, node("a", { href: `#run/${run.id}` }, run.name), node("span"),
      node("progress", { max: 1 }), node("span", { className: "told" }));
    rows.set(run.id, made);
  }
  const line = rows.get(run.id), [box, link, state, bar, told] = line.children, current = view.id === run.id;
  box.checked = compared.has(run.id);
  state.textContent = run.state; state.className = `state ${run.state}`;
  bar.value = run.steps ? Math.min(1, run.step / run.steps) : 0; bar.hidden = run.state === "finished";
  bar.setAttribute("aria-label", `progress of ${run.name}`);
  const facts = [steps(run)];
  if (run.state === "running") facts.push(`${number(run.rate, 3)} steps/s`);
  if (run.left !== null) facts.push(`${time(run.left)} left`);
  told.textContent = facts.join(" · ");
  line.className = `${run.state}${current ? " current" : ""}`;
  current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  return line;
}
function listed() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const order = { running: 0, starting: 1 };
  return [...runs.values()].filter((run) => {
    const text = `${run.name} ${run.task} ${run.agent} ${run.preset} ${run.state}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }).sort((a, b) => (order[a.state] ?? 2) - (order[b.state] ?? 2) || a.name.localeCompare(b.name, "en", { numeric: true }));
}
function list() {
  const found = listed();
  $("runs").replaceChildren(...found.map(row));
  $("count").textContent = found.length === runs.size ? number(runs.size) : `${number(found.length)} of ${number(runs.size)}`;
  $("studies").hidden = !Object.keys(studies).length;
  $("studies").lastElementChild.replaceChildren(...Object.entries(studies).map(([id, study]) => {
    const done = study.cells.filter((cell) => cell.state === "done").length, current = view.id === id;
    const link = node("a", { href: `#study/${id}` }, study.title);
    if (current) link.setAttribute("aria-current", "page");
    const state = node("span", { className: "state" }, `${done} of ${study.cells.length} done`);
    return node("li", { className: current ? "current" : "" }, "", link, state);
  }));
}
function told(change) {
  for (const run of change.runs) {
    if (run.step < (runs.get(run.id)?.step ?? 0)) kept.clear();  // began again
    runs.set(run.id, run);
  }
  for (const id of change.gone) { runs.delete(id); rows.delete(id); compared.delete(id); }
  if (change.studies) studies = change.studies;
  list();
  const mine = change.runs.some((run) => compared.has(run.id) || run.id === view.id);
  if (!view.id) route();
  else if (view.kind === "study" ? change.studies || change.runs.length : mine || change.gone.includes(view.id)) refresh();
}

// What is looked at is in the address, so that reload, back and bookmarks work: #run/ID, #study/ID.

function route() {
  const [, kind, id] = location.hash.match(/^#(run|study)\/(\w+)$/) ?? [];
  if (kind) view = { kind, id };
  else if (view.id) return;
  else if (runs.size) view = { kind: "run", id: listed()[0]?.id ?? runs.keys().next().value };
  else if (Object.keys(studies).length) view = { kind: "study", id: Object.keys(studies)[0] };
  details = shown = ranges = bin = null;
  if (playing) play();
  $("follow").checked = true; $("over").checked = view.kind === "study";
  for (const chart of $("charts").children) plots.get(chart)?.destroy();
  $("charts").replaceChildren(); $("canvases").replaceChildren();
  list();
  refresh();
}
async function refresh() {
  const { id } = view, run = runs.get(id), study = studies[id], kind = run ? "run" : study ? "study" : "nothing";
  for (const part of $("view").children) part.hidden = !part.dataset.of.split(" ").includes(kind);
  $("add").hidden = kind === "study";
  if (kind === "nothing") return drawNothing(Boolean(id));
  if (kind === "study") return drawStudy(study);
  const found = await json(`api/run/${id}`);
  if (id !== view.id) return;
  details = found;
  drawHead(run);
  fill($("seed"), details.seeds.length ? details.seeds : [0]);
  $("seed-label").hidden = details.seeds.length < 2;
  $("slider").max = Math.max(0, details.maps.length - 1);
  if ($("follow").checked) $("slider").value = $("slider").max;
  if ($("linked").checked) ranges = null;
  drawSettings(); drawPictures("picture", details.pictures); drawDoctor(id); drawCurves();
  await drawMaps();
}
function drawNothing(gone) {
  $("empty").replaceChildren(...(gone
    ? [node("h2", {}, "This run is not there any more"), node("p", {}, "Choose another one from the list.")]
    : [node("h2", {}, "No runs yet"), node("p", {}, "Start one in the folder that is watched, and it appears here by itself:"),
      node("p", {}, code("devote train spiral"))]));
  document.title = "devote watch";
}
function fact(name, value, more = {}) { return node("div", more, node("dt", {}, name), node("dd", {}, value)); }
function drawHead(run) {
  const last = details.latest, facts = [fact("Steps", steps(run).replace(" steps", ""))];
  document.title = `${run.name} (${run.state}) – devote watch`;
  $("name").replaceChildren(run.name, " ", node("span", { className: `state ${run.state}` }, run.state));
  $("about").textContent = `${run.agent} in ${run.task}, preset ${run.preset}`;
  if (run.state === "running")
    facts.push(fact("Steps per second", number(run.rate, 3)), fact("Time left", run.left === null ? "–" : time(run.left)));
  for (const [name, words] of [["explore/coverage", "Coverage"], ["rollout/ep_rew_mean", "Return, exploring"],
    ["eval/mean_reward", "Return, evaluated"], ["eval/success_rate", "Solved"]])
    if (name in last) facts.push(fact(words, number(last[name], 3)));
  const doctor = $("facts").querySelector(".doctor");
  $("facts").replaceChildren(...facts, ...(doctor ? [doctor] : []));
}
function fill(select, values, wanted = select.value) {
  const texts = values.map(String);
  if (texts.join("\n") !== [...select.options].map((o) => o.value).join("\n"))
    select.replaceChildren(...texts.map((text) => node("option", { value: text }, text)));
  select.value = texts.includes(String(wanted)) ? String(wanted) : texts[0];
}

// Curves: charts of one metric each; a study has a chart for each of its tasks.

const zooms = new WeakSet(), plots = new WeakMap();
function addChart(metric, task = "") {
  const pick = node("select", { "aria-label": task ? `Metric for ${task}` : "Metric" });
  const remove = node("button", { type: "button", className: "remove", "aria-label": "Remove this chart", hidden: Boolean(task) }, "✕");
  const title = node("p", {}, ...(task ? [node("b", {}, task)] : []), pick, remove);
  const chart = node("div", { className: "chart" }, title, node("div", { className: "plot", role: "img" }));
  chart.dataset.task = task; pick.dataset.wanted = metric;
  pick.addEventListener("input", () => drawChart(chart));
  remove.addEventListener("click", () => { plots.get(chart)?.destroy(); chart.remove(); });
  $("charts").append(chart);
  return chart;
}
function drawCurves() {
  if (!details) return;
  if (!$("charts").children.length) {
    const wanted = FIRST.filter((name) => details.latest[name] || (name === FIRST[0] && name in details.latest)).slice(0, 2);
    if (!wanted.length && details.columns.length) wanted.push(details.columns[0]);
    if (view.kind === "study") for (const task of new Set(studies[view.id].cells.map((c) => c.task))) addChart(wanted[0], task);
    else for (const metric of wanted.length ? wanted : [""]) addChart(metric);
  }
  return Promise.all([...$("charts").children].map(drawChart));
}
async function drawChart(chart) {
  const pick = chart.querySelector("select"), canvas = chart.querySelector(".plot"), { task } = chart.dataset;
  fill(pick, details.columns, pick.value || pick.dataset.wanted);
  const metric = pick.value, over = $("over").checked;
  const which = task ? [["study", view.id], ["task", task]] : [...new Set([view.id, ...compared])].map((id) => ["run", id]);
  const ticket = (chart.ticket = (chart.ticket ?? 0) + 1);
  const query = new URLSearchParams([["metric", metric], ["over", over ? "seeds" : "each"], ...which]);
  const lines = metric ? await json(`api/curves?${query}`) : [];
  if (ticket !== chart.ticket) return;
  const seen = lines.filter((line) => line.values.some((v) => v !== null));
  canvas.dataset.lines = seen.length;
  canvas.setAttribute("aria-label", `${metric}${task && ` in ${task}`}, ${plural(seen.length, "curve")}: ${seen.map((line) =>
    `${line.label} ends at ${number(line.values.filter((v) => v !== null).at(-1))}`).join("; ")}`);
  if (!seen.length) {
    plots.get(chart)?.destroy(); plots.delete(chart);
    const words = metric ? `No values of ${metric} yet.` : "No metrics yet. The first row comes after the first chunk.";
    canvas.replaceChildren(node("span", { className: "nothing" }, words));
    return;
  }
  const log = $("log").checked, { data, series, bands } = columns(seen, log);
  const sign = [...series.map((one) => one.label), log, scheme(), metric].join("\n"), old = plots.get(chart);
  if (old && old.sign === sign) return old.setData(data, !zooms.has(old));
  old?.destroy(); canvas.replaceChildren();
  const style = getComputedStyle(document.body), font = "12px system-ui, sans-serif";
  const grid = { stroke: style.getPropertyValue("--line"), width: 1 };
  const axis = { stroke: style.getPropertyValue("--dim"), grid, ticks: grid, font, labelFont: font };
  const plot = new uPlot({
    width: wide(canvas), height: 260, series, bands, cursor: { sync: { key: "steps" }, points: { size: 6 } },
    scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
    axes: [{ ...axis, label: "environment steps", labelSize: 20, values: (_, all) => all.map(short) },
      { ...axis, size: 62, values: (_, all) => all.map((x) => x === null ? "" : short(x)) }],
    hooks: { setSelect: [(u) => zooms.add(u)] },
  }, data, canvas);
  plot.root.addEventListener("dblclick", () => zooms.delete(plot));
  plot.sign = sign; plots.set(chart, plot);
}
const wide = (canvas) => Math.max(240, canvas.clientWidth);
function columns(lines, log) {
  // An exponential moving average of `share`, and what uPlot draws it from: one column of steps for all.
  const share = Number($("smooth").value) / 21;
  const all = [...new Set(lines.flatMap((line) => line.steps))].sort((a, b) => a - b), place = new Map(all.map((step, i) => [step, i]));
  const newest = (plot, one) => plot.data[one].findLast((x) => x !== null);  // where no pointer is
  const series = [{ label: "step", value: (plot, x, one, at) => number(at === null ? newest(plot, 0) : x) }], data = [all], bands = [];
  const put = (line, values) => {
    const column = new Array(all.length).fill(null);
    let mean = null;
    line.steps.forEach((step, k) => {
      if (values[k] === null) return;
      mean = mean === null ? values[k] : share * mean + (1 - share) * values[k];
      column[place.get(step)] = log && mean <= 0 ? null : mean;
    });
    data.push(column);
  };
  lines.forEach((line, i) => {
    const stroke = INKS[scheme()][i % 8], count = line.values.filter((v) => v !== null).length;
    const drawn = { stroke, spanGaps: true, value: (plot, x, one, at) => number(at === null ? newest(plot, one) : x, 3) };
    const points = { show: count < 12, size: 5, fill: stroke };
    series.push({ ...drawn, label: line.label, width: 1.8, dash: i > 7 ? [6, 4] : undefined, points });
    put(line, line.values);
    if (!line.error || line.error.every((x) => x === null)) return;
    for (const sign of [1, -1]) {
      series.push({ ...drawn, label: line.label, class: "band", width: 0, points: { show: false } });
      put(line, line.values.map((v, k) => v === null || line.error[k] === null ? null : v + sign * line.error[k]));
    }
    bands.push({ series: [data.length - 2, data.length - 1], fill: `${stroke}2b` });
  });
  return { data, series, bands };
}

// Maps.

const kept = new Map();
async function snapshot(id, step, seed, plane) {
  const path = `api/map/${id}/${step}?seed=${seed}&plane=${plane}`;
  if (!kept.has(path)) {
    const answer = await fetch(path);
    if (!answer.ok) return null;
    const buffer = await answer.arrayBuffer(), length = new DataView(buffer).getUint32(0, true), arrays = {};
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let from = 4 + length;
    for (const [name, size] of Object.entries(head.sizes)) { arrays[name] = new Float32Array(buffer, from, size); from += 4 * size; }
    kept.set(path, { head, arrays });
    if (kept.size > 400) kept.delete(kept.keys().next().value);
  }
  return kept.get(path);
}
async function drawMaps() {
  const all = details.maps, none = !all.length, ticket = ++asked;  // of several draws at a time the last one counts
  for (const line of $("maps").querySelectorAll(".controls")) line.hidden = none;
  for (const id of ["canvases", "axes"]) $(id).hidden = none;
  if (none) {
    shown = null;
    const covers = details.columns.includes("explore/coverage");
    $("hover").textContent = !Object.keys(details.latest).length ? "No maps yet. The first one comes with the first steps of a training."
      : covers ? "This run has written no maps: its map_interval is 0 or above its steps." : "No maps: this task counts no coverage.";
    return;
  }
  const at = Math.min(Number($("slider").value), all.length - 1), { id } = view;
  const seed = Math.max(0, $("seed").selectedIndex), plane = Math.max(0, $("plane").selectedIndex);
  const found = await snapshot(id, all[at], seed, plane);
  if ($("linked").checked && !ranges) ranges = await json(`api/ranges/${id}?seed=${seed}&plane=${plane}`);
  if (ticket !== asked) return;
  const where = found ? ` · ${at + 1} of ${all.length}` : ": this file is damaged or of another version";
  $("at").textContent = `step ${number(all[at])}${where}`;
  $("slider").setAttribute("aria-valuetext", $("at").textContent);
  if (!found) return;
  shown = found;
  const { head, arrays } = shown, figures = $("canvases");
  fill($("plane"), head.planes.map((labels) => labels.join(", ")));
  $("plane-label").hidden = head.planes.length < 2; $("arrows-label").hidden = !arrays.arrows;
  if ([...figures.children].map((f) => f.dataset.name).join() !== head.names.join()) figures.replaceChildren(...head.names.map(mapFigure));
  const span = (i) => head.extent ? ` from ${number(head.extent[2 * i], 3)} to ${number(head.extent[2 * i + 1], 3)}` : "";
  const flat = head.shape[0] === 1 || !head.labels[1];
  $("axes").replaceChildren(`Across: ${head.labels[0]}${span(0)}.${flat ? "" : ` Up: ${head.labels[1]}${span(1)}.`}`,
    node("i", { className: "none" }), "not visited, or nothing known",
    ...(arrays.eligible.every((free) => free) ? [] : [node("i", { className: "wall" }), "wall, or out of reach"]));
  point(bin);
}
function mapFigure(name) {
  const canvas = node("canvas", { role: "img", tabIndex: 0, "aria-description": "Arrow keys read it bin by bin" });
  canvas.dataset.name = name;
  canvas.addEventListener("mousemove", (event) => {
    const [height, width] = shown.head.shape;
    const [across, down] = [event.offsetX / canvas.clientWidth * width, event.offsetY / canvas.clientHeight * height].map(Math.floor);
    if (across >= 0 && across < width && down >= 0 && down < height) point(down * width + across);
  });
  for (const left of ["mouseleave", "blur"]) canvas.addEventListener(left, () => point(null));
  canvas.addEventListener("keydown", (event) => {
    const [height, width] = shown.head.shape, move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width }[event.key];
    if (!move) return;
    event.preventDefault();
    const next = bin === null ? Math.floor(height / 2) * width + Math.floor(width / 2) : bin + move;
    if (next >= 0 && next < width * height) point(next);
  });
  const figure = node("figure", {}, node("figcaption", {}, node("b", {}, name), node("span", { className: "here" })), canvas,
    node("div", { className: "scale" }, node("span"), node("i"), node("span")));
  figure.dataset.name = name;
  return figure;
}
function scale(name) {
  const { arrays } = shown, seen = (x) => isFinite(x) && !(name === "visits" && x <= 0);
  let low = Infinity, high = -Infinity;
  arrays.eligible.forEach((free, i) => {
    const x = arrays[name][i];
    if (free && seen(x)) { low = Math.min(low, x); high = Math.max(high, x); }
  });
  if ($("linked").checked && ranges?.[name]) [low, high] = ranges[name];
  return name === "visits" ? [Math.max(low, 1), Math.max(high, 1)] : [low, high];
}
const share = (name, x, [low, high]) => name === "visits" ? Math.log(x / low) / Math.log(high / low) : (x - low) / (high - low);
function colour(name, x, range) {
  if (!isFinite(x) || (name === "visits" && x <= 0)) return PLAIN[scheme()].none;
  if (!(range[1] > range[0])) return FLAT;
  const at = Math.min(1, Math.max(0, share(name, x, range))) * (VIRIDIS.length - 1), i = Math.min(VIRIDIS.length - 2, Math.floor(at));
  return VIRIDIS[i].map((c, k) => Math.round(c + (at - i) * (VIRIDIS[i + 1][k] - c)));
}
function side() {  // as many maps in a row as stay readable, and rows of equal length
  const room = $("canvases").clientWidth, count = shown.head.names.length;
  const most = Math.max(1, Math.floor(room / 240)), lines = Math.ceil(count / most);
  return Math.min(420, room / Math.ceil(count / lines) - 20);
}
function paintAll() { if (shown) { const room = side(); for (const figure of $("canvases").children) paint(figure, room); } }
function paint(figure, room) {
  const { head, arrays } = shown, name = figure.dataset.name, values = arrays[name], [height, width] = head.shape, range = scale(name);
  const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d"), sharp = devicePixelRatio || 1;
  const zoom = Math.max(1, Math.floor(room * sharp / Math.max(width, height))), tall = height === 1 ? Math.max(zoom, 48 * sharp) : zoom;
  const small = new OffscreenCanvas(width, height), image = new ImageData(width, height);
  values.forEach((x, i) => image.data.set([...(arrays.eligible[i] ? colour(name, x, range) : PLAIN[scheme()].wall), 255], 4 * i));
  small.getContext("2d").putImageData(image, 0, 0);
  canvas.width = width * zoom; canvas.height = height * tall;
  canvas.style.width = `${canvas.width / sharp}px`; canvas.style.height = `${canvas.height / sharp}px`;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
  pen.lineJoin = pen.lineCap = "round";
  const middle = (i) => [(i % width + 0.5) * zoom, (Math.floor(i / width) + 0.5) * tall];
  const twice = (line, ink, thick) => {  // with a dark edge, to be seen on every colour
    for (const [style, size] of [["#000a", thick + 1.6], [ink, thick]]) { pen.strokeStyle = style; pen.lineWidth = size * sharp; pen.stroke(line); }
  };
  if ($("arrows").checked && arrays.arrows && name !== "visits") twice(arrowLines(middle, zoom), "#fff", 1.1);
  if ($("paths").value === "all" || $("paths").value === name) tracks(pen, middle, twice, sharp);
  if (bin !== null) {
    const [x, y] = middle(bin);
    pen.strokeStyle = "#ff3b30"; pen.lineWidth = 2 * sharp;
    pen.strokeRect(x - zoom / 2, y - tall / 2, zoom, tall);
  }
  const flat = !(range[1] > range[0]), known = isFinite(range[0]), words = known ? range.map((x) => number(x, 3)) : ["nothing known", ""];
  const [low, , high] = figure.querySelector(".scale").children;
  figure.querySelector(".scale").classList.toggle("flat", flat);
  low.textContent = known && flat ? `${words[0]} everywhere` : words[0];
  high.textContent = flat ? "" : words[1] + (name === "visits" ? " (log)" : "");
  canvas.setAttribute("aria-label", `map of ${name} at step ${head.step}, ${known ? `${words[0]} to ${words[1]}` : words[0]}`);
}
function arrowLines(middle, zoom) {
  const { head, arrays } = shown, [height, width] = head.shape, line = new Path2D();
  const gap = Math.max(1, Math.round(Math.max(width, height) / 16)), long = zoom * gap * 0.75;
  for (let i = 0; i < width * height; i++) {
    if (!arrays.eligible[i] || (i % width) % gap || Math.floor(i / width) % gap) continue;
    const [x, y] = middle(i), dx = arrays.arrows[2 * i] * long, dy = -arrays.arrows[2 * i + 1] * long;
    if (!(Math.hypot(dx, dy) > 1)) continue;
    line.moveTo(x - dx / 2, y - dy / 2); line.lineTo(x + dx / 2, y + dy / 2);
    for (const turn of [0.2, -0.2]) {
      line.moveTo(x + dx / 2, y + dy / 2);
      line.lineTo(x + 0.18 * dx - turn * dy, y + 0.18 * dy + turn * dx);
    }
  }
  return line;
}
function tracks(pen, middle, twice, sharp) {  // rounded through the bins' middles; what is older is fainter
  const { head, arrays } = shown, count = arrays.path.length / head.ways;
  for (let env = 0; env < head.ways; env++) {
    const bins = arrays.path.subarray(env * count, (env + 1) * count), ink = TRACKS[env % TRACKS.length];
    const places = [];
    bins.forEach((now, t) => {
      const first = arrays.first[env * count + t] > 0;
      if (now >= 0 && (first || now !== bins[t - 1])) places.push({ now, first });
    });
    [0.25, 0.5, 1].forEach((alpha, part) => {
      const [from, to] = [part, part + 1].map((third) => Math.ceil(places.length * third / 3));
      const line = new Path2D(), piece = places.slice(Math.max(0, from - 1), to);
      piece.forEach(({ now, first }, i) => {
        const [x, y] = middle(now), next = piece[i + 1];
        if (i === 0 || first) line.moveTo(x, y);
        if (!next || next.first) { line.lineTo(x, y); return; }
        const [u, v] = middle(next.now);
        line.quadraticCurveTo(x, y, (x + u) / 2, (y + v) / 2);
      });
      pen.globalAlpha = alpha;
      twice(line, ink, 1.4);
    });
    if (!places.length) continue;
    const end = new Path2D();
    end.arc(...middle(places.at(-1).now), 3.5 * sharp, 0, 7);
    twice(end, ink, 1.4); pen.fillStyle = ink; pen.fill(end);
  }
}
function point(at) {
  if (!shown) return;
  bin = at;
  paintAll();
  for (const figure of $("canvases").children) {
    const free = at !== null && shown.arrays.eligible[at];
    figure.querySelector(".here").textContent = free ? number(shown.arrays[figure.dataset.name][at]) : "";
  }
  if (at === null) { $("hover").textContent = ""; return; }
  const { head, arrays } = shown, [height, width] = head.shape, [left, right, bottom, top] = head.extent || [0, width, 0, height];
  const x = left + (at % width + 0.5) / width * (right - left), y = top - (Math.floor(at / width) + 0.5) / height * (top - bottom);
  const where = `${head.labels[0]} ${number(x, 3)}${head.labels[1] ? `, ${head.labels[1]} ${number(y, 3)}` : ""}`;
  // each value stands above its map; who only hears the page is told all of them here
  const values = head.names.map((name) => `${name} ${number(arrays[name][at])}`).join(", ");
  $("hover").replaceChildren(where, arrays.eligible[at] ? node("span", { className: "heard" }, `: ${values}`) : ": wall, or out of reach");
}
async function play() {
  const turn = (playing = playing ? 0 : ++turns);
  $("play").setAttribute("aria-pressed", String(Boolean(turn)));
  $("play").textContent = turn ? "Pause" : "Play";
  if (!turn) return;
  const slider = $("slider"), pause = Math.min(200, Math.max(40, 15000 / (Number(slider.max) + 1)));
  $("follow").checked = false;
  if (slider.value === slider.max) slider.value = 0;
  for (await drawMaps(); playing === turn; await drawMaps()) {
    await new Promise((done) => setTimeout(done, pause));
    if (playing !== turn) return;
    if (slider.value === slider.max) { play(); return; }
    slider.value = Number(slider.value) + 1;
  }
}

// Doctor, settings, pictures, studies.

async function drawDoctor(id) {
  const { findings: found, scope } = await json(`api/doctor/${id}`);
  if (id !== view.id) return;
  const begun = Object.keys(details.latest).length > 0;
  const link = node("a", { href: "#doctor" }, found.length ? plural(found.length, "finding") : begun ? "no findings" : "no data yet");
  link.addEventListener("click", (event) => { event.preventDefault(); $("doctor").scrollIntoView({ behavior: "smooth" }); });
  const summary = fact("Doctor", link, { className: `doctor${found.length ? " ill" : ""}` });
  $("facts").querySelector(".doctor")?.remove();
  $("facts").append(summary);
  const well = begun ? [node("p", { className: "healthy" }, "Nothing found."), node("p", { className: "more" }, `${scope}.`)]
    : [node("p", { className: "more" }, "There are no metrics to examine yet.")];
  $("findings").replaceChildren(...(found.length ? found.map((one) => {
    const facts = node("dl");
    for (const [what, text] of [["Seen", one.evidence], ["Threshold", one.threshold], ["Try", one.remedy], ["More", one.page]])
      facts.append(node("dt", {}, what), node("dd", {}, text));
    const title = one.name[0].toUpperCase() + one.name.slice(1) + (details.seeds.length > 1 ? ` (seed ${one.seed})` : "");
    return node("div", { className: "finding" }, node("h4", {}, title), node("p", {}, one.words), facts);
  }) : well));
}
function drawSettings() {
  const changes = details.changes && Object.entries(details.changes);
  $("same").textContent = !changes ? "This version of devote does not know the run's preset."
    : changes.length ? "" : "All settings are those of the preset.";
  $("changes").hidden = !changes?.length;
  const line = (name, ...values) => node("tr", {}, node("th", { scope: "row" }, name), ...values.map((value) => node("td", {}, value)));
  $("changes").tBodies[0].replaceChildren(...(changes ?? []).map(([name, pair]) => line(name, ...pair)));
  $("all").tBodies[0].replaceChildren(...Object.entries(details.settings).map(([name, value]) => line(name, value)));
}
function drawPictures(kind, names) {
  const sign = [kind, view.id, ...names, runs.get(view.id)?.state].join();
  if ($("pictures").dataset.sign === sign) return;
  $("pictures").dataset.sign = sign;
  $("pictures").replaceChildren(...names.map((name) => {
    const src = `${kind}/${view.id}/${encodeURIComponent(name)}`;
    const made = name.endsWith(".mp4") ? node("video", { src, controls: true, loop: true, "aria-label": name })
      : node("img", { src, alt: name, loading: "lazy" });
    return node("figure", {}, made, node("figcaption", {}, name));
  }));
}
async function drawStudy(study) {
  const { id } = view, tasks = [...new Set(study.cells.map((c) => c.task))], methods = [...new Set(study.cells.map((c) => c.method))];
  const among = (cells, state) => cells.filter((cell) => cell.state === state).length;
  const counted = (cells) => ["running", "done", "failed", "stopped", "queued"].filter((state) => among(cells, state))
    .map((state) => `${among(cells, state)} ${state}`).join(", ");
  document.title = `${study.title} – devote watch`;
  $("name").textContent = study.title; $("about").textContent = study.name;
  const done = `${among(study.cells, "done")} of ${study.cells.length}`;
  $("facts").replaceChildren(fact("Done", done), fact("Tasks", `${tasks.length}`), fact("Methods", `${methods.length}`));
  $("cells-count").textContent = counted(study.cells);
  drawPictures("study", study.pictures);
  const heads = ["Task", ...methods].map((text) => node("th", { scope: "col" }, text));
  $("cells").replaceChildren(node("thead", {}, node("tr", {}, ...heads)),
    node("tbody", {}, ...tasks.map((task) => node("tr", {}, node("th", { scope: "row" }, task), ...methods.map((method) => {
      const cells = study.cells.filter((c) => c.task === task && c.method === method);
      return node("td", {}, ...cells.map((c) => {
        const words = `${task}, ${method}, seed ${c.seed}: ${c.state}`;
        const place = c.id ? { href: `#run/${c.id}` } : { role: "img" };
        return node("a", { className: `cell ${c.state}`, title: words, "aria-label": words, ...place });
      }), node("span", { className: "counts" }, counted(cells)));
    })))));
  const first = study.cells.find((cell) => cell.id);
  if (!first) { $("curves").hidden = true; return; }
  const found = await json(`api/run/${first.id}`);
  if (id !== view.id) return;
  details = found;
  await drawCurves();
}

// What a person does.

$("find").addEventListener("input", list);
$("compare-all").addEventListener("click", () => { for (const run of listed()) compared.add(run.id); list(); drawCurves(); });
$("compare-none").addEventListener("click", () => { compared.clear(); list(); drawCurves(); });
$("add").addEventListener("click", () => {
  const used = [...$("charts").querySelectorAll("select")].map((s) => s.value);
  const chart = addChart(details.columns.find((name) => !used.includes(name)) ?? details.columns[0]);
  drawChart(chart);
  chart.querySelector("select").focus();
});
for (const id of ["log", "over", "smooth"]) $(id).addEventListener("input", drawCurves);
for (const id of ["seed", "plane", "linked"]) $(id).addEventListener("input", () => { ranges = null; drawMaps(); });
for (const id of ["paths", "arrows"]) $(id).addEventListener("input", paintAll);
$("slider").addEventListener("input", () => { $("follow").checked = false; drawMaps(); });
$("follow").addEventListener("input", () => { if ($("follow").checked) { $("slider").value = $("slider").max; drawMaps(); } });
$("play").addEventListener("click", play);
addEventListener("hashchange", route);
addEventListener("resize", () => {
  for (const chart of $("charts").children) plots.get(chart)?.setSize({ width: wide(chart.querySelector(".plot")), height: 260 });
  paintAll();
});
darkness.addEventListener("change", () => { drawCurves(); paintAll(); });

function linked(words, offline) { $("link").textContent = words; document.body.classList.toggle("offline", offline); }
addEventListener("unhandledrejection", (event) => {
  linked(`An answer is missing: ${event.reason.message}`, true);
  event.preventDefault();
});
const stream = new EventSource("api/events");
stream.onmessage = (event) => { linked("Live", false); told(JSON.parse(event.data)); };
stream.onerror = () => linked("No connection; trying again", true);
