// The page of all runs. The selection, the filter and the order are in the route; tags and notes stay in this browser.

import { html, useMemo, useRef, useState } from "./vendor/preact.js";
import { Actions } from "./act.js";
import * as api from "./api.js";
import { Damaged, Loaded, Menu, Spark, State, Table, ago, duration, finding, moment, number, plain, short, sorted, useData,
  useEvery } from "./parts.js";
import { href } from "./route.js";
import { Token, isTokenMissing } from "./token.js";
import { local, t } from "./words.js";
import { CopyButton } from "./copy.js";
import { bestOf, improves, warned } from "./weights.js";

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

/**
 * A row of the table: a run, or runs that belong together, which it opens.
 * @typedef {{id: string, kind: "run" | "sweep" | "stages", depth: number, name: string, run: Run, runs: Run[], open: boolean}} Row
 */

/** The words of a run that the filter looks at. @param {Run} run @param {Remark | undefined} remark */
const wordsOf = (run, remark) => [run.id, run.name, run.label, run.algorithm, run.mode, run.model, run.state, t("state." + run.state),
  run.error, ...(remark ? [...remark.tags, remark.note] : [])]
  .join("\n");

/**
 * rowsOf makes one row of the runs of a sweep, and of the stages of a run; below it stand its runs if it is open.
 * @param {Run[]} runs
 * @param {(id: string) => boolean} isOpen
 * @param {(rows: Row[]) => Row[]} order
 * @returns {Row[]}
 */
function rowsOf(runs, isOpen, order) {
  const gather = (/** @type {Run[]} */ of, /** @type {number} */ depth, /** @type {(run: Run) => string} */ key,
    /** @type {"sweep" | "stages"} */ kind) => {
    /** @type {Map<string, Run[]>} */
    const groups = new Map();
    for (const run of of) groups.set(key(run) || run.id, [...groups.get(key(run) || run.id) ?? [], run]);
    return [...groups].map(([id, members]) => /** @type {Row} */ (key(members[0]) && (kind === "sweep" || members.length > 1) ?
      { id: `${kind}:${id}`, kind, depth, name: kind === "sweep" ? id : members[0].label || id, run: members[0], runs: members,
        open: isOpen(`${kind}:${id}`) } :
      { id: members[0].id, kind: "run", depth, name: members[0].label || members[0].id, run: members[0], runs: members, open: false }));
  };
  const stages = (/** @type {Run[]} */ of, /** @type {number} */ depth, arrange = order) => arrange(gather(of, depth, (run) => run.parent,
    "stages")).flatMap((row) => row.open ?
    [row, ...order(row.runs.map((run) => ({ id: run.id, kind: /** @type {const} */ ("run"), depth: depth + 1, name: run.stage, run,
      runs: [run], open: false })))] : [row]);
  const loose = gather(runs, 0, (run) => run.sweep, "sweep"), single = loose.filter((row) => row.kind === "run").map((row) => row.run);
  return order([...loose.filter((row) => row.kind === "sweep"), ...gather(single, 0, (run) => run.parent, "stages")]).flatMap((row) => {
    if (!row.open) return [row];
    return row.kind === "sweep" ? [row, ...stages(row.runs, 1, (of) => order(bestFirst(of)))] : stages(row.runs, 0);
  });
}

/** bestFirst puts rows in the order of their best evaluations; without one, of their rewards or losses. @param {Row[]} rows */
function bestFirst(rows) {
  const goodOf = (/** @type {Row} */ row) => {
    const run = bestOf(row.runs), e = run?.evaluation;
    if (e) return [2, Number(e.best) * (e.falls ? -1 : 1)];
    const reward = Number(row.run.reward ?? NaN);
    return Number.isFinite(reward) ? [1, isLoss(row.run) ? -reward : reward] : [0, 0];
  };
  return rows.map((row) => ({ row, good: goodOf(row) })).sort((a, b) => b.good[0] - a.good[0] || b.good[1] - a.good[1]).map((x) => x.row);
}

/** @param {Run} run */
const isLoss = (run) => run.reward_name.endsWith("loss");

