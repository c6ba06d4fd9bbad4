// The picture: probabilities, decision boundary and points on a canvas.
"use strict";

const WIDTH = 4, HEIGHT = 3;  // size of the plane, which is centred at 0

class Plane {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.image = document.createElement("canvas");
    this.readColors();
    this.resize();
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.colors = {};
    for (const name of ["ink", "paper", "minus", "plus", "even", "accent"])
      this.colors[name] = style.getPropertyValue(`--${name}`).trim();
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * this.ratio);
    this.canvas.height = Math.round(box.width * HEIGHT / WIDTH * this.ratio);
    this.unit = this.canvas.width / WIDTH;
  }

  toPixels(x, y) {
    return [(x + WIDTH / 2) * this.unit, (HEIGHT / 2 - y) * this.unit];
  }

  // Returns the position on the plane of a pointer event.
  fromEvent(event) {
    const box = this.canvas.getBoundingClientRect();
    return {
      x: ((event.clientX - box.left) / box.width - 0.5) * WIDTH,
      y: (0.5 - (event.clientY - box.top) / box.height) * HEIGHT,
    };
  }

  draw(points, model, selected, columns) {
    this.context.fillStyle = this.colors.even;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    if (model) {
      const grid = this.evaluate(model, columns);
      this.surface(grid, model);
      for (const p of [0.1, 0.9]) this.contour(grid, model.decisionAt(p), 1);
      this.contour(grid, 0, 2.6);
      const { lam } = model.solution;
      if (lam > 0 && model.calibration !== "refit")
        for (const level of [-lam, lam]) this.contour(grid, level, 1.4, [5, 4]);
    }
    this.points(points, model, selected);
  }

  // Returns f on a grid that covers the plane.
  evaluate(model, columns) {
    const rows = Math.round(columns * HEIGHT / WIDTH);
    const places = new Float64Array(2 * columns * rows);
    for (let r = 0, k = 0; r < rows; r++)
      for (let c = 0; c < columns; c++) {
        places[k++] = (c / (columns - 1) - 0.5) * WIDTH;
        places[k++] = (0.5 - r / (rows - 1)) * HEIGHT;
      }
    return { columns, rows, f: model.decision(places) };
  }

  surface({ columns, rows, f }, model) {
    const rgb = name => this.colors[name].match(/\w\w/g).map(part => parseInt(part, 16));
    const even = rgb("even"), ends = [rgb("minus"), rgb("plus")];
    this.image.width = columns;
    this.image.height = rows;
    const context = this.image.getContext("2d"), pixels = context.createImageData(columns, rows);
    for (let k = 0; k < f.length; k++) {
      const lean = 2 * model.probability(f[k]) - 1, end = ends[Number(lean > 0)], share = 0.62 * Math.abs(lean);
      for (let c = 0; c < 3; c++) pixels.data[4 * k + c] = even[c] + share * (end[c] - even[c]);
      pixels.data[4 * k + 3] = 255;
    }
    context.putImageData(pixels, 0, 0);
    this.context.imageSmoothingEnabled = true;
    this.context.imageSmoothingQuality = "high";
    // The grid points are the centres of the pixels of a small image, whose border is half a step outside the grid.
    const [stepX, stepY] = [this.canvas.width / (columns - 1), this.canvas.height / (rows - 1)];
    this.context.drawImage(this.image, -stepX / 2, -stepY / 2, stepX * columns, stepY * rows);
  }

  // Draws the line f = level. Its crossings with the edges of the grid are found by linear interpolation. The crossings
  // of one cell are neighbours on the line, which is followed from end to end, so that its dashes are continuous.
  contour({ columns, rows, f }, level, width, dash = []) {
    const crossings = new Map();  // edge -> its place and the neighbouring edges
    for (let r = 0; r + 1 < rows; r++)
      for (let c = 0; c + 1 < columns; c++) {
        const at = r * columns + c;
        const corners = [[c, r, f[at]], [c + 1, r, f[at + 1]], [c + 1, r + 1, f[at + columns + 1]], [c, r + 1, f[at + columns]]];
        const edges = [2 * at, 2 * at + 3, 2 * (at + columns), 2 * at + 1];  // above, right, below, left
        const cut = [0, 1, 2, 3].filter(k => (corners[k][2] > level) !== (corners[(k + 1) % 4][2] > level));
        for (const k of cut) {
          const [ax, ay, fa] = corners[k], [bx, by, fb] = corners[(k + 1) % 4], t = (level - fa) / (fb - fa);
          if (!crossings.has(edges[k]))
            crossings.set(edges[k], { place: [ax + t * (bx - ax), ay + t * (by - ay)], next: [] });
        }
        for (let k = 0; k + 1 < cut.length; k += 2) {
          crossings.get(edges[cut[k]]).next.push(crossings.get(edges[cut[k + 1]]));
          crossings.get(edges[cut[k + 1]]).next.push(crossings.get(edges[cut[k]]));
        }
      }
    const context = this.context, dx = this.canvas.width / (columns - 1), dy = this.canvas.height / (rows - 1);
    const all = [...crossings.values()], unseen = new Set(all), ends = all.filter(crossing => crossing.next.length === 1);
    context.beginPath();
    for (const start of [...ends, ...all]) {
      if (!unseen.has(start)) continue;
      context.moveTo(start.place[0] * dx, start.place[1] * dy);
      let here = start;
      while (here) {
        unseen.delete(here);
        context.lineTo(here.place[0] * dx, here.place[1] * dy);
        here = here.next.find(crossing => unseen.has(crossing)) ?? (here.next.includes(start) && context.closePath());
      }
    }
    context.setLineDash(dash.map(length => length * this.ratio));
    context.lineWidth = width * this.ratio;
    context.lineJoin = "round";
    context.strokeStyle = this.colors.ink;
    context.stroke();
    context.setLineDash([]);
  }

  points(points, model, selected) {
    const context = this.context;
    points.forEach((point, i) => {
      const share = model ? model.solution.alpha[i] / model.solution.C : 0;
      const kept = !model || model.solution.alpha[i] > 0;
      const radius = (kept ? 4.6 + 3.4 * Math.sqrt(share) : 3.2) * this.ratio;
      this.outline(point, radius);
      context.fillStyle = this.colors[point.label > 0 ? "plus" : "minus"];
      context.fill();
      context.strokeStyle = this.colors[kept ? "ink" : "even"];
      context.lineWidth = 1.3 * this.ratio;
      context.stroke();
      if (point !== selected) return;
      this.outline(point, radius + 4 * this.ratio);
      context.strokeStyle = this.colors.accent;
      context.lineWidth = 2.2 * this.ratio;
      context.stroke();
    });
  }

  // Circles are the first class and diamonds the second, so that the classes do not differ only in colour.
  outline(point, radius) {
    const [x, y] = this.toPixels(point.x, point.y), context = this.context, reach = 1.2 * radius;
    context.beginPath();
    if (point.label < 0) context.arc(x, y, radius, 0, 2 * Math.PI);
    else {
      context.moveTo(x, y - reach);
      for (const [dx, dy] of [[reach, 0], [0, reach], [-reach, 0]]) context.lineTo(x + dx, y + dy);
      context.closePath();
    }
  }
}
