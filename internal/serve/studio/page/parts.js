// What the pages share.
//
// Conventions:
// - Markup is html`…` of vendor/preact.js. Everything that a model wrote, and everything else from files, goes through Text or visible(): it is text, never HTML.
// - Colours are variables of page.css (--ink, --muted, --line, --panel, --accent, --bad, --good, --s0 … --s7 for series). A canvas takes them through color("--ink").
// - series(i) colours runs, diverging(x) numbers around 0 (blue below, orange above), shade(x) numbers from 0 to 1. Colour never says alone what a word does not.
// - Numbers are shown by number(), percent(), duration(), ago(). A number of a reply may be null or the text "NaN": number() takes them all.
// - useData(load, [dependencies]) loads when the dependencies change and aborts what is no longer wanted; Loaded shows its waiting and its error.
// - useEvery(ms, f) calls f only while the page is visible. useKeys([{key, says, run}]) adds keys; "?" lists them.
// - A Table shows only the rows that are visible; all rows have the height ROW.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { local, roleOf, t } from "./words.js";

// ---- numbers ----

/** @typedef {number | string | null | undefined} Numeric */

/** number shows a number in few characters. @param {Numeric} value @param {number} [digits] significant ones */
export function number(value, digits = 4) {
  if (value === null || value === undefined || value === "") return "–";
  const x = Number(value);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e7) return x.toLocaleString("en").replace("-", "−");
  const text = size !== 0 && (size < 1e-3 || size >= 1e7) ? x.toExponential(Math.max(0, digits - 2)) : String(Number(x.toPrecision(digits)));
  return text.replace(/-/g, "−").replace("e+", "e");
}

/** @param {Numeric} value of which 1 is the whole */
export const percent = (value) => value === null || value === undefined ? "–" : number(100 * Number(value), 3) + " %";

