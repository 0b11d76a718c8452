// The page that compares two to eight runs: the settings in which they differ, and the newest values of their metrics, with confidence over seeds.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { differences, groupsOf } from "./groups.js";
import { Loaded, State, number, plain, series, useData } from "./parts.js";
import { href } from "./route.js";
import { estimate } from "./statistics.js";
import { t } from "./words.js";

const MOST_RUNS = 8, MOST_NAMES = 40;
/** What is compared unless somebody searches. */
const USUAL = /^(eval\/.*\/mean(@\d+)?|rollout\/(reward|response_length)\/mean|actor\/(final_loss|entropy_loss|ppo_kl)|critic\/score\/mean|perf\/throughput)$/;

/** @typedef {{name: string, runs: RunDetails[]}} Group */

/** @param {PageProps} props */
export function Compare({ query, go }) {
  const ids = query.getAll("run").slice(0, MOST_RUNS);
  const data = useData(async (signal) => ({
    runs: await Promise.all(ids.map((id) => api.run(id, signal))),
    names: [...new Set((await Promise.all(ids.map((id) => api.names(id, signal)))).flatMap((n) => n.names))].sort(),
  }), [ids]);
  if (ids.length < 2) return html`<p class="panel">${t("compare.choose", { most: MOST_RUNS })} <a href=${href("runs", { run: ids })}>${t("page.runs")}</a></p>`;
  if (!data.value) return html`<${Loaded} data=${data} />`;
  const { runs, names } = data.value;
  return html`<div class="compare">
    <div class="row"><a href=${href("curves", { run: ids })}>${t("page.curves")}</a> <a href=${href("runs", { run: ids })}>${t("compare.others")}</a></div>
    <h2>${t("compare.settings")}</h2>
    <${Settings} runs=${runs} />
    <h2>${t("compare.metrics")}</h2>
    <${Metrics} ...${{ runs, names, query, go }} />
  </div>`;
}

/** @param {{runs: RunDetails[]}} props */
function Settings({ runs }) {
  const rows = differences(runs);
  return html`<div class="table"><table>
    <thead><tr><th scope="col">${t("compare.key")}</th>${runs.map((run, i) => html`<th scope="col"><${Label} run=${run} colour=${series(i)} /></th>`)}</tr></thead>
    <tbody>${rows.map(({ key, values }) => html`<tr key=${key}><th scope="row" class="mono">${plain(key)}</th>
      ${values.map((v) => html`<td class=${JSON.stringify(v) === JSON.stringify(values[0]) ? "" : "other"} title=${shown(v)}>${shown(v)}</td>`)}</tr>`)}</tbody>
  </table>${!rows.length && html`<p class="muted">${t("compare.same")}</p>`}</div>`;
}

/** A value of a setting; a run that lacks it has the default. @param {unknown} v */
const shown = (v) => v === undefined ? "–" : plain(typeof v === "string" ? v : JSON.stringify(v));

/** @param {{run: RunDetails, colour: string}} props */
function Label({ run, colour }) {
  return html`<a class="label" href=${href("curves", { run: run.id })} title=${plain(run.id)}><i style=${{ background: colour }}></i>${plain(run.id.split("/").slice(-2).join("/"))} <${State} run=${run} /></a>`;
}

