// The page: actions of the user change points and settings; the model is then fitted and drawn again.
"use strict";

const $ = id => document.getElementById(id);
const number = (value, digits = 3) =>
  value === 0 ? "0" : value >= 1e5 || value < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(digits)));

const HINTS = {
  refit: "The coefficients of the kept points are fitted again, by maximum likelihood on all points. SparseKLR does " +
    "the same, and chooses this C by leave-one-out.",
  link: "The probabilities come from the link function of the loss with a margin. They are nearly constant where |f| < λ.",
  sigmoid: "1 / (1 + exp(−f)), as in the paper. f grows with λ, so a sparse model is far too certain.",
};

// -- data to start from -----------------------------------------------------------------------

// Random numbers in [0, 1) that are the same at every visit (the generator of Park and Miller).
function generator(seed) {
  let state = seed;
  return () => (state = state * 48271 % 2147483647) / 2147483647;
}

const PRESETS = {
  moons: (label, u, noise) => {
    const t = Math.PI * u();
    const [x, y] = label < 0 ? [Math.cos(t), Math.sin(t)] : [1 - Math.cos(t), 0.5 - Math.sin(t)];
    return [1.15 * (x - 0.5) + 0.2 * noise(), 1.15 * (y - 0.25) + 0.2 * noise()];
  },
  rings: (label, u, noise) => {
    const t = 2 * Math.PI * u(), r = (label < 0 ? 0.45 : 1.1) + 0.13 * noise();
    return [r * Math.cos(t), r * Math.sin(t)];
  },
  clouds: (label, u, noise) => [0.5 * label + 0.5 * noise(), 0.25 * label + 0.45 * noise()],
  chequers: (label, u, noise) => {
    const side = u() < 0.5 ? -1 : 1;
    return [0.75 * side + 0.25 * noise(), 0.6 * side * label + 0.22 * noise()];
  },
};

function preset(name, size) {
  const u = generator(20261116), noise = () => Math.sqrt(-2 * Math.log(u() + 1e-12)) * Math.cos(2 * Math.PI * u());
  return Array.from({ length: size }, (_, i) => {
    const label = i % 2 ? 1 : -1, [x, y] = PRESETS[name](label, u, noise);
    return inside({ x, y, label });
  });
}

function inside(point) {
  point.x = Math.min(Math.max(point.x, 0.02 - WIDTH / 2), WIDTH / 2 - 0.02);
  point.y = Math.min(Math.max(point.y, 0.02 - HEIGHT / 2), HEIGHT / 2 - 0.02);
  return point;
}

// -- the page ---------------------------------------------------------------------------------

class Explorer {
  constructor(core) {
    this.core = core;
    this.plane = new Plane($("plane"));
    this.settings = { C: 1e4, lam: 1e3, gamma: 1, calibration: "refit", refit: 10 };
    this.points = preset("moons", 60);
    this.selected = null;
    this.listen();
    this.update();
  }

  // Solves and draws; on a coarse grid while points or sliders move, and on a fine grid afterwards.
  update(moving = false) {
    clearTimeout(this.rest);
    const both = new Set(this.points.map(point => point.label)).size === 2;
    this.model = both ? new Model(this.core, this.points, this.settings) : null;
    if (this.model) this.model.solution.C = this.settings.C;
    this.draw(moving ? 72 : 144);
    this.show();
    if (moving) this.rest = setTimeout(() => this.draw(144), 150);
  }

  draw(columns = 144) {
    this.plane.draw(this.points, this.model, this.selected, columns);
    this.showActions();
  }

