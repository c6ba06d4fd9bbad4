// Figures of the report page: decision threshold, calibration, ROC curve and familiarity. Uses chart.js.

const { models, classes, y, weight } = data;
const byId = (id) => document.getElementById(id);
const COLORS = [0, 1, 4, 3, 5, 6, 7, 8, 2]; // similar colours are far apart in this order
const colorOf = (k) => `var(--m${COLORS[k % COLORS.length]})`;
let chosen = 0, positive = data.positive, threshold = 0.5;

// -- counts over all thresholds -----------------------------------------------------------------

/** Return the distinct thresholds in decreasing order, with the weights of hits and false alarms at each of them. */
function ranked(model) {
  const p = model.prob.map((row) => row[positive]), order = p.map((_, i) => i).sort((a, b) => p[b] - p[a]);
  const steps = [{ t: Infinity, hits: 0, alarms: 0 }];
  let hits = 0, alarms = 0;
  order.forEach((i, k) => {
    if (y[i] === positive) hits += weight[i];
    else alarms += weight[i];
    if (k + 1 === order.length || p[order[k + 1]] < p[i]) steps.push({ t: p[i], hits, alarms });
  });
  return { steps, yes: hits, no: alarms };
}
const at = ({ steps }, t) => steps.findLast((step) => step.t >= t) ?? steps[0];
const costs = () => ({ alarm: Math.max(0, Number(byId("cost-alarm").value)), miss: Math.max(0, Number(byId("cost-miss").value)) });
const costOf = ({ yes, no }, step, { alarm, miss }) => (alarm * step.alarms + miss * (yes - step.hits)) / (yes + no);
const rightThreshold = ({ alarm, miss }) => (alarm + miss > 0 ? alarm / (alarm + miss) : 0.5);

/** Return the threshold with the lowest cost on these rows. Among equally good thresholds, it is the one closest to the
threshold that is optimal if the probabilities are correct. */ function best(found, cost) {
  const values = found.steps.map((step) => costOf(found, step, cost)), least = Math.min(...values), aim = rightThreshold(cost);
  let best = null;
  found.steps.forEach((step, k) => {
    if (values[k] > least + 1e-12) return;
    const high = Math.min(1, step.t), low = found.steps[k + 1]?.t ?? 0;
    const t = aim > low && aim <= high ? aim : (high + low) / 2;
    if (!best || Math.abs(t - aim) < Math.abs(best.t - aim)) best = { t, cost: least };
  });
  return best;
}

/** Return at most `most` of the steps, evenly spaced, including the first and the last. */
const thinned = (steps, most = 150) =>
  steps.length <= most ? steps : Array.from({ length: most }, (_, k) => steps[Math.round((k * (steps.length - 1)) / (most - 1))]);

// -- the decision -------------------------------------------------------------------------------

const count = (n) => (Number.isInteger(n) ? String(n) : n.toFixed(1));
function decide(moved) {
  const found = ranked(models[chosen]), cost = costs(), optimum = best(found, cost), slider = byId("threshold");
  if (!moved) slider.value = threshold = optimum.t; // the slider rounds it to three decimals
  const t = threshold, now = at(found, t);
  byId("threshold-shown").textContent = t.toFixed(3);
  const here = costOf(found, now, cost), never = costOf(found, found.steps[0], cost), always = costOf(found, found.steps.at(-1), cost);
  byId("verdict").replaceChildren(
    "Best threshold on these rows: ", html("b", { id: "best" }, optimum.t.toFixed(3)), ` (cost ${fixed(optimum.cost, 4)} per row). Best threshold if the probabilities are correct: `,
    html("b", {}, rightThreshold(cost).toFixed(3)), ". Cost at the chosen threshold: ", html("b", { id: "cost" }, fixed(here, 4)),
    ` per row. Classifying every row as ${classes[positive]} costs ${fixed(always, 4)} per row, and classifying no row as ${classes[positive]} costs ${fixed(never, 4)}.`,
  );
  const other = classes.length === 2 ? classes[1 - positive] : "another class", name = classes[positive];
  const cell = (n, wrong) => html("td", wrong ? { class: "wrong" } : {}, count(n));
  byId("confusion").replaceChildren(
    html("thead", {}, html("tr", {}, html("th", {}, "true \\ predicted"), html("th", { scope: "col" }, name), html("th", { scope: "col" }, other))),
    html("tbody", {}, html("tr", {}, html("th", { scope: "row" }, name), cell(now.hits), cell(found.yes - now.hits, true)),
      html("tr", {}, html("th", { scope: "row" }, other), cell(now.alarms, true), cell(found.no - now.alarms))),
  );
  const curve = Array.from({ length: 101 }, (_, k) => ({ x: k / 100, y: costOf(found, at(found, k / 100), cost) }));
  const points = curve.map((p) => ({ ...p, r: 1.5, tip: [`threshold ${p.x.toFixed(2)}`, `cost ${fixed(p.y, 4)} per row`] }));
  const marks = [{ x: t, y: here, r: 7, tip: [`threshold ${t.toFixed(3)}`, `cost ${fixed(here, 4)} per row`, "chosen"] }];
  chart(byId("cost-curve"), {
    title: "Cost per row against the threshold", x: { label: "threshold", domain: [0, 1] }, y: { label: "cost per row" }, mark: optimum.t,
    series: [{ name: "cost", color: colorOf(chosen), line: true, points }, { name: "chosen", color: "var(--ink)", shape: "diamond", points: marks }],
  });
  ranking(t);
}

