// Advice: what bounds a step of a run, and which settings would change that, as `trinity plan` finds with the times of the run.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, number, percent, plain, useData } from "./parts.js";
import { href } from "./route.js";
import { Token, isTokenMissing } from "./token.js";
import { local, t } from "./words.js";

/** What a setting changes, where the page has words for it. */
const known = ["explorer.runner_per_model", "explorer.share", "model.max_response_tokens", "buffer.batch_size", "algorithm.repeat_times",
  "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size"];

/** @param {{run: string}} props */
export function Advice({ run }) {
  const about = useData(api.about, []), control = !!about.value && about.value.control;
  const data = useData(async (signal) => control ? api.advice(run, signal) : null, [run, control]);
  if (!control) return null;
  const plan = data.value && data.value.advice;
  return html`<section class="panel advice"><h2>${t("advice")}</h2>
    ${isTokenMissing(data.error) ? html`<${Token} />` : html`<${Loaded} data=${data} />`}
    ${data.value && !plan && html`<p class="muted">${plain(local(data.value.reason))}</p>`}
    ${plan && html`<${Plan} run=${run} plan=${plan} />`}
  </section>`;
}

/** @param {{run: string, plan: Planned}} props */
function Plan({ run, plan: { advice, current, recommended } }) {
  const row = (/** @type {string} */ title, /** @type {(of: PlannedChoice) => string} */ cell) =>
    html`<tr><th scope="row">${title}</th><td>${cell(current)}</td><td>${cell(recommended)}</td></tr>`;
  return html`<p><b>${t("advice.bound." + advice.bound)}</b></p>
    <table class="measured">
      <thead><tr><td></td><th scope="col">${t("advice.now")}</th><th scope="col">${t("advice.recommended")}</th></tr></thead><tbody>
      ${row(t("advice.steps"), (of) => number(of.report.train_steps_per_hour))}
      ${row(t("advice.explorer"), (of) => percent(of.report.explorer_idle))}
      ${row(t("advice.trainer"), (of) => percent(of.report.trainer_idle))}
      ${row(t("advice.staleness"), (of) => number(of.report.staleness.mean, 3))}
    </tbody></table>
    ${advice.gain > 0 ? html`<p>${t("advice.gain", { gain: percent(advice.gain), then: t("advice.bound." + advice.then) })}</p>
      <pre class="mono" tabindex="0">${plain(advice.settings)}</pre>
      <p><a href=${href("config", { run })}>${t("act.clone")}</a></p>` : html`<p>${t("advice.nogain")}</p>`}
    <p>${t("advice.else")}</p>
    <ul>${advice.keys.map((key) => html`<li><code>${plain(key)}</code>${known.includes(key) && ": " + t("advice.key." + key)}</li>`)}
      ${advice.more_staleness && html`<li>${t("advice.staler")}</li>`}</ul>`;
}
