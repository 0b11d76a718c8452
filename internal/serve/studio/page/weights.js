// Which run is the best, where its weights are, and what runs warned of.

import { html } from "./vendor/preact.js";
import { CopyButton } from "./copy.js";
import { number, plain } from "./parts.js";
import { href } from "./route.js";
import { local, t } from "./words.js";

/** The run with the best evaluation. @param {Run[]} runs */
export function bestOf(runs) {
  const judged = runs.filter((run) => run.evaluation && Number.isFinite(Number(run.evaluation.best)));
  const size = (/** @type {Run} */ run) => Number(run.evaluation?.best) * (run.evaluation?.falls ? -1 : 1);
  return judged.reduce((best, run) => !best || run.evaluation?.name === best.evaluation?.name && size(run) > size(best) ? run : best,
    /** @type {Run | null} */ (null));
}

/** Whether an evaluation is better (1), worse (-1) or as good (0) at its best step as at the start. @param {Evaluation} e */
export const gainOf = (e) => Math.sign((Number(e.best) - Number(e.first)) * (e.falls ? -1 : 1)) || 0;

/** The command that talks to a checkpoint. @param {string} path */
export const chatWith = (path) => `trinity chat --model ${/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`}`;

/**
 * Weights says which of some runs is the best, and where its weights are. nameOf gives the name of a run among the others.
 * @param {{runs: Run[], nameOf: (run: Run) => string}} props
 */
export function Weights({ runs, nameOf }) {
  const run = bestOf(runs) ?? (runs.length === 1 ? runs[0] : null), weights = run?.weights, e = run?.evaluation;
  if (!run || !weights && !e) return null;
  return html`<section class="panel weights" aria-label=${t("weights.label")}>
    <p>${runs.length > 1 && html`<b>${plain(nameOf(run))}</b> · `}${e ? t("weights.value", { metric: plain(e.name), best: number(e.best, 4),
      step: number(e.step), first: number(e.first, 4) }) : t("weights.none")}</p>
    ${weights && html`<p><span class="muted">${t(weights.best ? "weights.best" : "weights.newest", { step: number(weights.step) })}</span>
      ${" "}<code>${plain(weights.path)}</code></p>
      <div class="row"><${CopyButton} label=${t("weights.path")} text=${() => weights.path} title=${plain(weights.path)} />
        <${CopyButton} label=${t("weights.chat")} text=${() => chatWith(weights.path)} title=${plain(chatWith(weights.path))} />
        <a href=${href("talk", { run: run.id, model: `global_step_${weights.step}` })}>${t("page.talk")}</a></div>`}
    ${e && !weights?.best && html`<p class="muted">${t("weights.lost", { step: number(e.step) })}</p>`}
  </section>`;
}

const MOST = 600; // characters of a warning

/** @typedef {{run: Run, line: string}} Warning */

const KIND = 30; // characters by which a warning is known, as the server has it

/** warned gathers the newest lines with which runs warned, by their kinds: role, step and numbers do not count. @param {Run[]} runs */
export function warned(runs) {
  /** @type {Map<string, Warning[]>} */
  const kinds = new Map();
  for (const run of runs) for (const line of run.warnings) {
    const kind = line.replace(/^.*?: /, "").slice(0, KIND).replace(/\d[\d.,]*/g, "#");
    kinds.set(kind, [...kinds.get(kind) ?? [], { run, line }]);
  }
  return [...kinds.values()];
}

/**
 * Warnings are the newest lines with which runs warned, one for all runs that said the same.
 * @param {{runs: Run[], nameOf: (run: Run) => string}} props
 */
export function Warnings({ runs, nameOf }) {
  const kinds = warned(runs);
  if (!kinds.length) return null;
  const text = (/** @type {Warning} */ of) => plain(local(of.line).slice(0, MOST));
  return html`<details class="panel warnings" open=${runs.length === 1}>
    <summary class="warn">⚠ ${t("weights.warnings", { n: kinds.length })}</summary>
    <ul>${kinds.map((all) => {
      const names = [...new Set(all.map((of) => nameOf(of.run)))], same = all.every((of) => of.line === all[0].line);
      const lines = all.map((of) => html`<li>${runs.length > 1 && html`<b>${plain(nameOf(of.run))}</b>: `}${text(of)}</li>`);
      return names.length === 1 ? lines : html`<li><details><summary><b>${t(same ? "weights.warned" : "weights.warned.as",
        { n: names.length, name: plain(names[0]) })}</b>: ${text(all[0])}</summary>
        ${same ? html`<p class="muted">${names.map(plain).join(", ")}</p>` : html`<ul>${lines}</ul>`}</details></li>`;
    })}</ul>
  </details>`;
}
