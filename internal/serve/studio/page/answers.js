// Answers: what two evaluations, of one run or of two, answered to the same held-out rows, side by side.
import { html, useMemo } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, Text, number, plain, short, useData } from "./parts.js";
import { Chat, Cut, Mark, Scroll, partsIn } from "./answer.js";
import { commonStart } from "./diff.js";
import { t } from "./words.js";

/** @typedef {{run: string, at: string}} Side an evaluation of a run */

/** What may be shown, in the order of the buttons. */
const WHICH = ["changed", "lost", "won", "wrong", "other", "same", "all"];

/** Answers is the page. @param {PageProps} props */
export function Answers({ query, go }) {
  return html`<${HeldOut} ids=${query.getAll("run").slice(0, api.MOST_COMPARED)} query=${query} go=${go} />`;
}

/** HeldOut is also a part of the page that compares runs. @param {PageProps & {ids: string[]}} props */
export function HeldOut({ ids, query, go }) {
  const listed = useData((signal) => Promise.all(ids.map((id) => api.evaluations(id, signal))), [ids]);
  if (!listed.value) return html`<${Loaded} data=${listed} />`;
  const known = listed.value, sides = ids.flatMap((run, i) => known[i].evaluations.map((at) => ({ run, at })));
  if (!sides.length) return html`<p class="muted">${t("held.none")}</p>`;
  const [a, b] = chosenOf(ids, sides, query);
  return html`<div class="row">
      <${Choose} name="a" sides=${sides} side=${a} several=${ids.length > 1} go=${go} />
      <span aria-hidden="true">→</span>
      <${Choose} name="b" sides=${sides} side=${b} several=${ids.length > 1} go=${go} />
    </div>
    <${Compared} ...${{ a, b, query, go }} />`;
}

/**
 * chosenOf returns the sides of the route. Without them they are the newest evaluations of two runs, or the newest of one and the one
 * before it.
 * @param {string[]} ids @param {Side[]} sides @param {URLSearchParams} query @returns {[Side | undefined, Side]}
 */
function chosenOf(ids, sides, query) {
  const named = (/** @type {string | null} */ key) => sides.find((of) => keyOf(of) === key);
  const own = (/** @type {string} */ run) => sides.filter((of) => of.run === run && /^\d+$/.test(of.at));
  const newest = (/** @type {string} */ run) => own(run).at(-1);
  const b = named(query.get("b")) || (ids.length > 1 && newest(ids[1])) || newest(ids[0]) || sides[sides.length - 1];
  const before = own(b.run)[own(b.run).findIndex((of) => of.at === b.at) - 1];
  return [named(query.get("a")) || (ids.length > 1 && newest(ids[0]) !== b ? newest(ids[0]) : before), b];
}

const keyOf = (/** @type {Side} */ of) => `${of.run}@${of.at}`;

/** atOf names an evaluation. @param {string} at */
const atOf = (at) => /^\d+$/.test(at) ? t("step.n", { step: at }) : plain(at);

/** Choose is the list of all evaluations. @param {{name: string, sides: Side[], side: Side | undefined, several: boolean, go: Go}} props */
function Choose({ name, sides, side, several, go }) {
  return html`<select aria-label=${t("held.side." + name)} value=${side ? keyOf(side) : ""}
    onChange=${(/** @type {any} */ e) => go("", { [name]: e.target.value }, { replace: true })}>
    ${!side && html`<option value="">–</option>`}
    ${sides.map((of) => html`<option key=${keyOf(of)} value=${keyOf(of)}>
      ${several ? `${plain(short(of.run))} · ` : ""}${atOf(of.at)}</option>`)}</select>`;
}

