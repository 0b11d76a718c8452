// Talk with a model of a run, or with two side by side. What was said stays in this tab.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { CopyButton } from "./copy.js";
import { Answer } from "./said.js";
import { Loaded, duration, number, plain, runName, short, useData, useEvery, visible } from "./parts.js";
import { parse } from "./route.js";
import { Token, isTokenMissing } from "./token.js";
import { Legend } from "./tokens.js";
import { local, t } from "./words.js";

const LOADS = 500, RESTS = 3000; // milliseconds between looks at the models

/** @typedef {import("./said.js").Said} Said */
/** @typedef {{asked: string, said: (Said | null)[]}} Turn what somebody asked, and what the models answered */

/**
 * What was said, and what is being said: other pages leave it as it is.
 * @type {{turns: Turn[], asking: AbortController | null, changed: () => void}}
 */
const talked = { turns: [], asking: null, changed: () => {} };

/** The settings of an answer, with their usual values; "" is the server's. */
const usual = { temperature: "0.7", top_p: "", max_tokens: "", seed: "" };

/** @type {import("./measures.js").Measure} */
const PROBABILITY = { key: "probability", kind: "amount", low: 1, high: 0, at: () => NaN };

/** @param {PageProps} props */
export function Talk({ query, go }) {
  const about = useData(api.about, []);
  if (about.value && !about.value.control) return html`<p class="panel">${t("talk.readonly")}</p>`;
  return about.value ? html`<${Talking} query=${query} go=${go} />` : html`<${Loaded} data=${about} />`;
}

/** seatsOf returns the runs and the models that the route names. @param {URLSearchParams} query */
function seatsOf(query) {
  const seats = query.getAll("run").slice(0, 2);
  return { seats: seats.length ? seats : [""], names: query.getAll("model") };
}

/** @param {PageProps} props */
function Talking({ query, go }) {
  const [, draw] = useState(0), [failed, fail] = useState(/** @type {Error | null} */ (null));
  const runs = useData((signal) => api.runs(signal), []), talks = useData(api.talks, []);
  const all = talks.value ? talks.value.talks : [];
  useEvery(all.some((m) => m.state === "loading") ? LOADS : RESTS, talks.again);
  useEffect(() => {
    let asked = 0; // a picture of all that came before it
    talked.changed = () => { asked ||= requestAnimationFrame(() => { asked = 0; draw((n) => n + 1); }); };
    return () => { cancelAnimationFrame(asked); talked.changed = () => {}; };
  }, []);
  const shaded = query.get("shade") === "1";
  const { seats, names } = seatsOf(query);
  const models = seats.map((run, i) => all.findLast((m) => m.run === run && m.model === names[i]));
  const act = async (/** @type {() => Promise<unknown>} */ f) => {
    fail(null);
    try { await f(); } catch (error) { fail(/** @type {Error} */ (error)); }
    talks.again();
  };
  /** @param {number} i @param {string} run @param {string} model @param {boolean} [replace] */
  const choose = (i, run, model, replace = false) => {
    const now = seatsOf(parse(location.hash).query); // both seats may choose before the page is drawn again
    const models = now.seats.map((_, n) => n === i ? model : now.names[n] || "");
    go("", { run: now.seats.map((r, n) => n === i ? run : r), model: models }, { replace });
  };
  const beside = () => go("", { run: [...seats, seats[0]], model: [names[0] || "", ""] });
  const clear = () => {
    talked.asking?.abort();
    talked.turns = [];
    draw((n) => n + 1);
  };
  /** @type {SeatProps[]} */
  const props = seats.map((run, i) => ({
    nth: i, run, name: names[i] || "", runs: runs.value ? runs.value.runs : [], loaded: models[i], act,
    length: Number(query.get("length")) || 0, version: i ? null : query.get("version"), choose: (r, m, replace) => choose(i, r, m, replace),
  }));
  return html`
    <${Loaded} data=${runs} />
    <div class="seats">${props.map((seat) => html`<${Seat} key=${seat.nth} ...${seat} />`)}</div>
    <div class="row">
      ${seats.length < 2 ? html`<button disabled=${!seats[0]} onClick=${beside}>${t("talk.beside")}</button>`
        : html`<button onClick=${() => go("", { run: seats.slice(0, 1), model: names.slice(0, 1) })}>${t("talk.alone")}</button>`}
      <span class="grow"></span>
      ${shaded && html`<${Legend} measure=${PROBABILITY} />`}
      <label title=${t("talk.shade.title")}><input type="checkbox" checked=${shaded}
        onChange=${() => go("", { shade: shaded ? null : "1" }, { replace: true })} /> ${t("talk.shade")}</label>
      <${Copy} />
      <button disabled=${!talked.turns.length} onClick=${clear}>${t("talk.clear")}</button>
    </div>
    <${Sampling} query=${query} go=${go} />
    ${isTokenMissing(failed) ? html`<${Token} />` : failed && html`<p class="error" role="alert">${plain(local(failed.message))}</p>`}
    <${Turns} shaded=${shaded} />
    <${Ask} models=${models} runs=${runs.value ? runs.value.runs : []} query=${query} />`;
}

