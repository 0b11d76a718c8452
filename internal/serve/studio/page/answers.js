// Answers: what two evaluations, of one run or of two, answered to the same held-out rows, side by side.
import { html, useMemo } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, Text, number, plain, useData } from "./parts.js";
import { Chat, Cut, Mark, Scroll, partsIn } from "./answer.js";
import { commonStart } from "./diff.js";
import { href } from "./route.js";
import { bestOf } from "./weights.js";
import { t } from "./words.js";

/**
 * @typedef {{run: string, at: string}} Side an evaluation of a run
 * @typedef {{run: RunDetails, label: string, sides: Side[]}} Evaluated a run with its evaluations; label is its name among the others
 */

/** What may be shown, in the order of the buttons. */
const WHICH = ["changed", "lost", "won", "wrong", "other", "same", "all"];

/** Answers is the page. @param {PageProps} props */
export function Answers({ query, go }) {
  return html`<${HeldOut} ids=${query.getAll("run").slice(0, api.MOST_COMPARED)} query=${query} go=${go} />`;
}

/** HeldOut is also a part of the page that compares runs. @param {PageProps & {ids: string[]}} props */
export function HeldOut({ ids, query, go }) {
  const listed = useData(async (signal) => {
    const labels = ids.length > 1 ? (await api.groups(ids, signal)).labels : [""];
    return Promise.all(ids.map(async (id, i) => {
      const [run, { evaluations }] = await Promise.all([api.run(id, signal), api.evaluations(id, signal)]);
      return { run, label: labels[i], sides: evaluations.map((at) => ({ run: id, at })) };
    }));
  }, [ids]);
  if (!listed.value) return html`<${Loaded} data=${listed} />`;
  const known = listed.value.filter((of) => of.sides.length);
  if (!known.length) return html`<p class="muted">${t("held.none")}</p>`;
  const [a, b] = chosenOf(known, query), two = !!a && a.run !== b.run, tasksets = tasksetsOf(known);
  const taskset = query.get("taskset") ?? tasksets.find((name) => bestIn(known).run.evaluation?.name.startsWith(`eval/${name}/`)) ?? "";
  const swap = () => go("", { a: keyOf(b), b: a && keyOf(a) }, { replace: true });
  return html`<div class="row">
      <${Choose} name="a" known=${known} side=${a} letter=${two && "A"} go=${go} />
      ${two ? html`<button onClick=${swap} title=${t("held.swap")} aria-label=${t("held.swap")}>⇄</button>` :
        html`<span aria-hidden="true">→</span>`}
      <${Choose} name="b" known=${known} side=${b} letter=${two && "B"} go=${go} />
      ${tasksets.length > 1 && html`<select aria-label=${t("held.tasksets")} value=${taskset}
        onChange=${(/** @type {any} */ e) => go("", { taskset: e.target.value }, { replace: true })}>
        ${["", ...tasksets].map((name) => html`<option value=${name}>${name ? plain(name) : t("held.tasksets")}</option>`)}</select>`}
    </div>
    <p class="muted">${t("held.texts")}</p>
    <${Compared} key=${[a && keyOf(a), keyOf(b), taskset].join()} ...${{ known, a, b, two, taskset, query, go }} />`;
}

/**
 * chosenOf returns the sides of the route. Without them they are the two best runs, each at its best step, or of one run the newest
 * evaluation and the one before it.
 * @param {Evaluated[]} known @param {URLSearchParams} query @returns {[Side | undefined, Side]}
 */
function chosenOf(known, query) {
  const sides = known.flatMap((of) => of.sides), named = (/** @type {string} */ key) => sides.find((of) => keyOf(of) === query.get(key));
  const first = bestIn(known), second = bestIn(known.filter((of) => of !== first));
  const own = first.sides.filter((of) => isOwn(of.at));
  const b = named("b") || (second ? sideOf(second) : own[own.length - 1] ?? first.sides[first.sides.length - 1]);
  const a = named("a") || (second ? sideOf(first) : own[own.findIndex((of) => of.at === b.at) - 1]);
  return [a && keyOf(a) === keyOf(b) ? undefined : a, b];
}

/** bestIn returns the best run by its evaluation, or the first one. @param {Evaluated[]} known */
function bestIn(known) {
  const best = bestOf(known.map((of) => of.run));
  return known.find((of) => of.run === best) ?? known[0];
}

/** sideOf is the evaluation by which a run is judged, or its newest one. @param {Evaluated} of */
function sideOf({ run, sides }) {
  const own = sides.filter((of) => isOwn(of.at));
  return own.find((of) => of.at === String(run.evaluation?.step)) ?? own[own.length - 1] ?? sides[sides.length - 1];
}