/** duration shows seconds as 4 s, 3 min, 2 h 05 min, 3 d 4 h. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds), two = (/** @type {number} */ n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 1) return Math.round(1000 * s) + " ms";
  if (s < 120) return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return `${Math.floor(s / 3600)} h ${two(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

/** ago shows how long ago a time was. @param {number} ms since 1970 */
export function ago(ms) {
  if (!ms) return "–";
  const minutes = Math.floor((Date.now() - ms) / 60000);
  if (minutes < 1) return t("ago.now");
  if (minutes < 60) return t("ago.minutes", { n: minutes });
  if (minutes < 2880) return t("ago.hours", { n: Math.floor(minutes / 60) });
  return t("ago.days", { n: Math.floor(minutes / 1440) });
}

/** moment shows a time as 2006-01-02 15:04:05. @param {number} ms since 1970 */
export function moment(ms) {
  if (!ms) return "–";
  const d = new Date(ms - 60000 * new Date(ms).getTimezoneOffset());
  return d.toISOString().slice(0, 19).replace("T", " ");
}

// ---- colours ----

const SERIES = 8;

/** The colour of a series. @param {number} i */
export const series = (i) => `var(--s${i % SERIES})`;

/** Between a blue, the background and an orange: x from −1 to 1. @param {number} x */
export function diverging(x) {
  const share = Math.round(100 * Math.min(1, Math.abs(x) || 0));
  return `color-mix(in oklab, var(${x < 0 ? "--below" : "--above"}) ${share}%, var(--panel))`;
}

/** From the background to the accent: x from 0 to 1. @param {number} x */
export const shade = (x) => `color-mix(in oklab, var(--accent) ${Math.round(100 * Math.min(1, Math.max(0, x || 0)))}%, var(--panel))`;

/** Colours as a canvas takes them, by name, until the theme changes. @type {Map<string, string>} */
const resolved = new Map();
addEventListener("theme", () => resolved.clear());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => resolved.clear());

/** color resolves a colour such as "--ink" or "var(--s0)" to one that a canvas takes. @param {string} name */
export function color(name) {
  const known = resolved.get(name);
  if (known) return known;
  const probe = document.createElement("i");
  probe.style.color = name.startsWith("--") ? `var(${name})` : name;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  resolved.set(name, found);
  return found;
}

// ---- text that is not ours ----

// Characters that a screen does not show or that change how others are shown: controls, spaces without width, marks of direction, separators, tags, half characters.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\ud800-\udfff]/gu;

/** picture is how one hidden character is shown: ␛ for a control, U+202E for others. @param {string} c */
export function picture(c) {
  const code = /** @type {number} */ (c.codePointAt(0));
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/** short is the last two parts of a path or of a run's id. @param {string} path */
export const short = (path) => path.replace(/\/actor\/huggingface\/?$/, "").split("/").slice(-2).join("/");

/** runName is what pages call a run: the name that its sweep gives it, or the end of its id. @param {Run} run */
export const runName = (run) => run.label ? run.label + (run.parent ? " · " + run.stage : "") : short(run.id);

/** finding returns a test of texts: they must have all words of a search. @param {string} search */
export function finding(search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return (/** @type {string} */ text) => words.every((word) => text.toLowerCase().includes(word));
}

/** plain is text with its hidden characters as pictures, for attributes and titles. @param {string} text */
export const plain = (text) => String(text ?? "").replace(HIDDEN, picture);

/**
 * visible returns the children of an element that shows text from a file: strings, and marked pictures for hidden characters.
 * Line feeds and tabs stay: the element has white-space: pre-wrap (class "text").
 * @param {string} text
 * @returns {any[]}
 */
export function visible(text) {
  const out = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > end) out.push(text.slice(end, found.index));
    const code = "U+" + /** @type {number} */ (found[0].codePointAt(0)).toString(16).toUpperCase().padStart(4, "0");
    out.push(html`<span class="hidden-char" title=${code}>${picture(found[0])}</span>`);
    end = found.index + found[0].length;
  }
  if (end < text.length) out.push(text.slice(end));
  return out;
}

/** Text shows what a model or a file says, the first `limit` characters until somebody wants more. @param {{text: string, limit?: number}} props */
export function Text({ text, limit = 4000 }) {
  const [shown, show] = useState(limit);
  const all = String(text ?? "");
  return html`<div class="text" dir="auto">${visible(all.slice(0, shown))}${all.length > shown && html`
    <button class="link" onClick=${() => show(10 * shown)}>${t("app.more", { n: Math.min(9 * shown, all.length - shown) })}</button>`}</div>`;
}

// ---- hooks ----

const SLOW = 30000; // milliseconds after which an answer is no longer waited for

/**
 * useData loads a value when the dependencies change, which are compared as JSON. again() loads it anew and keeps what is shown meanwhile; while it loads it
 * does nothing, because a slow answer would never come if each tick of useEvery asked anew.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {readonly unknown[]} dependencies
 * @returns {{value: T | undefined, error: Error | undefined, again: () => void}}
 */
export function useData(load, dependencies) {
  const [state, set] = useState(/** @type {{value?: T, error?: Error}} */ ({}));
  const [round, next] = useState(0);
  const key = JSON.stringify(dependencies), last = useRef(key), began = useRef(0); // 0: nothing loads
  useEffect(() => {
    const ending = new AbortController();
    const end = (/** @type {Parameters<typeof set>[0]} */ change) => {
      if (ending.signal.aborted) return;
      began.current = 0;
      set(change);
    };
    if (last.current !== key) set({});
    last.current = key;
    began.current = Date.now();
    load(ending.signal).then((value) => end({ value }), (error) => end((before) => ({ ...before, error })));
    return () => ending.abort();
  }, [key, round]);
  return { value: state.value, error: state.error, again: () => { if (Date.now() - began.current > SLOW) next((n) => n + 1); } };
}

/** useEvery calls f every ms milliseconds while the page is visible, and when it becomes visible. @param {number} ms @param {() => void} f */
export function useEvery(ms, f) {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => {
    const tick = () => { if (!document.hidden) latest.current(); };
    const timer = setInterval(tick, ms);
    document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }, [ms]);
}

/** useTheme counts the changes of the colours, which a canvas does not follow by itself. */
export function useTheme() {
  const [n, count] = useState(0);
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)"), changed = () => count((i) => i + 1);
    addEventListener("theme", changed);
    system.addEventListener("change", changed);
    return () => {
      removeEventListener("theme", changed);
      system.removeEventListener("change", changed);
    };
  }, []);
  return n;
}

/** useSize returns a reference for an element, and its width and height. @returns {[{current: any}, number, number]} */
export function useSize() {
  const at = useRef(/** @type {any} */ (null));
  const [[width, height], set] = useState([0, 0]);
  useLayoutEffect(() => {
    if (!at.current) return;
    const watch = new ResizeObserver(() => at.current && set([at.current.clientWidth, at.current.clientHeight]));
    watch.observe(at.current);
    set([at.current.clientWidth, at.current.clientHeight]);
    return () => watch.disconnect();
  }, []);
  return [at, width, height];
}

/** useNarrow reports whether the window is as narrow as that of a telephone, for which page.css has the same bound. */
export function useNarrow() {
  const at = useMemo(() => matchMedia("(max-width: 640px)"), []), [narrow, set] = useState(at.matches);
  useEffect(() => {
    const changed = () => set(at.matches);
    at.addEventListener("change", changed);
    return () => at.removeEventListener("change", changed);
  }, []);
  return narrow;
}

/** @type {Set<{current: KeyAction[]}>} */
const keyActions = new Set();

/** All keys of what is shown. */
export const keysNow = () => [...keyActions].flatMap((actions) => actions.current);

/** useKeys adds keys for as long as the component is shown. Keys in fields for text do nothing. @param {KeyAction[]} actions */
export function useKeys(actions) {
  const mine = useRef(actions);
  mine.current = actions;
  useEffect(() => {
    keyActions.add(mine);
    return () => { keyActions.delete(mine); };
  }, []);
}

// ---- parts ----

/** Loaded shows that data is loading or why it did not. @param {{data: {value?: unknown, error?: Error, again: () => void}}} props */
export function Loaded({ data }) {
  if (data.error) return html`<p class="error" role="alert">${plain(local(data.error.message))} <button onClick=${data.again}>${t("app.retry")}</button></p>`;
  return data.value === undefined ? html`<p class="muted" role="status">${t("app.loading")}</p>` : null;
}

/** Damaged lists what a reply left out. @param {{lines?: string[] | null}} props */
export function Damaged({ lines }) {
  if (!lines || !lines.length) return null;
  return html`<details class="damaged"><summary>${t("app.damaged")} ${lines.length}</summary><ul>${lines.map((line) => html`<li>${plain(local(line))}</li>`)}</ul></details>`;
}

/** State shows a run's state as a colour and a word. @param {{run: Run}} props */
export function State({ run }) {
  const known = ["running", "waiting", "finished", "stopped", "failed", "killed"].includes(run.state) ? run.state : "unknown";
  const word = known === "waiting" && run.waiting ? t("state.waiting.for", { who: plain(roleOf(run.waiting)) }) : t("state." + known);
  return html`<span class="state state-${known}" title=${plain(local(run.error) || word)}><i aria-hidden="true"></i><span>${word}</span></span>`;
}

/** The button and the list of a Menu get an id. */
let menus = 0;

/**
 * Menu is a button that opens a list above all else, so that no table cuts it.
 * @param {{label: string, sign?: string, children?: any}} props
 */
export function Menu({ label, sign = "⋯", children }) {
  const own = useMemo(() => `menu${++menus}`, []), at = useRef(/** @type {any} */ (null)), button = useRef(/** @type {any} */ (null));
  const [open, set] = useState(false);
  const place = (/** @type {any} */ event) => {
    set(event.newState === "open");
    if (event.newState !== "open") return;
    const box = button.current.getBoundingClientRect(), list = at.current;
    list.style.left = Math.max(4, Math.min(box.left, innerWidth - list.offsetWidth - 4)) + "px";
    list.style.top = (box.bottom + list.offsetHeight + 4 > innerHeight ? Math.max(4, box.top - list.offsetHeight) : box.bottom + 2) + "px";
  };
  return html`<button class="menu-button" ref=${button} popovertarget=${own} aria-label=${label} title=${label}>${sign}</button><div
    class="menu-list" id=${own} ref=${at} popover="auto"
    onToggle=${place} onClick=${(/** @type {any} */ event) =>
      { event.stopPropagation(); if (event.target.closest("a,button")) at.current.hidePopover(); }}>${open && children}</div>`;
}

/** Spark is a small line of values. @param {{values: Numeric[], width?: number, height?: number, label?: string}} props */
export function Spark({ values, width = 96, height = 22, label = "" }) {
  const numbers = (values ?? []).map(Number), finite = numbers.filter(Number.isFinite);
  if (finite.length < 2) return html`<svg width=${width} height=${height} aria-hidden="true"></svg>`;
  const low = Math.min(...finite), span = Math.max(...finite) - low || 1;
  const path = numbers.map((y, i) => Number.isFinite(y) ?
    `${(1 + i / (numbers.length - 1) * (width - 2)).toFixed(1)},${(height - 2 - (y - low) / span * (height - 4)).toFixed(1)}` : "").filter(Boolean).join(" ");
  return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${label || `${number(finite[0])} → ${number(finite[finite.length - 1])}`}>
    <polyline points=${path} /></svg>`;
}

