// A chart of curves, drawn by uPlot.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { color, duration, number, plain, useSize } from "./parts.js";
import { reduced, remembered, smoothed } from "./series.js";
import { t } from "./words.js";

/**
 * @typedef {{label: string, colour: string, dash: number[] | undefined, run: string, several?: boolean, points:
 *   import("./series.js").Points}} Curve
 */

const HEIGHT = 240, NEAR = 40, MOST_ROWS = 12; // pixels, pixels, rows of the tooltip
const MANY = 16; // curves; of more, only thin lines can be told apart

/** The distances of the marks of an axis of time. */
const SECONDS = [.001, .01, .1, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000];

/** Shows a value of an axis. @param {string} axis @param {number} x */
export const position = (axis, x) => axis === "time" ? duration(x) : number(x);

/** @param {Float64Array} column */
const nulled = (column) => Array.from(column, (v) => Number.isFinite(v) ? v : null);

/** Metrics whose values are shares, if they are from 0 to 1. */
const SHARE = /reward|accuracy|score|rate|ratio|fraction|@\d/, NO_SHARE = /length|time|std|loss|lr\b/;

/**
 * rangeOf is the axis of rewards and the like that are all from 0 to 1; null for others.
 * @param {string} name
 * @param {Curve[]} curves
 * @returns {[number, number] | null}
 */
export function rangeOf(name, curves) {
  if (!SHARE.test(name) || NO_SHARE.test(name)) return null;
  return curves.every(({ points }) => points.y.every((v) => !Number.isFinite(v) || v >= 0 && v <= 1)) ? [0, 1] : null;
}

const drawings = new WeakMap();

/**
 * drawingOf is what is drawn of a curve: its line, what is behind a smoothed one, and the ends of a band.
 * @param {import("./series.js").Points} whole @param {View} view @param {[number, number]} ends
 */
const drawingOf = (whole, { smooth, from, to, pixels }, ends) => remembered(drawings, whole, [smooth, from, to, pixels, ...ends], () => {
  const line = (/** @type {Float64Array} */ y) => reduced({ ...whole, y: smooth ? smoothed(y, smooth) : y }, from, to, pixels, ends);
  const band = whole.low && whole.high ? [line(whole.low), line(whole.high)] : null;
  return { line: line(whole.y), band, raw: smooth && !band ? reduced(whole, from, to, pixels, ends) : null };
});

/** @typedef {{smooth: number, log: boolean, from: number, to: number, pixels: number}} View */

/**
 * assemble brings curves to what uPlot takes: columns over one x, options of the series, bands; and of each series its curve and the steps of its points.
 * @param {Curve[]} curves @param {View} view
 */
function assemble(curves, view) {
  const tables = [], series = /** @type {any[]} */ ([{}]), bands = /** @type {any[]} */ ([]), of = /** @type {any[]} */ ([null]);
  const add = (/** @type {import("./series.js").Points} */ p, /** @type {any} */ options, /** @type {Curve | null} */ curve = null) => {
    tables.push([p.x, nulled(view.log ? p.y.map((v) => v > 0 ? v : NaN) : p.y), p.step]);
    series.push({ scale: "y", points: { show: !!curve && (p.x.length < 2 || p.x.length * 12 < view.pixels), size: 5 }, ...options });
    of.push(curve);
  };
  const xs = curves.filter((c) => c.points.x.length).map((c) => c.points.x);
  const ends = /** @type {[number, number]} */ ([Math.min(...xs.map((x) => x[0])), Math.max(...xs.map((x) => x[x.length - 1]))]);
  for (const curve of curves) {
    const stroke = color(curve.colour), faint = (/** @type {number} */ alpha) => stroke.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
    const { line, band, raw } = drawingOf(curve.points, view, ends), dash = curves.length <= MANY ? curve.dash : undefined;
    if (band) {
      bands.push({ series: [series.length + 1, series.length], fill: faint(.16) });
      for (const end of band) add(end, { stroke: "transparent", width: 0 });
    }
    if (raw && curves.length <= MANY) add(raw, { stroke: faint(.28), width: 1, dash });
    add(line, { stroke, width: curves.length <= MANY ? 1.75 : 1, dash }, curve);
  }
  const all = tables.length ? uPlot.join(tables) : [[]];
  return { data: [all[0], ...tables.map((_, i) => all[2 * i + 1])], steps: [null, ...tables.map((_, i) => all[2 * i + 2])], series, bands, of };
}