/** tasksetsOf names the tasksets on which runs are evaluated. @param {Evaluated[]} known @returns {string[]} */
const tasksetsOf = (known) => [...new Set(known.flatMap(({ run }) => Object.entries(run.settings).filter(([key]) => NAME.test(key))
  .map(([, name]) => String(name))))];

/** The key of the name of a taskset for evaluations. */
const NAME = /^buffer\.explorer_input\.eval_tasksets\.\d+\.name$/;

const keyOf = (/** @type {Side} */ of) => `${of.run}@${of.at}`;

/** isOwn reports whether the run's own explorer made an evaluation. @param {string} at */
const isOwn = (at) => /^\d+$/.test(at);

/** atOf names an evaluation. @param {string} at */
const atOf = (at) => isOwn(at) ? t("step.n", { step: at }) : plain(at);

/**
 * Choose is the list of all evaluations.
 * @param {{name: string, known: Evaluated[], side: Side | undefined, letter: string | false, go: Go}} props
 */
function Choose({ name, known, side, letter, go }) {
  const option = (/** @type {Side} */ of, /** @type {string} */ label) => html`<option key=${keyOf(of)} value=${keyOf(of)}>
    ${label && plain(label) + " · "}${atOf(of.at)}</option>`;
  return html`<label>${letter && html`<b>${letter}</b> `}<select aria-label=${t("held.side." + name)} value=${side ? keyOf(side) : ""}
    onChange=${(/** @type {any} */ e) => go("", { [name]: e.target.value }, { replace: true })}>
    ${!side && html`<option value="">–</option>`}
    ${known.map(({ run, label, sides }) => label ? html`<optgroup label=${plain(label)} title=${plain(run.id)}>${
      sides.map((of) => option(of, label))}</optgroup>` : sides.map((of) => option(of, "")))}</select></label>`;
}

/**
 * @typedef {{known: Evaluated[], a: Side | undefined, b: Side, two: boolean, taskset: string}} Sides
 * @param {Sides & PageProps} props
 */
function Compared({ known, a, b, two, taskset, query, go }) {
  const load = (/** @type {string} */ which, /** @type {string} */ q, /** @type {AbortSignal} */ signal) =>
    api.answers(a || { run: b.run, at: "" }, b, { which, q, taskset }, signal);
  const first = useData((signal) => load("wrong", "", signal), []), wrong = first.value, search = query.get("held") || "";
  const usual = !wrong ? "" : a && countOf(wrong.counts, "changed") ? "changed" : wrong.of ? "wrong" : "all"; // no empty page
  const which = WHICH.find((of) => of === query.get("which")) || usual;
  const data = useData(async (signal) => !which ? undefined : wrong && which === "wrong" && !search ? wrong : load(which, search, signal),
    [which, search, !wrong]);
  const filter = (/** @type {any} */ to) => go("", to, { replace: true });
  const found = data.value, offered = WHICH.filter((of) => a || of === "wrong" || of === "all");
  const nameOf = (/** @type {HeldOutSide} */ of) => {
    const label = known.find(({ run }) => run.id === of.run)?.label;
    return two && label ? `${of === found?.a ? "A" : "B"} ${plain(label)} · ${atOf(of.at)}` : atOf(of.at);
  };
  const sideOfPair = (/** @type {HeldOutSide | null} */ of) => of && { of, name: nameOf(of) };
  return html`
    ${found && html`<p class="headlines">
      ${found.a && html`<span>${rightIn(found.a, nameOf(found.a))}</span>`}
      ${found.b && html`<span>${rightIn(found.b, nameOf(found.b))}</span>`}
      ${(found.counts.foreign || 0) > 0 && html`<span class="warn">${t("held.foreign", { n: found.counts.foreign })}</span>`}
      ${a && (found.counts.alone || 0) > 0 && html`<span>${t("held.alone", { n: found.counts.alone })}</span>`}</p>`}
    <div class="row">
      <span class="segments" role="group" aria-label=${t("rollouts.which")}>${offered.map((of) => html`<button key=${of}
        aria-pressed=${of === which} onClick=${() => filter({ which: of })}>
        ${t(wordOf(of, two))}${wrong && ` ${of === "wrong" ? wrong.of : countOf(wrong.counts, of)}`}</button>`)}</span>
      <input type="search" data-search class="filter grow" value=${search} placeholder=${t("held.search")} aria-label=${t("held.search")}
        onInput=${(/** @type {any} */ e) => filter({ held: e.target.value || null })} />
    </div>
    <${Loaded} data=${first.error ? first : data} />
    ${found && html`<p class="muted" role="status">${t("rollouts.shown", { n: found.pairs.length, of: found.of })}</p>
      <div class="held">${found.pairs.map((pair) => html`
        <${Pair} key=${[pair.taskset, pair.row, pair.repeat].join()} ...${{ pair, two, known }} a=${sideOfPair(found.a)}
          b=${sideOfPair(found.b)} />`)}</div>`}`;
}

