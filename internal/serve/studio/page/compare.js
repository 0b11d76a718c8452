// The page that compares runs as `trinity compare` does: the settings in which groups of runs differ, and their final values, with confidence over seeds.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, State, finding, number, plain, series, short, useData } from "./parts.js";
import { href } from "./route.js";
import { HeldOut } from "./answers.js";
import { SameTask } from "./sametask.js";
import { Warnings, Weights } from "./weights.js";
import { local, t } from "./words.js";

/** The metric that sorts the runs in the order in which they were chosen. */
const CHOSEN = "-";

/** @param {PageProps} props */
export function Compare({ query, go }) {
  const ids = query.getAll("run").slice(0, api.MOST_COMPARED), enough = ids.length > 1;
  const runs = useData(async (signal) => ({
    byId: new Map(await Promise.all(ids.map(async (id) => /** @type {[string, Run]} */ ([id, await api.run(id, signal)])))),
    labels: enough ? (await api.groups(ids, signal)).labels : [],
    names: [...new Set((await Promise.all(ids.map((id) => api.names(id, signal)))).flatMap((n) => n.names))].sort(),
  }), [ids]);
  const all = [...runs.value?.byId.values() ?? []], judged = all.flatMap((run) => run.evaluation?.name ?? [])[0] ?? all.flatMap((run) =>
    run.reward_name || [])[0] ?? CHOSEN;
  const metric = query.get("metric") || judged, loaded = !!runs.value;
  const data = useData(async (signal) => enough && loaded ? api.compare(ids, metric === CHOSEN ? "" : metric, signal) : null, [ids,
    metric, loaded]);
  if (!enough) return html`<p class="panel">${t("compare.choose", { most: api.MOST_COMPARED })} <a href=${href("runs", { run: ids })}>${t("page.runs")}</a></p>`;
  if (!runs.value) return html`<${Loaded} data=${runs} />`;
  const { byId, names, labels } = runs.value, traced = ids.filter((id) => byId.get(id)?.traced);
  return html`<div class="compare">
    <div class="row">
      <a href=${href("curves", { run: ids })}>${t("page.curves")}</a> <a href=${href("runs", { run: ids })}>${t("compare.others")}</a>
      <label title=${t("compare.sort.title")}>${t("compare.sort")} <select value=${metric} onChange=${(/** @type {any} */ e) => go("",
        { metric: e.target.value }, { replace: true })}>
        <option value=${CHOSEN}>${t("compare.chosen")}</option>${names.map((name) => html`<option value=${name}>${plain(name)}</option>`)}
      </select></label>
    </div>
    <${Loaded} data=${data} />
    ${data.value && html`<${Best} ...${{ comparison: data.value, metric, byId }} />
      ${[Weights, Warnings].map((Part) => html`<${Part} runs=${all} 
        nameOf=${(/** @type {Run} */ run) => labels[ids.indexOf(run.id)] ?? short(run.id)} />`)}
      <${Metrics} ...${{ comparison: data.value, byId, query, go }} />`}
    ${traced.length > 1 && html`<h2>${t("page.answers")}</h2>
      <${HeldOut} key=${"held" + traced.join()} ids=${traced} query=${query} go=${go} />`}
    ${traced.length > 1 && html`<h2>${t("compare.task")}</h2><${SameTask} key=${traced.join()} ids=${traced} query=${query} go=${go} />`}
  </div>`;
}

/** Best ranks the groups by a metric, in its last stage. @param {{comparison: Comparison, metric: string, byId: Map<string, Run>}} props */
function Best({ comparison: { groups, apart, metrics }, metric, byId }) {
  const of = metrics.filter(({ name }) => name === metric).pop();
  if (!of) return null;
  const most = Math.max(...of.values.map((value) => Math.abs(value?.mean ?? 0)), 0);
  return html`<h2>${plain(metric)}</h2>
  <div class="table"><table class="ranked">
    <thead><tr><th scope="col" class="right wide">#</th><th scope="col">${t("runs.name")}</th>${apart.map(({ key, head }) => html`<th
      scope="col" class="wide mono" title=${plain(key)}>${plain(head)}</th>`)}
      <th scope="col" class="right">${t("compare.final")}</th><th scope="col" class="right"
        title=${t("compare.away.title")}>${t("compare.away")}</th><th scope="col" class="wide"><span
          class="sr">${t("compare.final")}</span></th></tr></thead>
    <tbody>${groups.map((group, i) => {
      const value = of.values[i];
      return html`<tr key=${group.name} class=${i === 0 && metric !== CHOSEN ? "best" : ""}><td class="right wide">${i + 1}</td><th
        scope="row"><${Label} ...${{ group, byId, colour: series(i) }} /></th>
        ${apart.map(({ values }) => html`<td class="wide mono">${plain(values[i])}</td>`)}
        <td class="right">${value ? html`<b>${number(value.mean)}</b>${half(value)}` : "–"}</td><td class="right">${value?.more ?
          html`${signed(value.more.mean)}${half(value.more)}` : ""}</td>
        <td class="wide">${value && html`<span class="share"><i style=${{ width: 100 * Math.abs(value.mean) / (most || 1) + "%",
          background: series(i) }}></i></span>`}</td></tr>`;
    })}</tbody>
  </table></div>`;
}