/** @param {PageProps} props */
export function Runs({ query, go }) {
  const about = useData(api.about, []), data = useData(api.runs, []);
  useEvery(RELOAD, data.again);
  const [remarks, remark] = useRemarks(about.value ? about.value.dir : "");
  const [edited, edit] = useState(/** @type {Run | null} */ (null));
  const [failed, fail] = useState(/** @type {Error | null} */ (null));
  const control = !!about.value && about.value.control;
  const filter = query.get("q") || "", sort = query.get("sort") || "", opened = new Set(query.getAll("open"));
  const selected = new Set(query.getAll("run"));
  const fits = finding(filter), all = data.value ? data.value.runs : [];
  const found = all.filter((run) => fits(wordsOf(run, remarks[run.id])));
  const toggleOpen = (/** @type {string} */ id) => go("", { open: opened.has(id) ? [...opened].filter((o) => o !== id) : [...opened,
    id] }, { replace: true });
  const isOpen = (/** @type {string} */ id) => opened.has(id) !== (filter !== ""); // who searches sees what was found
  const columns = columnsOf(remarks, edit, { control, onEnd: (error) => { fail(error); data.again(); } }, { toggleOpen, go }, found,
    isOpen);
  const rows = rowsOf(found, isOpen, (of) => sorted(of, columns, sort));
  const select = (/** @type {Iterable<string>} */ ids) => go("", { run: [...ids] }, { replace: true });
  const toggle = (/** @type {string} */ id) => {
    const ids = rows.find((row) => row.id === id)?.runs.map((run) => run.id) ?? [], on = ids.every((i) => selected.has(i));
    select(on ? [...selected].filter((s) => !ids.includes(s)) : new Set([...selected, ...ids]));
  };
  const whole = found.length > 0 && found.every((run) => selected.has(run.id));
  const chosen = [...selected], shown = new Set(rows.filter((row) => row.runs.every((run) => selected.has(run.id))).map((row) => row.id));
  return html`
    <div class="row">
      <input class="filter" type="search" data-search value=${filter} placeholder=${t("runs.filter")} aria-label=${t("runs.filter")}
        onInput=${(/** @type {any} */ e) => go("", { q: e.target.value || null }, { replace: true })} />
      <span class="muted" role="status">${data.value && t("runs.shown", { shown: found.length, n: all.length })}</span>
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
    ${all.length > 0 && html`<div class="runs"><${Table} label=${t("page.runs")} columns=${columns} rows=${rows}
      id=${(/** @type {Row} */ row) => row.id} sort=${sort}
      onSort=${(/** @type {string} */ by) => go("", { sort: by }, { replace: true })} selected=${shown} onSelect=${toggle}
      all=${whole} onAll=${() => select(whole ? [] : found.map((run) => run.id))} classOf=${(/** @type {Row} */ row) =>
        (row.kind === "run" ? "" : "group") + (row.depth ? " below" : "")}
      onOpen=${(/** @type {Row} */ row) => row.kind === "run" ? go("curves", { run: row.id }) : toggleOpen(row.id)} /></div>`}
    ${edited && html`<${Remarks} key=${edited.id} run=${edited} before=${remarks[edited.id]} onEnd=${(/** @type {Remark | null} */ after) => {
      if (after) remark(edited.id, after);
      edit(null);
    }} />`}`;
}

const MOST_SETS = 6; // columns of settings

/**
 * settingColumns are the settings that differ within the sweeps that are open.
 * @param {Run[]} runs
 * @param {(id: string) => boolean} isOpen
 * @returns {Column<Row>[]}
 */
function settingColumns(runs, isOpen) {
  const heads = new Map(runs.filter((run) => run.sweep && isOpen("sweep:" + run.sweep)).flatMap((run) => run.sets.map((set) => [set.key,
    set.head])));
  const valueOf = (/** @type {Row} */ row, /** @type {string} */ key) => row.kind === "sweep" ? "" : row.run.sets.find((set) =>
    set.key === key)?.value ?? "";
  return [...heads].slice(0, MOST_SETS).map(([key, head]) => ({
    key: "set:" + key, title: html`<span class="mono" title=${plain(key)}>${plain(head)}</span>`, wide: true,
    value: (row) => { const v = valueOf(row, key); return v !== "" && Number.isFinite(Number(v)) ? Number(v) : v; },
    cell: (row) => html`<span class="mono" title=${plain(key)}>${plain(valueOf(row, key))}</span>`,
  }));
}

/**
 * @param {Record<string, Remark>} remarks @param {(run: Run) => void} edit @param {{control: boolean, onEnd: (error: Error | null) => void}} acts
 * @param {{toggleOpen: (id: string) => void, go: Go}} does @param {Run[]} runs @param {(id: string) => boolean} isOpen @returns {Column<Row>[]}
 */
