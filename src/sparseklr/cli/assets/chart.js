"use strict";
// SVG charts with a tooltip, controls, a legend that can hide series, and a table of the numbers.

const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
let mode = Object.keys(data.modes)[0];

// -- small helpers ----------------------------------------------------------------------------

function element(space, name, attributes, children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const html = (name, attributes = {}, ...children) => element(null, name, attributes, children);
const svg = (name, attributes = {}, ...children) =>
  element("http://www.w3.org/2000/svg", name, attributes, children);

const known = (value) => typeof value === "number";
const fixed = (value, digits = 3) => (known(value) ? value.toFixed(digits) : "–");
const percent = (value) => (known(value) ? `${(100 * value).toFixed(value < 0.0995 ? 2 : 1)}%` : "–");
const seconds = (value) => (known(value) ? `${Number(value.toPrecision(3))} s` : "–");
const power = (value) => `10${[...String(Math.round(Math.log10(value)))].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`;

// -- markers and series -----------------------------------------------------------------------

const corners = (n, turn = 0, inner = 1) =>
  Array.from({ length: n }, (_, k) => {
    const angle = turn + (2 * Math.PI * k) / n - Math.PI / 2, r = k % 2 ? inner : 1;
    return [r * Math.cos(angle), r * Math.sin(angle)];
  });
const larger = (factor, shape) => shape.map(([x, y]) => [factor * x, factor * y]);
const arms = [[-0.35, -1], [0.35, -1], [0.35, -0.35], [1, -0.35], [1, 0.35], [0.35, 0.35],
  [0.35, 1], [-0.35, 1], [-0.35, 0.35], [-1, 0.35], [-1, -0.35], [-0.35, -0.35]];
const SHAPES = {
  circle: corners(24), square: larger(1.2, corners(4, Math.PI / 4)), diamond: larger(1.15, corners(4)),
  up: larger(1.25, corners(3)), down: larger(1.25, corners(3, Math.PI)), star: larger(1.35, corners(10, 0, 0.45)),
  plus: arms, cross: arms.map(([x, y]) => [0.75 * (x - y), 0.75 * (x + y)]), hexagon: corners(6),
  bar: [[-0.45, -1.25], [0.45, -1.25], [0.45, 1.25], [-0.45, 1.25]],
};
const outline = (shape, x, y, r) =>
  `M${SHAPES[shape].map(([u, v]) => `${(x + r * u).toFixed(1)} ${(y + r * v).toFixed(1)}`).join("L")}Z`;

const LOOKS = ["circle", "star", "down", "square", "up", "diamond", "plus", "cross", "hexagon", "bar"];
const look = (method) => {
  const k = data.methods.indexOf(method);
  return { name: method, color: `var(--m${k})`, shape: LOOKS[k] };
};
const sequential = (k, n) => `color-mix(in oklch, var(--high) ${Math.round((100 * k) / (n - 1))}%, var(--low))`;

// -- axes -------------------------------------------------------------------------------------

const BEND = { linear: (v) => v, log: Math.log10, sqrt: (v) => Math.sqrt(Math.max(v, 0)) };

function ticks(kind, [low, high]) {
  if (kind === "sqrt") return [0, 0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
  if (kind === "log") {
    const found = [], steps = high / low < 300 ? [1, 2, 5] : [1];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++)
      for (const step of steps) found.push(Number(`${step}e${k}`));
    return found;
  }
  const rough = (high - low) / 6, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= rough);
  const count = Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  return Array.from({ length: count }, (_, k) => Number(((Math.ceil(low / step - 1e-9) + k) * step).toPrecision(12)));
}

/** Return the function that maps values to positions on an axis, and ticks whose labels do not overlap. */
function axis({ kind = "linear", domain, values, categories, gap = 40 }, from, to) {
  if (categories) {
    const place = (name) => to + ((from - to) * (categories.indexOf(name) + 0.5)) / categories.length;
    return { place, ticks: categories.map((name) => [name, place(name)]) };
  }
  const bend = BEND[kind];
  let [low, high] = domain ?? [Math.min(...values), Math.max(...values)];
  if (!domain) {
    const pad = kind === "log" ? Math.max((high / low) ** 0.06, 1.3) : 0.06 * (high - low) || 0.01;
    [low, high] = kind === "log" ? [low / pad, high * pad] : [low - pad, high + pad];
  }
  const place = (v) => from + ((to - from) * (bend(v) - bend(low))) / (bend(high) - bend(low));
  const shown = [];
  for (const tick of ticks(kind, [low, high])) {
    const at = place(tick);
    const inside = tick >= low - 1e-12 && tick <= high + 1e-12;
    if (inside && (!shown.length || Math.abs(at - shown.at(-1)[1]) >= gap)) shown.push([tick, at]);
  }
  return { place, ticks: shown };
}