/** Half of a confidence interval. @param {Interval} of */
const half = (of) => of.high === null ? "" : ` ± ${number(of.high - of.mean, 2)}`;

/** @param {number} x */
const signed = (x) => (x > 0 ? "+" : "") + number(x, 3);

/**
 * Label names a group, and its runs that have not finished.
 * @param {{group: ComparedGroup, byId: Map<string, Run>, colour: string}} props
 */
function Label({ group: { name, runs }, byId, colour }) {
  const ids = runs.map((run) => run.name), several = runs.length > 1;
  const title = runs.map((run) => `${run.name}: ${t("compare.seed", { seed: run.seed || "–", steps: run.steps })}`).join("\n");
  return html`<a class="label" href=${href("curves", { run: ids, band: several ? 1 : null })} title=${plain(title)}><i
    style=${{ background: colour }}></i>${plain(name).split(" · ").map((part, i) => html`${i ? " · " :
      ""}<span>${part}</span>`)}${several ? ` (${runs.length})` : ""}</a>
    ${ids.filter((id) => byId.get(id)?.state !== "finished").map((id) => html`<${State} run=${byId.get(id)} />`)}`;
}

/**
 * Metrics has a column for each group: the settings in which they differ, and their values.
 * @param {{comparison: Comparison, byId: Map<string, Run>, query: URLSearchParams, go: Go}} props
 */
function Metrics({ comparison: { groups, differences, metrics, notes }, byId, query, go }) {
  const search = query.get("q") || "", fits = finding(search);
  const rows = metrics.map(({ stage, name, values }) => ({ title: stage ? `${stage} ${name}` : name, values }))
    .filter(({ title }) => fits(title));
  return html`<div class="metrics">
    <div class="row"><h2>${t("compare.metrics")}</h2><input type="search" data-search class="filter" value=${search}
      placeholder=${t("curves.search")} aria-label=${t("curves.search")} onInput=${(/** @type {any} */ e) => go("", { q: e.target.value ||
        null }, { replace: true })} /></div>
    <div class="table" tabindex="0" role="region" aria-label=${t("compare.metrics")}><table class="beside-one-another">
      <thead><tr><td></td>${groups.map((group, i) => html`<th scope="col" class="right"><${Label} ...${{ group, byId, colour: series(i) }}
        /></th>`)}</tr></thead>
      <tbody class="settings">${differences.length > 0 && html`<tr><th scope="rowgroup" class="part">${t("compare.settings")}</th><td
        colspan=${groups.length}></td></tr>`}${differences.map(({ key, values }) => html`<tr key=${key}><th scope="row" class="mono"
          title=${plain(key)}>${plain(key)}</th>
        ${values.map((v) => html`<td class=${"right mono" + (v === values[0] ? "" : " other")}
          title=${plain(v)}>${plain(v)}</td>`)}</tr>`)}</tbody>
      <tbody class="values"><tr><th scope="rowgroup" class="part">${t("compare.metrics")}</th><td
        colspan=${groups.length}></td></tr>${rows.map(({ title, values }) => html`<tr key=${title}><th scope="row"
          title=${plain(title)}>${plain(title)}</th>${values.map((value) => html`<td class="right"><${Value} value=${value}
            /></td>`)}</tr>`)}</tbody>
    </table>${!rows.length && html`<p class="muted">${t("app.none")}</p>`}</div>
    ${[...(differences.length ? [] : [t("compare.same")]), t("compare.legend"), ...notes.map(local)].map((line) => html`<p
      class="muted">${plain(line)}</p>`)}
  </div>`;
}

/** Value shows a group's final value, and how far it is from the first group's. @param {{value: Compared | null}} props */
function Value({ value }) {
  if (!value) return html`<span class="muted">–</span>`;
  const { more } = value;
  return html`<span title=${t("compare.value", { n: value.n, first: number(value.first) })}><b>${number(value.mean)}</b>${half(value)}${more && html`<small class="muted" title=${t("compare.more", { n: more.n })}>
    ${signed(more.mean)}${half(more)}</small>`}</span>`;
}
