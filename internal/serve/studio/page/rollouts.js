// Rollouts: the answers of a train step that the trace has, and the rollouts that failed.
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Bar, Damaged, Histogram, Loaded, Table, Text, moment, number, plain, sorted, useData, useEvery, useKeys, useNarrow }
  from "./parts.js";
import { Small } from "./images.js";
import { Flags, Mark, Scroll, Truth, fromThere, groupOf, named, partsIn, rewarded, stepOf, tokensOf } from "./answer.js";
import { commonStart, endAt } from "./diff.js";
import { longest } from "./measures.js";
import { local, roleOf, t } from "./words.js";

/** What the choice "which" shows. @type {Record<string, (of: Rollout) => boolean>} */
const kinds = {
  all: () => true,
  wrong: (of) => of.verdict === "wrong" || of.verdict === "invalid",
  right: (of) => of.verdict === "right",
  trained: (of) => !of.dropped && !of.reason,
  invalid: (of) => !!of.reason,
  dropped: (of) => !!of.dropped,
  truncated: (of) => !!of.truncated,
  flagged: (of) => of.flags.length > 0,
};

/** rangeOf reads a range such as "0,1.5". @param {string | null} text @returns {[number, number] | null} */
function rangeOf(text) {
  const [from, to] = (text || "").split(",").map(Number);
  return text && from <= to ? [from, to] : null;
}

/**
 * inRange reports whether a bin of a histogram has the value.
 * @param {number | null} value @param {[number, number] | null} range @param {number} highest of all values
 */
const inRange = (value, range, highest) =>
  !range || (value !== null && value >= range[0] && (value < range[1] || (value === range[1] && value === highest)));

/** Rollouts is the page. @param {PageProps} props */
export function Rollouts({ query, go }) {
  const run = query.get("run") || "";
  const listed = useData((signal) => api.steps(run, signal), [run]);
  useEvery(5000, listed.again);
  const steps = listed.value ? listed.value.steps : [], newest = steps[steps.length - 1];
  const step = stepOf(query) || newest;
  const beside = (by) => {
    const to = steps[steps.indexOf(step) + by];
    if (to !== undefined) go("", { step: to }, { replace: true });
  };
  const before = t("rollouts.key.before"), after = t("rollouts.key.after");
  useKeys([{ key: "[", says: before, run: () => beside(-1) }, { key: "]", says: after, run: () => beside(1) }]);
  if (listed.value && !steps.length) {
    return html`<p class="muted">${t("rollouts.untraced")}</p><${NewestFailures} key=${run} run=${run} query=${query} />`;
  }
  return html`
    <${Loaded} data=${listed} />
    ${listed.value && html`<div class="row">
      <button disabled=${step === steps[0]} onClick=${() => beside(-1)} title=${before} aria-label=${before}>‹</button>
      <label><span class="sr">${t("rollouts.step")}</span><select value=${String(step)} onChange=${(e) => go("", { step: e.target.value })}>
        ${steps.includes(step) ? null : html`<option value=${String(step)}>${t("step.n", { step })}</option>`}
        ${steps.map((n) => html`<option key=${n} value=${String(n)}>${t("step.n", { step: n })}</option>`)}</select></label>
      <button disabled=${step === newest} onClick=${() => beside(1)} title=${after} aria-label=${after}>›</button>
      ${stepOf(query) > 0 && stepOf(query) !== newest &&
        html`<button onClick=${() => go("", { step: null })}>${t("rollouts.newest", { step: newest })}</button>`}
      <span class="muted">${t("rollouts.sample")}</span>
    </div>
    <${Step} run=${run} step=${step} query=${query} go=${go} />`}`;
}

/** Step shows the answers of one step. @param {PageProps & {run: string, step: number}} props */
function Step({ run, step, query, go }) {
  const data = useData((signal) => api.rollouts(run, step, signal), [run, step]);
  if (!data.value) return html`<${Loaded} data=${data} />`;
  if (!data.value.rollouts.length) {
    return html`<p class="muted">${t("rollouts.empty")}</p><${NewestFailures} run=${run} query=${query} />`;
  }
  return html`<${Answers} run=${run} step=${step} all=${data.value.rollouts} query=${query} go=${go} />
    <${Failures} title="rollouts.failed" all=${data.value.failures} query=${query} />
    <${Damaged} lines=${data.value.damaged} />`;
}

