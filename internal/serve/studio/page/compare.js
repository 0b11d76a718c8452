// The page that compares runs as `trinity compare` does: the settings in which groups of runs differ, and their values, with confidence
// over seeds, or over the rows that single runs answered.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { Apart, half, inWords, signed } from "./away.js";
import { Loaded, State, finding, number, plain, series, short, useData } from "./parts.js";
import { href } from "./route.js";
import { HeldOut } from "./answers.js";
import { SameTask } from "./sametask.js";
import { Warnings, Weights, improves } from "./weights.js";
import { local, t } from "./words.js";

/** The metric that sorts the runs in the order in which they were chosen. */
const CHOSEN = "-";

/** The values by which evaluations are ranked: the best at any step of each run, or the last. */
const BEST = "best", FINAL = "final";

/** @param {PageProps} props */
export function Compare({ query, go }) {
  const ids = query.getAll("run").slice(0, api.MOST_COMPARED), enough = ids.length > 1;
  const runs = useData(async (signal) => ({
    byId: new Map(await Promise.all(ids.map(async (id) => /** @type {[string, Run]} */ ([id, await api.run(id, signal)])))),
    ...enough ? await api.groups(ids, signal) : { groups: [], labels: [] },
    names: [...new Set((await Promise.all(ids.map((id) => api.names(id, signal)))).flatMap((n) => n.names))].sort(),
  }), [ids]);
  const all = [...runs.value?.byId.values() ?? []], judged = all.flatMap((run) => run.evaluation?.name ?? [])[0] ?? all.flatMap((run) =>
    run.reward_name || [])[0] ?? CHOSEN;
  const metric = query.get("metric") || judged, loaded = !!runs.value, by = query.get("by") === FINAL ? FINAL : BEST;
  const alone = (query.get("alone") ?? (runs.value?.groups.length === 1 ? "1" : "0")) === "1"; // a single group has none beside it
  const data = useData(async (signal) => enough && loaded ? api.compare(ids, { metric: metric === CHOSEN ? "" : metric, by, alone },
    signal) : null, [ids, metric, loaded, by, alone]);
  if (!enough) return html`<${Choose} id=${ids[0]} run=${all[0]} />`;
  if (!runs.value) return html`<${Loaded} data=${runs} />`;
  const { byId, names } = runs.value, labels = new Map(ids.map((id, i) => [id, runs.value?.labels[i] ?? short(id)]));
  const ranked = data.value ? [...new Set([...data.value.best.map((of) => of.run), ...ids])] : ids; // the best first
  const traced = ranked.filter((id) => byId.get(id)?.traced), nameOf = (/** @type {Run} */ run) => labels.get(run.id) ?? short(run.id);
  return html`<div class="compare">
    <div class="row">
      <a href=${href("curves", { run: ids })}>${t("page.curves")}</a> <a href=${href("runs", { run: ids })}>${t("compare.others")}</a>
      <label title=${t("compare.sort.title")}>${t("compare.sort")} <select value=${metric} onChange=${(/** @type {any} */ e) => go("",
        { metric: e.target.value }, { replace: true })}>
        <option value=${CHOSEN}>${t("compare.chosen")}</option>${names.map((name) => html`<option value=${name}>${plain(name)}</option>`)}
      </select></label>
      ${data.value?.metrics[0]?.values.some((value) => value?.best) && html`<label>${t("compare.by")} <select value=${by}
        onChange=${(/** @type {any} */ e) => go("", { by: e.target.value === BEST ? null : e.target.value }, { replace: true })}>${[BEST, FINAL].map((of) => html`<option value=${of}>${t("compare.by." + of)}</option>`)}
      </select></label>`}
      <label title=${t("curves.band.title")}><input type="checkbox" checked=${!alone} onChange=${() => go("", { alone: alone ? 0 : 1 },
        { replace: true })} /> ${t("curves.band")}</label>
    </div>
    <${Loaded} data=${data} />
    ${data.value && html`<${Weights} runs=${all} nameOf=${nameOf} standings=${data.value.best} others=${data.value.others} />
      <${Best} ...${{ comparison: data.value, metric, by, alone, byId }} />
      <${Warnings} runs=${all} nameOf=${nameOf} />
      <${Metrics} ...${{ comparison: data.value, atBest: by === BEST, byId, query, go }} />`}
    ${traced.length > 1 && data.value && html`<h2>${t("page.answers")}</h2>
      <${HeldOut} key=${"held" + traced.join()} ...${{ ids: traced, query, go }} />`}
    ${traced.length > 1 && data.value && html`<h2>${t("compare.task")}</h2>
      <${SameTask} key=${traced.join()} ...${{ ids: traced, labels, query, go }} />`}
  </div>`;
}

