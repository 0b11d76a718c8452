// Time: who worked, who waited, and for whom.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Advice } from "./advice.js";
import { Damaged, Loaded, color, duration, moment, percent, plain, useData, useEvery, useKeys, useSize, useTheme } from "./parts.js";
import { awaited, laneGap, place, spanAt, spanHeight, ticks, within, zoom } from "./lanes.js";
import { local, roleOf, t } from "./words.js";

/** @typedef {import("./lanes.js").Lane} Lane */
/** @typedef {[number, number]} Range */

/** The colours of what somebody does, one for each kind. @type {Record<string, string>} */
const colours = {
  rollout: "--s5", model_call: "--s0", reward: "--s2", operator: "--s3", delivery: "--s7", evaluation: "--s6",
  forward: "--s1", backward: "--s4", update: "--s8", publish: "--s9", checkpoint: "--s10",
};

const axisHeight = 22;

/** Time is the page. @param {PageProps} props */
export function Time({ query, go }) {
  const run = query.get("run") || "";
  const [box, width] = useSize();
  const asked = /** @type {Range} */ ([Number(query.get("from")), Number(query.get("to"))]);
  const whole = !(asked[1] > asked[0]);
  const wide = Math.max(100, Math.round(width / 100) * 100);
  const data = useData((signal) => width ? api.spans(run, whole ? { width: wide } : { from: asked[0], to: asked[1], width: wide }, signal) : new Promise(() => {}),
    [run, width ? wide : 0, whole ? "" : asked.join()]);
  const kept = useRef(/** @type {{run: string, spans: Spans | undefined}} */ ({ run, spans: undefined }));
  if (data.value || kept.current.run !== run) kept.current = { run, spans: data.value };
  const spans = kept.current.spans;
  useEvery(5000, () => { if (whole && spans && Date.now() - spans.last < 60000) data.again(); });
  const [moving, setMoving] = useState(/** @type {Range | null} */ (null));
  const all = /** @type {Range} */ (spans ? [spans.first, spans.last] : [0, 1]);
  const range = moving || (whole ? all : asked);
  const timer = useRef(0), latest = useRef(range);
  latest.current = range;
  // show moves at once; what is to be seen there is asked for when the hand rests.
  const show = (to) => {
    setMoving(to || all);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      go("", to ? { from: Math.floor(to[0]), to: Math.ceil(to[1]) } : { from: null, to: null }, { replace: true });
    }, 120);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => setMoving(null), [query.get("from"), query.get("to")]);
  const zoomed = (factor, around = (latest.current[0] + latest.current[1]) / 2) => show(zoom(latest.current, factor, around, all));
  const pan = (share) => {
    const [from, to] = latest.current;
    show(within(from + share * (to - from), to - from, all));
  };
  useKeys([
    { key: "+", says: t("time.key.in"), run: () => zoomed(0.5) }, { key: "-", says: t("time.key.out"), run: () => zoomed(2) },
    { key: "0", says: t("time.key.whole"), run: () => show(null) },
  ]);
  const [chosen, choose] = useState(/** @type {{lane: Lane, span: Span} | null} */ (null));
  return html`
    <div class="row">
      <button onClick=${() => zoomed(0.5)} aria-label=${t("time.key.in")} title=${t("time.key.in") + " (+)"}>+</button>
      <button onClick=${() => zoomed(2)} aria-label=${t("time.key.out")} title=${t("time.key.out") + " (-)"}>−</button>
      <button onClick=${() => show(null)} disabled=${whole}>${t("time.key.whole")}</button>
      ${spans && html`<span class="muted">${moment(range[0])} · ${duration((range[1] - range[0]) / 1000)}</span>`}
      <span class="grow"></span><${Legend} lanes=${spans ? spans.lanes : []} />
    </div>
    ${spans && spans.lanes.length > 0 && html`<${Share} spans=${spans} />`}
    <div ref=${box} class="time-box">
      ${data.error && html`<${Loaded} data=${data} />`}
      ${!spans && !data.error && html`<${Loaded} data=${data} />`}
      ${spans && !spans.lanes.length && html`<p class="muted">${t("time.none")}</p>`}
      ${spans && spans.lanes.length > 0 && html`<${Lanes} lanes=${spans.lanes} range=${range} first=${spans.first} width=${width} show=${show} pan=${pan} zoomed=${zoomed} whole=${all} choose=${choose} />`}
    </div>
    <p class="muted">${t("time.hint")}</p>
    ${spans && html`<${Damaged} lines=${spans.damaged} />`}
    ${chosen && html`<${Chosen} key=${chosen.span.id + chosen.span.begin} run=${run} of=${chosen} go=${go} />`}
    ${spans && html`<div class="time-tables"><${Waits} spans=${spans} /><${Slowest} lanes=${spans.lanes} choose=${choose} /><${Advice} key=${run} run=${run} /></div>`}`;
}

