// The shell of the studio: routes, navigation, keyboard, theme, language.
//
// Conventions for pages:
// - A page is a file of its own, loaded when it is first shown: import { Runs } from "./runs.js"; it exports one component of its name, which gets {query, go}.
// - All that a page shows follows from its route, `#/curves?run=a&name=m`: what is not a passing state (hover, open menu) is a parameter, so that an address can be sent.
//   query is a URLSearchParams of the route. go(route, {parameter: value}) shows a route: route "" is the present one and keeps its other parameters; null removes
//   a parameter, a list repeats it; {replace: true} as the third argument makes no entry in the history (typing, sliders).
//   For links use href(route, parameters) of route.js, so that they open in another tab too.
// - The shell shows where one is: run, step, task and rollout of the route, each with a link. A page needs no title and no way back of its own.
// - A page's words are in its section of words.js, in both tables. Its styles are in its section of page.css.
// - A field that searches has the attribute data-search: "/" moves to it. Keys: useKeys of parts.js.
// - A page fills <main>; what scrolls is <main>, or a .table in it.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { named, placed } from "./answer.js";
import { keysNow, plain, runName, short, useData, useEvery } from "./parts.js";
import { go, href, parse } from "./route.js";
import { Token, isTokenMissing } from "./token.js";
import { local, ready, speak, spoken, t } from "./words.js";

/** @type {Record<string, {load: () => Promise<any>, component: string, key?: string, needsRun?: boolean}>} */
const pages = {
  runs: { load: () => import("./runs.js"), component: "Runs", key: "r" },
  curves: { load: () => import("./curves.js"), component: "Curves", key: "c" },
  compare: { load: () => import("./compare.js"), component: "Compare", key: "m" },
  rollouts: { load: () => import("./rollouts.js"), component: "Rollouts", key: "o", needsRun: true },
  group: { load: () => import("./group.js"), component: "Group" },
  tokens: { load: () => import("./tokens.js"), component: "Tokens" },
  answers: { load: () => import("./answers.js"), component: "Answers", key: "v", needsRun: true },
  time: { load: () => import("./time.js"), component: "Time", key: "t", needsRun: true },
  data: { load: () => import("./data.js"), component: "Data", key: "d", needsRun: true },
  annotate: { load: () => import("./annotate.js"), component: "Annotate", key: "a" },
  log: { load: () => import("./log.js"), component: "Log", key: "l", needsRun: true },
  config: { load: () => import("./config.js"), component: "Config", key: "e" },
  talk: { load: () => import("./talk.js"), component: "Talk", key: "k" },
};

/** The parameters that the navigation takes along from page to page. @param {string} route @param {URLSearchParams} query */
function kept(route, query) {
  const runs = query.getAll("run");
  if (!runs.length || route === "runs") return {};
  return pages[route].needsRun ? { run: runs[0], step: route === "rollouts" ? query.get("step") : null } : { run: runs };
}

const themes = ["auto", "light", "dark"];

function setTheme(/** @type {string} */ theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
  dispatchEvent(new Event("theme"));
}

setTheme(localStorage.getItem("theme") || "auto");