/** Choose offers runs to compare with a run: those of its sweep. @param {{id: string | undefined, run: Run | undefined}} props */
function Choose({ id, run }) {
  const data = useData(async (signal) => run?.sweep ? (await api.runs(signal)).runs : [], [run?.sweep]);
  const others = (data.value ?? []).filter((of) => of.sweep === run?.sweep && of.id !== id);
  const some = [id ?? "", ...others.map((of) => of.id)].slice(0, api.MOST_COMPARED);
  return html`<div class="panel compare"><p>${t("compare.choose", { most: api.MOST_COMPARED })} <a href=${href("runs", { run: id ?? null
    })}>${t("page.runs")}</a></p>
    <${Loaded} data=${data} />
    ${others.length > 0 && html`<p><a href=${href("compare", { run: some })}>${t("compare.sweep", { n: some.length })}</a></p>
      <p class="muted">${t("compare.one")}</p>
      <ul class="others">${others.map((of) => html`<li key=${of.id}><a href=${href("compare", { run: [id ?? "", of.id]
        })}>${plain(of.label || short(of.id))}</a></li>`)}</ul>`}
  </div>`;
}

/**
 * Best ranks the groups by a metric, in its last stage.
 * @param {{comparison: Comparison, metric: string, by: string, alone: boolean, byId: Map<string, Run>}} props
 */
function Best({ comparison: { groups, apart, metrics, best }, metric, by, alone, byId }) {
  const of = metrics.filter(({ name }) => name === metric).pop();
  if (!of) return null;
  const evaluated = of.values.some((value) => value?.best), atBest = evaluated && by === BEST;
  const shown = of.values.map((value) => value && (atBest ? value.best : value)), most = Math.max(...shown.map((value) =>
    Math.abs(value?.mean ?? 0)), 0);
  const seeds = !alone && groups.some(({ runs }) => runs.length > 1), isBest = !best.length || best.some(improves);
  const cells = (/** @type {Interval | null | undefined} */ value, /** @type {boolean} */ isRanked) => html`<td
    class=${"right" + (isRanked ? "" : " wide muted")}>${value ? isRanked ? html`<b>${number(value.mean)}</b>${half(value)}` :
      html`${number(value.mean)}${half(value)}` : "–"}</td>`;
  return html`<h2>${plain(metric)}</h2>
  <p>${t(atBest ? "compare.ranked.best" : evaluated ? "compare.ranked.last" : "compare.ranked.final")}${" "}${t(seeds ?
    "compare.ranked.seeds" : "compare.ranked.alone")}</p>
  <div class="table"><table class="ranked">
    <thead><tr><th scope="col" class="right wide">#</th><th scope="col">${t("runs.name")}</th>${apart.map(({ key, head }) => html`<th
      scope="col" class="wide mono" title=${plain(key)}>${plain(head)}</th>`)}
      ${evaluated && html`<th scope="col" class=${"right" + (atBest ? "" : " wide")}>${t("compare.best")}</th>`}
      <th scope="col" class=${"right" + (atBest ? " wide" : "")}>${t("compare.final")}</th><th scope="col" class="right"
        title=${t("compare.away.title")}>${t("compare.away")}</th><th scope="col" class="wide"><span
          class="sr">${t(atBest ? "compare.best" : "compare.final")}</span></th></tr></thead>
    <tbody>${groups.map((group, i) => {
      const value = of.values[i], one = shown[i];
      return html`<tr key=${group.name} class=${i === 0 && isBest ? "best" : ""}><td class="right wide">${i + 1}</td><th
        scope="row"><${Label} ...${{ group, byId, colour: series(i) }} /></th>
        ${apart.map(({ values }) => html`<td class="wide mono">${plain(values[i])}</td>`)}
        ${evaluated && cells(value?.best, atBest)}${cells(value, !atBest)}
        <td class="right">${i > 0 && value && html`<${Apart} of=${value.more} none=${t(value.n > 1 ? "away.unpaired" :
          "away.cannot")} />`}</td>
        <td class="wide">${one && html`<span class="share"><i style=${{ width: 100 * Math.abs(one.mean) / (most || 1) + "%",
          background: series(i) }}></i></span>`}</td></tr>`;
    })}</tbody>
  </table></div>`;
}

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
 * @param {{comparison: Comparison, atBest: boolean, byId: Map<string, Run>, query: URLSearchParams, go: Go}} props
 */
