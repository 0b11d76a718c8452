// The page that writes a configuration, checks it and starts a run. What is written stays in this tab until it is closed.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Editor } from "./editor.js";
import { Loaded, plain, useData } from "./parts.js";
import { href } from "./route.js";
import { nodeAt, treeOf } from "./schema.js";
import { Missing, Templates } from "./templates.js";
import { Token, isTokenMissing } from "./token.js";
import { changed, entries, valueOf, reader } from "./yaml.js";
import { local, localDoc, t } from "./words.js";

const PAUSE = 400; // milliseconds without a key after which the text is checked

/** The keys that beginners change. */
const FIELDS = ["name", "model.model_path", "buffer.explorer_input.taskset.path", "buffer.trainer_input.experience_buffer.path", "algorithm.algorithm_type", "algorithm.repeat_times",
  "buffer.batch_size", "buffer.train_batch_size", "algorithm.optimizer.lr", "buffer.total_steps", "model.max_prompt_tokens", "model.max_response_tokens", "trainer.save_interval", "seed"];

/** @typedef {import("./yaml.js").Entry} Entry */
/** @typedef {{text: string, overrides: string, template?: string}} Draft */

/** What is written to begin with a run stays apart from what is written for that of another one, or of none. @param {string} run */
const keyOf = (run) => run ? "config:" + run : "config";

/** @param {string} run @returns {Draft | null} */
function kept(run) {
  try { return JSON.parse(sessionStorage.getItem(keyOf(run)) || "null"); } catch { return null; }
}

/** @param {string} run @param {Draft} draft */
const keep = (run, draft) => sessionStorage.setItem(keyOf(run), JSON.stringify(draft));

/** @param {PageProps} props */
export function Config({ query, go }) {
  const about = useData(api.about, []), schema = useData(api.schema, []), runs = useData(api.runs, []), all = query.getAll("run");
  if (about.value && !about.value.control) return html`<p class="panel">${t("config.readonly")}</p>`;
  if (!schema.value || !runs.value) return html`<${Loaded} data=${schema.error ? schema : runs} />`;
  const run = all.length === 1 ? all[0] : "";
  const against = query.get("against") ?? all[0] ?? "";
  return html`<${Written} key=${run} ...${{ run, against, schema: schema.value, runs: runs.value.runs, go }} />`;
}

/**
 * Written is the configuration of a run under a new name, or one that begins with a template, while it is being written.
 * @param {{run: string, against: string, schema: Awaited<ReturnType<typeof api.schema>>, runs: Run[], go: Go}} props
 */
function Written({ run, against, schema, runs, go }) {
  const [draft, write] = useState(/** @type {Draft} */ (kept(run) ?? { text: "", overrides: "" }));
  const templates = useData(api.templates, []), area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const tree = useMemo(() => treeOf(schema.keys, schema.plugins), [schema]);
  const set = (/** @type {Partial<Draft>} */ part) => write((before) => ({ ...before, ...part }));
  const cloned = useData(async (signal) => run && !draft.text ? api.configOf(run, signal) : null, [run]);
  useEffect(() => { if (draft.text) keep(run, draft); }, [draft]);
  useEffect(() => {
    if (cloned.value) set({ text: renamed(cloned.value.text, runs), overrides: cloned.value.overrides.join("\n") });
  }, [cloned.value]);
  useEffect(() => {
    if (templates.value && !draft.text && !run && templates.value.templates.length) set({ text: templates.value.templates[0].text });
  }, [templates.value]);
  const { checked, problems, planned, isOld, isFresh, busy, failed, plan, start } = useChecks(draft, go);
  if (isTokenMissing(failed)) return html`<${Token} />`;
  const wrong = problems.some((p) => !p.warning);
  return html`
    <div class="row">
      <${Templates} all=${templates.value ? templates.value.templates : []} onChoose=${(/** @type {Template} */ of) => {
        const next = { text: unused(of.text, runs), overrides: "", template: of.name };
        if (!run) return write(next);
        keep("", next);
        go("", { run: null });
      }} />
      <select aria-label=${t("config.clone")} value="" onChange=${(/** @type {any} */ { target }) =>
        target.value && go("", { run: target.value, against: null })}>
        <option value="">${t("config.clone")}</option>${runs.map((of) => html`<option value=${of.id}>${plain(of.id)}</option>`)}</select>
      ${run && draft.text && html`<span class="muted">${t("config.from", { run: plain(run), name: plain(nameIn(draft.text)) })}</span>`}
      ${run && kept("") && html`<a href=${href("config")}>${t("config.own")}</a>`}
      <span class="grow"></span>
      <button onClick=${() => download(draft.text)}>${t("config.download")}</button>
      <button disabled=${busy} title="Ctrl-Enter" onClick=${plan}>${t("config.check")}</button>
      <button class="primary" disabled=${busy || !isFresh || wrong} onClick=${start}>${t("config.start")}</button>
    </div>
    <${Missing} of=${templates.value && templates.value.templates.find((of) => of.name === draft.template)} text=${draft.text} />
    ${cloned.error && html`<p class="error" role="alert">${plain(local(cloned.error.message))}</p>`}
    ${failed && html`<p class="error" role="alert">${plain(local(failed.message))}</p>`}
    ${planned && planned.text && html`<details open class="plan"><summary><h2>${t("config.plan")}</h2></summary>
      ${isOld && html`<p class="warn" role="status">${t("config.plan.old")}</p>`}
      <div class="panel text mono">${plain(local(planned.text))}</div></details>`}
    <div class="config">
      <section>
        <${Editor} ...${{ text: draft.text, onText: (/** @type {string} */ text) => set({ text }), onRun: plan, problems, schema: tree, area }} />
        ${!cloned.error && html`<${Problems} problems=${problems} checked=${!!checked}
          onGo=${(/** @type {number} */ line) => jump(area.current, line)} />`}
        ${draft.overrides !== "" && html`<label class="overrides">${t("config.overrides")}
          <textarea rows="3" class="mono" value=${draft.overrides} onInput=${(/** @type {any} */ e) => set({ overrides: e.target.value })}></textarea></label>`}
      </section>
      <aside>
        <${Fields} text=${draft.text} onText=${(/** @type {string} */ text) => set({ text })} tree=${tree} />
        <${Difference} id=${against} runs=${runs} checked=${checked} go=${go} />
      </aside>
    </div>`;
}

