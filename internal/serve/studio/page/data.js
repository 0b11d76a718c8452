// Data: the rows that a run reads and the experiences that it writes, as its model reads and learns them.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Histogram, Loaded, Table, Text, number, plain, useData, useKeys } from "./parts.js";
import { Scroll } from "./answer.js";
import { Token, isTokenMissing } from "./token.js";
import { Reader } from "./tokens.js";
import { local, t } from "./words.js";

const PAGE = 50; // rows
const MOST = 20000; // rows whose lengths are counted

/** Data is the page. @param {PageProps} props */
export function Data({ query, go }) {
  const run = query.get("run") || "";
  const listed = useData((signal) => api.data(run, signal), [run]);
  if (!listed.value) return html`<${Loaded} data=${listed} />`;
  const { sources } = listed.value, chosen = sources.find((s) => s.key === query.get("source"));
  const source = chosen || sources.find((s) => !s.problem) || sources[0];
  if (!source) return html`<p class="muted">${t("data.none")}</p>`;
  const named = (/** @type {DataSource} */ s) => `${plain(s.name)} · ${t("data.kind." + s.kind)} · ${plain(s.path)}`;
  const fresh = { at: null, q: null, prompt: null, response: null, row: null };
  return html`
    <div class="row data-source"><label>${t("data.source")} <select value=${source.key}
      onChange=${(/** @type {any} */ e) => go("", { ...fresh, source: e.target.value })}>
      ${sources.map((s) => html`<option key=${s.key} value=${s.key}>${named(s)}</option>`)}</select></label>
      <span class="muted mono">${plain(source.key)}</span><${Compare} run=${run} source=${source} /></div>
    ${source.problem ? html`<p class="error">${plain(local(source.problem))}</p>`
      : html`<${Rows} key=${source.key} ...${{ run, source, query, go }} />`}`;
}

/** Compare begins to ask people which of two answers is better. @param {{run: string, source: DataSource}} props */
function Compare({ run, source }) {
  const about = useData(api.about, []), [failed, fail] = useState(/** @type {Error | null} */ (null));
  useEffect(() => fail(null), [source.key]);
  if (!about.value || !about.value.control || !["experience", "dpo"].includes(source.kind) || source.problem) return null;
  const begin = () => api.beginAnnotation(run, source.key).then((book) => { location.href = `annotate/${book.id}/`; }, fail);
  return html`<button title=${t("data.annotate.title")} onClick=${begin}>${t("data.annotate")}</button>
    ${isTokenMissing(failed) ? html`<${Token} />` :
      failed && html`<span class="error" role="alert">${plain(local(failed.message))}</span>`}`;
}

/** Rows shows the rows of a source from a place on. @param {PageProps & {run: string, source: DataSource}} props */
function Rows({ run, source, query, go }) {
  const at = query.get("at"), open = query.get("row");
  const q = query.get("q"), prompt = query.get("prompt"), response = query.get("response");
  const of = { run, source: source.key, at, q, prompt, response, n: PAGE };
  const data = useData((signal) => api.dataRows(of, signal), [of]);
  const before = useRef(/** @type {(string | null)[]} */ ([])); // places of the pages that somebody has seen
  const filtered = !!(q || prompt || response), found = data.value;
  const turn = () => {
    if (!found || found.end) return;
    before.current.push(at);
    go("", { at: found.next, row: null });
  };
  const back = () => go("", { at: before.current.pop() ?? null, row: null });
  const filter = (/** @type {Parameters_} */ by) => {
    before.current = [];
    go("", { ...by, at: null, row: null }, { replace: true });
  };
  useKeys([{ key: "[", says: t("data.before"), run: back }, { key: "]", says: t("data.after"), run: turn }]);
  return html`
    ${found && found.why && found.unit === "characters" &&
      html`<p class="muted" role="status">${t("data.text", { why: plain(local(found.why)) })}</p>`}
    <${Lengths} run=${run} source=${source} prompt=${prompt} response=${response} filter=${filter} />
    <div class="row">
      <${Search} value=${q || ""} onSearch=${(/** @type {string} */ text) => filter({ q: text || null })} />
      ${filtered && html`<button onClick=${() => filter({ q: null, prompt: null, response: null })}>${t("data.unfilter")}</button>`}
      <button disabled=${!at} onClick=${() => filter({})}>${t("data.first")}</button>
      <button disabled=${!at} onClick=${back} title=${t("data.before") + " ([)"} aria-label=${t("data.before")}>‹</button>
      <button disabled=${!found || found.end} onClick=${turn} title=${t("data.after") + " (])"} aria-label=${t("data.after")}>›</button>
    </div>
    <${Loaded} data=${data} />
    ${found && html`
      ${filtered && html`<p class="muted" role="status">${t("data.searched", { n: found.seen })} ${
        !found.rows.length && !found.end && html`${t("data.found")} <button onClick=${turn}>${t("data.further")}</button>`}</p>`}
      <${List} rows=${found.rows} open=${open} onOpen=${(/** @type {string} */ place) => go("", { row: place }, { replace: !!open })} />
      ${found.end && html`<p class="muted">${t("data.end")}</p>`}`}
    ${open && html`<${Row} key=${open} run=${run} source=${source.key} at=${open} close=${() => go("", { row: null })} />`}`;
}