/** @param {{runs: RunDetails[], names: string[], query: URLSearchParams, go: Go}} props */
function Metrics({ runs, names, query, go }) {
  const search = query.get("q") || "", terms = search.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = names.filter((name) => terms.length ? terms.every((term) => name.toLowerCase().includes(term)) : USUAL.test(name) || runs.some((run) => run.reward_name === name));
  const asked = wanted.slice(0, MOST_NAMES);
  const finals = useData(async (signal) => new Map(await Promise.all(runs.map(async (run) => /** @type {[string, Map<string, number>]} */ ([run.id, await newest(run.id, asked, signal)])))), [runs.map((run) => run.id), asked]);
  const byId = new Map(runs.map((run) => [run.id, run]));
  const bySeed = query.get("seeds") !== "0" && groupsOf(runs).some((g) => g.runs.length > 1);
  /** @type {Group[]} */
  const groups = bySeed ? groupsOf(runs).map((g) => ({ name: g.name, runs: g.runs.map((id) => /** @type {RunDetails} */ (byId.get(id))) })) : runs.map((run) => ({ name: run.id, runs: [run] }));
  return html`<div class="metrics">
    <div class="row">
      <input type="search" data-search class="filter" value=${search} placeholder=${t("curves.search")} aria-label=${t("curves.search")} onInput=${(/** @type {any} */ e) => go("", { q: e.target.value || null }, { replace: true })} />
      ${groupsOf(runs).some((g) => g.runs.length > 1) && html`<label title=${t("compare.seeds.title")}><input type="checkbox" checked=${bySeed} onChange=${() => go("", { seeds: bySeed ? 0 : null }, { replace: true })} /> ${t("curves.band")}</label>`}
      ${wanted.length > asked.length && html`<span class="muted">${t("curves.narrow", { n: wanted.length - asked.length })}</span>`}
    </div>
    <${Loaded} data=${finals} />
    ${finals.value && html`<div class="table"><table>
      <thead><tr><th scope="col">${t("curves.metrics")}</th>${groups.map((g, i) => html`<th scope="col" class="right">${g.runs.length > 1 ? html`<span title=${plain(g.runs.map((r) => r.id).join(", "))}>${plain(g.name.split("/").slice(-2).join("/"))} (${g.runs.length})</span>` :
        html`<${Label} run=${g.runs[0]} colour=${series(i)} />`}</th>`)}</tr></thead>
      <tbody>${asked.map((name) => html`<tr key=${name}><th scope="row">${plain(name)}</th>${groups.map((g, i) => html`<td class="right"><${Value} group=${g} first=${i ? groups[0] : null} name=${name} finals=${finals.value} /></td>`)}</tr>`)}</tbody>
    </table></div>`}
  </div>`;
}

/** The newest value of metrics. @param {string} id @param {string[]} names @param {AbortSignal} signal */
async function newest(id, names, signal) {
  const { series } = names.length ? await api.metrics(id, names, undefined, signal) : { series: [] };
  return new Map(series.filter((s) => s.values.length).map((s) => [s.name, s.values[s.values.length - 1]]));
}

/** Value shows a group's value and how far it is from the first group's. @param {{group: Group, first: Group | null, name: string, finals: Map<string, Map<string, number>>}} props */
function Value({ group, first, name, finals }) {
  const of = (/** @type {Group} */ g) => g.runs.flatMap((run) => finals.get(run.id)?.get(name) ?? []);
  const values = of(group), base = first ? of(first) : [];
  if (!values.length) return html`<span class="muted">–</span>`;
  const { mean, half, n } = estimate(values);
  const pairs = first ? paired(group, first, name, finals) : [];
  const by = pairs.length > 1 ? estimate(pairs) : base.length ? { mean: mean - estimate(base).mean, half: NaN } : null;
  const signed = (/** @type {number} */ x) => (x > 0 ? "+" : "") + number(x, 3);
  return html`<span><b>${number(mean)}</b>${n > 1 && ` ± ${number(half, 2)}`}${by && html`<small class="muted" title=${pairs.length > 1 ? t("compare.paired", { n: pairs.length }) : t("compare.first")}>
    ${signed(by.mean)}${pairs.length > 1 && ` ± ${number(by.half, 2)}`}</small>`}</span>`;
}

/** The differences of runs with the same seed. @param {Group} a @param {Group} b @param {string} name @param {Map<string, Map<string, number>>} finals */
function paired(a, b, name, finals) {
  const seeds = (/** @type {Group} */ g) => new Map(g.runs.map((run) => [String(run.settings?.seed), finals.get(run.id)?.get(name)]));
  const others = seeds(b);
  return [...seeds(a)].flatMap(([seed, value]) => {
    const other = others.get(seed);
    return seed !== "undefined" && value !== undefined && other !== undefined ? [value - other] : [];
  });
}
