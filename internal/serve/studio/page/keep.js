// A chart as a file: SVG, PNG, CSV.

import { color, number } from "./parts.js";

/** @typedef {import("./chart.js").Curve} Curve */

const WIDTH = 900, HEIGHT = 420, LEFT = 70, RIGHT = 20, TOP = 44, BOTTOM = 44, ROW = 18, COLUMN = 280; // pixels

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"\u0000-\u0008\u000b-\u001f]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;",
  '"': "&quot;" })[c] ?? "");

/** rounds returns about n round numbers between two ones. @param {number} low @param {number} high @param {number} n */
export function rounds(low, high, n) {
  const rough = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(rough)), step = power * ([1, 2, 5, 10].find((f) =>
    f * power >= rough) ?? 10), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 &&
    out.length < 50; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

/**
 * span is the least and the greatest of numbers, with room if they are one.
 * @param {Iterable<number>} values
 * @returns {[number, number]}
 */
function span(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  return low > high ? [0, 1] : low === high ? [low - 1, high + 1] : [low, high];
}

/**
 * svgOf draws curves with their axes and their names.
 * @param {string} name @param {Curve[]} curves @param {{axis: string, log: boolean, range: [number, number] | null, y: [number, number] | null, show: (x: number) => string}} view
 */
export function svgOf(name, curves, { axis, log, range, y, show }) {
  const up = (/** @type {number} */ v) => log ? (v > 0 ? Math.log10(v) : NaN) : v;
  const [x0, x1] = range ?? span(curves.flatMap(({ points }) => [points.x[0], points.x[points.x.length - 1]]));
  const within = (/** @type {import("./series.js").Points} */ p) => [...p.x.keys()].filter((i) => p.x[i] >= x0 && p.x[i] <= x1 &&
    Number.isFinite(up(p.y[i])));
  const [y0, y1] = y && !log ? y :
    span(function* () { for (const c of curves) for (const i of within(c.points)) yield up(c.points.y[i]); }());
  const columns = Math.max(1, Math.floor((WIDTH - LEFT) / COLUMN)), height = HEIGHT + Math.ceil(curves.length / columns) * ROW;
  const atX = (/** @type {number} */ v) => LEFT + (v - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT), atY = (/** @type {number} */ v) =>
    TOP + (y1 - v) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);
  const ink = color("--ink"), muted = color("--muted"), line = color("--line"), out = /** @type {string[]} */ ([]);
  const write = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ text, /** @type {string} */ more) =>
    out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escaped(text)}</text>`);
  write(LEFT, 24, name, `fill="${ink}" font-size="16" font-weight="600"`);
  for (const v of rounds(y0, y1, 5)) {
    out.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${atY(v).toFixed(1)}" y2="${atY(v).toFixed(1)}" stroke="${line}"/>`);
    write(LEFT - 8, atY(v) + 4, number(log ? 10 ** v : v), `fill="${muted}" font-size="12" text-anchor="end"`);
  }
  for (const v of rounds(x0, x1, 7)) write(atX(v), HEIGHT - BOTTOM + 18, show(v), `fill="${muted}" font-size="12" text-anchor="middle"`);
  write((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, axis, `fill="${muted}" font-size="12" text-anchor="middle"`);
  curves.forEach((curve, i) => {
    const stroke = color(curve.colour), dash = curve.dash ? ` stroke-dasharray="${curve.dash.join(" ")}"` : "", { points } = curve, kept =
      within(points);
    const place = kept.map((k) => `${atX(points.x[k]).toFixed(1)},${atY(up(points.y[k])).toFixed(1)}`);
    if (place.length === 1) out.push(`<circle cx="${place[0].split(",")[0]}" cy="${place[0].split(",")[1]}" r="3" fill="${stroke}"/>`);
    else out.push(`<polyline fill="none" stroke="${stroke}" stroke-width="1.8" stroke-linejoin="round"${dash} points="${place.join(" ")}"/>`);
    const left = LEFT + i % columns * COLUMN, top = HEIGHT + Math.floor(i / columns) * ROW;
    out.push(`<line x1="${left}" x2="${left + 18}" y1="${top - 4}" y2="${top - 4}" stroke="${stroke}" stroke-width="3"${dash}/>`);
    write(left + 24, top, `${curve.label}  ${kept.length ? number(points.y[kept[kept.length - 1]]) : "–"}`, `fill="${ink}" font-size="12"`);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif">` +
    `<rect width="100%" height="100%" fill="${color("--panel")}"/>${out.join("")}</svg>`;
}

/** pngOf turns a picture into pixels. @param {string} svg @returns {Promise<Blob>} */
export async function pngOf(svg) {
  const image = new Image(), scale = 2, canvas = document.createElement("canvas");
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  await image.decode();
  canvas.width = scale * image.width;
  canvas.height = scale * image.height;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => blob ? done(blob) : fail(new Error("no picture")), "image/png"));
}

/** A field of CSV. @param {string} text */
const field = (text) => /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;

/** csvOf has a line for each point, with the columns that `trinity export` writes. @param {string} name @param {Curve[]} curves */
export const csvOf = (name, curves) => [["run", "step", name], ...curves.flatMap(({ run, label, points, several }) =>
  [...points.y.keys()].map((i) => [several ? label : run, String(points.step[i]), String(points.y[i])]))].map((row) =>
    row.map(field).join(",") + "\n").join("");

/** save gives somebody a file. @param {string} name @param {Blob} blob */
export function save(name, blob) {
  const link = document.createElement("a"), address = URL.createObjectURL(blob);
  link.href = address;
  link.download = name.replace(/[^\p{L}\p{N}.@_-]+/gu, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
