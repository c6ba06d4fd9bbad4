// The model of the page: JavaScript functions that call the compiled core.
"use strict";

const softplus = t => Math.max(t, 0) + Math.log1p(Math.exp(-Math.abs(t)));

class Core {
  constructor(module) {
    this.module = module;
    this.blocks = [];
  }

  // Runs call(pointers, read) after copying arrays into the memory of the core; read(k) copies the k-th array back.
  run(arrays, call) {
    const pointers = arrays.map((array, k) => {
      const block = this.blocks[k] ??= { size: 0, pointer: 0 };
      if (block.size < array.length) {
        this.module._free(block.pointer);
        block.size = 2 * array.length;
        block.pointer = this.module._malloc(8 * block.size);
      }
      return block.pointer;
    });
    arrays.forEach((array, k) => this.module.HEAPF64.set(array, pointers[k] / 8));
    const read = k => this.module.HEAPF64.slice(pointers[k] / 8, pointers[k] / 8 + arrays[k].length);
    return call(pointers, read);
  }

  // Solves the dual of sparse kernel logistic regression for points {x, y, label}; returns the solution and its gap.
  solve(points, { C, lam, gamma, tol = 1e-4 }) {
    const n = points.length;
    const X = Float64Array.from(points.flatMap(p => [p.x, p.y]));
    const labels = Float64Array.from(points, p => p.label);
    const arrays = [X, labels, new Float64Array(n), new Float64Array(n), new Float64Array(5)];
    return this.run(arrays, ([px, py, alpha, F, report], read) => {
      this.module._solve_dual(px, py, n, C, lam, gamma, tol, alpha, F, report);
      const [intercept, primal, gap, steps, converged] = read(4);
      const solution = { X, labels, gamma, lam, alpha: read(2), F: read(3), intercept, primal, gap, steps };
      solution.converged = converged === 1;
      solution.kept = Array.from(solution.alpha.keys()).filter(i => solution.alpha[i] > 0);
      solution.Z = Float64Array.from(solution.kept.flatMap(i => [X[2 * i], X[2 * i + 1]]));
      solution.coef = Float64Array.from(solution.kept, i => solution.alpha[i] * labels[i]);
      return solution;
    });
  }

  // Returns coefficients of the kept points and an intercept, fitted by penalised likelihood to all points.
  refit(solution, C) {
    const { X, labels, Z, gamma } = solution;
    const m = Z.length / 2;
    return this.run([X, labels, Z, new Float64Array(m + 1)], ([px, py, pz, coef], read) => {
      this.module._refit(px, py, labels.length, pz, m, C, gamma, coef);
      const found = read(3);
      return { coef: found.slice(0, m), intercept: found[m] };
    });
  }

  // Returns sum_b coef_b k(z_b, q) + intercept at positions q.
  evaluate(Z, coef, intercept, gamma, places) {
    const out = new Float64Array(places.length / 2);
    return this.run([Z, coef, places, out], ([pz, pc, pq, po], read) => {
      this.module._evaluate(pz, pc, coef.length, intercept, gamma, pq, out.length, po);
      return read(3);
    });
  }
}

// A fitted model, which returns the log-odds of the second class at any position.
class Model {
  constructor(core, points, settings) {
    const start = performance.now();
    this.core = core;
    this.calibration = settings.calibration;
    this.solution = core.solve(points, settings);
    this.ms = performance.now() - start;
    const { coef, intercept, Z } = this.solution;
    this.expansion = this.calibration === "refit" ? core.refit(this.solution, settings.refit) : { coef, intercept };
    this.Z = Z;
  }

  // Returns f at positions, computed by the core.
  decision(places) {
    return this.core.evaluate(this.Z, this.expansion.coef, this.expansion.intercept, this.solution.gamma, places);
  }

  logit(f) {
    const { lam } = this.solution;
    return this.calibration === "link" ? softplus(f - lam) - softplus(-f - lam) : f;
  }

  probability(f) {
    return 1 / (1 + Math.exp(-this.logit(f)));
  }

  // Returns the value of f at which the probability is p, by bisection, since the link function is monotone.
  decisionAt(p) {
    if (this.calibration !== "link" || p === 0.5) return Math.log(p / (1 - p));
    let low = -1e9, high = 1e9;
    for (let k = 0; k < 200; k++) {
      const middle = (low + high) / 2;
      if (this.probability(middle) < p) low = middle;
      else high = middle;
    }
    return high;
  }

  get relativeGap() {
    return this.solution.gap / Math.max(Math.abs(this.solution.primal), 1e-300);
  }
}
