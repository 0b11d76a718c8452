// What the pages Rollouts, Group and Tokens say of an answer.
import { html, useState } from "./vendor/preact.js";
import { Text, number, plain, visible } from "./parts.js";
import { endAt } from "./diff.js";
import { href } from "./route.js";
import { local, t } from "./words.js";

/** stepOf returns the step of a route, or 0. @param {URLSearchParams} query */
export const stepOf = (query) => Number(query.get("step")) || 0;

/** tokensOf is the address of an answer's tokens. @param {string} run @param {number} step @param {string} id */
export const tokensOf = (run, step, id) => href("tokens", { run, step, rollout: id });

/** groupOf is the address of all answers to a task. @param {string} run @param {number} step @param {Rollout} of */
export const groupOf = (run, step, of) => href("group", { run, step, task: of.task, explore_step: of.explore_step });

/** rewarded returns the reward as a number; null without a valid one. @param {Rollout} of */
export const rewarded = (of) => of.reward === null ? null : Number(of.reward);

/** placed reads the ID of an answer, as trinity.ExperienceID writes it; null for another text. @param {string} id */
export function placed(id) {
  const [, step, task, run, turn] = /^(\d+)\/(.*)\/(\d+)\/(\d+)$/s.exec(id) || [];
  return step ? { explore_step: Number(step), task, run: Number(run), turn: Number(turn) } : null;
}

/** named says which answer to its task it is. @param {{run: number, turn: number}} of */
export const named = (of) => t("answer.run", { run: of.run }) + (of.turn ? " · " + t("answer.turn", { turn: of.turn }) : "");

/** partsIn writes numbers by name; what is no object is shown as it is. @param {Record<string, number | string> | string} of */
export const partsIn = (of) => typeof of === "string" ? plain(of) : Object.entries(of || {}).map(([name, value]) => `${plain(name)} ${number(value)}`).join(", ");

/** The sign of a verdict: colour alone tells nothing to many people. @type {Record<string, string>} */
const signs = { right: "✓", wrong: "✗", invalid: "?" };

/** Mark says whether an answer is right. @param {{of: {verdict: string}}} props */
export const Mark = ({ of }) => signs[of.verdict] &&
  html`<b class=${"verdict is-" + of.verdict}>${signs[of.verdict]} ${t("answer.is." + of.verdict)}</b>`;

/** A shared beginning shorter than this is not cut: there is room for it. */
const leastCut = 24;

/** fromThere is a text of a list without its beginning, of which others share this much. @param {string} text @param {number} start */
export function fromThere(text, start) {
  if (start < leastCut || start >= text.length) return text;
  const word = text.lastIndexOf(" ", start - 8);
  return "… " + text.slice(word > start - leastCut ? word + 1 : start);
}

/** How many characters of a long text show its end. */
const mostEnd = 600;

/**
 * Cut shows a text, of which others share this much of the beginning; of a long one the end, which has the final answer, until somebody
 * wants the beginning.
 * @param {{text: string, start: number}} props
 */
export function Cut({ text, start }) {
  const [whole, open] = useState(false), [limit, more] = useState(20000);
  const shared = start < text.length ? start : 0; // texts that are the same are not dim
  const from = whole ? 0 : endAt(text, mostEnd), end = from + limit;
  const says = t("answer.beginning");
  return html`<div class="text" dir="auto">${from > 0 && html`
    <button class="link" title=${says} aria-label=${says} onClick=${() => open(true)}>…</button>${" "}`}<span
    class="common">${visible(text.slice(from, shared))}</span>${visible(text.slice(Math.max(from, shared), end))}
    ${text.length > end && html`
      <button class="link" onClick=${() => more(10 * limit)}>${t("app.more", { n: text.length - end })}</button>`}</div>`;
}

/** Truth is the right answer to a task. @param {{truth: string}} props */
export const Truth = ({ truth }) => truth ? html`<p class="truth">${t("answer.truth")}:${" "}
  <b dir="auto" title=${plain(truth)}>${ended(truth, 600)}</b></p>` : null;

/** ended is the end of a long text. @param {string} text @param {number} most */
const ended = (text, most) => (text.length > most ? "… " : "") + plain(text.slice(endAt(text, most)));

/** Flags are the marks of an answer, each in words. @param {{of: Rollout}} props */
export function Flags({ of }) {
  const all = [
    of.reason && { bad: true, says: t("answer.invalid"), why: plain(local(of.reason.slice(0, 500))) },
    of.dropped && { bad: false, says: t("answer.dropped", { who: plain(of.dropped) }), why: t("answer.dropped.why") },
    of.truncated && { bad: true, says: t("answer.truncated"), why: plain(of.truncated) },
    ...(of.flags || []).filter((flag) => flag !== "no_stop" || !of.truncated).map((flag) => ({ bad: true, says: t("flag." + flag), why: t("flag." + flag + ".why") })),
    of.expert && { bad: false, says: t("answer.expert"), why: "" },
    of.chosen && { bad: false, says: t("answer.chosen"), why: "" },
  ];
  return all.map((flag) => flag && html`<span class=${flag.bad ? "flag bad" : "flag"} title=${flag.why}>${flag.says}</span>`);
}

/** Scroll scrolls what is long, by keys too. @param {{label: string, children: any}} props */
export const Scroll = ({ label, children }) => html`<div class="scroll" tabindex="0" role="group" aria-label=${label}>${children}</div>`;

/** Chat shows all messages of an agent. @param {{chat: {role: string, content: string}[]}} props */
export function Chat({ chat }) {
  return html`<${Scroll} label=${t("held.chat")}>${chat.map((m) => html`<div class=${"said-by in-" + plain(m.role)}><small class="muted">${
    ["system", "user", "assistant", "tool", "prompt"].includes(m.role) ? t("tokens.role." + m.role) : plain(m.role)}</small>
    <${Text} text=${m.content} limit=${1500} /></div>`)}<//>`;
}

/** Facts has what is known of an answer in a line. @param {{run: string, step: number, of: Rollout}} props */
export function Facts({ run, step, of }) {
  const fact = (key, value) => html`<div><dt>${t("answer." + key)}</dt><dd>${value}</dd></div>`;
  const parts = partsIn(of.reward_parts);
  return html`<div class="posed">${of.prompt && html`<p><span class="muted">${t("answer.question")}:</span>${" "}
      <span dir="auto" title=${plain(of.prompt)}>${ended(of.prompt, 300)}</span></p>`}
    <${Truth} truth=${of.truth} /></div>
  <dl class="facts">
    ${fact("task", html`<a href=${groupOf(run, step, of)}>${plain(of.task)}</a>`)}
    ${fact("reward", html`<${Mark} of=${of} />${" "}
      <b>${of.reward === null ? "–" : number(of.reward)}</b>${parts && html` <span class="muted">(${parts})</span>`}`)}
    ${fact("advantage", number(of.advantage))}
    ${fact("length", t("answer.lengths", { prompt: number(of.prompt_tokens), response: number(of.response_tokens) }))}
    ${fact("version", html`${of.oldest_version === of.model_version ? of.model_version : `${of.oldest_version} – ${of.model_version}`} <span class="muted">(${t("answer.stale", { n: of.staleness })})</span>`)}
    ${fact("temperature", number(of.temperature))}
  </dl>
  <div class="flags"><${Flags} of=${of} />${of.reason && html`<span class="error">${plain(local(of.reason.slice(0, 2000)))}</span>`}</div>`;
}