/**
 * Bar is a number as a length from 0, to the left if it is negative; max is the largest size, and 0 draws nothing.
 * @param {{value: Numeric, max: number}} props
 */
export function Bar({ value, max }) {
  const x = Number(value);
  if (value === null || value === undefined || !Number.isFinite(x)) return html`<span class="bar"></span>`;
  const width = max > 0 ? Math.min(50, 50 * Math.abs(x) / max) : 0;
  return html`<span class="bar" aria-hidden="true"><i style=${{ left: (x < 0 ? 50 - width : 50) + "%", width: width + "%", background: x < 0 ? "var(--below)" : "var(--above)" }}></i></span>`;
}

/**
 * Histogram shows how values are distributed. A click on a bin selects its range, a click on the selected one takes that back.
 * @param {{values: Numeric[], bins?: number, range?: [number, number] | null, onRange?: (range: [number, number] | null) => void, label: string}} props
 */
export function Histogram({ values, bins = 24, range = null, onRange, label }) {
  const finite = useMemo(() => values.filter((v) => v !== null && v !== undefined && v !== "").map(Number).filter(Number.isFinite), [values]);
  if (!finite.length) return html`<p class="muted">${t("app.none")}</p>`;
  let low = Infinity, high = -Infinity;
  for (const v of finite) { low = Math.min(low, v); high = Math.max(high, v); }
  const n = high > low ? bins : 1, width = (high - low) / n || 1; // equal values are one narrow bar
  const counts = new Array(n).fill(0);
  for (const v of finite) counts[Math.min(n - 1, Math.floor((v - low) / width))]++;
  const top = Math.max(...counts);
  return html`<figure class="histogram" aria-label=${label}>
    <figcaption>${label}</figcaption>
    <div class=${n > 1 ? "bins" : "bins single"}>${counts.map((count, i) => {
      const from = low + i * width, to = i === n - 1 ? high : from + width;
      const on = !!range && range[0] === from && range[1] === to;
      const says = `${number(from)} … ${number(to)}: ${count}`;
      return html`<button class=${on ? "on" : ""} aria-pressed=${on} title=${says} aria-label=${says} disabled=${!count || !onRange}
        onClick=${() => onRange && onRange(on ? null : [from, to])}><i style=${{ height: 100 * count / top + "%" }}></i></button>`;
    })}</div>
    <div class="ends"><span>${number(low)}</span>${n > 1 && html`<span>${number(high)}</span>`}</div>
  </figure>`;
}