/**
 * version: that of the weights which somebody wants, of the first model alone
 * @typedef {{nth: number, run: string, name: string, runs: Run[], loaded?: TalkModel, length: number, version: string | null,
 *   act: (f: () => Promise<unknown>) => void, choose: (run: string, model: string, replace?: boolean) => void}} SeatProps
 */

/** Seat chooses a model, loads it and ends it. @param {SeatProps} props */
function Seat({ nth, run, name, runs, loaded, length, version, act, choose }) {
  const found = useData(async (signal) => run ? (await api.models(run, signal)).models : [], [run]);
  useEvery(10 * RESTS, found.again); // a run that trains writes checkpoints
  const models = found.value || [], live = loaded && loaded.state !== "ended";
  const wanted = version && (version === "0" ? "base" : "global_step_" + version), usable = models.filter((m) => !m.why);
  useEffect(() => { // the newest is what one most likely wants
    const first = usable.find((m) => m.name === wanted) || usable.find((m) => m.kind !== "base") || usable[0];
    if (run && !name && first) choose(run, first.name, true);
  }, [run, name, models.length]);
  const label = t(nth ? "talk.second" : "talk.first");
  const unload = () => loaded && act(() => api.unload(loaded.id));
  return html`<section class="panel seat" aria-label=${label}>
    <div class="row">
      <select aria-label=${`${t("choose.run")}, ${label}`} value=${run} onChange=${(/** @type {any} */ e) => choose(e.target.value, "")}>
        <option value="">${t("choose.run")}</option>${[...new Set(runs.map((r) => r.sweep))].map((sweep) => {
          const of = runs.filter((r) => r.sweep === sweep).map(offered);
          return sweep ? html`<optgroup label=${plain(sweep)}>${of}</optgroup>` : of;
        })}</select>
      <select aria-label=${`${t("talk.model")}, ${label}`} value=${name} onChange=${(/** @type {any} */ e) => choose(run, e.target.value)}>
        <option value="">${t("talk.choose")}</option>
        ${models.map((m) => html`<option value=${m.name} disabled=${!!m.why} title=${plain(local(m.why) || m.path)}>
          ${nameOf(m)}</option>`)}</select>
      ${live ? html`<button title=${t("talk.unload.title")} onClick=${unload}>${t("talk.unload")}</button>`
        : html`<button class="primary" disabled=${!run || !name} onClick=${() => act(() => api.load(run, name, length))}>
          ${t("talk.load")}</button>`}
    </div>
    ${found.error && html`<p class="error" role="alert">${plain(local(found.error.message))}</p>`}
    ${run && found.value && !usable.length && html`<p class="muted">${t("talk.none")}</p>`}
    ${wanted && usable.length > 0 && name !== wanted && html`<p class="muted">${t(usable.some((m) => m.name === wanted) ? "talk.another" :
      "talk.lost", { step: version })}</p>`}
    ${loaded && html`<${State} of=${loaded} />`}
  </section>`;
}

/** offered is a run that one may choose. @param {Run} run */
const offered = (run) => html`<option value=${run.id} title=${plain(run.id)}>${plain(runName(run))}</option>`;

