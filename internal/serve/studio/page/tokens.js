// Tokens: a sequence as text, each token shaded by a number, and all numbers of the one that is pointed at.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { t } from "./words.js";
import { Loaded, Text as FileText, color, diverging, number, percent, plain, shade, useData, useKeys, useSize, useTheme } from "./parts.js";
import { Facts, stepOf } from "./answer.js";
import { Images, drawIn, labelOf } from "./images.js";
import { href } from "./route.js";
import { Lines } from "./lines.js";
import { behind, blocksOf, framesIn, imageAt, rowsOf, saidIn, shownAt } from "./sequence.js";
import { clippedTokens, disagreement, measuresOf, numbered, scaled, strength, trainerLogprobs, unlikeliest } from "./measures.js";

/** @typedef {import("./measures.js").Measure} Measure */
/** @typedef {import("./measures.js").Numbered} Numbered */
/** @typedef {import("./sequence.js").Block} Block */

/** The log-probability above which a token was no choice. */
const CERTAIN = Math.log(0.9);

/** How much of a token the page shows. */
const mostShown = 4096;

/** tint is the background of a strength; text on it stays readable. @param {Measure} measure @param {number} at */
export const tint = (measure, at) => !at ? "" : measure.kind === "amount" ? shade(0.5 * at) : diverging(0.6 * at);

/** Tokens is the page. @param {PageProps} props */
export function Tokens({ query, go }) {
  const run = query.get("run") || "", step = stepOf(query), id = query.get("rollout") || "";
  const data = useData((signal) => api.rollout(run, step, id, signal), [run, step, id]);
  return html`<${Loaded} data=${data} />
    ${data.value && html`<${Sequence} key=${id} answer=${data.value} run=${run} step=${step} query=${query} go=${go} />`}`;
}

/** Sequence shows an answer. @param {PageProps & {answer: RolloutTokens, run: string, step: number}} props */
function Sequence({ answer, run, step, query, go }) {
  const of = useMemo(() => numbered(answer), [answer]);
  const [nth, setUpdate] = useState(0);
  const read = query.get("read") === "1", setRead = (on) => go("", { read: on ? 1 : null }, { replace: true });
  const [spaces, setSpaces] = useState(false);
  const unlikely = useMemo(() => unlikeliest(of, 3).filter((i, n) => !n || (of.streams.logprobs || [])[i] < CERTAIN), [of]);
  const [cursor, moveTo] = useState(() => shownAt(answer, Number(query.get("at") ?? unlikely[0] ?? Math.max(0, of.mask.indexOf(true)))));
  const [pointed, pointAt] = useState(/** @type {number | null} */ (null));
  const setCursor = (i) => moveTo(shownAt(answer, i)), setPointed = (i) => pointAt(i === null ? null : shownAt(answer, i));
  const update = of.updates[nth];
  const measures = useMemo(() => measuresOf(of, update), [of, update]);
  const by = measures.find((m) => m.key === query.get("by")) || measures.find((m) => m.key === "probability") || measures[0];
  const measure = useMemo(() => by && scaled(by, of), [by, of]);
  const clipped = useMemo(() => clippedTokens(of, update), [of, update]);
  const choose = (n) => measures[n] && go("", { by: measures[n].key }, { replace: true });
  const turn = (by) => setUpdate((n) => Math.max(0, Math.min(of.updates.length - 1, n + by)));
  const nextClipped = () => clipped && clipped.length && setCursor(clipped.find((i) => i > cursor) ?? clipped[0]);
  useKeys([
    { key: "c", says: t("tokens.key.clipped"), run: nextClipped },
    { key: "w", says: t("tokens.key.spaces"), run: () => setSpaces((on) => !on) },
    { key: "m", says: t("tokens.key.read"), run: () => setRead(!read) },
    { key: "[", says: t("tokens.key.before"), run: () => turn(-1) },
    { key: "]", says: t("tokens.key.after"), run: () => turn(1) },
    ...measures.slice(0, 9).map((m, n) => ({ key: String(n + 1), says: t("tokens.by." + m.key), run: () => choose(n) })),
  ]);
  return html`
    <${Facts} run=${run} step=${step} of=${answer} />
    <${Images} run=${run} of=${answer} />
    <${Headlines} answer=${answer} of=${of} unlikely=${unlikely} clipped=${clipped} go=${setCursor} nextClipped=${nextClipped} />
    <div class="row">
      ${measure && html`<label>${t("tokens.shade")} <select value=${measure.key} onChange=${(e) => go("", { by: e.target.value }, { replace: true })}>
        ${measures.map((m) => html`<option value=${m.key}>${t("tokens.by." + m.key)}</option>`)}</select></label>
        <${Legend} measure=${measure} />`}
      ${of.updates.length > 1 && html`<label>${t("tokens.update")} <select value=${nth} onChange=${(e) => setUpdate(Number(e.target.value))}>
        ${of.updates.map((u, n) => html`<option value=${n}>${u.update + 1}</option>`)}</select></label>`}
      <span class="grow"></span>
      <label><input type="checkbox" checked=${spaces} onChange=${() => setSpaces(!spaces)} /> ${t("tokens.spaces")}</label>
      <label><input type="checkbox" checked=${read} onChange=${() => setRead(!read)} /> ${t("tokens.read")}</label>
    </div>
    ${read ? html`<${Messages} answer=${answer} run=${run} />` : html`
      ${measure && html`<${Chart} of=${of} measure=${measure} cursor=${cursor} point=${setPointed} choose=${setCursor} />`}
      <div class="tokens-split">
        <${Text} answer=${answer} run=${run} of=${of} measure=${measure} clipped=${clipped} spaces=${spaces} cursor=${cursor} point=${setPointed} choose=${setCursor} />
        <${Panel} answer=${answer} of=${of} update=${update} token=${pointed ?? cursor} run=${run} />
      </div>`}`;
}

