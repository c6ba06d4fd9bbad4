// The figures of the report, from the numbers of the chosen mode.

const same = (names) => names.map((name) => [name, name]);
const FIRST_ORDER = ["KLR-1ord", "S-KLR-1ord"]; // the same models as with the second-order working set
const PAPER = { name: "paper", label: "the paper's values (hollow)", checked: true };

figure("accuracy-sparsity", {
  controls: [
    { name: "set", label: "Data set", options: ({ sets }) => [["mean", "mean over sets"], ...same(sets)] },
    { name: "rule", label: "Model chosen", options: () => [["best", "best"], ["sparsest-of-3", "sparsest of 3"]] },
    PAPER,
  ],
  off: FIRST_ORDER,
  build({ set, rule, paper }, { methods, points }) {
    const found = points[rule][set], most = Math.max(...Object.values(found).map((row) => row[6]));
    const table = [["", "accuracy", "paper", "fraction kept", "paper", "log-loss", "sets"]];
    const series = methods.filter((method) => found[method]).map((method) => {
      const [accuracy, share, loss, error, theirs, kept, sets] = found[method], style = look(method);
      table.push([method, fixed(accuracy), fixed(theirs), fixed(share, 4), fixed(kept, 4), fixed(loss), String(sets)]);
      const ours = { x: share, y: accuracy, r: method === data.ours ? 8 : 6 };
      ours.tip = [
        set === "mean" ? `${method}, mean over ${sets} sets` : `${method} on ${set}`,
        `accuracy ${fixed(accuracy)}${known(error) ? ` ± ${fixed(error)}` : ""}`,
        `${percent(share)} of the rows kept`,
        ...(known(loss) ? [`log-loss ${fixed(loss)}`] : []),
        known(theirs) ? `paper: ${fixed(theirs)} with ${percent(kept)}` : "not in the paper",
      ];
      const printed = { x: kept, y: theirs, hollow: true, from: ours, tip: [`${method}, paper`, ...ours.tip.slice(1, 3).map((line) => `ours: ${line}`), ours.tip.at(-1)] };
      const caption = set === "mean" && sets < most ? `${method} (${sets} of ${most} sets)` : method;
      return { ...style, label: true, caption, points: paper && known(theirs) ? [ours, printed] : [ours] };
    });
    const x = { kind: "sqrt", label: "fraction of the training rows kept", domain: [0, 1], format: (v) => `${Number((100 * v).toPrecision(2))}%` };
    return { panels: [{ x, y: { label: "test accuracy", format: (v) => v.toFixed(2) }, series, height: 460 }], legend: methods.map(look), table };
  },
});

figure("grid", {
  controls: [{ name: "set", label: "Data set", options: ({ grid }) => [...same(Object.keys(grid)), ["all", "all sets"]] }],
  build({ set }, { grid, ratios, Cs }) {
    const sets = set === "all" ? Object.keys(grid) : grid[set] ? [set] : [];
    const table = [["", "C", ...ratios.map((ratio) => `λ/C = ${fixed(ratio, 2)}`)]];
    const style = Cs.map((C, k) => ({ name: `C = ${power(C)}`, color: sequential(k, Cs.length), shape: "circle" }));
    const panels = sets.flatMap((name) => ["accuracy", "share"].map((metric) => {
      const write = metric === "share" ? percent : fixed;
      const series = style.map((one, k) => {
        const row = grid[name][metric][k];
        table.push([`${name}, ${metric}`, power(Cs[k]), ...row.map((v) => fixed(v))]);
        return { ...one, line: true, r: 3.5, points: row.map((v, j) => ({ x: ratios[j], y: v, tip: [`${one.name}, λ/C = ${fixed(ratios[j], 2)}`, `${metric === "share" ? "share kept" : "accuracy"} ${write(v)}`] })) };
      });
      const share = metric === "share", many = sets.length > 1;
      return {
        title: `${name}: ${share ? "fraction kept" : "accuracy"}`, series, compact: many, height: many ? 190 : 340,
        x: { label: "λ / C", domain: [0, 1] },
        y: { label: share ? "fraction of rows kept" : "test accuracy", format: (v) => v.toFixed(2), ...(share ? { domain: [0, 1.02] } : {}) },
      };
    }));
    return { panels, legend: style, table };
  },
});

