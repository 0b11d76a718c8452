// The page of curves. The whole view is in the route, so its address is a saved view.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Chart, position, rangeOf } from "./chart.js";
import { csvOf, pngOf, save, svgOf } from "./keep.js";
import { Damaged, Loaded, Menu, State, finding, number, plain, series, short, useData, useEvery, useKeys, useTheme } from "./parts.js";
import { href } from "./route.js";
import { AXES, Store, pointsOf, together } from "./series.js";
import { Warnings, Weights } from "./weights.js";
import { local, t } from "./words.js";

const POLL = 3000, RETRY = 2000, REDRAW = 150; // milliseconds
// A browser opens some six connections to a host, and each live stream keeps one: other runs are asked every POLL.
const STREAMS = 2;
const MOST_NAMES = 200; // that the list shows at once
/** What is shown first: of each line the first that runs have. */
const USUAL = [
  ["rollout/reward/mean", "critic/score/mean"], ["rollout/response_length/mean", "response_length/mean"], ["actor/entropy_loss"], ["actor/ppo_kl", "actor/kl"],
  ["actor/grad_norm"], ["actor/final_loss"],
];

/**
 * useSeries keeps the series of runs up to date and returns them.
 * @param {string[]} ids @param {string[]} names @param {Set<string>} running
 */
function useSeries(ids, names, running) {
  const store = useRef(/** @type {Store} */ (/** @type {any} */ (null)));
  store.current ??= new Store();
  const [version, draw] = useState(0);
  const [error, setError] = useState("");
  const drawing = useRef({ timer: 0, last: 0 }).current, wanted = useRef(names);
  wanted.current = names;
  const changed = () => {
    drawing.timer ||= setTimeout(() => {
      Object.assign(drawing, { timer: 0, last: Date.now() });
      draw((n) => n + 1);
    }, Math.max(0, drawing.last + REDRAW - Date.now()));
  };
  const update = (/** @type {string} */ id, /** @type {AbortSignal} */ signal) => store.current.update(id, wanted.current, signal)
    .then(() => { setError(""); changed(); }, (e) => { if (!signal.aborted) setError(local(e.message)); });
  const key = JSON.stringify([ids, names]), following = ids.filter((id) => running.has(id)), alive = JSON.stringify(following);
  useEffect(() => {
    const ending = new AbortController();
    if (names.length) for (const id of ids) update(id, ending.signal);
    return () => ending.abort();
  }, [key]);
  useEveryOf(following.slice(STREAMS), (id, signal) => update(id, signal));
  useEffect(() => {
    let ending = new AbortController();
    const follow = async (/** @type {string} */ id, /** @type {AbortSignal} */ signal) => {
      for (; !signal.aborted; await new Promise((wake) => setTimeout(wake, RETRY))) {
        const since = store.current.get(id, wanted.current[0])?.cursor;
        await api.live(id, since, (event) => { if (event === "step") update(id, signal); }, signal).catch(() => {});
      }
    };
    const begin = () => {
      ending.abort();
      ending = new AbortController();
      if (!document.hidden) for (const id of following.slice(0, STREAMS)) follow(id, ending.signal);
    };
    begin();
    document.addEventListener("visibilitychange", begin);
    return () => {
      ending.abort();
      document.removeEventListener("visibilitychange", begin);
    };
  }, [alive]);
  return { store: store.current, version, error };
}

/** @param {string[]} ids @param {(id: string, signal: AbortSignal) => void} update */
function useEveryOf(ids, update) {
  const ending = useRef(new AbortController());
  useEffect(() => () => ending.current.abort(), []);
  useEvery(POLL, () => { for (const id of ids) update(id, ending.current.signal); });
}

