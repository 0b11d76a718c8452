// The page of all runs. The selection, the filter and the order are in the route; tags and notes stay in this browser.

import { html, useMemo, useRef, useState } from "./vendor/preact.js";
import { Actions } from "./act.js";
import * as api from "./api.js";
import { Damaged, Loaded, Spark, State, Table, ago, duration, finding, moment, number, plain, short, sorted, useData, useEvery } from "./parts.js";
import { href } from "./route.js";
import { Token, isTokenMissing } from "./token.js";
import { local, t } from "./words.js";

const RELOAD = 4000; // milliseconds

/** @typedef {{tags: string[], note: string}} Remark */

/** useRemarks gives the tags and notes of the runs below a directory, and sets those of one. @param {string} dir @returns {[Record<string, Remark>, (id: string, remark: Remark) => void]} */
function useRemarks(dir) {
  const key = "remarks:" + dir;
  const [, draw] = useState(0);
  const remarks = useMemo(() => {
    const none = Object.create(null); // a run may be called "constructor"
    try { return Object.assign(none, JSON.parse(localStorage.getItem(key) || "{}")); } catch { return none; }
  }, [key]);
  return [remarks, (id, remark) => {
    remarks[id] = remark;
    if (!remark.tags.length && !remark.note) delete remarks[id];
    localStorage.setItem(key, JSON.stringify(remarks));
    draw((n) => n + 1);
  }];
}

/** The words of a run that the filter looks at. @param {Run} run @param {Remark | undefined} remark */
const wordsOf = (run, remark) => [run.id, run.name, run.algorithm, run.mode, run.model, run.state, t("state." + run.state), run.error, ...(remark ? [...remark.tags, remark.note] : [])]
  .join("\n");

/** @param {PageProps} props */
export function Runs({ query, go }) {
  const about = useData(api.about, []), data = useData(api.runs, []);
  useEvery(RELOAD, data.again);
  const [remarks, remark] = useRemarks(about.value ? about.value.dir : "");
  const [edited, edit] = useState(/** @type {Run | null} */ (null));
  const [failed, fail] = useState(/** @type {Error | null} */ (null));
  const control = !!about.value && about.value.control;
  const filter = query.get("q") || "", sort = query.get("sort") || "";
  const selected = new Set(query.getAll("run"));
  const columns = columnsOf(remarks, edit, { control, onEnd: (error) => { fail(error); data.again(); } });
  const fits = finding(filter), all = data.value ? data.value.runs : [];
  const shown = sorted(all.filter((run) => fits(wordsOf(run, remarks[run.id]))), columns, sort);
  const select = (/** @type {Iterable<string>} */ ids) => go("", { run: [...ids] }, { replace: true });
  const toggle = (/** @type {string} */ id) => select(selected.has(id) ? [...selected].filter((s) => s !== id) : [...selected, id]);
  const chosen = [...selected];
  return html`
    <div class="row">
      <input class="filter" type="search" data-search value=${filter} placeholder=${t("runs.filter")} aria-label=${t("runs.filter")}
        onInput=${(/** @type {any} */ e) => go("", { q: e.target.value || null }, { replace: true })} />
      <span class="muted" role="status">${data.value && t("runs.shown", { shown: shown.length, n: all.length })}</span>
      <span class="grow"></span>
      ${chosen.length > 0 && html`<span>${t("runs.selected", { n: chosen.length })}</span>
        <button onClick=${() => select([])}>${t("runs.clear")}</button>`}
      <button class=${chosen.length ? "primary" : ""} disabled=${!chosen.length} onClick=${() => go("curves", { run: chosen })}>${t("page.curves")}</button>
      <button disabled=${chosen.length < 2 || chosen.length > api.MOST_COMPARED} title=${t("runs.compare", { most: api.MOST_COMPARED })} onClick=${() => go("compare", { run: chosen })}>${t("page.compare")}</button>
    </div>
    ${isTokenMissing(failed) ? html`<${Token} />` : failed && html`<p class="error" role="alert">${plain(local(failed.message))}</p>`}
    <${Loaded} data=${data} />
    <${Damaged} lines=${data.value && data.value.damaged} />
    ${data.value && !all.length && html`<p class="panel">${t("runs.none", { dir: about.value ? plain(about.value.dir) : "" })}</p>`}
    ${all.length > 0 && html`<${Table} label=${t("page.runs")} columns=${columns} rows=${shown} id=${(/** @type {Run} */ run) => run.id} sort=${sort}
      onSort=${(/** @type {string} */ by) => go("", { sort: by }, { replace: true })} selected=${selected} onSelect=${toggle}
      onOpen=${(/** @type {Run} */ run) => go("curves", { run: run.id })} />`}
    ${edited && html`<${Remarks} key=${edited.id} run=${edited} before=${remarks[edited.id]} onEnd=${(/** @type {Remark | null} */ after) => {
      if (after) remark(edited.id, after);
      edit(null);
    }} />`}`;
}