/** NewestFailures stands where there are no answers. @param {{run: string, query: URLSearchParams}} props */
function NewestFailures({ run, query }) {
  const data = useData((signal) => api.failures(run, undefined, signal), [run]);
  useEvery(5000, data.again);
  if (!data.value) return html`<${Loaded} data=${data} />`;
  return html`<${Failures} title="rollouts.failed.newest" all=${data.value.failures} query=${query} />
    <${Damaged} lines=${data.value.damaged} />`;
}

/** Answers is the table and what filters it. @param {PageProps & {run: string, step: number, all: Rollout[]}} props */
function Answers({ run, step, all, query, go }) {
  const search = query.get("q") || "", which = query.get("which") || "all", task = query.get("task");
  const byReward = rangeOf(query.get("reward")), byLength = rangeOf(query.get("length")), sort = query.get("sort") || "";
  const rewards = useMemo(() => all.map(rewarded), [all]), lengths = useMemo(() => all.map((of) => of.response_tokens), [all]);
  const columns = useMemo(() => columnsOf(run, step, all), [run, step, all]), found = useSearch(run, step, all, search), narrow = useNarrow();
  const rows = useMemo(() => {
    const wanted = search.toLowerCase(), most = Math.max(...rewards.map((r) => r ?? -Infinity)), longest = Math.max(...lengths);
    const shown = all.filter((of) => (kinds[which] || kinds.all)(of) && (!task || of.task === task) &&
      inRange(rewarded(of), byReward, most) &&
      inRange(of.response_tokens, byLength, longest) && (!wanted || found.has(of.id) ||
        (of.prompt + "\n" + of.truth + "\n" + of.response).toLowerCase().includes(wanted)));
    return sorted(shown, columns, sort);
  }, [all, found, query.toString()]);
  const filter = (to) => go("", to, { replace: true });
  const range = (name) => (to) => filter({ [name]: to && to.join(",") });
  const filtered = search || which !== "all" || task || byReward || byLength;
  return html`
    <div class="histograms">
      <${Histogram} values=${rewards} label=${t("answer.reward")} range=${byReward} onRange=${range("reward")} />
      <${Histogram} values=${lengths} label=${t("rollouts.length")} range=${byLength} onRange=${range("length")} />
    </div>
    <div class="row">
      <input type="search" data-search class="grow" aria-label=${t("rollouts.search")} placeholder=${t("rollouts.search")} value=${search}
        onInput=${(e) => filter({ q: e.target.value || null })} />
      <select aria-label=${t("rollouts.which")} value=${which}
        onChange=${(e) => filter({ which: e.target.value === "all" ? null : e.target.value })}>
        ${Object.keys(kinds).filter((kind) => kind === which || !["wrong", "right"].includes(kind) ||
          all.some((of) => of.verdict)).map((kind) =>
          html`<option value=${kind}>${t("rollouts.which." + kind, { n: all.filter(kinds[kind]).length })}</option>`)}</select>
      <select aria-label=${t("rollouts.order")} value=${orders.includes(sort) ? sort : ""}
        onChange=${(e) => filter({ sort: e.target.value || null })}>
        ${orders.map((by) => html`<option value=${by}>${t("rollouts.order." + (by || "none"))}</option>`)}</select>
      ${task && html`<button onClick=${() => filter({ task: null })}>${t("answer.task")} ${plain(task)} ✕</button>`}
      <span class="muted" role="status">${t("rollouts.shown", { n: rows.length, of: all.length })}</span>
      ${filtered && html`<button onClick=${() => filter({ q: null, which: null, task: null, reward: null, length: null })}>${
        t("rollouts.unfilter")}</button>`}
    </div>
    <${Table} columns=${narrow ? stacked(columns) : columns} tall=${narrow ? STACKED : undefined}
      rows=${rows} id=${(of) => of.id} sort=${sort} onSort=${(by) => filter({ sort: by })}
      label=${t("page.rollouts")} onOpen=${(of) => go("tokens", { run, step, rollout: of.id })}
      classOf=${(of) => of.reason ? "invalid" : of.dropped ? "dropped" : ""} height="62vh" />`;
}

/** The orders that people ask for most; the heads of the columns have the others. */
const orders = ["", "verdict", "group", "reward", "-length"];

const PAUSE = 300; // milliseconds without a key after which the server searches

/**
 * useSearch returns the IDs of the answers whose whole texts have the search; the server looks, because the list has cut some.
 * @param {string} run @param {number} step @param {Rollout[]} all @param {string} search @returns {Set<string>}
 */
