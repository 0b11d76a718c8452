// Group: all answers to one task beside one another, and the difference of two.
import { html, useMemo, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Bar, Damaged, Loaded, Text, number, plain, useData, useKeys, visible } from "./parts.js";
import { Images } from "./images.js";
import { Chat, Cut, Flags, Mark, Scroll, Truth, named, partsIn, rewarded, stepOf, tokensOf } from "./answer.js";
import { commonStart, difference } from "./diff.js";
import { longest } from "./measures.js";
import { t } from "./words.js";

/** Group is the page. @param {PageProps} props */
export function Group({ query, go }) {
  const run = query.get("run") || "", step = stepOf(query);
  const data = useData((signal) => api.rollouts(run, step, signal), [run, step]);
  const groups = useMemo(() => grouped(data.value ? data.value.rollouts : []), [data.value]);
  const explored = query.get("explore_step");
  const at = Math.max(0, groups.findIndex((g) => g.task === query.get("task") && (!explored || g.step === Number(explored))));
  const show = (n) => groups[n] && go("", { task: groups[n].task, explore_step: groups[n].step, answer: null }, { replace: true });
  useKeys([{ key: "[", says: t("group.key.before"), run: () => show(at - 1) }, { key: "]", says: t("group.key.after"), run: () => show(at + 1) }]);
  const group = groups[at];
  if (!group) return html`<${Loaded} data=${data} />${data.value && html`<p class="muted">${t("app.none")}</p>`}`;
  return html`
    <div class="row">
      <button disabled=${at === 0} onClick=${() => show(at - 1)} title=${t("group.key.before")} aria-label=${t("group.key.before")}>‹</button>
      <label>${t("answer.task")} <select value=${String(at)} onChange=${(e) => show(Number(e.target.value))}>
        ${groups.map((g, n) => html`<option value=${String(n)}>${plain(g.task)} (${g.answers.length})</option>`)}</select></label>
      <button disabled=${at === groups.length - 1} onClick=${() => show(at + 1)} title=${t("group.key.after")} aria-label=${t("group.key.after")}>›</button>
      <span class="muted">${t("group.explored", { step: group.step })}</span>
    </div>
    <${Answers} key=${at} run=${run} step=${step} answers=${group.answers} query=${query} go=${go} />
    <${Damaged} lines=${data.value && data.value.damaged} />`;
}

/** grouped returns the answers by task and explorer step. @param {Rollout[]} all */
function grouped(all) {
  /** @type {{task: string, step: number, answers: Rollout[]}[]} */
  const groups = [];
  for (const of of all) {
    let group = groups.find((g) => g.task === of.task && g.step === of.explore_step);
    if (!group) groups.push(group = { task: of.task, step: of.explore_step, answers: [] });
    group.answers.push(of);
  }
  for (const group of groups) group.answers.sort((a, b) => a.run - b.run || a.turn - b.turn);
  return groups;
}

/** Answers shows a group. @param {PageProps & {run: string, step: number, answers: Rollout[]}} props */
function Answers({ run, step, answers, query, go }) {
  const start = useMemo(() => commonStart(answers.map((of) => of.response)), [answers]);
  const most = mostOf(answers);
  const chosen = query.getAll("answer").filter((id) => answers.some((of) => of.id === id)).slice(-2);
  const toggle = (id) => go("", { answer: chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2) }, { replace: true });
  const pair = chosen.map((id) => answers.find((of) => of.id === id));
  return html`
    <details class="panel prompt" open><summary>${t("group.prompt", { n: answers[0].prompt_tokens })}</summary><${Scroll} label=${t("tokens.role.prompt")}><${Text} text=${answers[0].prompt} limit=${1500} /><//><${Images} run=${run} of=${answers[0]} /><${Truth} truth=${answers[0].truth} /></details>
    <p class="headlines"><${Spread} answers=${answers} />${answers.length > 1 && html`<span class="muted">${pair.length < 2 ? t("group.choose") : ""}</span>`}</p>
    ${pair.length === 2 && html`<${Difference} key=${chosen.join()} a=${{ run, step, of: pair[0] }} b=${{ run, step, of: pair[1] }} />`}
    <div class="answers">${answers.map((of) => html`<${Card} key=${of.id}
      ...${{ run, step, of, start, most, chosen: chosen.includes(of.id), onChoose: answers.length > 1 && (() => toggle(of.id)) }} />`)}</div>`;
}

/** @typedef {{reward: number, advantage: number, length: number}} Most the largest of the answers that are beside one another */