/** @param {Record<string, Remark>} remarks @param {(run: Run) => void} edit @param {{control: boolean, onEnd: (error: Error | null) => void}} acts @returns {Column<Run>[]} */
function columnsOf(remarks, edit, acts) {
  return [
    { key: "state", title: t("runs.state"), value: (run) => run.state, cell: (run) => html`<${State} run=${run} />${run.error && html`<small class="error" title=${plain(local(run.error))}>${plain(local(run.error))}</small>`}` },
    { key: "name", title: t("runs.name"), value: (run) => run.id, cell: (run) => nameOf(run) },
    { key: "tags", title: t("runs.tags"), wide: true, value: (run) => remarks[run.id] ? remarks[run.id].tags.join(" ") : "", cell: (run) => {
      const r = remarks[run.id];
      return html`<button class="remark" aria-label=${t("runs.remark")} title=${r ? plain(r.note) : t("runs.remark")} onClick=${() => edit(run)}>
        ${r ? html`${r.tags.map((tag) => html`<span class="tag">${plain(tag)}</span>`)}${r.note && html`<span class="muted">${plain(r.note)}</span>`}` : "+"}</button>`;
    } },
    { key: "algorithm", title: t("runs.algorithm"), wide: true, value: (run) => run.algorithm, cell: (run) => plain(run.algorithm) },
    { key: "model", title: t("runs.model"), wide: true, value: (run) => run.model, cell: (run) => html`<span title=${plain(run.model)}>${plain(short(run.model))}</span>` },
    { key: "step", title: t("runs.step"), align: "right", value: (run) => run.step, cell: (run) => html`<span class="progress" style=${{ backgroundSize: share(run) + "% 2px" }}>${number(run.step)}${
      run.total_steps > 0 && html`<span class="muted"> / ${number(run.total_steps)}</span>`}</span>` },
    { key: "reward", title: t("runs.reward"), align: "right", value: (run) => run.reward === null ? null : Number(run.reward), cell: (run) => html`<span title=${plain(run.reward_name)}>${number(run.reward, 3)}</span>` },
    { key: "spark", title: t("runs.trend"), wide: true, cell: (run) => html`<${Spark} values=${run.spark} width=${72} />` },
    { key: "left", title: t("runs.left"), align: "right", wide: true, value: (run) => run.seconds_left, cell: (run) => duration(run.seconds_left) },
    { key: "began", title: t("runs.began"), wide: true, value: (run) => run.began, cell: (run) => html`<span title=${moment(run.began)}>${ago(run.began)}</span>` },
    { key: "actions", title: t("runs.actions"), cell: (run) => html`<${Actions} key=${run.id} run=${run} ...${acts} />` },
    { key: "links", title: t("app.pages"), wide: true, cell: (run) => run.traced && html`<a href=${href("rollouts", { run: run.id })}>${t("page.rollouts")}</a> <a href=${href("time", { run: run.id })}>${t("page.time")}</a>` },
  ];
}

/** The part of a run that is done, in percent. @param {Run} run */
const share = (run) => run.total_steps > 0 ? Math.min(100, 100 * run.step / run.total_steps) : 0;

/** The id with its last part stressed. @param {Run} run */
function nameOf(run) {
  const parts = run.id.split("/"), last = parts.pop();
  return html`<a href=${href("curves", { run: run.id })} title=${plain(run.id)}><span class="muted">${parts.map((p) => plain(p) + "/").join("")}</span>${plain(last || "")}</a>`;
}

/** Remarks edits the tags and the note of a run. @param {{run: Run, before?: Remark, onEnd: (after: Remark | null) => void}} props */
function Remarks({ run, before = { tags: [], note: "" }, onEnd }) {
  const open = useRef((/** @type {HTMLDialogElement | null} */ dialog) => { if (dialog && !dialog.open) dialog.showModal(); }).current;
  return html`<dialog ref=${open} aria-label=${t("runs.remark")} onClose=${() => onEnd(null)}>
    <form class="remarks" onSubmit=${(/** @type {any} */ event) => {
      event.preventDefault();
      const { tags, note } = event.target;
      onEnd({ tags: tags.value.split(/[,\s]+/).filter(Boolean), note: note.value.trim() });
    }}>
      <h2>${plain(run.id)}</h2>
      <label>${t("runs.tags")} <input name="tags" value=${before.tags.join(" ")} autocomplete="off" /></label>
      <label>${t("runs.note")} <textarea name="note" rows="4">${before.note}</textarea></label>
      <p class="muted">${t("runs.kept")}</p>
      <div class="row"><button type="button" onClick=${() => onEnd(null)}>${t("app.close")}</button><button class="primary">${t("runs.keep")}</button></div>
    </form>
  </dialog>`;
}