function App() {
  const [{ route, query }, show] = useState(parse(location.hash));
  const [, draw] = useState(0), known = useRuns(route === "runs" ? [] : query.getAll("run"));
  const [menu, setMenu] = useState(false);
  const about = useData(api.about, []), books = useData(api.annotations, []);
  const hidden = about.value && !about.value.control ? ["config", "talk"] : [];
  if (!(books.value && books.value.books.length) && route !== "annotate") hidden.push("annotate");
  const theme = document.documentElement.dataset.theme || "auto";
  const help = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const changed = () => {
      if (api.takeToken()) { location.reload(); return; } // the address was opened in a tab of the studio
      setMenu(false);
      show(parse(location.hash));
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useShellKeys(query, help);
  useEffect(() => {
    document.title = [t("page." + route), ...query.getAll("run").map((id) => nameIn(known, id)), t("app.title")].join(" · ");
  });
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {any} */ e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>${t("app.skip")}</a>
    <header>
      <button class="menu" aria-expanded=${menu} aria-controls="pages" onClick=${() => setMenu(!menu)}>☰<span class="sr">${t("app.menu")}</span></button>
      <a class="brand" href="#/runs">${t("app.title")}</a>
      <nav id="pages" class=${menu ? "open" : ""} aria-label=${t("app.pages")}>
        ${Object.entries(pages).filter(([name, page]) => page.key && !hidden.includes(name) && (!page.needsRun || query.get("run"))).map(([name]) => html`
          <a href=${href(name, kept(name, query))} aria-current=${name === route ? "page" : undefined}>${t("page." + name)}</a>`)}
      </nav>
      <span class="tools">
        <button title=${t("app.language.title")} onClick=${() => speak(spoken() === "en" ? "zh" : "en").then(() => draw((n) => n + 1))}>${t("app.language")}</button>
        <button title=${`${t("app.theme")}: ${t("app.theme." + theme)}`} aria-label=${`${t("app.theme")}: ${t("app.theme." + theme)}`}
          onClick=${() => { setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]); draw((n) => n + 1); }}>${{ light: "☀", dark: "☾" }[theme] || "◐"}</button>
        <button title=${t("app.keys") + " (?)"} aria-label=${t("app.keys")} onClick=${() => help.current.showModal()}>?</button>
      </span>
    </header>
    <${Health} />
    <${Where} route=${route} query=${query} known=${known} />
    <main id="main" tabindex="-1"><h1 class="sr">${pages[route] && t("page." + route)}</h1><${Page} key=${route + spoken()} route=${route} query=${query} /></main>
    <${Help} dialog=${help} />`;
}

/** Page loads and shows a page. @param {{route: string, query: URLSearchParams}} props */
function Page({ route, query }) {
  const page = pages[route];
  const loaded = useData(async () => page && (await page.load())[page.component], [route]);
  const [failed, recover] = useErrorBoundary();
  if (!page) return html`<p class="error" role="alert">${t("app.missing", { page: plain(route) })}</p>`;
  const error = failed || loaded.error;
  if (error) return html`<p class="error" role="alert">${t("app.broken", { error: plain(local(error.message)) })} <button onClick=${() => { recover(); loaded.again(); }}>${t("app.retry")}</button></p>`;
  if (!loaded.value) return html`<p class="muted" role="status">${t("app.loading")}</p>`;
  return html`<div class="page"><${loaded.value} query=${query} go=${go} /></div>`;
}

/** useRuns returns all runs by id, if some are looked at; a run has its name among the others of its sweep. @param {string[]} ids */
function useRuns(ids) {
  const runs = useData(async (signal) => new Map(ids.length ? (await api.runs(signal)).runs.map((run) => [run.id, run]) : []), [ids]);
  return runs.value ?? new Map();
}

/** nameIn is what pages call a run. @param {Map<string, Run>} known @param {string} id */
function nameIn(known, id) {
  const run = known.get(id);
  return plain(run ? runName(run) : short(id));
}

/**
 * Where shows what is looked at: a run, its step, a task, an answer.
 * @param {{route: string, query: URLSearchParams, known: Map<string, Run>}} props
 */
function Where({ route, query, known }) {
  const [run, ...others] = query.getAll("run"), step = query.get("step"), answer = placed(query.get("rollout") || "");
  const task = answer ? answer.task : query.get("task"), explored = answer ? answer.explore_step : query.get("explore_step");
  if (!run || others.length || !pages[route] || route === "runs") return null;
  const steps = [html`<a href=${href("curves", { run })} title=${plain(run)}>${nameIn(known, run)}</a>`], sweep = known.get(run)?.sweep;
  if (sweep) steps.unshift(html`<a href=${href("runs", { open: "sweep:" + sweep })} title=${plain(sweep)}>${
    plain(sweep.split("/").pop() ?? "")}</a>`);
  if (step) steps.push(html`<a href=${href("rollouts", { run, step })}>${t("step.n", { step: plain(step) })}</a>`);
  if (task) steps.push(html`<a href=${href("group", { run, step, task, explore_step: explored })}>${t("page.group")} ${plain(task)}</a>`);
  if (answer) steps.push(html`<span>${named(answer)}</span>`);
  return html`<nav class="where" aria-label=${t("app.where")}>${steps.map((s, i) => html`${i > 0 && html`<i aria-hidden="true"> › </i>`}${s}`)}</nav>`;
}

/** Health says when the studio does not answer, wants its token, or has another version or another page than this tab. */
function Health() {
  const first = useRef("");
  const about = useData(api.about, []);
  useEvery(about.error ? 3000 : 30000, about.again);
  const now = about.value ? about.value.version + " " + about.value.page : "";
  if (!first.current) first.current = now;
  if (isTokenMissing(about.error)) return html`<${Token} />`;
  if (about.error) return html`<p class="banner error" role="alert">${t("app.offline", { error: plain(local(about.error.message)) })}</p>`;
  if (about.value && now !== first.current) return html`<p class="banner" role="alert">${t("app.updated", { version: plain(about.value.version) })}
    <button onClick=${() => location.reload()}>${t("app.reload")}</button></p>`;
  return null;
}

/** Help lists the keys. @param {{dialog: {current: any}}} props */
function Help({ dialog }) {
  const [actions, set] = useState(/** @type {KeyAction[]} */ ([]));
  useEffect(() => {
    const watch = new MutationObserver(() => set(keysNow()));
    watch.observe(dialog.current, { attributes: true, attributeFilter: ["open"] });
    return () => watch.disconnect();
  }, []);
  const row = (/** @type {string} */ keys, /** @type {string} */ says) => html`<tr><td>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</td><td>${says}</td></tr>`;
  return html`<dialog ref=${dialog} aria-label=${t("app.keys")}>
    <table>
      ${Object.entries(pages).filter(([, page]) => page.key).map(([name, page]) => row("g " + page.key, t("app.keys.page", { page: t("page." + name) })))}
      ${row("/", t("app.keys.search"))}${row("↑ ↓", t("app.keys.table"))}
      ${actions.map((a) => row(a.key, a.says))}
      ${row("?", t("app.keys.help"))}
    </table>
    <form method="dialog"><button>${t("app.close")}</button></form>
  </dialog>`;
}

/** @param {URLSearchParams} query @param {{current: any}} help */
function useShellKeys(query, help) {
  const prefix = useRef(false), latest = useRef(query);
  latest.current = query;
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !/^(checkbox|radio|range)$/.test(target.getAttribute("type") || "")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      const after = prefix.current;
      prefix.current = false;
      const page = after && Object.entries(pages).find(([, p]) => p.key === event.key);
      const action = !after && keysNow().find((a) => a.key === event.key);
      const search = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
      if (page) go(page[0], kept(page[0], latest.current));
      else if (action) action.run();
      else if (event.key === "g") prefix.current = true;
      else if (event.key === "?") help.current.open ? help.current.close() : help.current.showModal();
      else if (event.key === "/" && search) search.focus();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

ready().then(() => render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app"))));