/** Legend names the colours that are to be seen. @param {{lanes: Lane[]}} props */
function Legend({ lanes }) {
  const kinds = useMemo(() => [...new Set(lanes.flatMap((lane) => lane.spans.map((s) => s.kind)))].sort(), [lanes]);
  return html`<span class="kinds">${kinds.map((kind) => html`<span><i class=${kind === "wait" ? "waits" : ""} style=${{ background: kind === "wait" ? "" : `var(${colours[kind] || "--muted"})` }}></i>${kindOf(kind)}</span>`)}</span>`;
}

/** Lanes draws the spans and follows mouse and keys. @param {any} props */
function Lanes({ lanes, range, first, width, show, pan, zoomed, whole, choose }) {
  const canvas = useRef(/** @type {any} */ (null)), drag = useRef(/** @type {{x: number, range: Range, moved: boolean} | null} */ (null));
  const [tip, setTip] = useState(/** @type {{x: number, y: number, lane: Lane, span: Span} | null} */ (null));
  useTheme();
  const { placed, height } = useMemo(() => place(lanes), [lanes]);
  const scale = width / Math.max(1e-9, range[1] - range[0]);
  const timeAt = (x) => range[0] + x / scale;
  const found = (e) => spanAt(placed, timeAt(e.offsetX), e.offsetY - axisHeight, 3 / scale);
  useEffect(() => { if (width) draw(canvas.current, placed, range, first, width, height + axisHeight, tip && tip.span); });
  const wheel = useRef(/** @type {(e: WheelEvent) => void} */ (() => {}));
  wheel.current = (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      if (e.ctrlKey || e.metaKey) zoomed(Math.exp(e.deltaY / 300), timeAt(e.offsetX));
      else pan((e.deltaX || e.deltaY) / width);
    }
  };
  useEffect(() => {
    const turned = (e) => wheel.current(e), of = canvas.current;
    of.addEventListener("wheel", turned, { passive: false });
    return () => of.removeEventListener("wheel", turned);
  }, []);
  const press = (e) => {
    const move = { ArrowLeft: -0.2, ArrowRight: 0.2 }[e.key];
    if (!move || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    pan(move);
  };
  return html`<div class="lanes" tabindex="0" role="group" aria-label=${t("time.lanes")} onKeyDown=${press}>
    <canvas ref=${canvas} aria-hidden="true" style=${{ height: height + axisHeight + "px" }}
      onDblClick=${(e) => zoomed(0.4, timeAt(e.offsetX))}
      onPointerDown=${(e) => { e.target.setPointerCapture(e.pointerId); drag.current = { x: e.clientX, range, moved: false }; }}
      onPointerMove=${(e) => {
        const from = drag.current;
        if (from && (from.moved || Math.abs(e.clientX - from.x) > 3)) {
          from.moved = true;
          setTip(null);
          show(within(from.range[0] - (e.clientX - from.x) / scale, from.range[1] - from.range[0], whole));
        } else {
          const at = found(e);
          setTip(at && { x: e.offsetX, y: e.offsetY, ...at });
        }
      }}
      onPointerUp=${(e) => {
        const clicked = drag.current && !drag.current.moved && found(e);
        drag.current = null;
        if (clicked) choose(clicked);
      }}
      onPointerCancel=${() => { drag.current = null; }} onPointerLeave=${() => setTip(null)}></canvas>
    ${placed.map((p) => html`<span class="lane-name" style=${{ top: axisHeight + p.top - 15 + "px" }}>${plain(laneName(p))}</span>`)}
    ${tip && html`<div class="tip" style=${{ left: Math.min(tip.x + 12, Math.max(0, width - 260)) + "px", top: tip.y + 14 + "px" }}>${said(tip.lane, tip.span)}</div>`}
  </div>`;
}

/** @param {import("./lanes.js").Placed} of */
const laneName = (of) => of.name && of.name !== of.role ? `${roleOf(of.role)} · ${kindOf(of.name)}` : roleOf(of.role);

/** kindOf is a kind in the language of the page. @param {string} kind */
const kindOf = (kind) => kind in colours || kind === "wait" ? t("time.kind." + kind) : plain(kind);

