// What one can do with a run: stop it, go on with it, clone it, read what it prints.

import { html, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { href } from "./route.js";
import { t } from "./words.js";

const WORKS = ["running", "waiting"], RESTS = ["stopped", "failed", "killed", "unknown"];

/**
 * Actions has the buttons of a run. control: the studio starts and stops runs, and not only shows them.
 * @param {{run: Run, control: boolean, onEnd: (error: Error | null) => void}} props
 */
export function Actions({ run, control, onEnd }) {
  const [asked, ask] = useState(""); // what was asked for, and in which state
  const act = (/** @type {string} */ what, /** @type {() => Promise<unknown>} */ call) => async () => {
    ask(what + run.state);
    try {
      await call();
      onEnd(null);
    } catch (error) {
      ask("");
      onEnd(/** @type {Error} */ (error));
    }
  };
  const stopping = asked === "stop" + run.state || asked === "now" + run.state, works = WORKS.includes(run.state);
  return html`<span class="actions">
    ${control && works && !stopping && html`<button title=${t("act.stop.title")} onClick=${act("stop", () => api.stop(run.id, false))}>${t("act.stop")}</button>`}
    ${control && works && stopping && html`<button title=${t("act.now.title")} onClick=${act("now", () => api.stop(run.id, true))}>${t("act.now")}</button>`}
    ${control && RESTS.includes(run.state) && html`<button disabled=${asked === "resume" + run.state} title=${t("act.resume.title")}
      onClick=${act("resume", () => api.resume(run.id))}>${t("act.resume")}</button>`}
    ${control && html`<a href=${href("config", { run: run.id })}>${t("act.clone")}</a>`}
    ${control && html`<a href=${href("talk", { run: run.id })}>${t("page.talk")}</a>`}
    <a href=${href("log", { run: run.id })}>${t("page.log")}</a>
  </span>`;
}