  // Updates the numbers, the values of the sliders and the texts.
  show() {
    const { settings, model } = this, { solution } = model ?? {};
    $("kept").innerHTML = model ? `${solution.kept.length} <small>of ${this.points.length}</small>` : "–";
    $("gap").textContent = model ? Math.max(model.relativeGap, 0).toExponential(0) : "–";
    $("steps").textContent = model ? solution.steps : "–";
    $("time").innerHTML = model ? `${model.ms.toFixed(1)} <small>ms</small>` : "–";
    $("message").hidden = Boolean(model);
    $("message").textContent = this.points.length ? "Add points of the other class." : "Click to add points of both classes.";
    for (const name of ["C", "gamma", "refit"]) {
      $(name).value = Math.log10(settings[name]);
      $(`${name}-value`).textContent = number(settings[name]);
    }
    $("lam").value = lamToSlider(settings.lam);
    $("lam-value").textContent = number(settings.lam);
    $("box").textContent = settings.lam > 0 ? number(settings.C / settings.lam) : "∞";
    $("reach").textContent = number(1 / Math.sqrt(settings.gamma), 2);
    $("calibration-hint").textContent = HINTS[settings.calibration];
    $("refit-slider").hidden = settings.calibration !== "refit";
    $("margin-legend").hidden = settings.calibration === "refit";
    document.querySelector(`[name=calibration][value=${settings.calibration}]`).checked = true;
    $("python").textContent = this.python();
  }

  // The program that fits the same model; SparseKLR selects its points with the same box and a margin of 1000.
  python() {
    const { C, lam, gamma, calibration, refit } = this.settings;
    const places = this.points.map(p => `[${p.x.toFixed(3)}, ${p.y.toFixed(3)}]`).join(", ");
    const labels = this.points.map(p => p.label > 0 ? 1 : 0).join(", ");
    const how = { link: 'calibration="link"', sigmoid: "calibration=None" };
    const [name, call] = calibration === "refit"
      ? ["SparseKLR", `SparseKLR(C=${number(refit)}, gamma=${number(gamma)}, box=${number(C / Math.max(lam, 1e-3))}, prune=0)`]
      : ["SKLR", `SKLR(C=${number(C)}, lam=${number(lam)}, gamma=${number(gamma)}, ${how[calibration]})`];
    return `from sparseklr import ${name}

X = [${places}]
y = [${labels}]
model = ${call}
model.fit(X, y)
print(len(model.support_), "points")
`;
  }

  // -- actions of the user --------------------------------------------------------------------