/** said says in a line what a span is. @param {Lane} lane @param {Span} span */
function said(lane, span) {
  const what = span.kind === "wait" ? t("time.waits", { who: plain(roleOf(lane.role)), for: plain(roleOf(span.for)) }) : kindOf(span.kind) + (span.name ? " " + plain(span.name) : "");
  return [what, span.n > 1 ? t("time.merged", { n: span.n }) : "", duration((span.end - span.begin) / 1000), span.step ? t("step.n", { step: span.step }) : "", plain(span.id || "")].filter(Boolean).join(" · ");
}

/**
 * draw paints the axis, the lanes, and an arrow at the end of each wait from who was waited for.
 * @param {HTMLCanvasElement} canvas @param {import("./lanes.js").Placed[]} placed @param {Range} range @param {number} first @param {number} width @param {number} height @param {Span | null} hot
 */
function draw(canvas, placed, range, first, width, height, hot) {
  const dots = devicePixelRatio || 1, c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  canvas.width = width * dots;
  canvas.height = height * dots;
  c.scale(dots, dots);
  const scale = width / Math.max(1e-9, range[1] - range[0]), x = (time) => (time - range[0]) * scale;
  c.font = "11px " + getComputedStyle(document.documentElement).fontFamily;
  c.fillStyle = color("--muted");
  const times = ticks(range[0] - first, range[1] - first, width / 90), digits = Math.max(0, 3 - Math.floor(Math.log10(times[1] - times[0])));
  for (const at of times) {
    const left = x(first + at);
    c.globalAlpha = 0.25;
    c.fillRect(left, axisHeight - 6, 1, height);
    c.globalAlpha = 1;
    c.fillText(digits && at < 36e5 ? (at / 1000).toFixed(digits) + " s" : duration(at / 1000), left + 3, axisHeight - 8);
  }
  const arrows = [];
  for (const p of placed) {
    c.fillStyle = color("--line");
    c.globalAlpha = 0.6;
    c.fillRect(0, axisHeight + p.top - laneGap + 2, width, 1);
    c.globalAlpha = 1;
    p.rows.forEach((lane, row) => {
      let drawn = -2; // of waits, which overlap in the last row
      for (const span of lane.spans) {
        if (span.end < range[0] || span.begin > range[1]) continue;
        const left = Math.max(drawn, x(span.begin)), wide = Math.max(1, Math.min(width + 2, x(span.end)) - left), top = axisHeight + p.top + row * spanHeight;
        if (span.kind === "wait") {
          if (x(span.end) <= drawn) continue;
          c.fillStyle = c.strokeStyle = color("--warn");
          c.globalAlpha = 0.22;
          c.fillRect(left, top, wide, spanHeight - 2);
          c.globalAlpha = 1;
          c.strokeRect(left + 0.5, top + 0.5, Math.max(0.5, wide - 1), spanHeight - 3);
          if (wide > 24 && x(span.end) <= width) arrows.push({ span, from: p, x: x(span.end), y: top });
          if (wide > 90) label(c, color("--ink"), plain(roleOf(span.for)), left + 4, top, wide - 8);
          drawn = left + wide;
          continue;
        }
        c.fillStyle = color(colours[span.kind] || "--muted");
        c.globalAlpha = hot && hot.id && span.id !== hot.id ? 0.35 : 1;
        c.fillRect(left, top, wide > 3 ? wide - 0.6 : wide, spanHeight - 2);
        c.globalAlpha = 1;
      }
    });
  }
  for (const arrow of arrows.slice(0, 200)) {
    const of = awaited(placed, arrow.from, arrow.span);
    if (!of || of === arrow.from) continue;
    const down = of.top < arrow.from.top, begin = axisHeight + (down ? of.top + of.height : of.top), end = down ? arrow.y : arrow.y + spanHeight - 2, dy = down ? -5 : 5;
    c.strokeStyle = c.fillStyle = color("--warn");
    c.beginPath();
    c.moveTo(arrow.x, begin);
    c.lineTo(arrow.x, end);
    c.moveTo(arrow.x - 3.5, end + dy);
    c.lineTo(arrow.x, end);
    c.lineTo(arrow.x + 3.5, end + dy);
    c.stroke();
  }
}

/** @param {CanvasRenderingContext2D} c @param {string} ink @param {string} text @param {number} left @param {number} top @param {number} wide */
function label(c, ink, text, left, top, wide) {
  c.save();
  c.beginPath();
  c.rect(left, top, wide, spanHeight);
  c.clip();
  c.fillStyle = ink;
  c.fillText(text, left, top + spanHeight - 4);
  c.restore();
}