function useSearch(run, step, all, search) {
  const [asked, ask] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => ask(search), PAUSE);
    return () => clearTimeout(timer);
  }, [search]);
  const cut = useMemo(() => all.some((of) => of.cut), [all]);
  const data = useData(async (signal) => {
    const ids = asked && cut ? (await api.rollouts(run, step, signal, asked)).rollouts.map((of) => of.id) : [];
    return { asked, ids };
  }, [run, step, asked, cut]);
  return useMemo(() => new Set(data.value && data.value.asked === search ? data.value.ids : []), [data.value, search]);
}

/**
 * lineOf is a text in a line of the table, from where others differ; the pointer on it shows more.
 * @param {string} text @param {number} start
 */
const lineOf = (text, start) => html`<span class="one-line" dir="auto" title=${plain(text.slice(0, 2000))}>${
  plain(fromThere(text, start).slice(0, 160).replace(/\s+/g, " "))}</span>`;

/** endOf is the end of a text in a line of the table: the final answer is there. @param {string} text */
const endOf = (text) => html`<span class="one-line end" title=${plain(text.slice(endAt(text, 2000)))}><bdi>${
  plain(text.slice(endAt(text, 200)).trim().replace(/\s+/g, " "))}</bdi></span>`;

/** The height of a row that has its cells below one another. */
const STACKED = 100;

/**
 * stacked puts what one must see of an answer into one column, for a window of a telephone.
 * @param {Column<Rollout>[]} columns @returns {Column<Rollout>[]}
 */
function stacked(columns) {
  const cell = (/** @type {string} */ key, /** @type {Rollout} */ of) => columns.find((c) => c.key === key)?.cell(of, 0);
  return [{ key: "answer", title: t("rollouts.answer"), cell: (of) => html`<div class="stacked">
    <span>${cell("task", of)} · ${cell("answer", of)} ${cell("verdict", of)} <span class="muted">${t("answer.reward")} ${
      number(of.reward)}</span> ${cell("flags", of)}</span>
    <span>${cell("question", of)}</span>
    <span>${of.truth && html`${t("answer.truth")}: <b dir="auto">${plain(of.truth.slice(endAt(of.truth, 80)))}</b>`}</span>
    ${cell("text", of)}</div>` }];
}

/**
 * columnsOf returns the columns that at least one answer fills.
 * @param {string} run @param {number} step @param {Rollout[]} all @returns {Column<Rollout>[]}
 */
function columnsOf(run, step, all) {
  const keyOf = (/** @type {Rollout} */ of) => of.task + "\n" + of.explore_step;
  /** @type {Map<string, Rollout[]>} */
  const groups = new Map();
  for (const of of all) groups.set(keyOf(of), [...groups.get(keyOf(of)) || [], of]);
  const asked = commonStart([...new Set(all.map((of) => of.prompt))]);
  const means = new Map([...groups].map(([key, of]) => [key, of.reduce((sum, one) => sum + (rewarded(one) ?? 0), 0) / of.length]));
  const most = longest(all.map(rewarded)), mostAdvantage = longest(all.map((of) => of.advantage));
  const numeric = (value) => value === null ? null : Number(value);
  const empty = new Set([
    !all.some((of) => Object.keys(of.reward_parts || {}).length > 1) && "parts", all.every((of) => of.advantage === null) && "advantage",
    all.every((of) => of.kl === null) && "kl",
    all.every((of) => !of.truth) && "truth", all.every((of) => !of.prompt) && "question", all.every((of) => !of.verdict) && "verdict",
    all.length === groups.size && "group",
  ]);
  /** @type {Column<Rollout>[]} */
  const columns = [
    { key: "answer", title: t("rollouts.answer"), value: (of) => of.run * 1e6 + of.turn,
      cell: (of) => html`<a href=${tokensOf(run, step, of.id)}>${named(of)}</a>` },
    { key: "task", title: t("answer.task"), value: (of) => of.task,
      cell: (of) => html`<a href=${groupOf(run, step, of)}>${plain(of.task)}</a>` },
    { key: "question", title: t("answer.question"),
      cell: (of) => html`<${Small} run=${run} of=${of} />${lineOf(of.prompt, asked)}` },
    { key: "truth", title: t("answer.truth"), value: (of) => of.truth,
      cell: (of) => endOf(of.truth) },
    { key: "verdict", title: t("rollouts.verdict"), value: (of) => ["wrong", "invalid", "", "right"].indexOf(of.verdict),
      cell: (of) => html`<${Mark} of=${of} />` },
    { key: "text", title: t("rollouts.text"),
      cell: (of) => endOf(of.response) },
    { key: "reward", title: t("answer.reward"), align: "right", value: rewarded,
      cell: (of) => html`<span title=${partsIn(of.reward_parts)}>${number(of.reward)} <${Bar} value=${of.reward} max=${most} /></span>` },
    { key: "group", title: t("rollouts.group"), align: "right", wide: true, value: (of) => means.get(keyOf(of)) ?? 0,
      cell: (of) => number(means.get(keyOf(of)) ?? 0, 3) },
    { key: "parts", title: t("rollouts.parts"), wide: true, cell: (of) => partsIn(of.reward_parts) },
    { key: "advantage", title: t("answer.advantage"), align: "right", wide: true, value: (of) => numeric(of.advantage),
      cell: (of) => html`${number(of.advantage)} <${Bar} value=${of.advantage} max=${mostAdvantage} />` },
    { key: "length", title: t("answer.length"), align: "right", value: (of) => of.response_tokens,
      cell: (of) => number(of.response_tokens) },
    { key: "stale", title: t("rollouts.stale"), align: "right", wide: true, value: (of) => of.staleness,
      cell: (of) => number(of.staleness) },
    { key: "kl", title: t("rollouts.kl"), align: "right", wide: true, value: (of) => numeric(of.kl), cell: (of) => number(of.kl, 3) },
    { key: "flags", title: t("rollouts.marks"),
      value: (of) => Number(!!of.reason) * 8 + Number(!!of.dropped) * 4 + of.flags.length, cell: (of) => html`<${Flags} of=${of} />` },
  ];
  return columns.filter((column) => !empty.has(column.key));
}

