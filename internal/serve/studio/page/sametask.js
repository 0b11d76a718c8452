// The same task side by side: what the compared runs answered to it, each in a step, and how its reward went from step to step.

import { html, useMemo, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Damaged, Loaded, Spark, Text, number, plain, series, short, useData } from "./parts.js";
import { Scroll, Truth, named } from "./answer.js";
import { commonStart } from "./diff.js";
import { Card, Difference, Spread, mostOf } from "./group.js";
import { t } from "./words.js";

/** @typedef {{id: string, step: number, answers: Rollout[], prompt: string}} Answered a run's answers to the task in a step */

const MOST_LISTED = 200;

/** @param {PageProps & {ids: string[], labels: Map<string, string>}} props labels: the shortest names of the runs */
export function SameTask({ ids, labels, query, go }) {
  const shared = useData((signal) => api.tasks(ids, signal), [ids]);
  if (!shared.value) return html`<${Loaded} data=${shared} />`;
  const { tasks, damaged } = shared.value;
  if (!tasks.length) return html`<p class="muted">${t("compare.task.none")}</p><${Damaged} lines=${damaged} />`;
  const task = tasks.find((of) => of.task === query.get("same")) ?? tasks[0];
  return html`<${Choose} tasks=${tasks} task=${task} go=${go} /><${Damaged} lines=${damaged} />
    <${Beside} key=${task.task} ...${{ ids, labels, task, query, go }} />`;
}

/** Choose is the list of tasks, which one searches. @param {{tasks: SharedTask[], task: SharedTask, go: Go}} props */
function Choose({ tasks, task, go }) {
  const [search, find] = useState("");
  const found = tasks.filter((of) => of.task.toLowerCase().includes(search.toLowerCase()));
  const show = (/** @type {SharedTask | undefined} */ of) => of && go("", { same: of.task, at: null, answer: null }, { replace: true });
  const at = tasks.indexOf(task), listed = found.slice(0, MOST_LISTED);
  return html`<div class="row">
    <button disabled=${at === 0} onClick=${() => show(tasks[at - 1])} aria-label=${t("group.key.before")} title=${t("group.key.before")}>‹</button>
    <select aria-label=${t("answer.task")} value=${task.task} onChange=${(/** @type {any} */ e) => show(tasks.find((of) => of.task === e.target.value))}>
      ${!listed.includes(task) && html`<option value=${task.task}>${plain(task.task)}</option>`}
      ${listed.map((of) => html`<option key=${of.task} value=${of.task}>${plain(of.task)} (${of.runs.filter((h) => h.length).length})</option>`)}</select>
    <button disabled=${at === tasks.length - 1} onClick=${() => show(tasks[at + 1])} aria-label=${t("group.key.after")} title=${t("group.key.after")}>›</button>
    <input type="search" class="filter" value=${search} placeholder=${t("compare.task.search")} aria-label=${t("compare.task.search")} onInput=${(/** @type {any} */ e) => find(e.target.value)} />
    <span class="muted" role="status">${t("rollouts.shown", { n: found.length, of: tasks.length })}</span>
  </div>`;
}

/**
 * Beside shows a column of answers for each run that has some. at are the steps, in the order of the runs.
 * @param {PageProps & {ids: string[], labels: Map<string, string>, task: SharedTask}} props
 */
function Beside({ ids, labels, task, query, go }) {
  const asked = query.getAll("at").map(Number), nameOf = (/** @type {string} */ id) => plain(labels.get(id) ?? short(id));
  const steps = task.runs.map((history, i) => (history.find((h) => h.step === asked[i]) ?? history[history.length - 1])?.step ?? 0);
  const data = useData((signal) => Promise.all(ids.map((id, i) => answersOf(id, steps[i], task.task, task.runs[i], signal))),
    [ids, task.task, steps]);
  const columns = data.value ?? [], all = columns.flatMap((column) => column.answers.map((of) => ({ run: column.id, step: column.step, of,
    name: `${nameOf(column.id)}, ${named(of)}` })));
  const start = useMemo(() => commonStart(all.map(({ of }) => of.response)), [data.value]);
  const most = useMemo(() => mostOf(all.map(({ of }) => of)), [data.value]);
  const key = (/** @type {string} */ run, /** @type {Rollout} */ of) => `${run} ${of.id}`;
  const chosen = query.getAll("answer").filter((k) => all.some(({ run, of }) => key(run, of) === k)).slice(-2);
  const pair = chosen.map((k) => all.find(({ run, of }) => key(run, of) === k));
  const toggle = (/** @type {string} */ k) => go("", { answer: chosen.includes(k) ? chosen.filter((one) => one !== k) :
    [...chosen, k].slice(-2) }, { replace: true });
  const first = columns.find((column) => column.answers.length), lacking = ids.filter((_, i) => !task.runs[i].length);
  return html`<${Loaded} data=${data} />
    ${first && html`<details class="panel prompt"><summary>${t("group.prompt", { n: first.answers[0].prompt_tokens })}</summary>
      <${Scroll} label=${t("tokens.role.prompt")}><${Text} text=${first.prompt} limit=${1500} /><//></details>
      <${Truth} truth=${first.answers[0].truth} />`}
    ${pair.length === 2 ? html`<${Difference} key=${chosen.join()} a=${pair[0]} b=${pair[1]} />` :
      html`<p class="muted">${t("group.choose")}</p>`}
    ${lacking.length > 0 && html`<p class="muted">${t("compare.task.lacks", { runs: lacking.map(nameOf).join(", ") })}</p>`}
    <div class="beside" tabindex="0" role="group" aria-label=${t("compare.task")}>${ids.map((id, i) => task.runs[i].length > 0 &&
      html`<section key=${id} class="column">
      <h3 title=${plain(id)}><i style=${{ background: series(i) }}></i>${nameOf(id)}</h3>
      <div class="row">
        <select aria-label=${t("compare.task.step", { run: nameOf(id) })} value=${String(steps[i])} onChange=${(/** @type {any} */ e) =>
          go("", { at: steps.map((s, n) => n === i ? e.target.value : String(s)) }, { replace: true })}>
          ${task.runs[i].map((h) => html`<option key=${h.step} value=${String(h.step)}>${t("step.n", { step: h.step })}:
            ${" "}${number(h.mean)}</option>`)}</select>
        <${Spark} values=${task.runs[i].map((h) => h.mean)} width=${72} /></div>
      ${columns[i] && columns[i].answers.length > 0 && html`<p><${Spread} answers=${columns[i].answers} /></p>
        ${columns[i].answers.map((of) => html`<${Card} key=${of.id} ...${{ run: id, step: columns[i].step, of, start, most,
          chosen: chosen.includes(key(id, of)), onChoose: () => toggle(key(id, of)) }} />`)}`}
    </section>`)}</div>`;
}

/** answersOf loads the answers of a run. @param {string} id @param {number} step @param {string} task @param {Asked[]} history @param {AbortSignal} signal @returns {Promise<Answered>} */
async function answersOf(id, step, task, history, signal) {
  const of = history.find((h) => h.step === step);
  if (!of) return { id, step, answers: [], prompt: "" };
  const { rollouts } = await api.rollouts(id, step, signal);
  const answers = rollouts.filter((r) => r.task === task && r.explore_step === of.explore_step).sort((a, b) => a.run - b.run || a.turn - b.turn);
  return { id, step, answers, prompt: answers.length ? answers[0].prompt : "" };
}