/** Reader shows tokens and which of them training learns, without numbers of an optimizer step. @param {{answer: any}} props */
export function Reader({ answer }) {
  const of = useMemo(() => numbered(answer), [answer]);
  const [cursor, setCursor] = useState(() => Math.max(0, of.mask.indexOf(true)));
  const [pointed, setPointed] = useState(/** @type {number | null} */ (null));
  return html`<div class="tokens-split">
    <${Text} answer=${answer} of=${of} spaces=${false} cursor=${cursor} point=${setPointed} choose=${setCursor} />
    <${Panel} answer=${answer} of=${of} update=${undefined} token=${pointed ?? cursor} />
  </div>`;
}

/** Headlines says which tokens were unlikely, how far sampler and trainer are apart, and what was clipped. @param {any} props */
function Headlines({ answer, of, unlikely, clipped, go, nextClipped }) {
  const apart = useMemo(() => disagreement(of), [of]);
  const learned = of.mask.filter(Boolean).length;
  return html`<p class="headlines">
    ${unlikely.length > 0 && html`<span>${t("tokens.unlikely")} ${unlikely.map((/** @type {number} */ i, /** @type {number} */ n) => html`${
      n ? ", " : ""}<button class="link" onClick=${() => go(i)}>${plain(JSON.stringify(answer.texts[i].slice(0, 40)))} ${
      percent(Math.exp(of.streams.logprobs[i]))}</button>`)}</span>`}
    ${apart && html`<span class=${apart.mean > 0.05 ? "warn" : ""}>${apart.worst ? t("tokens.apart", { mean: number(apart.mean), worst: number(apart.worst) }) : t("tokens.agree")}
      ${" "}${apart.worst > 0 && html`<button class="link" onClick=${() => go(apart.token)}>${t("tokens.at", { at: number(apart.token) })}</button>`}</span>`}
    ${clipped && html`<span>${t("tokens.clipped", { n: clipped.length, of: number(learned) })}
      ${clipped.length > 0 && html` <button class="link" onClick=${nextClipped}>${t("tokens.next")}</button>`}</span>`}
    ${!of.updates.length && html`<span>${t("tokens.untrained")}</span>`}
  </p>`;
}

/** Legend shows the scale of a number. @param {{measure: Measure}} props */
export function Legend({ measure }) {
  const from = measure.kind === "signed" ? -1 : 0, cells = Array.from({ length: 15 }, (_, i) => from + (1 - from) * i / 14);
  const says = (end) => measure.key === "derivative" ? t("tokens." + end) + " " : "";
  return html`<span class="legend">${says("likelier")}${number(measure.low)}
    <span class="legend-cells" aria-hidden="true">${cells.map((x) => html`<i style=${{ background: tint(measure, x) }}></i>`)}</span>
    ${number(measure.high)} ${says("lesslikely")}</span>`;
}

/** The room of a small image in the text of its tile. */
const ROOM = "\u00a0".repeat(6);

/**
 * shownOf returns how people read the tokens: half characters as bytes, spaces where they would not be seen, an image in words.
 * @param {RolloutTokens} answer @param {boolean} spaces all of them
 */
