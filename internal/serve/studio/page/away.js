// How far a value is from another one, and whether chance explains it.

import { html } from "./vendor/preact.js";
import { number } from "./parts.js";
import { t } from "./words.js";

/** Half of a confidence interval. @param {Interval} of */
export const half = (of) => of.high === null ? "" : ` ± ${number(of.high - of.mean, 2)}`;

/** signed shows a difference. @param {number} x */
export const signed = (x) => (x > 0 ? "+" : "") + number(x, 3);

/** inWords says what a difference proves. @param {Away} of */
export const inWords = (of) => of.tells ? t("away." + of.tells) : t(of.n > 1 ? "away.few" : "away.cannot");

/** Apart shows a difference in words; none is what is said without one. @param {{of: Away | null | undefined, none?: string}} props */
export function Apart({ of, none = t("away.cannot") }) {
  if (!of) return html`<span class="muted">${none}</span>`;
  return html`<span class="apart">${signed(of.mean)}${half(of)} <span class=${of.tells === "beyond" ? "" : "muted"}
    title=${t("away.over." + of.over, { n: of.n })}>${inWords(of)}</span></span>`;
}