/** useChecks checks the text when nobody has typed for a moment, plans it and starts it when asked. @param {Draft} draft @param {Go} go */
function useChecks(draft, go) {
  const [checked, setChecked] = useState(/** @type {Checked & {key: string} | null} */ (null));
  const [planned, setPlanned] = useState(/** @type {{text: string, errors: Problem[], key: string} | null} */ (null));
  const [failed, fail] = useState(/** @type {Error | null} */ (null));
  const [busy, work] = useState(false);
  const body = { text: draft.text, overrides: draft.overrides.split("\n").map((o) => o.trim()).filter(Boolean) }, key = JSON.stringify(body);
  useEffect(() => {
    if (!draft.text) return setChecked(null);
    const ending = new AbortController();
    const timer = setTimeout(() => {
      api.check(body, ending.signal).then((reply) => { setChecked({ ...reply, key }); fail(null); }, (error) => ending.signal.aborted || fail(error));
    }, PAUSE);
    return () => { clearTimeout(timer); ending.abort(); };
  }, [key]);
  const during = (/** @type {() => Promise<void>} */ f) => async () => {
    work(true);
    fail(null);
    try { await f(); } catch (error) { fail(/** @type {Error} */ (error)); }
    work(false);
  };
  const isOld = !!planned && planned.key !== key;
  /** @type {Problem[]} */
  const problems = checked ? [...checked.errors, ...(planned && !isOld ? planned.errors : []), ...checked.warnings.map((w) => ({ ...w, warning: true }))] : [];
  return {
    checked, problems, planned, isOld, busy, failed, isFresh: !!checked && checked.key === key,
    plan: during(async () => setPlanned({ ...await api.plan(body), key })),
    start: during(async () => go("log", { run: (await api.start(body)).id })),
  };
}

/** @param {string} text */
const nameIn = (text) => {
  const entry = entries(text).find((e) => e.path === "name");
  return entry ? valueOf(text, entry) : "rft";
};

/** @param {string} name @param {Run[]} runs */
const isTaken = (name, runs) => runs.some((run) => run.name === name || run.id.endsWith("/" + name));

/** renamed gives a configuration a name that no run has. @param {string} text @param {Run[]} runs */
function renamed(text, runs) {
  const name = nameIn(text).replace(/_\d+$/, "");
  let n = 2;
  while (isTaken(`${name}_${n}`, runs)) n++;
  return changed(text, "name", `${name}_${n}`);
}

/** unused is a configuration under its own name, or under another if a run has that. @param {string} text @param {Run[]} runs */
const unused = (text, runs) => isTaken(nameIn(text), runs) ? renamed(text, runs) : text;