/** The height of a row of a Table and of its head, in pixels. */
const ROW = 34;

/**
 * sorted sorts rows by a column: numbers by size, texts by the alphabet, what is missing at the end. "-key" sorts downwards.
 * @template Row
 * @param {Row[]} rows @param {Column<Row>[]} columns @param {string} by
 */
export function sorted(rows, columns, by) {
  const down = by.startsWith("-"), column = columns.find((c) => c.key === by.replace(/^-/, ""));
  const value = column && column.value;
  if (!value) return rows;
  const missing = (/** @type {any} */ v) => v === null || v === undefined || v === "" || Number.isNaN(v);
  return rows.map((row) => ({ row, v: value(row) })).sort((a, b) => {
    if (missing(a.v) || missing(b.v)) return Number(missing(a.v)) - Number(missing(b.v));
    const order = typeof a.v === "number" && typeof b.v === "number" ? a.v - b.v : String(a.v).localeCompare(String(b.v));
    return down ? -order : order;
  }).map((x) => x.row);
}

/**
 * Table shows rows of one height, tall pixels, only those that are visible. The arrows move, Enter opens, Space selects.
 * @template Row
 * @param {{columns: Column<Row>[], rows: Row[], id: (row: Row) => string, sort: string, onSort: (by: string) => void, label: string,
 *   onOpen?: (row: Row) => void, selected?: Set<string>, onSelect?: (id: string) => void, all?: boolean, onAll?: () => void,
 *   classOf?: (row: Row) => string, height?: string, tall?: number}} props
 */