/** nameOf says which model it is. @param {RunModel} of */
function nameOf(of) {
  if (of.why) return `${plain(of.name)} (${t("talk.unusable")})`;
  if (of.kind === "adapter") return `${plain(of.name)} (${t("talk.adapter")})`;
  return of.kind === "base" ? `${t("talk.base")}: ${plain(short(of.path))}` : plain(of.name);
}

/** bytes shows a number of bytes. @param {number} n */
const bytes = (n) => n <= 0 ? "–" : n < 2 ** 30 ? number(n / 2 ** 20, 3) + " MiB" : number(n / 2 ** 30, 3) + " GiB";

/** State says how far a model is. @param {{of: TalkModel}} props */
function State({ of }) {
  if (of.state === "ended") {
    const why = of.error ? plain(local(of.error)) : t("talk.wanted");
    return html`<p class=${of.error ? "error" : "muted"} role="status">${t("talk.ended", { why })}</p>`;
  }
  const says = t("talk." + of.state, {
    resident: bytes(of.resident), planned: bytes(of.planned), length: number(of.length), seconds: duration((Date.now() - of.began) / 1000),
  });
  const clock = new Date(of.ends).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const share = Math.min(100, 100 * of.resident / (of.planned || 1));
  return html`
    ${of.state === "loading" && html`<div class="loads" aria-hidden="true" style=${{ backgroundSize: share + "% 100%" }}></div>`}
    <p class="muted" role="status">${says}${of.state === "ready" && of.ends > 0 && "; " + t("talk.ends", { time: clock })}${
      of.state === "loading" && of.said && html`<br />${plain(of.said)}`}</p>`;
}

/** Sampling has the settings of the next answers. @param {PageProps} props */
function Sampling({ query, go }) {
  /** @param {string} name @param {string} value @param {any} event */
  const set = (name, value, event) => go("", { [name]: event.target.value === value ? null : event.target.value }, { replace: true });
  /** @param {string} name @param {string} value @param {Record<string, unknown>} more */
  const field = (name, value, more) => html`<label>${t("talk." + name)}
    <input type="number" value=${query.get(name) ?? value} placeholder=${t("talk.usual")} ...${more}
      onChange=${(/** @type {any} */ e) => set(name, value, e)} /></label>`;
  return html`<details><summary>${t("talk.settings")}</summary><div class="sampling">
    ${field("temperature", usual.temperature, { min: 0, max: 10, step: 0.1 })}
    ${field("top_p", usual.top_p, { min: 0.01, max: 1, step: 0.01 })}
    ${field("max_tokens", usual.max_tokens, { min: 1, step: 1 })}
    ${field("seed", usual.seed, { min: 0, step: 1 })}
    ${field("length", "", { min: 2, step: 1 })}
    <label class="system">${t("talk.system")}
      <textarea rows="2" value=${query.get("system") || ""} onChange=${(/** @type {any} */ e) => set("system", "", e)}></textarea></label>
  </div></details>`;
}