/**
 * nearest returns the index of the point of a series that is nearest to an index.
 * @param {any[]} column @param {number} idx
 */
function nearest(column, idx) {
  for (let off = 0; off < column.length; off++) {
    if (column[idx - off] !== undefined && column[idx - off] !== null) return idx - off;
    if (column[idx + off] !== undefined && column[idx + off] !== null) return idx + off;
  }
  return idx;
}

/**
 * Chart draws the curves of a metric. Dragging calls onRange, a click or Enter at a point calls onOpen with its run and step.
 * @param {{name: string, curves: Curve[], axis: string, smooth: number, log: boolean, range: [number, number] | null, theme: number, lit?: string,
 *   onRange: (range: [number, number]) => void, onOpen: (run: string, step: number) => void}} props
 */
export function Chart({ name, curves, axis, smooth, log, range, theme, lit = "", onRange, onOpen }) {
  const [at, width] = useSize();
  const plot = useRef(/** @type {any} */ (null)), now = useRef(/** @type {any} */ (null));
  const [tip, show] = useState(/** @type {any} */ (null));
  const [from, to] = range ?? [-Infinity, Infinity];
  const drawn = useMemo(() => width > 0 ? assemble(curves, { smooth, log, from, to, pixels: width }) : null, [curves, smooth, log, from, to, width, theme]);
  now.current = { drawn, axis, range, ends: useMemo(() => rangeOf(name, curves), [curves]), onRange, onOpen, show,
    hovered: now.current?.hovered };
  const shape = JSON.stringify([curves.map((c) => [c.label, c.colour, c.dash, !!c.points.low]), axis, smooth > 0, log, theme, width > 0, drawn && drawn.series.map((s) => s.points?.show)]);
  useEffect(() => {
    if (!drawn) return;
    const u = plot.current = new uPlot(optionsOf(now, at.current.clientWidth || width, log, axis), drawn.data, at.current);
    const watch = new ResizeObserver(() => { // the plot has the width of its card, whatever was drawn meanwhile
      const wide = at.current?.clientWidth;
      if (wide && wide !== u.width) u.setSize({ width: wide, height: HEIGHT });
    });
    watch.observe(at.current);
    return () => {
      watch.disconnect();
      u.destroy();
    };
  }, [shape]);
  useEffect(() => { if (plot.current && drawn && plot.current.data !== drawn.data) plot.current.setData(drawn.data); }, [drawn]);
  useEffect(() => {
    const at = lit && drawn ? drawn.of.findIndex((/** @type {Curve | null} */ c) => c?.label === lit) : -1;
    plot.current?.setSeries(at > 0 ? at : null, { focus: true });
  }, [lit, drawn]);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const u = plot.current, off = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!u || event.ctrlKey || event.metaKey || event.altKey || !off && event.key !== "Enter") return;
    event.preventDefault();
    now.current.hovered = true;
    if (!off) return open(u, now.current);
    const main = drawn?.of.findIndex(Boolean) ?? -1, column = u.data[main] ?? [];
    let idx = (u.cursor.idx ?? (off > 0 ? -1 : column.length)) + off;
    while (idx >= 0 && idx < column.length && (column[idx] === undefined || column[idx] === null)) idx += off;
    if (idx >= 0 && idx < column.length) u.setCursor({ left: u.valToPos(u.data[0][idx], "x"), top: u.valToPos(column[idx], "y") });
  };
  return html`<div class="plot" ref=${at} tabindex="0" role="group" aria-label=${plain(name)} onKeyDown=${onKeyDown}
      onMouseEnter=${() => { now.current.hovered = true; }} onMouseLeave=${() => { now.current.hovered = false; show(null); }} onBlur=${() => show(null)}>
    ${tip && html`<div class="tip" role="status" style=${{ left: tip.left + "px", top: tip.top + "px", transform: tip.right ? "translateX(-100%)" : "" }}>
      <b>${tip.title}</b>
      ${tip.rows.map((/** @type {any} */ row) => html`<div class=${row.near ? "near" : ""}><i style=${{ background: row.colour }}></i><span>${plain(row.label)}</span><span class="right">${number(row.value)}</span></div>`)}
      ${tip.more > 0 && html`<div class="muted">+ ${tip.more}</div>`}
    </div>`}
  </div>`;
}