/** @param {{a: Side | undefined, b: Side, query: URLSearchParams, go: Go}} props */
function Compared({ a, b, query, go }) {
  const which = WHICH.find((of) => of === query.get("which")) || (a ? "changed" : "wrong"), search = query.get("held") || "";
  const data = useData((signal) => api.answers(a || { run: b.run, at: "" }, b, which, search, signal),
    [a && keyOf(a), keyOf(b), which, search]);
  const filter = (/** @type {any} */ to) => go("", to, { replace: true });
  const found = data.value, offered = WHICH.filter((of) => a || of === "wrong" || of === "all");
  return html`
    ${found && html`<p class="headlines">
      ${found.a && html`<span>${rightIn(found.a, found.b)}</span>`}
      ${found.b && html`<span>${rightIn(found.b, found.a)}</span>`}
      ${(found.counts.foreign || 0) > 0 && html`<span class="warn">${t("held.foreign", { n: found.counts.foreign })}</span>`}
      ${a && (found.counts.alone || 0) > 0 && html`<span>${t("held.alone", { n: found.counts.alone })}</span>`}</p>`}
    <div class="row">
      <span class="segments" role="group" aria-label=${t("rollouts.which")}>${offered.map((of) => html`<button key=${of}
        aria-pressed=${of === which} onClick=${() => filter({ which: of })}>
        ${t("held.which." + of)}${found && countOf(found, of)}</button>`)}</span>
      <input type="search" data-search class="filter grow" value=${search} placeholder=${t("held.search")} aria-label=${t("held.search")}
        onInput=${(/** @type {any} */ e) => filter({ held: e.target.value || null })} />
    </div>
    <${Loaded} data=${data} />
    ${found && html`<p class="muted" role="status">${t("rollouts.shown", { n: found.pairs.length, of: found.of })}</p>
      <div class="held">${found.pairs.map((pair) => html`
        <${Pair} key=${[pair.taskset, pair.row, pair.repeat].join()} pair=${pair} a=${found.a} b=${found.b} />`)}</div>`}`;
}

/** countOf is how many answers a button shows, where that is known. @param {HeldOutAnswers} found @param {string} which */
function countOf(found, which) {
  const counts = found.counts, all = Object.values(counts).reduce((sum, n) => sum + n, 0);
  if (which === "wrong") return ""; // the server counts changes
  return ` ${{ changed: (counts.lost || 0) + (counts.won || 0), all }[which] ?? counts[which] ?? 0}`;
}

/** rightIn says how many answers are right. @param {HeldOutSide} of @param {HeldOutSide | null} other */
const rightIn = (of, other) => t("held.right",
  { name: nameOf(of, other), right: of.right, n: of.n, share: number(100 * of.right / Math.max(1, of.n), 3) });

/** nameOf names a side by what the other does not share. @param {HeldOutSide} of @param {HeldOutSide | null} other */
const nameOf = (of, other) => other && other.run !== of.run ? `${plain(short(of.run))}, ${atOf(of.at)}` : atOf(of.at);

/**
 * Pair shows a row: its question, the right answer, and both given ones.
 * @param {{pair: HeldOutPair, a: HeldOutSide | null, b: HeldOutSide | null}} props
 */
function Pair({ pair, a, b }) {
  const given = [pair.a, pair.b].filter((of) => of !== null), start = useMemo(() => commonStart(given.map((of) => of.response)), [pair]);
  return html`<article class="panel">
    <h3>${plain(pair.taskset)} · ${t("held.row", { row: pair.row })}${pair.repeat > 0 && " · " + t("answer.run", { run: pair.repeat })}
      ${" "}<span class=${"flag " + (pair.change === "lost" ? "bad" : pair.change === "won" ? "good" : "")}>
        ${t("held.change." + pair.change)}</span></h3>
    <${Scroll} label=${t("answer.question")}><${Text} text=${pair.prompt} limit=${600} /><//>
    ${pair.truth && html`<p class="truth">${t("answer.truth")}: <b dir="auto">${plain(pair.truth)}</b></p>`}
    <div class="sides">${pair.a && a && html`<${Given} of=${pair.a} name=${nameOf(a, b)} start=${start} />`}
      ${pair.b && b && html`<${Given} of=${pair.b} name=${nameOf(b, a)} start=${start} />`}</div>
  </article>`;
}

/** Given is one answer with its verdict. @param {{of: HeldOutAnswer, name: string, start: number}} props */
function Given({ of, name, start }) {
  return html`<section class=${"given is-" + of.verdict}>
    <p>${name} <${Mark} of=${of} /> <span class="muted" title=${partsIn(of.reward_parts)}>${
      of.reward === null ? plain(of.reason.slice(0, 300)) : `${t("answer.reward")} ${number(of.reward)}`}</span></p>
    ${of.chat && of.chat.length ? html`<${Chat} chat=${of.chat} />` : html`
      <${Scroll} label=${t("talk.answer")}><${Cut} text=${of.response} start=${start} /><//>`}
  </section>`;
}