figure("reliability", {
  controls: [{ name: "set", label: "Data set", options: ({ reliability }) => Object.keys(reliability).map((name) => [name, name === "all" ? "all sets" : name]) }],
  off: [...FIRST_ORDER, "lam-choice", "KLR-2ord"],
  build({ set }, { reliability }) {
    const found = reliability[set] ?? {}, table = [["", "rows", "predicted", "observed", "95% interval (Wilson)"]];
    const series = Object.entries(found).map(([method, rows]) => {
      const all = rows.reduce((sum, row) => sum + row[0], 0), chosen = method === data.ours;
      for (const [n, p, o, low, high] of rows) table.push([method, String(Math.round(n)), fixed(p), fixed(o), `${fixed(low)} to ${fixed(high)}`]);
      const points = rows.map(([n, p, o, low, high]) => ({
        x: p, y: o, share: n / all, r: 3 + 7 * Math.sqrt(n / all),
        tip: [method, `predicted ${fixed(p)}, observed ${fixed(o)}`, `95% interval ${fixed(low)} to ${fixed(high)}`, `${Math.round(n)} of ${Math.round(all)} rows`],
      }));
      return { ...look(method), line: true, bold: chosen, points, band: chosen ? rows.map(([, p, , low, high]) => [p, low, high]) : [] };
    });
    const square = { domain: [-0.03, 1.03], format: (v) => v.toFixed(1) };
    const order = (one) => (one.name === data.ours ? 1 : 0), drawn = series.toSorted((a, b) => order(a) - order(b));
    const x = { label: "predicted probability", ...square };
    const rows = drawn.map((one) => ({ ...one, band: [], r: 5, points: one.points.map((p) => ({ ...p, y: p.share, r: undefined })) }));
    return {
      panels: [
        { title: "Reliability diagram", x, y: { label: "observed frequency", ...square }, series: drawn, square: true, diagonal: true },
        { title: "Histogram of the predictions", x, y: { kind: "sqrt", domain: [0, 1], label: "fraction of the rows", format: (v) => `${Number((100 * v).toPrecision(2))}%` }, series: rows, square: true },
      ],
      legend: series.map(({ name }) => look(name)), table,
    };
  },
});

figure("times", {
  controls: [PAPER],
  build({ paper }, { sets, methods, seconds: found, paperSeconds }) {
    const theirs = { "S-KLR-1ord": 0, "S-KLR": 1 }, table = [["seconds of a fit", ...methods], ...sets.map((set) => [set, ...methods.map((m) => seconds(found[set][m]))])];
    const series = methods.map((method, k) => {
      const points = [], dy = 2.4 * (k - (methods.length - 1) / 2);
      for (const set of sets) {
        const ours = found[set][method], printed = paperSeconds[set][theirs[method]];
        if (known(ours)) points.push({ x: ours, y: set, dy, tip: [`${method} on ${set}`, `${seconds(ours)} per fit`, ...(printed ? [`paper: ${seconds(printed)}`] : [])] });
        if (paper && known(ours) && printed) points.push({ x: printed, y: set, dy, hollow: true, tip: [`${method} on ${set}, paper`, `${seconds(printed)} per fit`, `ours: ${seconds(ours)}`] });
      }
      return { ...look(method), r: 5, points };
    });
    const both = sets.filter((set) => found[set]["S-KLR-1ord"] > 0 && found[set]["S-KLR"] > 0);
    const ratio = both.map((set) => ({ set, ours: found[set]["S-KLR-1ord"] / found[set]["S-KLR"], printed: paperSeconds[set][0] / paperSeconds[set][1] }));
    const points = ratio.flatMap(({ set, ours, printed }) => {
      const words = [`${set}`, `ours: ${ours.toFixed(2)}`, `paper: ${printed.toFixed(2)}`], mine = { x: ours, y: set, tip: words };
      return paper ? [mine, { x: printed, y: set, hollow: true, from: mine, tip: words }] : [mine];
    });
    table[0].push("ratio 1ord / 2ord");
    sets.forEach((set, k) => table[k + 1].push(fixed(ratio.find((one) => one.set === set)?.ours, 2)));
    const y = { categories: sets }, height = 70 + 32 * sets.length;
    const panels = [{ title: "Seconds of a fit", x: { kind: "log", label: "seconds (log scale)", format: (v) => power(v), gap: 34 }, y, series, height }];
    if (points.length) panels.push({ title: "1ord against 2ord", x: { kind: "log", label: "time of S-KLR-1ord / time of S-KLR", values: [1, ...points.map((p) => p.x)], gap: 30 }, y, height, mark: 1, series: [{ ...look("S-KLR"), name: "ratio", points }] });
    return { panels, legend: methods.map(look), table };
  },
});