function columnsOf(remarks, edit, acts, does, runs, isOpen) {
  const named = runs.some((run) => isOpen("sweep:" + run.sweep) && run.sets.some((set) => set.key === "algorithm.algorithm_type")),
    lives = runs.some((run) => run.seconds_left !== null);
  const measured = runs.filter((run) => run.reward_name);
  const measure = measured.length && measured.every(isLoss) ? "runs.loss" : measured.some(isLoss) ? "runs.either" : "runs.reward";
  /** @type {Column<Row>[]} */
  const columns = [
    { key: "state", title: t("runs.state"), value: (row) => row.run.state,
      cell: (row) => html`${row.kind === "run" || row.kind === "stages" ?
      html`<${State} run=${row.run} />${
      row.run.error && html`<small class="error" title=${plain(local(row.run.error))}>${plain(local(row.run.error))}</small>`}` : html`<${States}
        runs=${row.runs} />`}<${Warned} runs=${row.runs} />` },
    { key: "name", title: t("runs.name"), value: (row) => row.name, cell: (row) => html`<${Name} row=${row} toggle=${does.toggleOpen} />` },
    { key: "actions", title: html`<span class="sr">${t("runs.actions")}</span>`, cell: (row) => html`<${Menu} key=${row.id}
      label=${`${t("runs.actions")}: ${plain(row.name)}`}>
      ${row.kind === "run" ? html`<a href=${href("curves", { run: row.id })}>${t("page.curves")}</a>
        ${row.run.traced && html`<a href=${href("rollouts", { run: row.id })}>${t("page.rollouts")}</a><a href=${href("answers",
          { run: row.id })}>${t("page.answers")}</a><a href=${href("time", { run: row.id })}>${t("page.time")}</a>`}
        <a href=${href("data", { run: row.id })}>${t("page.data")}</a>
        <${Actions} run=${row.run} ...${acts} />` : html`<a href=${href("curves", { run: row.runs.map((run) =>
          run.id) })}>${t("page.curves")}</a>
        ${row.runs.length <= api.MOST_COMPARED && row.runs.length > 1 && html`<a href=${href("compare", { run: row.runs.map((run) =>
          run.id) })}>${t("page.compare")}</a>`}`}</${Menu}>` },
    ...settingColumns(runs, isOpen),
    { key: "best", title: t("runs.best"), align: "right", value: (row) => { const best = bestOf(row.runs); return best?.evaluation ?
      Number(best.evaluation.best) : null; }, cell: (row) => html`<${Best} row=${row} />` },
    { key: "step", title: t("runs.step"), align: "right", wide: true, value: (row) => row.run.step, cell: (row) => html`<${Progress}
      row=${row} />` },
    { key: "reward", title: t(measure), align: "right", wide: true, value: (row) => row.kind === "sweep" || row.run.reward === null ?
      null : Number(row.run.reward), cell: ({ kind, run }) => kind !== "sweep" && html`
      <span title=${plain(run.reward_name)}>${number(run.reward, 3)}${measure === "runs.either" && isLoss(run) ? html` <small
        class="muted">${t("runs.loss.small")}</small>` : ""}</span>` },
    { key: "spark", title: t("runs.trend"), wide: true, cell: ({ kind, run }) => kind !== "sweep" && html`<${Spark} values=${run.spark}
      width=${72} />` },
    { key: "algorithm", title: t("runs.algorithm"), wide: true, value: (row) => row.run.algorithm, cell: (row) =>
      [...new Set(row.runs.map((run) => run.algorithm))].map(plain).join(", ") },
    { key: "model", title: t("runs.model"), wide: true, value: (row) => row.run.model, cell: ({ run }) => html`<span
      title=${plain(run.model)}>${plain(short(run.model))}</span>` },
    { key: "left", title: t("runs.left"), align: "right", wide: true, value: (row) => mostLeft(row), cell: (row) =>
      duration(mostLeft(row)) },
    { key: "began", title: t("runs.began"), wide: true, value: (row) => row.run.began, cell: ({ run }) => html`<span
      title=${moment(run.began)}>${ago(run.began)}</span>` },
    { key: "tags", title: t("runs.tags"), wide: true, value: ({ run }) => remarks[run.id] ? remarks[run.id].tags.join(" ") : "",
      cell: ({ kind, run }) => {
      const r = remarks[run.id];
      return kind === "run" && html`<button class="remark" aria-label=${t("runs.remark")} title=${r ? plain(r.note) : t("runs.remark")}
        onClick=${() => edit(run)}>
        ${r ? html`${r.tags.map((tag) => html`<span class="tag">${plain(tag)}</span>`)}${r.note && html`<span class="muted">${plain(r.note)}</span>`}` : "+"}</button>`;
    } },
  ];
  return columns.filter(({ key }) => !(key === "algorithm" && named && runs.every((run) => run.sweep)) && !(key === "left" && !lives));
}

