// Templates: configurations to begin with, by name and doc, in a list that one searches.

import { html, useRef, useState } from "./vendor/preact.js";
import { finding, plain } from "./parts.js";
import { localDoc, t } from "./words.js";

/** @param {{all: Template[], onChoose: (template: Template) => void}} props */
export function Templates({ all, onChoose }) {
  const [search, find] = useState(""), details = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const fits = finding(search), shown = all.filter((of) => fits(of.name + " " + of.doc + " " + localDoc(of.doc)));
  const close = () => {
    if (!details.current) return;
    details.current.open = false;
    details.current.querySelector("summary")?.focus();
  };
  return html`<details class="templates" ref=${details} onKeyDown=${(/** @type {KeyboardEvent} */ e) => e.key === "Escape" && close()}
    onToggle=${(/** @type {any} */ e) => e.target.open && e.target.querySelector("input").focus()}>
    <summary>${t("config.template")}</summary>
    <div class="panel">
      <div class="row"><input type="search" class="filter" value=${search} placeholder=${t("config.template.search")} aria-label=${t("config.template.search")}
        onInput=${(/** @type {any} */ e) => find(e.target.value)} />
        <span class="muted" role="status">${t("rollouts.shown", { n: shown.length, of: all.length })}</span></div>
      <ul>${shown.map((of) => html`<li key=${of.name}><button onClick=${() => { close(); onChoose(of); }}><b>${plain(of.name)}</b> ${facts(of)}<span class="muted">${plain(localDoc(of.doc))}</span></button></li>`)}</ul>
    </div>
  </details>`;
}

/** facts are the model of a template and what a run of it took. @param {Template} of */
function facts(of) {
  const took = of.minutes ? t("config.template.minutes", { n: of.minutes < 10 ? of.minutes.toFixed(1) : of.minutes.toFixed(0) }) : "";
  const known = [of.model, took].filter(Boolean).join(" · ");
  return known && html`<span>${plain(known)}</span> `;
}

/** Missing names the files that a template needs and that are not where the studio was started. @param {{of: Template | undefined, text: string}} props */
export function Missing({ of, text }) {
  const lacking = of ? of.missing.filter((file) => text.includes(file)) : [];
  return lacking.length ? html`<p class="warn" role="status">${t("config.missing", { files: lacking.join(", ") })}</p>` : null;
}