/** Turns shows what was said, the newest at the bottom. @param {{shaded: boolean}} props */
function Turns({ shaded }) {
  const box = useRef(/** @type {any} */ (null)), bottom = useRef(true);
  useLayoutEffect(() => { if (bottom.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
  const scrolled = () => { bottom.current = box.current.scrollTop + box.current.clientHeight > box.current.scrollHeight - 30; };
  return html`<div class="turns" ref=${box} tabindex="0" role="log" aria-label=${t("page.talk")} onScroll=${scrolled}>
    ${talked.turns.map((turn, n) => html`<article key=${n}>
      <div class="asked"><span class="sr">${t("talk.you")}</span><div class="text" dir="auto">${visible(turn.asked)}</div></div>
      <div class="said">${turn.said.map((said, i) => said && html`<${Answer} key=${i} said=${said} shaded=${shaded} />`)}</div>
    </article>`)}
  </div>`;
}

/** Copy copies the conversation as text. */
function Copy() {
  const answer = (/** @type {Said} */ said) => `${said.name}:\n${said.thought ? said.thought + "\n\n" : ""}${said.text}`;
  const text = () => talked.turns.flatMap((turn) => [
    `${t("talk.you")}:\n${turn.asked}`, ...turn.said.flatMap((said) => said ? [answer(said)] : []),
  ]).join("\n\n");
  return html`<${CopyButton} disabled=${!talked.turns.length} label=${t("talk.copy")} text=${text} />`;
}

/**
 * Ask sends a message to all models that are ready.
 * @param {{models: (TalkModel | undefined)[], runs: Run[], query: URLSearchParams}} props
 */
function Ask({ models, runs, query }) {
  const [text, set] = useState(query.get("ask") || "");
  const ready = models.some((m) => m && m.state === "ready");
  const send = () => {
    if (!text.trim() || !ready || talked.asking) return;
    ask(text, models, runs, query);
    set("");
  };
  return html`<form class="ask" onSubmit=${(/** @type {Event} */ e) => { e.preventDefault(); send(); }}>
    <textarea rows="2" value=${text} placeholder=${t("talk.hint")} aria-label=${t("talk.message")}
      onInput=${(/** @type {any} */ e) => set(e.target.value)}
      onKeyDown=${(/** @type {KeyboardEvent} */ e) => { // the Enter that chooses a Chinese word sends nothing
        if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
        e.preventDefault();
        send();
      }}></textarea>
    <div class="row"><span class="muted">${!ready && t("talk.unloaded")}</span><span class="grow"></span>
      ${talked.asking ? html`<button type="button" onClick=${() => talked.asking?.abort()}>${t("talk.stop")}</button>`
        : html`<button class="primary" disabled=${!ready || !text.trim()}>${t("talk.send")}</button>`}</div>
  </form>`;
}

/**
 * ask adds a turn, and follows the answers of the models.
 * @param {string} asked @param {(TalkModel | undefined)[]} models @param {Run[]} runs @param {URLSearchParams} query
 */
async function ask(asked, models, runs, query) {
  const ending = new AbortController();
  /** @type {Turn} */
  const turn = { asked, said: [] };
  const before = talked.turns;
  talked.turns = [...before, turn];
  talked.asking = ending;
  await Promise.all(models.map(async (model, i) => {
    if (!model || model.state !== "ready") return;
    const of = runs.find((run) => run.id === model.run);
    /** @type {Said} */
    const said = {
      name: `${model.model} · ${of ? runName(of) : short(model.run)}`, thought: "", text: "", tokens: [], finish: "", error: "",
      seconds: 0, state: "asked",
    };
    const began = performance.now();
    turn.said[i] = said;
    try {
      const context = asked === query.get("ask") ? [] : before; // a question of another page has nothing before it
      await api.chat(model.id, request(context, i, asked, query), (part) => { heard(said, part); talked.changed(); }, ending.signal);
      said.state = "done";
    } catch (error) {
      said.state = ending.signal.aborted ? "stopped" : "failed";
      if (said.state === "failed") said.error = /** @type {Error} */ (error).message;
    }
    said.seconds = (performance.now() - began) / 1000;
    talked.changed();
  }));
  talked.asking = null;
  talked.changed();
}

/** heard adds a part of an answer. @param {Said} said @param {any} part */
function heard(said, part) {
  const choice = part.choices[0];
  if (!choice) return;
  said.state = "saying";
  said.thought += choice.delta?.reasoning_content || "";
  said.text += choice.delta?.content || "";
  if (choice.logprobs?.content) said.tokens.push(...choice.logprobs.content);
  said.finish = choice.finish_reason || said.finish;
}

/**
 * request is what a model is asked: what it was asked and has answered before, and the settings.
 * @param {Turn[]} before @param {number} i @param {string} asked @param {URLSearchParams} query
 */
function request(before, i, asked, query) {
  const system = query.get("system");
  const body = { messages: system ? [{ role: "system", content: system }] : [], logprobs: true, top_logprobs: 3 };
  for (const turn of before) {
    const said = turn.said[i];
    if (said && said.text) body.messages.push({ role: "user", content: turn.asked }, { role: "assistant", content: said.text });
  }
  body.messages.push({ role: "user", content: asked });
  for (const [name, value] of Object.entries(usual)) {
    const chosen = query.get(name) ?? value;
    if (chosen !== "") body[name] = Number(chosen);
  }
  return body;
}
