// Which run is the best, where its weights are, and what runs warned of.

import { html } from "./vendor/preact.js";
import { Apart } from "./away.js";
import { CopyButton } from "./copy.js";
import { number, plain } from "./parts.js";
import { href } from "./route.js";
import { local, t } from "./words.js";

/** isMore reports whether a value is better than another one. @param {Evaluation} of @param {number} a @param {number} b */
const isMore = (of, a, b) => of.falls ? a < b : a > b;

/**
 * improves reports whether a trained version is better than the model with which the run began, if that was evaluated.
 * @param {Evaluation} of
 */
export const improves = (of) => of.version > 0 && (!of.is_start || isMore(of, Number(of.best), Number(of.first)));

/** The run with the best evaluation. @param {Run[]} runs */
export function bestOf(runs) {
  const judged = runs.filter((run) => run.evaluation && Number.isFinite(Number(run.evaluation.best)));
  const size = (/** @type {Run} */ run) => Number(run.evaluation?.best) * (run.evaluation?.falls ? -1 : 1);
  return judged.reduce((best, run) => !best || run.evaluation?.name === best.evaluation?.name && size(run) > size(best) ? run : best,
    /** @type {Run | null} */ (null));
}

/** The command that talks to a checkpoint. @param {string} path */
export const chatWith = (path) => `trinity chat --model ${/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`}`;

/**
 * Weights says which of some runs is the best at any step, by how much, and where its weights are; or that none is better than the
 * model with which it began. nameOf gives the name of a run among the others, standings and others are those of a comparison.
 * @param {{runs: Run[], nameOf: (run: Run) => string, standings?: Standing[], others?: Comparison["others"]}} props
 */
export function Weights({ runs, nameOf, standings = [], others = [] }) {
  const known = runs.find((run) => run.id === standings[0]?.run), run = known ?? bestOf(runs) ?? (runs.length === 1 ? runs[0] : null);
  const e = known ? standings[0] : run?.evaluation;
  if (!run || !run.weights && !e) return null;
  const judged = known ? standings : runs.flatMap((of) => of.evaluation ?? []), several = runs.length > 1;
  if (e && !judged.some(improves)) return html`<${NoneBetter} ...${{ run, runs, nameOf, e, judged, gain: known &&
    standings[0].gain }} />`;
  const weights = weightsOf(run, e);
  return html`<section class="panel weights" aria-label=${t("weights.label")}>
    <p>${several && html`<span class="muted">${t("weights.single")}</span> <b>${plain(nameOf(run))}</b> · `}${e ? says(e) :
      t("weights.none")}${known && standings[0].gain && html` <${Apart} of=${standings[0].gain} />`}</p>
    ${several && e && html`<${Next} ...${{ run, runs, nameOf, standings }} />`}
    ${others.map((o) => html`<p class="warn">${t("weights.other", { metric: plain(o.name), run: plain(o.label), best: number(o.best, 4),
      step: number(o.step), has: number(o.has, 4) })}</p>`)}
    ${weights && html`<${Path} ...${{ run, weights, says: t("weights." + (weights.best ? "best" : run.weights?.best ? "kept" :
      "newest"), { step: number(weights.step) }) }} />`}
    ${e && !weights?.best && html`<p class="muted">${t("weights.lost", { step: number(e.step) })}</p>`}
  </section>`;
}

/** says tells an evaluation in a sentence. @param {Evaluation} e */
const says = (e) => t(e.is_start ? "weights.value" : "weights.reached", { metric: plain(e.name), best: number(e.best, 4), step:
  number(e.step), first: number(e.first, 4) });

/**
 * weightsOf is the checkpoint of the best step, or else what the run has instead.
 * @param {Run} run @param {Evaluation | null | undefined} e
 */
function weightsOf({ weights }, e) {
  return weights && { ...weights, best: weights.best && (!e || weights.step === e.version) };
}

/**
 * Next says by how much the best run is ahead of the next one.
 * @param {{run: Run, runs: Run[], nameOf: (run: Run) => string, standings: Standing[]}} props
 */
function Next({ run, runs, nameOf, standings }) {
  const next = standings.find((of) => of.run !== run.id), other = runs.find((of) => of.id === next?.run);
  if (!next || !other) return standings.length ? null : html`<p><a href=${href("compare", { run: runs.map((of) =>
    of.id) })}>${t("weights.much")}</a></p>`;
  return html`<p><span class="muted">${t("weights.next")}</span> <b>${plain(nameOf(other))}</b> · ${t("weights.reached", { metric:
    plain(next.name), best: number(next.best, 4), step: number(next.step) })} <${Apart} of=${next.more} />${next.more?.over === "rows" &&
    html` <span class="muted">(${t("away.over.rows", { n: next.more.n })})</span>`}</p>`;
}

/** Path shows where weights are. @param {{run: Run, weights: Checkpoint, says: string}} props */
function Path({ run, weights, says }) {
  return html`<p><span class="muted">${says}</span> <code>${plain(weights.path)}</code></p>
    <div class="row"><${CopyButton} label=${t("weights.path")} text=${() => weights.path} title=${plain(weights.path)} />
      <${CopyButton} label=${t("weights.chat")} text=${() => chatWith(weights.path)} title=${plain(chatWith(weights.path))} />
      <a href=${href("talk", { run: run.id, model: `global_step_${weights.step}` })}>${t("page.talk")}</a>
      <a href=${href("answers", { run: run.id })}>${t("page.answers")}</a></div>`;
}

/**
 * NoneBetter says that training made no run better than the model with which it began, and where that is.
 * @param {{run: Run, runs: Run[], nameOf: (run: Run) => string, e: Evaluation, judged: Evaluation[], gain?: Away}} props
 */
function NoneBetter({ run, runs, nameOf, e, judged, gain }) {
  const start = judged.reduce((best, of) => isMore(e, Number(of.first), Number(best.first)) ? of : best), weights = weightsOf(run, e);
  const began = runs.find((of) => of.evaluation?.first === start.first) ?? run;
  return html`<section class="panel weights" aria-label=${t("weights.label")}>
    <p class="warn"><b>${t(runs.length > 1 ? "weights.worse.all" : "weights.worse", { metric: plain(e.name), first:
      number(start.first, 4) })}</b></p>
    ${began.model && html`<p><span class="muted">${t("weights.began")}</span> <code>${plain(began.model)}</code></p>
      <div class="row"><${CopyButton} label=${t("weights.chat")} text=${() => chatWith(began.model)}
        title=${plain(chatWith(began.model))} /></div>`}
    ${e.version > 0 && html`<p>${runs.length > 1 && html`<b>${plain(nameOf(run))}</b> · `}${t("weights.worse.best", { best:
      number(e.best, 4), step: number(e.step) })}${gain && html` · ${t("weights.since")}
      <${Apart} of=${gain} />`}</p>`}
    ${e.version > 0 && weights?.best && html`<${Path} ...${{ run, weights, says: t("weights.step", { step: number(weights.step) }) }} />`}
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