/** @param {PageProps} props */
export function Curves({ query, go }) {
  const all = useData(api.runs, []);
  useEvery(10000, all.again);
  const ids = query.getAll("run"), known = new Map((all.value ? all.value.runs : []).map((run) => [run.id, run]));
  useEffect(() => {
    const newest = all.value && all.value.runs[0];
    if (!ids.length && newest) go("", { run: newest.id }, { replace: true });
  }, [all.value, ids.length]);
  const names = useData(async (signal) => {
    const lists = await Promise.allSettled(ids.map((id) => api.names(id, signal)));
    return {
      all: [...new Set(lists.flatMap((l) => l.status === "fulfilled" ? l.value.names : []))].sort(),
      damaged: lists.flatMap((l) => l.status === "fulfilled" ? l.value.damaged : []), failed: lists.flatMap((l) => l.status === "fulfilled" ? [] : local(l.reason.message)),
    };
  }, [ids]);
  useEvery(20000, names.again);
  const available = names.value?.all ?? [], asked = query.getAll("name");
  const chosen = evaluationsFirst(asked.length ? asked : usual(ids.flatMap((id) => known.get(id) ?? []), available));
  const hidden = new Set(query.getAll("hide")), shown = ids.filter((id) => !hidden.has(id));
  const view = viewOf(query);
  const running = new Set(ids.filter((id) => ["running", "waiting"].includes(known.get(id)?.state ?? "")));
  const { store, version, error } = useSeries(shown, [...new Set([...chosen, ...(AXES[view.axis] ? [AXES[view.axis]] : [])])], running);
  const real = ids.filter((id) => known.has(id)), [lit, light] = useState("");
  const named = useData(async (signal) => real.length > 1 ? api.groups(real, signal) : null, [real]);
  const theme = useTheme();
  const labels = new Map(real.map((id, i) => [id, named.value?.labels[i] ?? short(id)]));
  const looks = looksOf(ids, view.band && named.value ? named.value.groups : null, labels);
  const charts = useMemo(() => chosen.map((name) => ({ name, curves: curvesOf(name, shown, looks, store, view.axis, known) })), [version, JSON.stringify([chosen, shown, view.axis, looks]), known.size]);
  const reset = () => go("", { from: null, to: null });
  const hide = (/** @type {string[]} */ runs) => go("", { hide: runs.every((id) => hidden.has(id)) ? [...hidden].filter((h) =>
    !runs.includes(h)) : [...new Set([...hidden, ...runs])] }, { replace: true });
  useKeys([{ key: "0", says: t("curves.whole"), run: reset }]);
  return html`<div class="curves">
    <${Side} ...${{ ids, known, labels, looks, hidden, available, chosen, go, hide, light, loading: names }} />
    <section class="grow">
      <${Controls} ...${{ view, go, several: ids.length > 1, axes: ["step", "time", ...Object.keys(AXES).filter((axis) => available.includes(AXES[axis]))], reset }} />
      ${[...new Set([error, ...names.value?.failed ?? []])].filter(Boolean).map((line) => html`<p class="error" role="alert">${plain(line)}</p>`)}
      <${Damaged} lines=${names.value?.damaged} />
      <${Loaded} data=${all} />
      ${!ids.length && all.value && html`<p class="panel">${t("choose.run")}: <a href="#/runs">${t("page.runs")}</a></p>`}
      ${real.length > 0 && [Weights, Warnings].map((Part) => html`<${Part} runs=${real.flatMap((id) => known.get(id) ?? [])}
        nameOf=${(/** @type {Run} */ run) => labels.get(run.id) ?? short(run.id)} />`)}
      <div class="charts">${charts.map(({ name, curves }) => html`<article class="panel" key=${name}>
        <header><h2 title=${plain(name)}>${plain(name)}</h2><span class="muted">${curves.length === 1 ? lastOf(curves[0]) : ""}</span>
          ${curves.length > 0 && html`<${Files} ...${{ name, curves, view }} />`}
          <button class="link" title=${t("curves.remove")} aria-label=${`${t("curves.remove")}: ${plain(name)}`} onClick=${() => go("", { name: chosen.filter((n) => n !== name) })}>×</button></header>
        ${curves.length ? html`<${Chart} ...${{ name, curves, axis: view.axis, smooth: view.smooth, log: view.log, range: view.range,
          theme, lit }}
          onRange=${(/** @type {number[]} */ [from, to]) => go("", { from: Number(from.toPrecision(7)), to: Number(to.toPrecision(7)) })}
          onOpen=${(/** @type {string} */ run, /** @type {number} */ step) => go("rollouts", { run, step })} />` : html`<p class="muted">${store.get(shown[0], name) ? t("curves.nothing") : t("app.loading")}</p>`}
        ${ids.length > 1 && html`<${Legend} ...${{ looks, curves, hidden, light, lit }} onHide=${hide} />`}
      </article>`)}</div>
    </section>
  </div>`;
}

/** @param {URLSearchParams} query */
function viewOf(query) {
  const from = query.get("from"), to = query.get("to"), smooth = Number(query.get("smooth"));
  return {
    axis: ["time", ...Object.keys(AXES)].find((axis) => axis === query.get("x")) ?? "step", smooth: smooth > 0 && smooth < 1 ? smooth : 0,
    log: query.get("log") === "1", band: query.get("band") === "1", range: /** @type {[number, number] | null} */ (from && to && Number(from) < Number(to) ? [Number(from), Number(to)] : null),
  };
}