/** The points under the cursor, the nearest first. @param {any} u @param {any} state */
function under(u, { drawn }) {
  const { idxs, top, left } = u.cursor;
  return drawn.of.map((/** @type {Curve | null} */ curve, /** @type {number} */ i) => {
    const idx = curve && idxs && idxs[i], value = idx === null || idx === undefined ? null : u.data[i][idx];
    if (!curve || value === null || value === undefined) return null;
    const x = u.data[0][idx], far = Math.hypot(u.valToPos(value, "y") - top, u.valToPos(x, "x") - left);
    return { curve, value, x, far, step: drawn.steps[i][idx] };
  }).filter(Boolean).sort((/** @type {any} */ a, /** @type {any} */ b) => a.far - b.far);
}

/** @param {any} u @param {any} state */
function open(u, state) {
  const [point] = under(u, state);
  if (point && point.step > 0) state.onOpen(point.curve.run, point.step);
}

/** @param {{current: any}} now @param {number} width @param {boolean} log @param {string} axis */
function optionsOf(now, width, log, axis) {
  const ink = color("--muted"), line = color("--line");
  const axes = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 }, font: "11px system-ui, sans-serif" };
  const { drawn } = now.current;
  return {
    width, height: HEIGHT, series: drawn.series, bands: drawn.bands, legend: { show: false }, focus: { alpha: .35 }, padding: [8, 22, 0, 0],
    scales: {
      x: { time: false, range: (/** @type {any} */ _, /** @type {number} */ least, /** @type {number} */ most) => now.current.range ?? (least === most ? [least - 1, most + 1] : [least, most]) },
      y: log ? { distr: 3 } : { range: (/** @type {any} */ _, /** @type {number} */ least, /** @type {number} */ most) => least === null ?
        [0, 1] : now.current.ends ? [-.01, 1.01] : uPlot.rangeNum(least, most, .08, true) },
    },
    axes: [
      { ...axes, size: 30, space: 64, ...(axis === "time" ? { incrs: SECONDS } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((x) => position(axis, x)) },
      { ...axes, size: 58, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((y) => y === null ? "" : number(y)) },
    ],
    cursor: {
      drag: { x: true, y: false, setScale: false, dist: 6 }, focus: { prox: NEAR }, sync: { key: "curves", scales: ["x", null] },
      points: { size: (/** @type {any} */ _, /** @type {number} */ i) => now.current.drawn.of[i] ? 7 : 0 },
      bind: { dblclick: () => null },
      dataIdx: (/** @type {any} */ u, /** @type {number} */ i, /** @type {number} */ idx) => i === 0 ? idx : nearest(u.data[i], idx),
    },
    hooks: {
      ready: [(/** @type {any} */ u) => u.over.addEventListener("click", () => open(u, now.current))], // uPlot swallows the click that ends a drag
      setCursor: [(/** @type {any} */ u) => {
        if (!now.current.hovered || u.cursor.left < 0 || u.cursor.idx === null) return now.current.show(null);
        const points = under(u, now.current);
        if (!points.length) return now.current.show(null);
        const { left, top, width: wide } = u.bbox, scale = devicePixelRatio, right = u.cursor.left > wide / scale / 2;
        now.current.show({
          title: t("step.n", { step: number(points[0].step) }) + (now.current.axis === "step" ? "" : " · " + position(now.current.axis, points[0].x)), more: points.length - MOST_ROWS,
          rows: points.slice(0, MOST_ROWS).map((/** @type {any} */ p, /** @type {number} */ i) => ({ label: p.curve.label, colour: p.curve.colour, value: p.value, near: i === 0 })),
          left: u.cursor.left + left / scale + (right ? -14 : 14), top: top / scale + 6, right,
        });
      }],
      setSelect: [(/** @type {any} */ u) => {
        const { left, width: wide } = u.select;
        if (wide < 6) return;
        const range = [u.posToVal(left, "x"), u.posToVal(left + wide, "x")];
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        now.current.onRange(range);
      }],
    },
  };
}
