// The form for the token, which the studio asks for where it does more than show, or where others reach it.

import { html } from "./vendor/preact.js";
import { enterToken } from "./api.js";
import { t } from "./words.js";

/** isTokenMissing reports whether an error asks for the token. @param {any} error */
export const isTokenMissing = (error) => error?.status === 401;

export function Token() {
  return html`<form class="banner" onSubmit=${(/** @type {any} */ event) => {
    event.preventDefault();
    enterToken(event.target.token.value.trim());
    location.reload();
  }}><label>${t("app.token")} <input name="token" type="password" autocomplete="off" required /></label> <button>${t("app.token.enter")}</button></form>`;
}