/**
 * The curves that are shown unless somebody chooses others: the evaluation by which the runs are judged, their reward or loss, and
 *   others.
 * @param {Run[]} runs
 * @param {string[]} available
 */
const usual = (runs, available) => [...new Set([runs.flatMap((run) => run.evaluation?.name ?? []), runs.flatMap((run) =>
  run.reward_name || []), ...USUAL]
  .flatMap((names) => names.find((name) => available.includes(name)) ?? []))].slice(0, 4);

/** @param {string} name */
const isEvaluation = (name) => /^(eval|bench)\//.test(name);

/** @param {string[]} names */
const evaluationsFirst = (names) => [...names.filter(isEvaluation), ...names.filter((name) => !isEvaluation(name))];

/**
 * How each run is drawn: in its own colour, or in that of its group.
 * @param {string[]} ids
 * @param {{name: string, runs: string[]}[] | null | undefined} groups
 * @param {Map<string, string>} labels
 */
function looksOf(ids, groups, labels) {
  const look = (/** @type {number} */ i, /** @type {string} */ label, /** @type {string[]} */ runs) =>
    ({ label, runs, colour: series(i), dash: [undefined, [8, 4], [2, 3]][Math.floor(i / 8) % 3] });
  return groups ? groups.map((group, i) => look(i, group.name + (group.runs.length > 1 ? ` (${group.runs.length})` : ""), group.runs)) :
    ids.map((id, i) => look(i, labels.get(id) ?? short(id), [id]));
}

/** @typedef {ReturnType<typeof looksOf>} Looks */

/**
 * @param {string} name @param {string[]} shown @param {Looks} looks @param {Store} store @param {string} axis @param {Map<string, Run>} known
 * @returns {import("./chart.js").Curve[]}
 */
function curvesOf(name, shown, looks, store, axis, known) {
  return looks.flatMap(({ label, runs, colour, dash }) => {
    const points = runs.filter((id) => shown.includes(id)).flatMap((id) => {
      const kept = store.get(id, name);
      return kept && kept.steps.length ? [{ id, points: pointsOf(kept, axis, known.get(id)?.began || kept.times[0], store.get(id, AXES[axis])) }] : [];
    });
    if (!points.length) return [];
    return [{ label, colour, dash, run: points[0].id, several: points.length > 1, points: points.length > 1 ? together(points.map((p) =>
      p.points)) : points[0].points }];
  });
}

/** The newest value of a curve. @param {import("./chart.js").Curve} curve */
const lastOf = ({ points }) => points.y.length ? number(points.y[points.y.length - 1]) : "";

/**
 * Legend names the curves with their last values. Pointing at a name stresses its curves in all charts, a click hides them.
 * @param {{looks: Looks, curves: import("./chart.js").Curve[], hidden: Set<string>, lit: string, light: (label: string) => void, onHide:
 *   (runs: string[]) => void}} props
 */
function Legend({ looks, curves, hidden, lit, light, onHide }) {
  return html`<ul class="curve-names">${looks.map(({ label, runs, colour, dash }) => {
    const curve = curves.find((c) => c.label === label), off = runs.every((id) => hidden.has(id));
    return html`<li key=${label}><button class=${(off ? "off" : "") + (lit === label ? " lit" : "")} aria-pressed=${!off}
      title=${plain(runs.join("\n"))} onClick=${() => onHide(runs)}
      onMouseEnter=${() => light(label)} onMouseLeave=${() => light("")} onFocus=${() => light(label)} onBlur=${() => light("")}>
      <svg width="18" height="8" aria-hidden="true"><line x1="0" x2="18" y1="4" y2="4" style=${{ stroke: colour }} stroke-width="3"
        stroke-dasharray=${dash ? dash.map((d) => d / 2).join(" ") : undefined} /></svg>
      <span>${plain(label)}</span><b>${curve ? lastOf(curve) : "–"}</b></button></li>`;
  })}</ul>`;
}

/** Files gives a chart as a file. @param {{name: string, curves: import("./chart.js").Curve[], view: ReturnType<typeof viewOf>}} props */
function Files({ name, curves, view }) {
  const svg = () => svgOf(name, curves, { axis: t("curves.x." + view.axis), log: view.log, range: view.range, y: rangeOf(name, curves),
    show: (x) => position(view.axis, x) });
  return html`<${Menu} label=${`${t("curves.save")}: ${plain(name)}`} sign="⤓">
    <button onClick=${() => save(name + ".svg", new Blob([svg()], { type: "image/svg+xml" }))}>SVG</button>
    <button onClick=${async () => save(name + ".png", await pngOf(svg()))}>PNG</button>
    <button onClick=${() => save(name + ".csv", new Blob([csvOf(name, curves)], { type: "text/csv" }))}>CSV</button>
  </${Menu}>`;
}