export function Table({ columns, rows, id, sort, onSort, label, onOpen, selected, onSelect, all, onAll, classOf, height, tall = ROW }) {
  const [at, , viewport] = useSize();
  const [top, scroll] = useState(0);
  const [current, move] = useState(0);
  const first = Math.max(0, Math.floor(top / tall) - 6), last = Math.min(rows.length, Math.ceil((top + (viewport || 800)) / tall) + 6);
  const go = (/** @type {number} */ to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    move(next);
    const box = at.current, y = next * tall;
    if (y < box.scrollTop) box.scrollTop = y;
    if (y + ROW + tall > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW + tall - box.clientHeight;
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.target !== at.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(viewport / tall) - 2), row = rows[current];
    const moves = { ArrowDown: current + 1, ArrowUp: current - 1, PageDown: current + page, PageUp: current - page, Home: 0, End: rows.length - 1 };
    if (event.key in moves) go(moves[event.key]);
    else if (event.key === "Enter" && row && onOpen) onOpen(row);
    else if (event.key === " " && row && onSelect) onSelect(id(row));
    else return;
    event.preventDefault();
  };
  const head = columns.map((c) => {
    const direction = sort === c.key ? "ascending" : sort === "-" + c.key ? "descending" : undefined;
    return html`<th scope="col" class=${cellClass(c)} key=${c.key} aria-sort=${direction} style=${{ width: c.width }}>
      ${c.value ? html`<button onClick=${() => onSort(direction === "descending" ? c.key : "-" + c.key)}>${c.title}<span aria-hidden="true">${
        direction ? (direction === "ascending" ? " ↑" : " ↓") : ""}</span></button>` : c.title}</th>`;
  });
  return html`<div class="table" ref=${at} tabindex="0" role="region" aria-label=${label} style=${{ maxHeight: height,
      "--row": tall + "px" }} onKeyDown=${onKeyDown}
      onScroll=${(/** @type {any} */ event) => scroll(event.currentTarget.scrollTop)}>
    <table aria-rowcount=${rows.length + 1}>
      <thead><tr>${onSelect && html`<td class="select">${onAll && html`<label title=${t("app.all")}><input type="checkbox" checked=${all}
        aria-label=${t("app.all")} onChange=${onAll} /></label>`}</td>`}${head}</tr></thead>
      <tbody>
        ${first > 0 && html`<tr key="above" aria-hidden="true" style=${{ height: first * tall + "px" }}></tr>`}
        ${rows.slice(first, last).map((row, i) => {
          const key = id(row), index = first + i, on = !!selected && selected.has(key);
          return html`<tr key=${key} aria-rowindex=${index + 2} aria-selected=${on} class=${(classOf ? classOf(row) : "") + (index === current ? " current" : "") + (on ? " selected" : "")}
              onClick=${(/** @type {any} */ event) => { if (event.target.closest("a,button,input,label")) return; move(index); if (onOpen) onOpen(row); }}>
            ${onSelect && html`<td class="select"><label><input type="checkbox" checked=${on} aria-label=${plain(key)} onChange=${() => onSelect(key)} /></label></td>`}
            ${columns.map((c) => html`<td class=${cellClass(c)}>${c.cell(row, index)}</td>`)}
          </tr>`;
        })}
        ${last < rows.length && html`<tr key="below" aria-hidden="true" style=${{ height: (rows.length - last) * tall + "px" }}></tr>`}
      </tbody>
    </table>
    ${!rows.length && html`<p class="muted">${t("app.none")}</p>`}
  </div>`;
}

/** @param {Column<any>} c */
const cellClass = (c) => [c.align === "right" ? "right" : "", c.wide ? "wide" : ""].filter(Boolean).join(" ");