// -- ROC and precision-recall -------------------------------------------------------------------

function ranking(t) {
  const panels = { roc: [], precision: [] }, areas = [];
  models.forEach((model, k) => {
    const found = ranked(model), { yes, no } = found, style = { name: model.name, color: colorOf(k), line: true, bold: k === chosen };
    const fraction = (a, b) => (b > 0 ? a / b : 0), area = found.steps.slice(1).reduce((sum, s, j) => sum + (fraction(s.alarms - found.steps[j].alarms, no) * fraction(s.hits + found.steps[j].hits, yes)) / 2, 0);
    const mean = found.steps.slice(1).reduce((sum, s, j) => sum + fraction(s.hits - found.steps[j].hits, yes) * fraction(s.hits, s.hits + s.alarms), 0);
    const words = (s) => [model.name, `threshold ${s.t === Infinity ? "above 1" : s.t.toFixed(3)}`, `recall ${percent(fraction(s.hits, yes))}`, `false alarms ${percent(fraction(s.alarms, no))} of the other rows`, `precision ${percent(fraction(s.hits, s.hits + s.alarms))}`];
    const few = thinned(found.steps), now = at(found, t);
    areas.push([model.name, area, mean]);
    panels.roc.push({ ...style, points: few.map((s) => ({ x: fraction(s.alarms, no), y: fraction(s.hits, yes), r: 1.5, tip: words(s) })) });
    panels.precision.push({ ...style, points: few.slice(1).map((s) => ({ x: fraction(s.hits, yes), y: fraction(s.hits, s.hits + s.alarms), r: 1.5, tip: words(s) })) });
    if (k !== chosen) return;
    const mark = { name: "chosen", color: "var(--ink)", shape: "diamond" };
    panels.roc.push({ ...mark, points: [{ x: fraction(now.alarms, no), y: fraction(now.hits, yes), r: 7, tip: words(now) }] });
    if (now.hits + now.alarms > 0) panels.precision.push({ ...mark, points: [{ x: fraction(now.hits, yes), y: fraction(now.hits, now.hits + now.alarms), r: 7, tip: words(now) }] });
  });
  const square = { domain: [-0.02, 1.02], format: (v) => v.toFixed(1) };
  byId("areas").replaceChildren(...areas.map(([name, roc, mean], k) => html("li", {}, key(k), `${name}: area under the ROC curve ${fixed(roc)}, average precision ${fixed(mean)}`)));
  chart(byId("roc"), { title: "ROC", square: true, diagonal: true, x: { label: "false alarms among the other rows", ...square }, y: { label: "recall", ...square }, series: panels.roc });
  chart(byId("precision"), { title: "Precision and recall", square: true, x: { label: "recall", ...square }, y: { label: "precision", ...square }, series: panels.precision });
}

/** Return a patch of the colour of a model, for legends. */
const key = (k) => svg("svg", { viewBox: "0 0 10 10", class: "key", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, rx: 2, fill: colorOf(k) }));

// -- calibration and familiarity ----------------------------------------------------------------