/** @param {string} text */
function download(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/yaml" }));
  link.download = (nameIn(text) || "config").replace(/[^\w.-]+/g, "_") + ".yaml";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** jump puts the caret on a line. @param {HTMLTextAreaElement | null} area @param {number} line */
function jump(area, line) {
  if (!area || line < 1) return;
  const lines = area.value.split("\n"), at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(at, at + (lines[line - 1] ?? "").length);
  area.scrollTop = Math.max(0, (line - 5) * 20);
}

/** @param {{problems: Problem[], checked: boolean, onGo: (line: number) => void}} props */
function Problems({ problems, checked, onGo }) {
  if (!problems.length) return html`<p id="problems" class="muted" role="status">${checked ? t("config.right") : t("app.loading")}</p>`;
  return html`<ul id="problems" class="problems" role="status">${problems.map((p) => html`<li class=${p.warning ? "warn" : "error"}>
    ${p.line > 0 && html`<button class="link" onClick=${() => onGo(p.line)}>${t("config.line", { line: p.line })}</button>`} ${p.key && html`<b class="mono">${plain(p.key)}</b>`} ${plain(local(p.text))}</li>`)}</ul>`;
}

/** Fields are the keys that beginners change, as a form that edits the text; of a run with stages those of each stage. @param {{text: string, onText: (text: string) => void, tree: import("./schema.js").Node | null}} props */
function Fields({ text, onText, tree }) {
  const all = entries(text), stage = (/** @type {string} */ n) => { const e = all.find((x) => x.path === `stages.${n}.stage_name`); return e ? valueOf(text, e) : n; };
  const at = reader(text), known = (/** @type {string} */ path) => tree ? nodeAt(tree, path, at)?.key : undefined;
  const isArgument = (/** @type {Entry} */ e) => Boolean(known(e.path.replace(/\.[^.]*$/, ""))?.argsOf && known(e.path));
  const rows = FIELDS.flatMap((key) => {
    const found = all.filter((e) => e.path === key || e.path.startsWith("stages.") && e.path.replace(/^stages\.\d+\./, "") === key);
    return found.length ? found.map((e) => ({ key, path: e.path, value: valueOf(text, e), of: /^stages\.(\d+)/.exec(e.path)?.[1] })) : [{ key, path: key, value: "", of: undefined }];
  });
  rows.push(...all.filter(isArgument).map((e) => ({ key: "", path: e.path, value: valueOf(text, e), of: /^stages\.(\d+)/.exec(e.path)?.[1] })));
  return html`<form class="fields" aria-label=${t("config.fields")} onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}><h2>${t("config.fields")}</h2>
    ${rows.map(({ key, path, value, of }) => {
      const about = known(path), values = about?.values ?? [], limits = about?.limits ? "; " + local(about.limits) : "";
      const title = about ? `${path}: ${localDoc(about.doc)}${limits}` : path;
      const name = key ? t("config." + key) : plain(path.replace(/^.*\./, ""));
      return html`<label key=${path} title=${plain(title)}><span>${name}${of !== undefined && html` <small class="muted">${plain(stage(of))}</small>`}</span>
        <input class="mono" value=${value} placeholder=${about ? about.default : ""} list=${values.length ? "values-" + path : undefined} autocomplete="off" spellcheck=${false}
          onChange=${(/** @type {any} */ e) => onText(changed(text, path, e.target.value.trim()))} />
        ${values.length > 0 && html`<datalist id=${"values-" + path}>${values.filter(Boolean).map((v) => html`<option value=${v}></option>`)}</datalist>`}</label>`;
    })}</form>`;
}

/** The settings in which runs differ, by key. @param {RunDetails[]} runs @returns {{key: string, values: unknown[]}[]} */
function differences(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings ?? {})))].sort();
  return keys.map((key) => ({ key, values: runs.map((run) => run.settings?.[key]) }))
    .filter(({ values }) => values.some((v) => JSON.stringify(v) !== JSON.stringify(values[0])));
}

/** Difference shows the settings that differ from those of a run. @param {{id: string, runs: Run[], checked: Checked | null, go: Go}} props */
function Difference({ id, runs, checked, go }) {
  const run = useData(async (signal) => id ? api.run(id, signal) : null, [id]);
  const mine = checked && run.value ? checked.stages.find((s) => s.name === run.value?.stage) ?? checked.stages[0] : undefined;
  const rows = run.value && mine ? differences(/** @type {any} */ ([run.value, { settings: mine.settings }])) : [];
  const shown = (/** @type {unknown} */ v) => v === undefined ? "–" : plain(typeof v === "string" ? v : JSON.stringify(v));
  return html`<section><h2>${t("config.difference")}</h2>
    <select aria-label=${t("config.difference")} value=${id} onChange=${(/** @type {any} */ e) => go("", { against: e.target.value || null }, { replace: true })}>
      <option value="">${t("choose.run")}</option>${runs.map((r) => html`<option value=${r.id}>${plain(r.id)}</option>`)}</select>
    ${run.error && html`<p class="error">${plain(local(run.error.message))}</p>`}
    ${mine && !rows.length && html`<p class="muted">${t("compare.same")}</p>`}
    ${rows.length > 0 && html`<div class="table compare"><table><thead><tr><th scope="col">${t("compare.key")}</th><th scope="col">${t("config.there")}</th><th scope="col">${t("config.here")}</th></tr></thead>
      <tbody>${rows.map(({ key, values }) => html`<tr key=${key}><th scope="row" class="mono" title=${plain(key)}>${
        key.split(/(?<=[._])/).map((part) => html`${plain(part)}<wbr />`)}</th>${values.map((v) => html`<td title=${shown(v)}>${shown(v)}</td>`)}</tr>`)}</tbody></table></div>`}
  </section>`;
}