/**
 * Failures lists the rollouts that failed, and the answers that were dropped, with what they had. title is the word for the first.
 * @param {{title: string, all: Failure[], query: URLSearchParams}} props
 */
function Failures({ title, all, query }) {
  const failed = all.filter((f) => f.kind !== "dropped"), dropped = all.filter((f) => f.kind === "dropped");
  const search = (query.get("q") || "").toLowerCase();
  return html`<${Lost} title=${t(title, { n: failed.length })} all=${failed} search=${search} />
    <${Lost} title=${t("rollouts.dropped", { n: dropped.length })} all=${dropped} search=${search} />`;
}

/** @param {{title: string, all: Failure[], search: string}} props */
function Lost({ title, all, search }) {
  const shown = all.filter((f) => !search || [f.reason, f.question, f.truth, f.prompt_text, f.sampled_text]
    .join("\n").toLowerCase().includes(search));
  if (!all.length) return null;
  return html`<section class="panel failures"><h2>${title}</h2>
    ${shown.slice(0, 200).map((f) => html`<details key=${f.id + f.time}>
      <summary>${f.kind !== "dropped" && html`<span class="flag bad">${plain(f.kind)}</span>`}${
        f.role && f.role !== "explorer" && html`<span class="flag">${plain(roleOf(f.role))}</span>`} ${
        t("answer.task")} ${plain(f.task)}, ${
        t("answer.run", { run: f.run })}${f.kind !== "dropped" && html`, ${t("rollouts.retries", { n: f.retries })}`}:${" "}
        <span class="error">${plain(local(f.reason.split("\n")[0].slice(0, 300)))}</span></summary>
      <p class="muted">${plain(roleOf(f.role))} · ${t("step.n", { step: f.step })} · ${moment(Date.parse(f.time))}</p>
      ${f.reason.includes("\n") && html`<${Scroll} label=${t("rollouts.reason")}><${Text} text=${f.reason} /><//>`}
      ${!f.prompt_text && f.question && html`<h3>${t("answer.question")}</h3>
        <${Scroll} label=${t("answer.question")}><${Text} text=${f.question} /><//>`}
      <${Truth} truth=${f.truth || ""} />
      ${f.prompt_text && html`<h3>${t("rollouts.asked")}</h3><${Scroll} label=${t("rollouts.asked")}><${Text} text=${f.prompt_text} /><//>`}
      <h3>${t("rollouts.sampled")}</h3>${f.sampled_text ?
        html`<${Scroll} label=${t("rollouts.sampled")}><${Text} text=${f.sampled_text} /><//>` :
        html`<p class="muted">${t("rollouts.nothing")}</p>`}
    </details>`)}
  </section>`;
}
