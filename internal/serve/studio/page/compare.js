// The page that compares runs as `trinity compare` does: the settings in which groups of runs differ, and their final values, with confidence over seeds.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, State, finding, number, plain, series, short, useData } from "./parts.js";
import { href } from "./route.js";
import { SameTask } from "./sametask.js";
import { local, t } from "./words.js";

/** @param {PageProps} props */
export function Compare({ query, go }) {
  const ids = query.getAll("run").slice(0, api.MOST_COMPARED), metric = query.get("metric") || "";
  const enough = ids.length > 1;
  const runs = useData(async (signal) => ({
    byId: new Map(await Promise.all(ids.map(async (id) => /** @type {[string, Run]} */ ([id, await api.run(id, signal)])))),
    names: [...new Set((await Promise.all(ids.map((id) => api.names(id, signal)))).flatMap((n) => n.names))].sort(),
  }), [ids]);
  const data = useData(async (signal) => enough ? api.compare(ids, metric, signal) : null, [ids, metric]);
  if (!enough) return html`<p class="panel">${t("compare.choose", { most: api.MOST_COMPARED })} <a href=${href("runs", { run: ids })}>${t("page.runs")}</a></p>`;
  if (!runs.value) return html`<${Loaded} data=${runs} />`;
  const { byId, names } = runs.value, traced = ids.filter((id) => byId.get(id)?.traced);
  return html`<div class="compare">
    <div class="row">
      <a href=${href("curves", { run: ids })}>${t("page.curves")}</a> <a href=${href("runs", { run: ids })}>${t("compare.others")}</a>
      <label title=${t("compare.sort.title")}>${t("compare.sort")} <select value=${metric} onChange=${(/** @type {any} */ e) => go("", { metric: e.target.value || null }, { replace: true })}>
        <option value="">${t("compare.chosen")}</option>${names.map((name) => html`<option value=${name}>${plain(name)}</option>`)}
      </select></label>
    </div>
    <${Loaded} data=${data} />
    ${data.value && html`<h2>${t("compare.settings")}</h2>
      <${Settings} comparison=${data.value} byId=${byId} />
      <h2>${t("compare.metrics")}</h2>
      <${Metrics} ...${{ comparison: data.value, byId, query, go }} />`}
    ${traced.length > 1 && html`<h2>${t("compare.task")}</h2><${SameTask} key=${traced.join()} ids=${traced} query=${query} go=${go} />`}
  </div>`;
}

/** @param {{comparison: Comparison, byId: Map<string, Run>}} props */
function Settings({ comparison: { groups, differences }, byId }) {
  return html`<div class="table"><table>
    <thead><tr><th scope="col">${t("compare.key")}</th>${groups.map((group, i) => html`<th scope="col"><${Label} ...${{ group, byId, colour: series(i) }} /></th>`)}</tr></thead>
    <tbody>${differences.map(({ key, values }) => html`<tr key=${key}><th scope="row" class="mono">${plain(key)}</th>
      ${values.map((v) => html`<td class=${v === values[0] ? "" : "other"} title=${plain(v)}>${plain(v)}</td>`)}</tr>`)}</tbody>
  </table>${!differences.length && html`<p class="muted">${t("compare.same")}</p>`}</div>`;
}

/** Label names a group, and its runs with their states. @param {{group: ComparedGroup, byId: Map<string, Run>, colour: string}} props */
function Label({ group: { name, runs }, byId, colour }) {
  const ids = runs.map((run) => run.name), several = runs.length > 1;
  const text = several ? `${name === ids.join(", ") ? name : short(name)} (${runs.length})` : short(name);
  const title = runs.map((run) => `${run.name}: ${t("compare.seed", { seed: run.seed || "–", steps: run.steps })}`).join("\n");
  return html`<a class="label" href=${href("curves", { run: ids, band: several ? 1 : null })} title=${plain(title)}><i style=${{ background: colour }}></i>${plain(text)}</a>
    ${ids.map((id) => html`<${State} run=${byId.get(id)} />`)}`;
}

/** @param {{comparison: Comparison, byId: Map<string, Run>, query: URLSearchParams, go: Go}} props */
function Metrics({ comparison: { groups, metrics, notes }, byId, query, go }) {
  const search = query.get("q") || "", fits = finding(search);
  const rows = metrics.map(({ stage, name, values }) => ({ title: stage ? `${stage} ${name}` : name, values }))
    .filter(({ title }) => fits(title));
  return html`<div class="metrics">
    <div class="row"><input type="search" data-search class="filter" value=${search} placeholder=${t("curves.search")} aria-label=${t("curves.search")} onInput=${(/** @type {any} */ e) => go("", { q: e.target.value || null }, { replace: true })} /></div>
    <div class="table"><table>
      <thead><tr><th scope="col">${t("curves.metrics")}</th>${groups.map((group, i) => html`<th scope="col" class="right"><${Label} ...${{ group, byId, colour: series(i) }} /></th>`)}</tr></thead>
      <tbody>${rows.map(({ title, values }) => html`<tr key=${title}><th scope="row">${plain(title)}</th>${values.map((value) => html`<td class="right"><${Value} value=${value} /></td>`)}</tr>`)}</tbody>
    </table>${!rows.length && html`<p class="muted">${t("app.none")}</p>`}</div>
    ${[t("compare.legend"), ...notes.map(local)].map((line) => html`<p class="muted">${plain(line)}</p>`)}
  </div>`;
}

/** Value shows a group's final value, and how far it is from the first group's. @param {{value: Compared | null}} props */
function Value({ value }) {
  if (!value) return html`<span class="muted">–</span>`;
  const { more } = value, half = (/** @type {Interval} */ of) => of.high === null ? "" : ` ± ${number(of.high - of.mean, 2)}`;
  return html`<span title=${t("compare.value", { n: value.n, first: number(value.first) })}><b>${number(value.mean)}</b>${half(value)}${more && html`<small class="muted" title=${t("compare.more", { n: more.n })}>
    ${more.mean > 0 ? "+" : ""}${number(more.mean, 3)}${half(more)}</small>`}</span>`;
}