function calibration() {
  const series = models.map((model, k) => {
    const rows = model.calibration[positive].bins;
    const points = rows.map(([n, p, o, low, high]) => ({ x: p, y: o, r: 5, tip: [model.name, `predicted ${fixed(p)}, observed ${fixed(o)}`, `95% interval ${fixed(low)} to ${fixed(high)}`, `${count(n)} rows`] }));
    return { name: model.name, color: colorOf(k), line: true, bold: k === chosen, points, band: k === chosen ? rows.map(([, p, , low, high]) => [p, low, high]) : [] };
  });
  const square = { domain: [-0.03, 1.03], format: (v) => v.toFixed(1) };
  chart(byId("reliability"), { title: "Reliability diagram", square: true, diagonal: true, x: { label: `predicted probability of ${classes[positive]}`, ...square }, y: { label: "observed frequency", ...square }, series });
  byId("keys").replaceChildren(...(models.length > 1 ? models : []).map((model, k) => html("li", {}, key(k), model.name)));
  bars(byId("histogram"), { title: `Histogram of the probabilities${models.length > 1 ? `, ${models[chosen].name}` : ""}`, values: models[chosen].calibration[positive].counts, x: `predicted probability of ${classes[positive]}`, y: "rows", square: true });
}

/** Draw a histogram over [0, 1]; with `even`, a dotted line shows the uniform distribution. */
function bars(box, { title, values, x, y: label, square, even = false }) {
  if (square) box.classList.add("square");
  const width = Math.max(box.clientWidth, 200), height = square ? Math.min(width, 520) : 260, left = 60, bottom = 46, top = 24;
  const all = values.reduce((sum, v) => sum + v, 0), flat = all / values.length, most = Math.max(...values, even ? flat : 0, 1);
  const across = axis({ domain: [0, 1], gap: 42 }, left + 6, width - 22), up = axis({ domain: [0, most * 1.05], gap: 26 }, height - bottom, top + 4);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart bars", role: "img", "aria-label": `${title}. ${values.map((v, k) => `${(k / values.length).toFixed(2)} to ${((k + 1) / values.length).toFixed(2)}: ${count(v)}`).join("; ")}` });
  const draw = (name, attributes, ...children) => root.append(svg(name, attributes, ...children));
  draw("text", { x: left, y: 14, class: "title" }, title);
  for (const [tick, place] of up.ticks) {
    draw("path", { d: `M${left} ${place}H${width - 16}`, class: "rule" });
    draw("text", { x: left - 6, y: place + 4, "text-anchor": "end" }, String(tick));
  }
  for (const [tick, place] of across.ticks) draw("text", { x: place, y: height - bottom + 16, "text-anchor": "middle" }, String(tick));
  values.forEach((v, k) => {
    const from = across.place(k / values.length), to = across.place((k + 1) / values.length);
    const bar = svg("rect", { x: from + 0.5, width: Math.max(to - from - 1, 0.5), y: up.place(v), height: up.place(0) - up.place(v) });
    bar.append(svg("title", {}, `${(k / values.length).toFixed(2)} to ${((k + 1) / values.length).toFixed(2)}: ${count(v)} of ${count(all)} rows`));
    bar.style.fill = colorOf(chosen);
    root.append(bar);
  });
  if (even) draw("path", { d: `M${left} ${up.place(flat)}H${width - 16}`, class: "guide" });
  draw("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", class: "name" }, x);
  draw("text", { transform: `translate(13 ${(height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" }, label);
  box.replaceChildren(root);
}

function familiar() {
  const values = models[chosen].familiarity;
  byId("familiar").hidden = !values;
  if (values) bars(byId("familiar"), { title: "Familiarity of the rows", values, x: "familiarity", y: "rows", even: true });
}

// -- controls -----------------------------------------------------------------------------------

function choice(label, names, value, change) {
  const select = html("select", { "aria-label": label }, ...names.map((name, k) => html("option", { value: k }, name)));
  select.value = value;
  select.addEventListener("change", () => {
    change(Number(select.value));
    show();
  });
  byId("choose").append(html("label", {}, `${label} `, select));
}
choice("Class", classes, positive, (k) => (positive = k));
if (models.length > 1) choice("Model", models.map((model) => model.name), chosen, (k) => (chosen = k));

function show(moved = false) {
  for (const part of document.querySelectorAll(".positive")) part.textContent = classes[positive];
  for (const part of document.querySelectorAll("[data-model]")) part.hidden = Number(part.dataset.model) !== chosen;
  decide(moved);
  calibration();
  familiar();
}
for (const id of ["cost-alarm", "cost-miss"]) byId(id).addEventListener("input", () => decide(false));
byId("threshold").addEventListener("input", () => {
  threshold = Number(byId("threshold").value);
  decide(true);
});
byId("use-best").addEventListener("click", () => decide(false));
let drawn = 0;
new ResizeObserver(() => {
  if (drawn === document.documentElement.clientWidth) return;
  const first = drawn === 0;
  drawn = document.documentElement.clientWidth;
  show(!first);
}).observe(document.documentElement);