/** @param {{view: ReturnType<typeof viewOf>, go: Go, several: boolean, axes: string[], reset: () => void}} props */
function Controls({ view, go, several, axes, reset }) {
  const set = (/** @type {Parameters_} */ parameters) => go("", parameters, { replace: true });
  return html`<div class="row controls">
    <label>${t("curves.x")} <select value=${view.axis} onChange=${(/** @type {any} */ e) => set({ x: e.target.value, from: null, to: null })}>
      ${axes.map((axis) => html`<option key=${axis} value=${axis}>${t("curves.x." + axis)}</option>`)}
    </select></label>
    <label>${t("curves.smooth")} <input type="range" min="0" max="0.99" step="0.01" value=${view.smooth} aria-valuetext=${String(view.smooth)}
      onInput=${(/** @type {any} */ e) => set({ smooth: Number(e.target.value) || null })} /> <output>${view.smooth.toFixed(2)}</output></label>
    <label><input type="checkbox" checked=${view.log} onChange=${() => set({ log: view.log ? null : 1 })} /> ${t("curves.log")}</label>
    <label title=${t("curves.band.title")}><input type="checkbox" checked=${view.band} disabled=${!several} onChange=${() => set({ band: view.band ? null : 1 })} /> ${t("curves.band")}</label>
    ${view.range && html`<button onClick=${reset}>${t("curves.whole")} (${position(view.axis, view.range[0])} … ${position(view.axis, view.range[1])})</button>`}
  </div>`;
}

/**
 * Side lists runs and metrics.
 * @param {{ids: string[], known: Map<string, Run>, labels: Map<string, string>, looks: Looks, hidden: Set<string>, available: string[], chosen: string[], go: Go,
 *   hide: (runs: string[]) => void, light: (label: string) => void, loading: any}} props
 */
function Side({ ids, known, labels, looks, hidden, available, chosen, go, hide, light, loading }) {
  const [search, find] = useState("");
  const found = evaluationsFirst(available.filter(finding(search)));
  const listed = search.trim() ? found.slice(0, MOST_NAMES) : [...new Set([...chosen, ...found.slice(0, MOST_NAMES)])];
  const toggle = (/** @type {string} */ name) => go("", { name: chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name] }, { replace: true });
  return html`<details class="side" open=${useMemo(() => matchMedia("(min-width: 800px)").matches, [])}>
    <summary>${t("page.runs")} · ${t("curves.metrics")}</summary>
    <h2>${t("page.runs")} <a href=${href("runs", { run: ids })}>${t("curves.choose")}</a></h2>
    <ul class="chosen">${ids.map((id) => {
      const look = looks.find((l) => l.runs.includes(id)), run = known.get(id);
      return html`<li key=${id} class=${hidden.has(id) ? "off" : ""} onMouseEnter=${() => light(look ? look.label : "")}
        onMouseLeave=${() => light("")}>
        <label title=${plain(id)}><input type="checkbox" checked=${!hidden.has(id)} onChange=${() => hide([id])} /><i
          style=${{ background: look ? look.colour : "" }}></i><span>${plain(labels.get(id) ?? short(id))}</span></label>
        ${run && html`<${State} run=${run} />`}
        <button class="link" aria-label=${`${t("curves.remove")}: ${plain(id)}`} title=${t("curves.remove")} onClick=${() => go("", { run: ids.filter((i) => i !== id) })}>×</button></li>`;
    })}</ul>
    <h2>${t("curves.metrics")} <span class="muted">${available.length || ""}</span></h2>
    <input type="search" data-search placeholder=${t("curves.search")} aria-label=${t("curves.search")} value=${search} onInput=${(/** @type {any} */ e) => find(e.target.value)} />
    <${Loaded} data=${loading} />
    <ul class="names">${listed.map((name) => html`<li key=${name}><label title=${plain(name)}><input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} /> <span>${plain(name)}</span></label></li>`)}</ul>
    ${found.length > MOST_NAMES && html`<p class="muted">${t("curves.narrow", { n: found.length - MOST_NAMES })}</p>`}
  </details>`;
}