/** Chosen says what was clicked, and leads to the tokens of a rollout. @param {{run: string, of: {lane: Lane, span: Span}, go: Go}} props */
function Chosen({ run, of, go }) {
  const [state, setState] = useState("");
  const open = async () => {
    setState(t("app.loading"));
    try {
      const found = await trainedStep(run, of.span);
      if (found) go("tokens", { run, step: found.step, rollout: found.id });
      else setState(t("time.untraced"));
    } catch (error) { setState(plain(local(/** @type {Error} */ (error).message))); }
  };
  return html`<p class="panel row" role="status"><span>${said(of.lane, of.span)}</span>
    ${of.span.id && of.span.n <= 1 && html`<button onClick=${open}>${t("time.open")}</button>`}<span class="muted">${state}</span></p>`;
}

/** How many train steps after a rollout the page looks for its tokens. */
const mostStepsAfter = 12;

/** trainedStep finds the train step that learned from a rollout, if the trace has it. @param {string} run @param {Span} span */
async function trainedStep(run, span) {
  const { steps } = await api.steps(run), rollout = span.id.split("/").slice(0, -1).join("/");
  const from = Math.max(0, steps.findIndex((step) => step >= span.step));
  for (const step of steps.slice(from, from + mostStepsAfter)) {
    const { rollouts } = await api.rollouts(run, step), found = rollouts.find((of) => of.id === span.id || of.id.startsWith(rollout + "/"));
    if (found) return { step, id: found.id };
  }
  return null;
}

/** Waits is who waited for whom, and how much of the time. @param {{spans: Spans}} props */
function Waits({ spans }) {
  const waits = Object.entries(spans.waits || {}).sort((a, b) => b[1] - a[1]), seconds = Math.max(1e-9, (spans.to - spans.from) / 1000);
  return html`<section class="panel"><h2>${t("time.waiting")}</h2>
    ${waits.length ? html`<table class="measured"><tbody>${waits.map(([who, waited]) => html`<tr><th scope="row">${waitOf(who)}</th><td>${duration(waited)}</td><td>${percent(waited / seconds)}</td>
      <td><meter min="0" max="1" value=${Math.min(1, waited / seconds)} aria-label=${waitOf(who)}></meter></td></tr>`)}</tbody></table>` : html`<p class="muted">${t("time.nowait")}</p>`}
  </section>`;
}

/** A smaller share of the time than this is worth no sentence. */
const worthSaying = 0.05;

/** Share says in words how much of the time trainer and explorer waited for one another. @param {{spans: Spans}} props */
function Share({ spans }) {
  const seconds = Math.max(1e-9, (spans.to - spans.from) / 1000);
  const shares = Object.entries(spans.waits || {}).map(([wait, waited]) => ({ wait, share: Math.min(1, waited / seconds) }))
    .filter(({ wait, share }) => share >= worthSaying && !wait.endsWith("a slot of the model")).sort((a, b) => b.share - a.share);
  if (!shares.length) return html`<p class="headlines">${t("time.share.none")}</p>`;
  return html`<p class="headlines">${shares.slice(0, 3).map(({ wait, share }, i) => {
    const [who, whom = ""] = plain(wait).split(" waits for ");
    const known = { "trainer explorer": "time.share.rollouts", "trainer data": "time.share.data" }[`${who} ${whom}`];
    const says = known || (whom === "trainer" ? "time.share.weights" : "time.share");
    return html`<span class=${i === 0 && share > 0.5 ? "warn" : ""}>${t(says, { who, for: whom, share: percent(share) })}</span>`;
  })}</p>`;
}

/** waitOf says a wait in the language of the page. @param {string} wait */
function waitOf(wait) {
  const [who, whom] = plain(wait).split(" waits for ");
  return whom === undefined ? roleOf(who) : t("time.waits", { who: roleOf(who), for: roleOf(whom) });
}

/** Slowest lists the longest rollouts in sight; keys open them, too. @param {{lanes: Lane[], choose: (of: {lane: Lane, span: Span}) => void}} props */
function Slowest({ lanes, choose }) {
  const longest = useMemo(() => lanes.flatMap((lane) => lane.spans.filter((s) => s.kind === "rollout" && s.n <= 1 && s.id).map((span) => ({ lane, span })))
    .sort((a, b) => (b.span.end - b.span.begin) - (a.span.end - a.span.begin)).slice(0, 8), [lanes]);
  return html`<section class="panel"><h2>${t("time.slowest")}</h2>
    ${longest.length ? html`<table class="measured"><tbody>${longest.map((of) => html`<tr><th scope="row"><button class="link" onClick=${() => choose(of)}>${plain(of.span.id)}</button></th>
      <td>${duration((of.span.end - of.span.begin) / 1000)}</td><td class="muted">${plain(roleOf(of.lane.role))}</td></tr>`)}</tbody></table>` : html`<p class="muted">${t("time.zoomin")}</p>`}
  </section>`;
}