/** @param {Row} row */
const mostLeft = (row) => row.runs.reduce((most, run) => run.seconds_left !== null && (most === null || run.seconds_left > most) ?
  run.seconds_left : most, /** @type {number | null} */ (null));

/** States counts runs by state. @param {{runs: Run[]}} props */
function States({ runs }) {
  const counts = new Map();
  for (const run of runs) counts.set(run.state, [...counts.get(run.state) ?? [], run]);
  return [...counts.values()].map((of) => html`<${State} run=${of[0]} /><span class="count">${of.length}</span>`);
}

/** Name is the name of a row, and opens runs that belong together. @param {{row: Row, toggle: (id: string) => void}} props */
function Name({ row, toggle }) {
  const indent = { paddingLeft: 18 * row.depth + "px" };
  if (row.kind !== "run") {
    const says = t(row.kind === "sweep" ? "runs.sweep" : "runs.stages", { n: row.runs.length });
    return html`<button class="opens" style=${indent} aria-expanded=${row.open} title=${plain(row.name)} onClick=${() =>
      toggle(row.id)}><span aria-hidden="true">${row.open ? "▾" : "▸"}</span>
      <b>${plain(row.depth ? row.name : row.name.split("/").pop() ?? "")}</b> <span class="muted">${says}</span></button>`;
  }
  const parts = row.depth ? [row.name] : row.name.split("/"), last = parts.pop();
  return html`<a class="name" style=${indent} href=${href("curves", { run: row.id })} title=${plain(row.id)}><span
    class="muted">${parts.map((p) => plain(p) + "/").join("")}</span><span>${plain(last || "")}</span></a>`;
}

/** Best is the best evaluation of runs, with its step, and the one at the start. @param {{row: Row}} props */
function Best({ row }) {
  const run = bestOf(row.runs), e = run?.evaluation;
  if (!run || !e) return html`<span class="muted">–</span>`;
  const whose = row.runs.length > 1 ? ` · ${run.label || run.id}` : "", set = run.tasksets > 1 ? e.name.split("/")[1] : "";
  const title = plain(`${e.name}${whose}\n${t("runs.best.title", { first: number(e.first, 3), best: number(e.best, 3),
    step: e.step, last: number(e.last, 3) })}${run.weights ? "\n" + run.weights.path : ""}`);
  const of = set && html` <small class="muted">${t("runs.best.of", { set: plain(set) })}</small>`;
  const first = number(e.first, 3), best = number(e.best, 3);
  if (row.runs.every((r) => !r.evaluation || r.evaluation.version > 0 && !improves(r.evaluation))) return html`<span title=${title}><span class="warn">${first} → ${best}</span>${" "}
    <small class="warn words">${t("runs.best.none")}</small>${of}</span>`;
  return html`<span title=${title}>${e.version > 0 && html`<small class="muted">${first} →</small>`}${" "}
    ${improves(e) ? html`<b>${best}</b>` : best} <small class="muted wide">${t("step.n", { step: number(e.step) })}</small>${of}</span>`;
}

/** Warned counts the lines with which runs warned; what several runs said alike is one. @param {{runs: Run[]}} props */
function Warned({ runs }) {
  const kinds = warned(runs);
  const lines = kinds.map(([{ run, line }, ...others]) => {
    const name = run.label || run.id, many = others.length > 0 && t("weights.warned.as", { n: others.length + 1, name });
    return (many || runs.length > 1 ? `${many || name}: ` : "") + local(line);
  });
  return lines.length > 0 && html` <span class="warn" title=${plain(lines.join("\n\n"))}>⚠ ${lines.length}<span class="sr"> ${
    t("weights.warnings", { n: lines.length })}</span></span>`;
}

/** Progress is the step of a run, and of several their sum. @param {{row: Row}} props */
function Progress({ row }) {
  const of = row.kind === "sweep" ? row.runs : [row.run], sum = (/** @type {(run: Run) => number} */ one) => of.reduce((n, run) =>
    n + one(run), 0);
  const step = sum((run) => run.step), total = of.every((run) => run.total_steps > 0) ? sum((run) => run.total_steps) : 0;
  return html`<span class="progress" style=${{ backgroundSize: (total ? Math.min(100, 100 * step / total) :
    0) + "% 2px" }}>${number(step)}${
    total > 0 && html`<span class="muted"> / ${number(total)}</span>`}</span>`;
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