function Metrics({ comparison: { groups, differences, metrics, notes }, atBest, byId, query, go }) {
  const search = query.get("q") || "", fits = finding(search);
  const rows = metrics.map(({ stage, name, values }) => ({ title: stage ? `${stage} ${name}` : name, values }))
    .filter(({ title }) => fits(title));
  const title = t(atBest && metrics.some(({ values }) => values.some((value) => value?.best)) ? "compare.metrics.best" : "compare.metrics");
  return html`<div class="metrics">
    <div class="row"><h2>${title}</h2><input type="search" data-search class="filter" value=${search}
      placeholder=${t("curves.search")} aria-label=${t("curves.search")} onInput=${(/** @type {any} */ e) => go("", { q: e.target.value ||
        null }, { replace: true })} /></div>
    <div class="table" tabindex="0" role="region" aria-label=${title}><table class="beside-one-another">
      <thead><tr><td></td>${groups.map((group, i) => html`<th scope="col" class="right"><${Label} ...${{ group, byId, colour: series(i) }}
        /></th>`)}</tr></thead>
      <tbody class="settings">${differences.length > 0 && html`<tr><th scope="rowgroup" class="part">${t("compare.settings")}</th><td
        colspan=${groups.length}></td></tr>`}${differences.map(({ key, values }) => html`<tr key=${key}><th scope="row" class="mono"
          title=${plain(key)}>${plain(key)}</th>
        ${values.map((v) => html`<td class=${"right mono" + (v === values[0] ? "" : " other")}
          title=${plain(v)}>${plain(v)}</td>`)}</tr>`)}</tbody>
      <tbody class="values"><tr><th scope="rowgroup" class="part">${t("curves.metrics")}</th><td
        colspan=${groups.length}></td></tr>${rows.map(({ title, values }) => html`<tr key=${title}><th scope="row"
          title=${plain(title)}>${plain(title)}</th>${values.map((value) => html`<td class="right"><${Value} ...${{ value, atBest
            }} /></td>`)}</tr>`)}</tbody>
    </table>${!rows.length && html`<p class="muted">${t("app.none")}</p>`}</div>
    ${[...(differences.length ? [] : [t("compare.same")]), legend(metrics), ...notes.map(local)].map((line) => html`<p
      class="muted">${plain(line)}</p>`)}
  </div>`;
}

/** legend explains the values that are shown. @param {Comparison["metrics"]} metrics */
function legend(metrics) {
  const all = metrics.flatMap(({ values }) => values.flatMap((value) => value ?? []));
  return [t("compare.legend"), all.some((value) => value.high !== null) && t("compare.legend.seeds"), all.some((value) =>
    value.more?.over === "rows") && t("compare.legend.rows"), all.some((value) => value.more && !value.more.tells) &&
    t("compare.legend.one"), all.some((value) => value.best) && t("compare.legend.many")].filter(Boolean).join(" ");
}

/**
 * Value shows a group's final value, or the best of an evaluation, and how far it is from the first group's.
 * @param {{value: Compared | null, atBest: boolean}} props
 */
function Value({ value, atBest }) {
  if (!value) return html`<span class="muted">–</span>`;
  const { more } = value, shown = atBest && value.best || value;
  return html`<span title=${t("compare.value", { n: value.n, first: number(value.first) })}><b>${number(shown.mean)}</b>${half(shown)}${
    more && html`<small class="muted" title=${`${t("away.over." + more.over, { n: more.n })}: ${inWords(more)}`}>
    ${signed(more.mean)}${half(more)}</small>`}</span>`;
}