/** countOf is how many answers a button shows. @param {Record<string, number>} counts @param {string} which */
function countOf(counts, which) {
  if (which === "changed") return (counts.lost || 0) + (counts.won || 0);
  return which === "all" ? Object.values(counts).reduce((sum, n) => sum + n, 0) : counts[which] ?? 0;
}

/** wordOf is the word for a choice: only two steps of one run come after one another. @param {string} which @param {boolean} two runs */
const wordOf = (which, two) => `held.${two && ["changed", "lost", "won", "wrong"].includes(which) ? "two" : "which"}.${which}`;

/** rightIn says how many answers are right. @param {HeldOutSide} of @param {string} name */
const rightIn = (of, name) => t("held.right", { name, right: of.right, n: of.n, share: number(100 * of.right / Math.max(1, of.n), 3) });

/**
 * Pair shows a row: its question, the right answer, and both given ones.
 * @typedef {{of: HeldOutSide, name: string}} Named
 * @param {{pair: HeldOutPair, two: boolean, a: Named | null, b: Named | null, known: Evaluated[]}} props
 */
function Pair({ pair, two, a, b, known }) {
  const given = [pair.a, pair.b].filter((of) => of !== null), start = useMemo(() => commonStart(given.map((of) => of.response)), [pair]);
  const change = WHICH.includes(pair.change) ? wordOf(pair.change, two) : "held.change." + pair.change;
  const side = (/** @type {HeldOutAnswer | null} */ of, /** @type {Named | null} */ by) => of && by &&
    html`<${Given} ...${{ of, start }} name=${by.name} again=${askAgain(known, by.of.run, pair, of)} />`;
  return html`<article class="panel">
    <h3>${plain(pair.taskset)} · ${t("held.row", { row: pair.row })}${pair.repeat > 0 && " · " + t("answer.run", { run: pair.repeat })}
      ${" "}<span class=${"flag " + (pair.change === "lost" ? "bad" : pair.change === "won" ? "good" : "")}>${t(change)}</span></h3>
    <${Scroll} label=${t("answer.question")}><${Text} text=${pair.prompt} limit=${600} /><//>
    ${pair.truth && html`<p class="truth">${t("answer.truth")}: <b dir="auto">${plain(pair.truth)}</b></p>`}
    <div class="sides">${side(pair.a, a)}${side(pair.b, b)}</div>
  </article>`;
}

/**
 * askAgain leads to Talk with the weights that gave an answer, the question, and the settings of its taskset.
 * @param {Evaluated[]} known @param {string} id of the run @param {HeldOutPair} pair @param {HeldOutAnswer} of
 */
function askAgain(known, id, pair, of) {
  const settings = known.find(({ run }) => run.id === id)?.run.settings ?? {};
  const name = Object.keys(settings).find((key) => NAME.test(key) && settings[key] === pair.taskset);
  const own = (/** @type {string} */ key) => {
    const value = name && settings[name.replace(/name$/, key)];
    return value === undefined ? null : String(value);
  };
  return href("talk", { run: id, version: of.model_version, ask: pair.prompt, shade: 1, temperature: own("rollout_args.temperature"),
    system: own("format.system_prompt") });
}

/** Given is one answer with its verdict. @param {{of: HeldOutAnswer, name: string, start: number, again: string}} props */
function Given({ of, name, start, again }) {
  const parts = partsIn(of.reward_parts);
  return html`<section class=${"given is-" + of.verdict}>
    <p>${name} <${Mark} of=${of} /> <span class="muted">${of.reward === null ? plain(of.reason.slice(0, 300)) :
      `${t("answer.reward")} ${number(of.reward)}${parts && ` (${parts})`}`}</span></p>
    ${of.chat && of.chat.length ? html`<${Chat} chat=${of.chat} />` : html`
      <${Scroll} label=${t("talk.answer")}><${Cut} text=${of.response} start=${start} /><//>
      <p><a href=${again}>${t("answer.again")}</a></p>`}
  </section>`;
}