// -- one chart --------------------------------------------------------------------------------

/**
 * Draw a chart into a box. A series has points {x, y, tip, r, hollow, dy, from}: a line joins the point to `from`, and `dy`
 * shifts it vertically. The fields `line`, `band` ([x, low, high]) and `label` (the name beside the first point) are optional.
 */
function chart(box, { title, x, y, series, height = 340, compact = false, square, diagonal, mark }) {
  if (square) box.classList.add("square");
  const width = Math.max(box.clientWidth, 200);
  if (square) height = Math.min(width, 520);
  const left = y.categories ? 82 : compact ? 40 : 54, bottom = compact ? 36 : 46, top = title ? 24 : 10;
  const points = series.flatMap((one) => one.points);
  const horizontal = axis({ values: points.map((p) => p.x), gap: 42, ...x }, left + 6, width - 22);
  const vertical = axis({ values: points.map((p) => p.y), gap: 26, ...y }, height - bottom - 4, top + 4);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application", class: "chart",
    "aria-label": `${title ? `${title}. ` : ""}${y.label ?? ""} against ${x.label}. Use the arrow keys to move between points.`,
  });
  const draw = (name, attributes, ...children) => root.appendChild(svg(name, attributes, ...children));
  const text = (words, attributes) => draw("text", attributes, words);
  if (title) text(title, { x: left, y: 14, class: "title" });
  for (const [tick, at] of horizontal.ticks) {
    draw("path", { d: `M${at} ${top}V${height - bottom}`, class: "rule" });
    text((x.format ?? String)(tick), { x: at, y: height - bottom + 16, "text-anchor": "middle" });
  }
  for (const [tick, at] of vertical.ticks) {
    draw("path", { d: `M${left} ${at}H${width - 16}`, class: "rule" });
    text((y.format ?? String)(tick), { x: left - 6, y: at + 4, "text-anchor": "end" });
  }
  text(x.label, { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", class: "name" });
  if (y.label && !compact)
    text(y.label, { transform: `translate(13 ${(height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "name" });
  if (diagonal) draw("path", { d: `M${horizontal.place(0)} ${vertical.place(0)}L${horizontal.place(1)} ${vertical.place(1)}`, class: "guide" });
  if (mark !== undefined) draw("path", { d: `M${horizontal.place(mark)} ${top}V${height - bottom}`, class: "guide" });

  const marks = [], at = (u, v) => [horizontal.place(u), vertical.place(v)];
  for (const one of series) {
    if (one.band?.length) {
      const edge = [...one.band.map(([u, low]) => at(u, low)), ...one.band.map(([u, , high]) => at(u, high)).reverse()];
      draw("path", { d: `M${edge.map((p) => p.join(" ")).join("L")}Z`, fill: one.color, class: "band" });
    }
    if (one.line && one.points.length) {
      const d = one.points.map((p) => at(p.x, p.y).join(" ")).join("L");
      draw("path", { d: `M${d}`, stroke: one.color, class: one.bold ? "line bold" : "line", "data-series": one.name });
    }
  }
  for (const one of series)
    for (const { x: u, y: v, from } of one.points)
      if (from) draw("path", { d: `M${at(from.x, from.y).join(" ")}L${at(u, v).join(" ")}`, stroke: one.color, class: "join" });
  for (const one of series)
    for (const point of one.points) {
      const [cx, middle] = at(point.x, point.y), cy = middle + (point.dy ?? 0);
      marks.push({ cx, cy, tip: point.tip });
      if (compact) continue;
      draw("path", {
        d: outline(one.shape ?? "circle", cx, cy, point.r ?? one.r ?? 6), class: point.hollow ? "mark hollow" : "mark",
        "data-series": one.name, ...(point.hollow ? { stroke: one.color } : { fill: one.color }),
      });
    }
  for (const one of series) if (one.label) names(root, one, at, marks, width);
  listen(root, marks, width);
  box.replaceChildren(root);
}

/** Write the name of a series beside its first point, at the first of four places that is free. */
function names(root, one, at, marks, width) {
  const point = one.points[0], [cx, cy] = at(point.x, point.y), words = one.caption ?? one.name, long = words.length * 7.2;
  const taken = (root.taken ??= marks.map((m) => [m.cx - 6, m.cx + 6, m.cy - 7, m.cy + 7]));
  const places = [[cx + 12, cy + 4, "start"], [cx - 12, cy + 4, "end"], [cx, cy - 11, "middle"], [cx, cy + 20, "middle"]];
  for (const [x, y, anchor] of places) {
    const start = anchor === "start" ? x : anchor === "end" ? x - long : x - long / 2;
    const area = [start, start + long, y - 11, y + 3];
    if (start < 56 || start + long > width || y < 14) continue;
    if (taken.some(([a, b, c, d]) => a < area[1] && b > area[0] && c < area[3] && d > area[2])) continue;
    taken.push(area);
    root.append(svg("text", { x, y, "text-anchor": anchor, class: "label", fill: one.color }, words));
    return;
  }
}

/** Show a tooltip for the mark that is nearest to the pointer or selected with the arrow keys. */
function listen(root, marks, width) {
  const ring = root.appendChild(svg("circle", { r: 10, class: "ring", visibility: "hidden" }));
  let current = -1;
  const show = (k) => {
    current = k;
    const frame = root.getBoundingClientRect(), scale = frame.width / width, { cx, cy } = marks[k];
    ring.setAttribute("cx", cx);
    ring.setAttribute("cy", cy);
    ring.setAttribute("visibility", "visible");
    const [head, ...rest] = marks[k].tip;
    tip.replaceChildren(html("b", {}, head), ...rest.map((line) => html("span", {}, line)));
    tip.hidden = false;
    const right = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const beside = frame.left + cx * scale + 16;
    tip.style.left = `${window.scrollX + Math.max(8, Math.min(right, beside))}px`;
    tip.style.top = `${window.scrollY + frame.top + cy * scale + (beside > right ? 18 : -tip.offsetHeight / 2)}px`;
  };
  const hide = () => {
    tip.hidden = true;
    ring.setAttribute("visibility", "hidden");
  };
  const near = (event) => {
    const frame = root.getBoundingClientRect(), scale = width / frame.width;
    const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
    const far = marks.map((m) => Math.hypot(m.cx - x, m.cy - y));
    const k = far.indexOf(Math.min(...far));
    if (far[k] < 30) show(k);
    else hide();
  };
  root.addEventListener("pointermove", near);
  root.addEventListener("pointerdown", near);
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step || !marks.length) return;
    event.preventDefault();
    show((current + step + marks.length) % marks.length);
  });
}

// -- a figure: controls, charts, legend, table ------------------------------------------------

const figures = [];

/**
 * Create a figure with controls. The function `build` returns its content {panels, legend, table} for the current values of
 * the controls. A control is {name, label, options(mode)} for a selection, or {name, label, checked} for a checkbox. The
 * series in `off` are hidden at first.
 */
function figure(id, { controls, build, off = [] }) {
  const box = document.getElementById(id), hidden = new Set(off), inputs = {};
  const bar = html("div", { class: "controls" }), panels = html("div", { class: "panels" });
  const legend = html("div", { class: "legend", role: "group", "aria-label": "Series shown" });
  const numbers = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Data of the figure" });
  box.prepend(bar, panels, legend);
  box.append(html("details", {}, html("summary", {}, "Show the data as a table"), numbers));
  for (const { name, label, checked } of controls) {
    inputs[name] = checked === undefined ? html("select", { name }) : html("input", { name, type: "checkbox" });
    if (checked) inputs[name].checked = true;
    const parts = checked === undefined ? [`${label} `, inputs[name]] : [inputs[name], ` ${label}`];
    bar.append(html("label", {}, ...parts));
    inputs[name].addEventListener("change", () => draw());
  }
  function draw() {
    const values = {};
    for (const { name, checked } of controls) values[name] = checked === undefined ? inputs[name].value : inputs[name].checked;
    const made = build(values, data.modes[mode]);
    panels.classList.toggle("many", made.panels.length > 2);
    panels.replaceChildren(...made.panels.map(() => html("div")));
    made.panels.forEach((panel, k) =>
      chart(panels.children[k], { ...panel, series: panel.series.filter((one) => !hidden.has(one.name)) }));
    legend.replaceChildren(...made.legend.map((one) => {
      const key = svg("svg", { viewBox: "-9 -9 18 18", "aria-hidden": "true" }, svg("path", { d: outline(one.shape ?? "square", 0, 0, 7), fill: one.color }));
      const button = html("button", { type: "button", "aria-pressed": !hidden.has(one.name) }, key, one.name);
      button.addEventListener("click", () => {
        const at = made.legend.indexOf(one);
        if (!hidden.delete(one.name)) hidden.add(one.name);
        draw();
        legend.children[at].focus();
      });
      return button;
    }));
    const row = (cells, tag) => html("tr", {}, ...cells.map((cell, k) => html(k ? tag : "th", { scope: k ? "col" : "row" }, cell)));
    numbers.replaceChildren(html("table", {},
      html("thead", {}, row(made.table[0], "th")), html("tbody", {}, ...made.table.slice(1).map((cells) => row(cells, "td")))));
  }
  figures.push(() => {
    for (const { name, options } of controls.filter((one) => one.options)) {
      const before = inputs[name].value;
      inputs[name].replaceChildren(...options(data.modes[mode]).map(([value, label]) => html("option", { value }, label)));
      if ([...inputs[name].options].some((option) => option.value === before)) inputs[name].value = before;
    }
    draw();
  });
}