function shownOf(answer, spaces) {
  const bytes = answer.bytes || {};
  return (i) => {
    const raw = answer.texts[i], nth = imageAt(answer, i);
    if (nth >= 0) return i === shownAt(answer, i) ? ROOM + labelOf(answer, nth) : "";
    if (bytes[i]) return "‹" + (bytes[i].match(/../g) || []).join(" ") + "›";
    if (raw === "") return `‹${answer.tokens[i]}›`;
    const more = raw.length > mostShown ? `… +${raw.length - mostShown}` : "";
    const text = raw.slice(0, mostShown).replace(spaces ? / /g : / (?=\s|$)|(?<=\s) /g, "·");
    return plain(text.replace(/\t/g, "→")).replace(/\n/g, "⏎\n") + more;
  };
}

/** Text is the sequence in rows. @param {any} props */
function Text({ answer, run, of, measure, clipped, spaces, cursor, point, choose }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null)), lines = useRef(/** @type {Lines | null} */ (null));
  const [columns, setColumns] = useState(0);
  const [folded, setFolded] = useState(() => new Set());
  const blocks = useMemo(() => blocksOf(answer), [answer]);
  const layout = useMemo(() => columns ? rowsOf(blocks, shownOf(answer, spaces), columns, folded) : null, [blocks, answer, spaces, columns, folded]);
  useEffect(() => {
    const shown = new Lines(/** @type {HTMLElement} */ (place.current), { point, choose, resize: setColumns });
    lines.current = shown;
    setColumns(shown.columns());
    return () => shown.end();
  }, []);
  useEffect(() => {
    const shown = lines.current;
    if (!layout || !shown) return;
    const first = !shown.look, cut = new Set(clipped || []);
    shown.show(layout, {
      head: (row) => headOf(answer, row.block, folded.has(row.block.from), () => setFolded((before) => {
        const after = new Set(before);
        if (!after.delete(row.block.from)) after.add(row.block.from);
        return after;
      })),
      paint: (element, i) => {
        const learned = of.mask[i], nth = imageAt(answer, i);
        if (nth >= 0) {
          element.className = "masked tile";
          drawIn(element, run, answer.images[nth].digest);
          return;
        }
        element.className = (learned ? "" : "masked ") + (answer.special[i] ? "special " : "") + (answer.bytes && answer.bytes[i] ? "half " : "") + (cut.has(i) ? "clipped" : "");
        if (learned && measure) element.style.backgroundColor = tint(measure, strength(measure, measure.at(i)));
      },
    });
    if (first) shown.move(cursor, true);
  }, [layout, measure, clipped]);
  useEffect(() => { if (lines.current && lines.current.look) lines.current.move(cursor); }, [cursor]);
  const press = (event) => {
    const shown = lines.current;
    if (!shown || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = {
      ArrowLeft: () => Math.max(0, cursor - 1), ArrowRight: () => Math.min(of.tokens.length - 1, behind(answer, cursor)),
      ArrowUp: () => shown.beside(cursor, -1), ArrowDown: () => shown.beside(cursor, 1),
      Home: () => 0, End: () => of.tokens.length - 1,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    point(null);
    choose(to());
  };
  return html`<div ref=${place} class="lines" tabindex="0" role="group" aria-label=${t("tokens.text")} onKeyDown=${press}></div>`;
}

/**
 * headOf makes the row above a block, which folds it.
 * @param {RolloutTokens} answer @param {Block} block @param {boolean} folded @param {() => void} fold
 */
function headOf(answer, block, folded, fold) {
  const head = document.createElement("button"), role = t("tokens.role." + (block.role || "none"));
  head.className = "line head in-" + (block.role || "none");
  const calls = block.role === "assistant" ? saidIn(answer, block, answer.texts.slice(block.from, block.to).join("")).flatMap((p) => p.name ? [p.name] : []) : [];
  head.textContent = `${folded ? "▸" : "▾"} ${role} · ${lengthOf(answer, block)}` +
    (calls.length ? " · " + t("tokens.calls", { names: plain(calls.join(", ")) }) : "");
  head.dataset.block = String(block.from);
  head.setAttribute("aria-expanded", String(!folded));
  head.addEventListener("click", fold);
  return head;
}

/** messageOf is what a role says in a block, without the template. @param {RolloutTokens} answer @param {Block} block */
function messageOf(answer, block) {
  const special = answer.special.slice(block.from, block.to), headed = block.role !== "think" && special.slice(0, 4).includes(true);
  const said = (text, i) => {
    const nth = imageAt(answer, block.from + i);
    if (nth >= 0) return block.from + i === shownAt(answer, block.from + i) ? `[${t("image.name", { n: nth + 1 })}]` : "";
    return special[i] ? "" : text;
  };
  const whole = answer.texts.slice(block.from, block.to).map(said).join("");
  return headed ? whole.trimStart().replace(/^\w+\n/, "") : whole; // the template names the role
}

/** lengthOf counts the tokens of a block, and apart from them those of the template. @param {RolloutTokens} answer @param {Block} block */
function lengthOf(answer, block) {
  const frames = framesIn(answer, block), own = block.to - block.from - frames;
  return [own || !frames ? t("tokens.count", { n: own }) : "", frames ? t("tokens.frames", { n: frames }) : ""].filter(Boolean).join(" + ");
}

/** Messages is the sequence as people read it: a box for each block, calls of tools as their arguments. @param {{answer: RolloutTokens, run: string}} props */
function Messages({ answer, run }) {
  const blocks = useMemo(() => blocksOf(answer), [answer]);
  return html`<div class="messages">${blocks.map((block) => {
    const text = messageOf(answer, block);
    return html`<details open class=${"in-" + (block.role || "none")}>
      <summary>${t("tokens.role." + (block.role || "none"))} · ${lengthOf(answer, block)}</summary>
      ${saidIn(answer, block, text).map((part) => part.name === undefined
        ? html`<div class=${part.kind}><${FileText} text=${part.text} limit=${100000} /></div>`
        : html`<dl class="call"><dt>${t("tokens.call", { name: plain(part.name) })}</dt>
          ${(part.values || []).map(([name, value]) => html`<dd><b>${plain(name)}</b> <${FileText} text=${value} /></dd>`)}</dl>`)}
      <${Images} run=${run} of=${answer} from=${block.from} to=${block.to} />
    </details>`;
  })}</div>`;
}

/** The columns of the trace that the panel shows, with the streams of the optimizer step behind them. */
const columns = ["logprobs", "old_logprobs", "ref_logprobs", "teacher_logprobs", "advantages", "returns", "values", "entropies", "policy_weights"];
const ofUpdate = ["now_logprobs", "now_entropies", "now_divergences", "d_logprobs", "d_entropies", "d_divergences"];

/**
 * askAgain leads to Talk, which shows for each token of a new answer what else was likely.
 * @param {string} run @param {RolloutTokens} answer
 */
const askAgain = (run, answer) => href("talk", {
  run, version: answer.model_version, ask: answer.prompt, shade: 1, temperature: answer.temperature || null,
  system: blocksOf(answer).filter((block) => block.role === "system").map((block) => messageOf(answer, block).trim()).join("\n") || null,
});

/** Panel has all that is known of a token. @param {any} props */
function Panel({ answer, of, update, token, run }) {
  const raw = answer.texts[token] ?? "", half = answer.bytes && answer.bytes[token];
  const bytes = half || [...new TextEncoder().encode(raw.slice(0, 64))].map((b) => b.toString(16).padStart(2, "0")).join("");
  const s = of.streams, u = update ? update.streams : {}, before = trainerLogprobs(of) || s.logprobs, now = u.now_logprobs;
  const rows = [
    ...columns.filter((name) => s[name]).map((name) => [name, String(s[name][token])]),
    ...ofUpdate.filter((name) => u[name]).map((name) => [name, String(u[name][token])]),
  ];
  const derived = [
    s.logprobs && ["probability", (100 * Math.exp(s.logprobs[token])).toPrecision(4) + " %"],
    now && before && ["factor", Math.exp(now[token] - before[token]).toPrecision(5)],
    s.ref_logprobs && (now || before) && ["kl", ((now || before)[token] - s.ref_logprobs[token]).toPrecision(4)],
  ].filter(Boolean);
  const advantage = s.advantages ? s.advantages[token] : 0, derivative = u.d_logprobs ? u.d_logprobs[token] : NaN;
  const fate = !of.mask[token] ? "masked" : Number.isNaN(derivative) ? "learned" : derivative < 0 ? "raised" : derivative > 0 ? "lowered" : advantage ? "cut" : "still";
  const line = (label, value, name = "") => html`<tr title=${name}><th scope="row">${label}</th><td class=${name}>${value}</td></tr>`;
  return html`<aside class="panel token-panel" tabindex="0" aria-label=${t("tokens.panel")}>
    <p class="panel-text">${half ? "‹" + half + "›" : plain(JSON.stringify(raw.slice(0, 200)))}</p>
    <p class=${"fate " + fate}>${t("tokens.fate." + fate)}</p>
    <${Images} run=${run} of=${answer} from=${token} to=${token + 1} />
    <table><tbody>
      ${line(t("tokens.index"), `${token} / ${of.tokens.length}`)}
      ${line(t("tokens.id"), String(of.tokens[token]))}
      ${line(t("tokens.bytes"), bytes.replace(/../g, "$& ") + (raw.length > 64 ? "…" : ""), "mono")}
      ${derived.map((d) => line(t("tokens.of." + d[0]), d[1]))}
      ${rows.map(([name, value]) => line(t("tokens.of." + name), value, name))}
    </tbody></table>
    ${run && s.logprobs && html`<p class="muted">${t("tokens.others")}</p>
      <p><a href=${askAgain(run, answer)}>${t("answer.again")}</a></p>`}
  </aside>`;
}

/** Chart draws the number by position: for each pixel its lowest and highest. @param {any} props */
function Chart({ of, measure, cursor, point, choose }) {
  const [place, width] = useSize(), theme = useTheme();
  const n = of.tokens.length;
  const ends = useMemo(() => {
    if (measure.key === "probability") return [0, 1];
    let low = measure.kind === "signed" ? 0 : Math.min(measure.low, measure.high), high = low;
    for (let i = 0; i < n; i++) {
      const value = measure.at(i);
      if (of.mask[i] && Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
    return low === high ? [low, low + 1] : [low, high];
  }, [measure, of]);
  useEffect(() => { if (width) draw(place.current, of, measure, ends, cursor); }, [width, measure, ends, cursor, of, theme]);
  const at = (event) => Math.max(0, Math.min(n - 1, Math.floor(event.offsetX / Math.max(1, width) * n)));
  return html`<figure class="token-chart">
    <figcaption><span>${number(ends[1])}</span><span>${t("tokens.by." + measure.key)}</span><span>${number(ends[0])}</span></figcaption>
    <canvas ref=${place} aria-hidden="true" onMouseMove=${(e) => point(at(e))} onMouseLeave=${() => point(null)}
      onClick=${(e) => choose(at(e))}></canvas>
  </figure>`;
}

/**
 * @param {HTMLCanvasElement} canvas @param {Numbered} of @param {Measure} measure @param {number[]} ends @param {number} cursor
 */
function draw(canvas, of, measure, [low, high], cursor) {
  const dots = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, n = of.tokens.length;
  canvas.width = width * dots;
  canvas.height = height * dots;
  const c = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const [ink, accent, below, above] = ["--ink", "--accent", "--below", "--above"].map(color);
  c.scale(dots, dots);
  const y = (value) => 2 + (height - 4) * (1 - (Math.max(low, Math.min(high, value)) - low) / (high - low));
  const zero = y(measure.kind === "signed" ? 0 : low);
  const bars = Math.min(n, Math.floor(width)), wide = width / bars;
  for (let bar = 0; bar < bars; bar++) {
    const x = bar * wide, end = Math.floor((bar + 1) * n / bars);
    let least = Infinity, most = -Infinity, masked = true;
    for (let i = Math.floor(bar * n / bars); i < end; i++) {
      if (!of.mask[i]) continue;
      masked = false;
      const value = measure.at(i);
      if (value < least) least = value;
      if (value > most) most = value;
    }
    if (masked) {
      c.globalAlpha = 0.08;
      c.fillStyle = ink;
      c.fillRect(x, 0, wide, height);
      c.globalAlpha = 1;
    } else if (least <= most) {
      for (const value of least < 0 && most > 0 ? [least, most] : [Math.abs(least) > Math.abs(most) ? least : most]) {
        const top = y(value);
        c.fillStyle = measure.kind === "amount" ? accent : value < 0 ? below : above;
        c.fillRect(x, Math.min(top, zero) - 0.5, Math.max(1, wide - (wide > 3 ? 1 : 0)), Math.abs(top - zero) + 1);
      }
    }
  }
  c.globalAlpha = 0.4;
  c.fillStyle = ink;
  c.fillRect(0, zero - 0.5, width, 1);
  c.globalAlpha = 1;
  c.fillRect((cursor + 0.5) / n * width - 0.5, 0, 1.5, height);
}
