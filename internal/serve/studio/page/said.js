// An answer of a model that somebody talks to: its text as it comes, then its tokens with their probabilities.

import { html, useMemo, useState } from "./vendor/preact.js";
import { duration, number, percent, plain, visible } from "./parts.js";
import { measuresOf, strength } from "./measures.js";
import { placed } from "./sequence.js";
import { tint } from "./tokens.js";
import { local, t } from "./words.js";

/**
 * @typedef {object} Said an answer
 * @property {string} name of the model and its run
 * @property {string} thought
 * @property {string} text
 * @property {SaidToken[]} tokens when it has ended
 * @property {string} finish why it ended: stop, length
 * @property {string} error
 * @property {number} seconds
 * @property {"asked" | "saying" | "done" | "stopped" | "failed"} state
 */

/** @param {{said: Said, shaded: boolean}} props */
export function Answer({ said, shaded }) {
  const length = t("talk.said", { n: said.tokens.length, seconds: duration(said.seconds) });
  return html`<div class="panel">
    <small class="muted">${plain(said.name)}${said.state === "done" && " · " + length}
      ${" "}${said.finish === "length" && html`<span class="flag bad">${t("answer.truncated")}</span>`}
      ${said.state === "stopped" && html`<span class="flag">${t("talk.stopped")}</span>`}</small>
    ${said.state === "asked" && html`<p class="muted" role="status">${t("talk.waiting")}</p>`}
    ${shaded && said.tokens.length ? html`<${Shaded} said=${said} />` : html`
      ${said.thought && html`<div class="text thought" dir="auto">${visible(said.thought)}</div>`}
      ${said.text && html`<div class="text" dir="auto">${visible(said.text)}</div>`}`}
    ${said.error && html`<p class="error" role="alert">${plain(local(said.error))}</p>`}
  </div>`;
}

/** chance writes a token and its probability. @param {{token: string, logprob: number}} of */
const chance = (of) => `${JSON.stringify(plain(of.token))} ${percent(Math.exp(of.logprob))}`;

/** Shaded shows each token of an answer as strong as it was unlikely. @param {{said: Said}} props */
function Shaded({ said }) {
  const [at, point] = useState(-1);
  const { tokens } = said;
  const pieces = useMemo(() => placed(said.thought + said.text, tokens), [tokens.length]);
  const probability = useMemo(() => {
    const logprobs = Float64Array.from(tokens, (s) => s.logprob), mask = tokens.map(() => true);
    return measuresOf({ tokens: tokens.map((_, i) => i), mask, streams: { logprobs }, updates: [] }, undefined)[0];
  }, [tokens.length]);
  const shadeOf = (/** @type {number} */ i) => i < tokens.length ? tint(probability, strength(probability, probability.at(i))) : "";
  const told = pieces[at] ? tokens.slice(pieces[at].from, pieces[at].to) : [];
  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    point(Math.max(0, Math.min(pieces.length - 1, at + by)));
  };
  return html`
    <div class="text shaded" dir="auto" tabindex="0" role="group" aria-label=${t("talk.answer")} onKeyDown=${move}
      onMouseLeave=${() => point(-1)}>${pieces.map((piece, n) => html`<span key=${n} onMouseEnter=${() => point(n)}
        class=${(piece.text ? "" : "special") + (n === at ? " cursor" : "")} style=${{ background: shadeOf(piece.from) }}>${
        piece.text ? visible(piece.text) : plain(tokens[piece.from].token)}</span>`)}</div>
    <small class="muted mono" role="status">${told.map((of) => html`${chance(of)} (${number(of.logprob || 0)}) ${
      !!of.top_logprobs?.length && t("talk.others", { tokens: of.top_logprobs.map(chance).join(", ") })} `)}${
      !told.length && "\u00a0"}</small>`;
}