/** Search searches when somebody pauses. @param {{value: string, onSearch: (text: string) => void}} props */
function Search({ value, onSearch }) {
  const waits = useRef(0), sent = useRef(value), [typed, type] = useState(value);
  useEffect(() => () => clearTimeout(waits.current), []);
  useEffect(() => {
    if (value !== sent.current) type(value); // else it is what somebody typed, who may have typed more since
    sent.current = value;
  }, [value]);
  return html`<input type="search" data-search class="grow" aria-label=${t("data.search")} placeholder=${t("data.search")} value=${typed}
    onInput=${(/** @type {any} */ e) => {
      const text = e.target.value;
      type(text);
      clearTimeout(waits.current);
      waits.current = setTimeout(() => onSearch(sent.current = text), 300);
    }} />`;
}

/** Lengths counts the lengths of the first rows, one answer of the server after another. @param {any} props */
function Lengths({ run, source, prompt, response, filter }) {
  const none = { prompt: /** @type {number[]} */ ([]), response: /** @type {number[]} */ ([]), rows: 0, damaged: 0, unit: "tokens" };
  const [all, set] = useState(none);
  useEffect(() => {
    const ending = new AbortController();
    const count = async () => {
      let at = "", sum = none;
      for (let end = false; !end && sum.rows < MOST;) {
        const got = await api.dataLengths({ run, source: source.key, at }, ending.signal);
        sum = {
          prompt: [...sum.prompt, ...got.prompt], response: [...sum.response, ...got.response.filter((n) => n >= 0)],
          rows: sum.rows + got.seen, damaged: sum.damaged + got.damaged, unit: got.unit,
        };
        set(sum);
        end = got.end || !got.seen;
        at = got.next;
      }
    };
    count().catch(() => { /* the rows have the same error */ });
    return () => ending.abort();
  }, [run, source.key]);
  const range = (/** @type {string | null} */ text) => text ? /** @type {[number, number]} */ (text.split(",").map(Number)) : null;
  const choose = (/** @type {string} */ name) => (/** @type {[number, number] | null} */ to) => filter({ [name]: to && to.join(",") });
  const lengths = (/** @type {"prompt" | "response"} */ name, /** @type {string | null} */ chosen) => html`<${Histogram} values=${all[name]}
    label=${t(`data.${name}s.${all.unit}`)} range=${range(chosen)} onRange=${choose(name)} />`;
  if (!all.rows) return null;
  return html`<div class="histograms">${lengths("prompt", prompt)}${all.response.length > 0 && lengths("response", response)}</div>
    <p class="muted" role="status">${t("data.lengths", { n: number(all.rows) })}${
      all.damaged > 0 && "; " + t("data.damaged", { n: all.damaged })}</p>`;
}

/** @typedef {{row: DataRow, of: Example | null, n: number}} Line an example of a row, or a row without one */

/** @param {DataRow} row @returns {Line[]} */
const linesOf = (row) => row.examples.length ? row.examples.map((of, n) => ({ row, of, n })) : [{ row, of: null, n: 0 }];

/**
 * List is the table: a line for each example of a row.
 * @param {{rows: DataRow[], open: string | null, onOpen: (at: string) => void}} props
 */