/** Critical-difference diagram: methods at their mean ranks, bars over those that do not differ. */
function rankDiagram() {
  const box = document.getElementById("ranks"), found = data.modes[mode].ranks;
  box.hidden = !found;
  if (!found) return;
  const { names, ranks, cd, groups } = found, width = box.clientWidth, k = names.length, pad = Math.min(60, width / 8);
  const place = (rank) => pad + ((width - 2 * pad) * (rank - 1)) / (k - 1);
  const order = ranks.map((_, j) => j).sort((a, b) => ranks[a] - ranks[b]), half = Math.ceil(k / 2);
  const axisY = 56, first = axisY + 22 + 12 * groups.length, height = first + 26 * half + 8;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Mean ranks: ${order.map((j) => `${names[j]} ${ranks[j].toFixed(2)}`).join(", ")}. Critical difference ${cd.toFixed(2)}.` });
  const draw = (name, attributes, ...children) => root.append(svg(name, attributes, ...children));
  draw("path", { d: `M${place(1)} ${axisY}H${place(k)}`, class: "axis" });
  for (let rank = 1; rank <= k; rank++) {
    draw("path", { d: `M${place(rank)} ${axisY}v-6`, class: "axis" });
    draw("text", { x: place(rank), y: axisY - 11, "text-anchor": "middle" }, String(rank));
  }
  const end = Math.min(place(1 + cd), width - 4);
  draw("path", { d: `M${place(1)} 14v8v-4H${end}v4v-8`, class: "axis" });
  draw("text", { x: (place(1) + end) / 2, y: 12, "text-anchor": "middle" }, `critical difference ${cd.toFixed(2)}`);
  order.forEach((j, position) => {
    const left = position < half, row = left ? position : k - 1 - position, y = first + 26 * row + 10, x = place(ranks[j]), style = look(names[j]);
    draw("path", { d: `M${x} ${axisY}V${y}H${left ? 4 : width - 4}`, class: "join", stroke: style.color });
    draw("path", { d: outline(style.shape, x, axisY, 6), fill: style.color, class: "mark", "data-series": names[j] });
    draw("text", { x: left ? 4 : width - 4, y: y - 5, "text-anchor": left ? "start" : "end", class: names[j] === data.ours ? "label strong" : "label" }, `${names[j]}  ${ranks[j].toFixed(2)}`);
  });
  groups.forEach((group, row) => {
    const at = group.map((j) => place(ranks[j]));
    draw("path", { d: `M${Math.min(...at) - 5} ${axisY + 16 + 12 * row}H${Math.max(...at) + 5}`, class: "group" });
  });
  box.replaceChildren(root);
}
figures.push(rankDiagram);

// -- the mode, and the width of the page ------------------------------------------------------

function show() {
  for (const part of document.querySelectorAll("[data-mode]")) part.hidden = part.dataset.mode !== mode;
  for (const draw of figures) draw();
}
for (const input of document.querySelectorAll("input[name=mode]"))
  input.addEventListener("change", () => {
    mode = input.value;
    show();
  });
let drawn = 0;
new ResizeObserver(() => {
  if (drawn === document.documentElement.clientWidth) return;
  drawn = document.documentElement.clientWidth;
  show();
}).observe(document.documentElement);