  listen() {
    const canvas = this.plane.canvas;
    canvas.addEventListener("pointerdown", event => this.press(event));
    canvas.addEventListener("pointermove", event => this.move(event));
    for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, event => this.release(event));
    canvas.addEventListener("pointerleave", () => $("here").textContent = "");
    canvas.addEventListener("dblclick", () => this.switchClass());
    canvas.addEventListener("keydown", event => this.key(event));
    $("switch").addEventListener("click", () => this.switchClass());
    $("remove").addEventListener("click", () => this.remove());
    for (const id of ["preset", "size"]) $(id).addEventListener("change", () => {
      this.replace(preset($("preset").value, Number($("size").value)));
    });
    $("clear").addEventListener("click", () => this.replace([]));
    for (const name of ["C", "gamma", "refit"])
      $(name).addEventListener("input", () => this.change({ [name]: 10 ** Number($(name).value) }));
    $("lam").addEventListener("input", () => this.change({ lam: sliderToLam(Number($("lam").value)) }));
    $("auto").addEventListener("click", () => this.change({ lam: this.settings.C / 10 }));
    $("play").addEventListener("click", () => this.play());
    $("calibration").addEventListener("change", event => this.change({ calibration: event.target.value }));
    $("copy").addEventListener("click", async () => {
      await navigator.clipboard?.writeText(this.python());
      $("copy").textContent = "copied";
    });
    new ResizeObserver(() => { this.plane.resize(); this.draw(); }).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.plane.readColors();
      this.draw();
    });
  }

  change(some) {
    this.stop();
    Object.assign(this.settings, some);
    this.update(true);
  }

  replace(points) {
    this.points = points;
    this.selected = null;
    this.update();
  }

  nearest(place, within) {
    const distance = point => Math.hypot(point.x - place.x, point.y - place.y);
    const best = this.points.reduce((a, b) => !a || distance(b) < distance(a) ? b : a, null);
    return best && distance(best) < within ? best : null;
  }

  press(event) {
    if (event.button) return;
    const place = this.plane.fromEvent(event), box = this.plane.canvas.getBoundingClientRect();
    const reach = (event.pointerType === "touch" ? 20 : 11) * WIDTH / box.width;
    let point = this.nearest(place, reach);
    this.tapped = Boolean(point);
    if (!point) {
      point = inside({ ...place, label: Number(document.querySelector("[name=label]:checked").value) });
      this.points.push(point);
    }
    this.selected = this.dragged = point;
    this.plane.canvas.setPointerCapture(event.pointerId);
    this.update(true);
  }

  move(event) {
    const place = this.plane.fromEvent(event);
    if (this.dragged) {
      this.tapped = false;
      inside(Object.assign(this.dragged, place));
      if (!this.due) this.due = requestAnimationFrame(() => { this.due = 0; this.update(true); });
    }
    if (this.model) {
      const p = this.model.probability(this.model.decision(Float64Array.of(place.x, place.y))[0]);
      $("here").textContent = p < 0.5 ? `here: ${percent(1 - p)} blue` : `here: ${percent(p)} orange`;
    }
  }

  release() {
    this.dragged = null;
    this.showActions();
  }

  switchClass() {
    if (!this.selected) return;
    this.selected.label *= -1;
    this.update();
  }

  remove() {
    if (!this.selected) return;
    this.points.splice(this.points.indexOf(this.selected), 1);
    this.selected = null;
    this.update();
  }

  key(event) {
    const { points, selected } = this, at = points.indexOf(selected), step = event.shiftKey ? 0.2 : 0.04;
    const go = by => { this.selected = points[(at + by + points.length) % points.length]; this.draw(); };
    const shift = (dx, dy) => {
      if (!selected) return;
      inside(Object.assign(selected, { x: selected.x + dx, y: selected.y + dy }));
      this.update(true);
    };
    const actions = {
      ArrowLeft: () => shift(-step, 0), ArrowRight: () => shift(step, 0),
      ArrowUp: () => shift(0, step), ArrowDown: () => shift(0, -step),
      n: () => points.length && go(1), p: () => points.length && go(at < 0 ? 0 : -1),
      " ": () => this.switchClass(), Delete: () => this.remove(), Backspace: () => this.remove(),
      Escape: () => { this.selected = null; this.draw(); },
      Enter: () => {
        this.selected = { x: 0, y: 0, label: Number(document.querySelector("[name=label]:checked").value) };
        points.push(this.selected);
        this.update();
      },
    };
    this.tapped = false;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  // Shows two buttons beside a point that was tapped but not moved.
  showActions() {
    const shown = this.selected && !this.dragged && this.tapped;
    $("actions").hidden = !shown;
    if (!shown) return;
    const { x, y } = this.selected, above = y < 0 ? -1 : 1;
    $("actions").style.left = `${Math.min(Math.max((x / WIDTH + 0.5) * 100, 22), 78)}%`;
    $("actions").style.top = `calc(${(0.5 - y / HEIGHT) * 100}% + ${above < 0 ? -46 : 16}px)`;
  }

  // Moves the margin from one end to the other, in five seconds.
  play() {
    if (this.playing) return this.stop();
    const start = performance.now();
    const frame = now => {
      const t = Math.min((now - start) / 5000, 1);
      this.settings.lam = sliderToLam(100 * t);
      this.update(true);
      this.playing = t < 1 ? requestAnimationFrame(frame) : 0;
      $("play").textContent = this.playing ? "stop" : "play";
    };
    this.playing = requestAnimationFrame(frame);
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    $("play").textContent = "play";
  }
}

// Values of the slider of lam: 0 at the left end, then 0.1 to 100,000 on a logarithmic scale.
const sliderToLam = s => s <= 0 ? 0 : 10 ** (s * 0.06 - 1);
const lamToSlider = lam => lam <= 0 ? 0 : (Math.log10(lam) + 1) / 0.06;
const percent = p => `${p > 0.995 ? "over 99" : Math.round(100 * p)}%`;

createSolver().then(module => window.explorer = new Explorer(new Core(module)));
