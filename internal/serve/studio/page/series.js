// Series of metrics: fetched once and then continued, and what the page of curves computes from them.

import * as api from "./api.js";

/** The metric from which an axis comes: the tokens of a train step, and the optimizer steps until then. @type {Record<string, string>} */
export const AXES = { tokens: "perf/total_num_tokens", updates: "actor/optimizer_steps" };

/** @typedef {{cursor: string, steps: Float64Array, times: Float64Array, values: Float64Array}} Kept */

/** A curve's points, in the order of x. low and high are the band around the mean of several runs. @typedef {{x: Float64Array, y: Float64Array, step: Float64Array, low?: Float64Array, high?: Float64Array}} Points */

/** @param {Float64Array} a @param {Float64Array} b */
function joined(a, b) {
  const out = new Float64Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

/** Store keeps the series of runs. update asks only for what is new. */
export class Store {
  constructor() {
    /** @type {Map<string, Map<string, Kept>>} */
    this.runs = new Map();
    /** @type {Map<string, Promise<unknown>>} the last update of a run: they follow one another */
    this.last = new Map();
    /** @type {Map<string, {names: string[], signal: AbortSignal, done: Promise<unknown>}>} the update of a run that has not begun */
    this.queued = new Map();
  }

  /** @param {string} id @param {string} name */
  get(id, name) { return this.runs.get(id)?.get(name); }

  /** @param {string} id @param {string[]} names @param {AbortSignal} signal */
  update(id, names, signal) {
    const queued = this.queued.get(id);
    if (queued) { // it will see what this one would
      Object.assign(queued, { names, signal });
      return queued.done;
    }
    const next = { names, signal, done: Promise.resolve() };
    next.done = (this.last.get(id) ?? Promise.resolve()).catch(() => {}).then(() => {
      this.queued.delete(id);
      return next.signal.aborted ? undefined : this.fetch(id, next.names, next.signal);
    });
    this.queued.set(id, next);
    this.last.set(id, next.done);
    return next.done;
  }

  /** @param {string} id @param {string[]} names @param {AbortSignal} signal */
  async fetch(id, names, signal) {
    const kept = this.runs.get(id) ?? new Map();
    this.runs.set(id, kept);
    /** @type {Map<string | undefined, string[]>} */
    const byCursor = new Map();
    for (const name of names) {
      const cursor = kept.get(name)?.cursor;
      byCursor.set(cursor, [...byCursor.get(cursor) ?? [], name]);
    }
    for (const [since, asked] of byCursor) {
      const reply = await api.metrics(id, asked, since, signal);
      const got = new Map(reply.series.map((s) => [s.name, s])), none = new Float64Array();
      for (const name of asked) {
        const before = since && !reply.reset ? kept.get(name) : undefined, more = got.get(name) ?? { steps: none, times: none, values: none };
        if (before && !more.steps.length) { // the object stays, and with it what was computed from it
          before.cursor = reply.cursor;
          continue;
        }
        const grown = (/** @type {"steps" | "times" | "values"} */ column) => before ? joined(before[column], more[column]) : more[column];
        kept.set(name, { cursor: reply.cursor, steps: grown("steps"), times: grown("times"), values: grown("values") });
      }
    }
  }
}

/**
 * remembered computes a value again only if its inputs are others than the last time.
 * @template T
 * @param {WeakMap<object, {inputs: unknown[], value: T}>} memory @param {object} at @param {unknown[]} inputs @param {() => T} compute
 * @returns {T}
 */
export function remembered(memory, at, inputs, compute) {
  const last = memory.get(at);
  if (last && last.inputs.length === inputs.length && last.inputs.every((v, i) => v === inputs[i])) return last.value;
  const value = compute();
  memory.set(at, { inputs, value });
  return value;
}

const placed = new WeakMap(), means = new WeakMap();

/**
 * pointsOf places a series on an axis: "step", "time" in seconds since the run began, "tokens" that were trained until the step, or "updates", the optimizer steps until then.
 * @param {Kept} kept @param {string} axis @param {number} began @param {Kept | undefined} by the series from which the axis comes
 * @returns {Points}
 */
export const pointsOf = (kept, axis, began, by) => remembered(placed, kept, [axis, axis === "time" && began, axis in AXES && by], () => {
  const { steps, times, values } = kept;
  let x = steps;
  if (axis === "time") x = times.map((ms) => (ms - began) / 1000);
  if (axis in AXES) x = by ? reached(steps, by.steps, axis === "tokens" ? sums(by.values) : by.values) : new Float64Array(steps.length).fill(NaN);
  if (x.every((v, i) => Number.isFinite(v) && !(x[i - 1] > v))) return { x, y: values, step: steps };
  const order = [...x.keys()].filter((i) => Number.isFinite(x[i])).sort((a, b) => x[a] - x[b]); // a clock jumped
  const take = (/** @type {Float64Array} */ column) => Float64Array.from(order, (i) => column[i]);
  return { x: take(x), y: take(values), step: take(steps) };
});

/** @param {Float64Array} values */
function sums(values) {
  let sum = 0;
  return values.map((v) => sum += v || 0);
}

/** reached gives the last value up to each of the steps, 0 before the first. @param {Float64Array} steps @param {Float64Array} at the values' steps @param {Float64Array} values */
function reached(steps, at, values) {
  return steps.map((step) => {
    const end = first(at, step + .5);
    return end ? values[end - 1] : 0;
  });
}

/** smoothed is the exponential moving average, corrected for its beginning; what is not finite stays and does not count. @param {Float64Array} values @param {number} weight of the past, below 1 */
export function smoothed(values, weight) {
  let last = 0, seen = 0;
  return values.map((v) => {
    if (!Number.isFinite(v)) return v;
    last = last * weight + (1 - weight) * v;
    seen++;
    return last / (1 - weight ** seen);
  });
}

/** together is the mean of several runs at each step that one of them has, with the least and the greatest value. @param {Points[]} runs @returns {Points} */
export const together = (runs) => remembered(means, runs[0], runs, () => {
  /** @type {Map<number, {n: number, finite: number, x: number, y: number, low: number, high: number}>} */
  const at = new Map();
  for (const run of runs) {
    for (let i = 0; i < run.x.length; i++) {
      const s = at.get(run.step[i]) ?? { n: 0, finite: 0, x: 0, y: 0, low: Infinity, high: -Infinity }, y = run.y[i];
      s.n++;
      s.x += run.x[i];
      if (Number.isFinite(y)) {
        s.finite++;
        s.y += y;
        s.low = Math.min(s.low, y);
        s.high = Math.max(s.high, y);
      }
      at.set(run.step[i], s);
    }
  }
  const all = [...at].map(([step, s]) => ({ step, x: s.x / s.n, y: s.finite ? s.y / s.finite : NaN, low: s.finite ? s.low : NaN, high: s.finite ? s.high : NaN }))
    .sort((a, b) => a.x - b.x);
  const take = (/** @type {"step" | "x" | "y" | "low" | "high"} */ key) => Float64Array.from(all, (a) => a[key]);
  return { x: take("x"), y: take("y"), step: take("step"), low: take("low"), high: take("high") };
});

/**
 * reduced keeps what a chart of that many pixels can show between two values of x: of each pixel the points with the least and the greatest value, the earlier one at
 * the pixel's beginning and the later one in its middle. So all series with many points have the same values of x.
 * @param {Points} points @param {number} from @param {number} to @param {number} pixels @param {[number, number]} all the ends of x of all series
 * @returns {Points}
 */
export function reduced(points, from, to, pixels, all) {
  const { x, y } = points, columns = /** @type {("x" | "y" | "step")[]} */ (["x", "y", "step"]);
  const begin = Math.max(0, first(x, from) - 1), end = Math.min(x.length, first(x, to) + 2); // the lines to what is outside stay
  if (end - begin <= 2 * pixels) {
    const [xs, ys, steps] = columns.map((c) => /** @type {Float64Array} */ (points[c]).subarray(begin, end));
    return { x: xs, y: ys, step: steps };
  }
  const start = Math.max(from, all[0]), width = (Math.min(to, all[1]) - start) / pixels || 1;
  /** @type {number[]} */
  const xs = [], order = [];
  for (let i = begin; i < end;) {
    const pixel = Math.floor((x[i] - start) / width);
    let least = i, greatest = i;
    for (; i < end && Math.floor((x[i] - start) / width) === pixel; i++) {
      if (!(y[i] >= y[least])) least = i;
      if (!(y[i] <= y[greatest])) greatest = i;
    }
    xs.push(start + pixel * width);
    order.push(Math.min(least, greatest));
    if (least === greatest) continue;
    xs.push(start + (pixel + .5) * width);
    order.push(Math.max(least, greatest));
  }
  return { x: Float64Array.from(xs), y: Float64Array.from(order, (i) => y[i]), step: Float64Array.from(order, (i) => points.step[i]) };
}

/** The first index whose value is at least v. @param {Float64Array} sorted @param {number} v */
function first(sorted, v) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < v) low = middle + 1;
    else high = middle;
  }
  return low;
}