function List({ rows, open, onOpen }) {
  const lines = useMemo(() => rows.flatMap(linesOf), [rows]);
  const line = (/** @type {string | undefined} */ text = "") =>
    html`<span class="one-line" dir="auto">${plain(text.slice(0, 200).replace(/\s+/g, " "))}</span>`;
  const has = (/** @type {(of: Example) => unknown} */ what) => lines.some((l) => l.of && what(l.of));
  /** @type {Column<Line>[]} */
  const columns = [
    { key: "row", title: t("data.row"), width: "11rem", cell: (l) => html`
      <button class="link" title=${plain(l.row.where)} onClick=${() => onOpen(l.row.at)}>${
        plain(local(l.row.where.split("/").pop() || ""))}</button>
      ${l.of && l.of.label && html` <span class="flag">${t("data." + l.of.label)}</span>`}` },
    { key: "prompt", title: t("data.prompt"),
      cell: (l) => l.row.error ? html`<span class="error one-line">${plain(local(l.row.error))}</span>` : line(l.of?.prompt) },
  ];
  if (has((of) => of.response)) columns.push({ key: "response", title: t("data.response"), wide: true, cell: (l) => line(l.of?.response) });
  if (has((of) => of.answer)) columns.push({ key: "answer", title: t("data.answer"), wide: true, cell: (l) => line(l.of?.answer) });
  columns.push({ key: "length", title: t("data.length"), align: "right", width: "7rem",
    cell: (l) => l.of && number(l.of.prompt_length) + (l.of.response_length === null ? "" : " + " + number(l.of.response_length)) });
  const narrow = { align: /** @type {"right"} */ ("right"), width: "5rem" };
  if (has((of) => of.learned)) {
    columns.push({ key: "learned", title: t("data.learned"), ...narrow, wide: true, cell: (l) => l.of && number(l.of.learned) });
  }
  if (has((of) => of.reward !== null)) {
    columns.push({ key: "reward", title: t("runs.reward"), ...narrow, cell: (l) => l.of && number(l.of.reward) });
  }
  const classOf = (/** @type {Line} */ l) => l.row.error ? "invalid" : l.row.at === open ? "selected" : "";
  return html`<div class=${open ? "data-rows open" : "data-rows"}><${Table} columns=${columns} rows=${lines} classOf=${classOf}
    id=${(/** @type {Line} */ l) => l.row.at + "/" + l.n} onOpen=${(/** @type {Line} */ l) => onOpen(l.row.at)}
    sort="" onSort=${() => {}} label=${t("page.data")} height=${open ? "30vh" : "60vh"} /></div>`;
}

/** Row shows a row with its tokens. @param {{run: string, source: string, at: string, close: () => void}} props */
function Row({ run, source, at, close }) {
  const data = useData((signal) => api.dataRow({ run, source, at }, signal), [run, source, at]);
  const place = useRef(/** @type {any} */ (null)), row = data.value;
  useEffect(() => { if (row && place.current) place.current.scrollIntoView({ block: "nearest" }); }, [!!row]);
  return html`<section class="panel data-row" ref=${place} aria-label=${t("data.row")}>
    <${Loaded} data=${data} />
    ${row && html`
      <div class="row"><h2 class="grow">${plain(row.where)}</h2><button onClick=${close}>${t("data.close")}</button></div>
      ${row.error && html`<p class="error">${plain(local(row.error))}</p>`}
      ${row.examples.map((of, i) => html`<${Whole} key=${i} of=${of} />`)}
      ${row.text && html`<details open=${!row.examples.length}><summary>${t("data.file")}</summary>
        <${Scroll} label=${t("data.file")}><${Text} text=${row.text} /><//></details>`}`}
  </section>`;
}

/** Whole shows an example: its tokens if the model's tokenizer is there, else its texts. @param {{of: Example}} props */
function Whole({ of }) {
  const text = (/** @type {string} */ name, /** @type {string} */ says) => says &&
    html`<h3>${t("data." + name)}</h3><${Scroll} label=${t("data." + name)}><${Text} text=${says} /><//>`;
  return html`<article>
    <div class="flags">${of.label && html`<span class="flag">${t("data." + of.label)}</span>`}
      ${of.id && html`<span class="flag">${plain(of.id)}</span>`}
      ${of.reward !== null && html`<span class="flag">${t("answer.reward")} ${number(of.reward)}</span>`}
      <span class="muted">${t("data.learned")}: ${number(of.learned)}</span></div>
    ${of.tokens ? html`<${Reader} answer=${of} />` : html`${text("prompt", of.prompt)}${text("response", of.response)}`}
    ${(of.more || 0) > 0 && html`<p class="muted">${t("data.more", { n: number(of.more) })}</p>`}
    ${text("answer", of.answer)}
  </article>`;
}