/**
 * Card shows an answer among others. start is how many characters of all are the same.
 * @param {{run: string, step: number, of: Rollout, start: number, most: Most, chosen: boolean, onChoose: false | (() => void)}} props
 */
export function Card({ run, step, of, start, most, chosen, onChoose }) {
  return html`<article class=${`panel given is-${of.verdict}${chosen ? " chosen" : ""}`}>
    <div class="row"><h2><a href=${tokensOf(run, step, of.id)}>${named(of)}</a></h2><${Mark} of=${of} /><span class="grow"></span>
      ${onChoose && html`<label><input type="checkbox" checked=${chosen} onChange=${onChoose} /> ${t("group.compare")}</label>`}</div>
    <table class="measured"><tbody>
      <tr title=${partsIn(of.reward_parts)}><th scope="row">${t("answer.reward")}</th><td>${number(of.reward)}</td><td><${Bar} value=${of.reward} max=${most.reward} /></td></tr>
      <tr><th scope="row">${t("answer.advantage")}</th><td>${number(of.advantage)}</td><td><${Bar} value=${of.advantage} max=${most.advantage} /></td></tr>
      <tr><th scope="row">${t("answer.length")}</th><td>${number(of.response_tokens)}</td><td><${Bar} value=${of.response_tokens} max=${most.length} /></td></tr>
    </tbody></table>
    <div class="flags"><${Flags} of=${of} /></div>
    ${of.chat && of.chat.length ? html`<${Chat} chat=${of.chat} />` : html`
      <${Scroll} label=${named(of)}><${Cut} text=${of.response} start=${start} /><//>`}
    ${of.cut && html`<a href=${tokensOf(run, step, of.id)}>${t("group.whole")}</a>`}
  </article>`;
}

/** mostOf returns the largest numbers of answers. @param {Rollout[]} answers @returns {Most} */
export const mostOf = (answers) => ({
  reward: longest(answers.map(rewarded)), advantage: longest(answers.map((of) => of.advantage)),
  length: longest(answers.map((of) => of.response_tokens)),
});

/** Spread says in words how the rewards of the group differ. @param {{answers: Rollout[]}} props */
export function Spread({ answers }) {
  const rewards = answers.map(rewarded).filter((r) => r !== null).map(Number), n = rewards.length;
  if (!n && !answers.some((of) => of.reason)) return null; // demonstrations and preferences have none
  if (!n) return html`<span class="warn">${t("group.unrewarded")}</span>`;
  const mean = rewards.reduce((sum, r) => sum + r, 0) / n;
  if (n > 1 && rewards.every((r) => r === rewards[0])) return html`<span class="warn">${t("group.flat", { n, reward: number(rewards[0]) })}</span>`;
  const deviation = Math.sqrt(rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0) / Math.max(1, n - 1));
  return html`<span>${t("group.spread", { n: answers.length, mean: number(mean), deviation: number(deviation, 3) })}</span>`;
}

/** How many words of two answers may differ, and how many characters of them are compared. */
const mostEdits = 2000, mostCompared = 200000;

/** @typedef {{run: string, step: number, of: Rollout, name?: string}} Placed an answer, and where it is; name is what it is called, if not by its run and turn */

/** Difference shows what two whole answers have and the other has not. @param {{a: Placed, b: Placed}} props */
export function Difference({ a, b }) {
  const whole = (/** @type {Placed} */ { run, step, of }, /** @type {AbortSignal} */ signal) => of.cut ? api.rollout(run, step, of.id, signal) : Promise.resolve(of);
  const data = useData((signal) => Promise.all([whole(a, signal), whole(b, signal)]), [a.run, a.of.id, b.run, b.of.id]);
  const found = useMemo(() => data.value && difference(data.value[0].response.slice(0, mostCompared), data.value[1].response.slice(0, mostCompared), mostEdits), [data.value]);
  const title = t("group.difference", { a: a.name ?? named(a.of), b: b.name ?? named(b.of) });
  return html`<section class="panel difference"><h2>${title}</h2>
    <${Loaded} data=${data} />
    ${found && !found.whole && html`<p class="muted">${t("group.toodifferent", { n: mostEdits })}</p>`}
    ${found && (found.pieces.some((p) => p.kind !== "same") ? html`<${Scroll} label=${title}><div class="text" dir="auto">${found.pieces.map((p) => {
      const text = visible(p.text);
      return p.kind === "same" ? text : p.kind === "gone" ? html`<del>${text}</del>` : html`<ins>${text}</ins>`;
    })}</div><//>` : html`<p>${t("group.same")}</p>`)}
  </section>`;
}
