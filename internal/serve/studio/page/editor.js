// An editor for configurations: a textarea with the numbers of its lines, marks where the check found something, and a list of what may be written.
// It is a textarea, not an editor of its own making: selection, undo, input of Chinese, screen readers and spell checkers are the browser's.

import { html, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { plain } from "./parts.js";
import { nodeAt, proposals } from "./schema.js";
import { context, entries, painted, reader } from "./yaml.js";
import { local, localDoc, t } from "./words.js";

const LINE = 20, PAD = 8, MOST = 12; // pixels of a line and around the text; proposals at once

/** @typedef {{at: {path: string, word: string, value: boolean}, all: {name: string, doc: string, type: string, section: boolean}[], chosen: number, left: number, top: number}} Proposed */

/**
 * @param {{text: string, onText: (text: string) => void, onRun: () => void, problems: Problem[], schema: import("./schema.js").Node | null,
 *   area: {current: HTMLTextAreaElement | null}}} props
 */
export function Editor({ text, onText, onRun, problems, schema, area }) {
  const layer = useRef(/** @type {any} */ (null)), gutter = useRef(/** @type {any} */ (null));
  const [open, propose] = useState(/** @type {Proposed | null} */ (null));
  const lines = text.split("\n");
  const scrolled = () => {
    const { scrollLeft, scrollTop } = /** @type {HTMLTextAreaElement} */ (area.current);
    layer.current.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
    gutter.current.style.transform = `translateY(${-scrollTop}px)`;
    propose(null);
  };
  const look = (/** @type {boolean} */ asked) => {
    const box = /** @type {HTMLTextAreaElement} */ (area.current), end = box.selectionEnd;
    const at = schema && box.selectionStart === end && /^\s*(?:[,}\]]|#|$)/.test(box.value.slice(end).split("\n")[0]) ? context(box.value, end) : null;
    if (!at || !schema || !asked && !at.word && !at.value) return propose(null);
    const written = new Set(entries(box.value).filter((e) => e.path.startsWith(at.path ? at.path + "." : "")).map((e) => e.path.slice(at.path ? at.path.length + 1 : 0).split(".")[0]));
    const all = proposals(schema, at, written, reader(box.value)).slice(0, MOST);
    if (!all.length || all.length === 1 && all[0].name === at.word) return propose(null);
    const before = box.value.slice(0, end - at.word.length), row = before.split("\n").length - 1;
    const left = PAD + widthOf(before.slice(before.lastIndexOf("\n") + 1), box) - box.scrollLeft, top = PAD + (row + 1) * LINE - box.scrollTop;
    propose({ at, all, chosen: asked ? 0 : -1, left: Math.max(0, Math.min(left, box.clientWidth - 240)), top });
  };
  const insert = (/** @type {string} */ added, back = 0) => {
    const box = /** @type {HTMLTextAreaElement} */ (area.current);
    box.focus();
    if (back) box.setSelectionRange(box.selectionEnd - back, box.selectionEnd);
    if (!document.execCommand("insertText", false, added)) { // which undo knows
      box.setRangeText(added, box.selectionStart, box.selectionEnd, "end");
      onText(box.value);
    }
  };
  const take = (/** @type {number} */ i) => {
    if (!open) return;
    const { at, all } = open, one = all[i];
    insert(one.name + (at.value ? "" : one.section ? ":" : ": "), at.word.length);
    propose(null);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const box = /** @type {HTMLTextAreaElement} */ (event.currentTarget);
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onRun();
    else if (event.key === " " && event.ctrlKey) look(true);
    else if (open && move) propose({ ...open, chosen: (open.chosen + move + open.all.length + (open.chosen < 0 && move < 0 ? 1 : 0)) % open.all.length });
    else if (open && event.key === "Escape") { propose(null); event.stopPropagation(); }
    else if (open && event.key === "Tab") take(Math.max(0, open.chosen));
    else if (open && event.key === "Enter" && open.chosen >= 0) take(open.chosen);
    else if (event.key === "Enter" && box.selectionStart === box.selectionEnd && !event.shiftKey && !event.isComposing) {
      const line = box.value.slice(0, box.selectionStart).split("\n").pop() ?? "", indent = /^\s*(- )?/.exec(line)?.[0].length ?? 0;
      insert("\n" + " ".repeat(indent + (/:\s*$/.test(line) ? 2 : 0)));
    } else return;
    event.preventDefault();
  };
  /** @type {Map<number, Problem>} */
  const bad = new Map();
  for (const p of problems) if (p.line > 0 && p.line <= lines.length && !bad.has(p.line)) bad.set(p.line, p);
  return html`<div class="editor">
    <div class="gutter" aria-hidden="true"><div ref=${gutter}>${lines.map((_, i) => html`<i class=${bad.has(i + 1) ? (bad.get(i + 1)?.warning ? "warned" : "wrong") : ""}>${i + 1}</i>`)}</div></div>
    <div class="sheet">
      <div class="layer" aria-hidden="true"><div ref=${layer}><${Painted} lines=${lines} />${[...bad].map(([line, p]) => html`<div key=${line} class=${p.warning ? "mark warned" : "mark wrong"} data-line=${line} style=${{ top: PAD + (line - 1) * LINE + "px" }}>
        ${mark(lines[line - 1], p)}<em>${plain(local(p.text))}</em></div>`)}</div></div>
      <textarea ref=${area} value=${text} spellcheck=${false} autocapitalize="off" autocomplete="off" wrap="off" aria-label=${t("config.text")} aria-describedby="problems"
        aria-autocomplete="list" aria-haspopup="listbox" aria-controls=${open ? "proposals" : undefined} aria-activedescendant=${open && open.chosen >= 0 ? "proposal" + open.chosen : undefined}
        onInput=${(/** @type {any} */ e) => { onText(e.target.value); look(false); }} onKeyDown=${pressed} onScroll=${scrolled} onClick=${() => propose(null)} onBlur=${() => propose(null)}></textarea>
      ${open && html`<ul id="proposals" class="proposals" role="listbox" aria-label=${t("config.proposals")} style=${{ left: open.left + "px", top: open.top + "px" }}>
        ${open.all.map((one, i) => html`<li key=${one.name} id=${"proposal" + i} role="option" aria-selected=${i === open.chosen}
          onMouseDown=${(/** @type {any} */ e) => { e.preventDefault(); take(i); }}><b>${one.name}</b>
          <span class="muted">${local(one.type)}</span>
          ${(i === open.chosen || open.chosen < 0 && i === 0) && one.doc && html`<small>${localDoc(one.doc)}</small>`}</li>`)}
      </ul>`}
    </div>
    <${Doc} text=${text} area=${area} schema=${schema} />
  </div>`;
}

/** Painted is the text in colours, below that of the textarea, which is transparent. @param {{lines: string[]}} props */
const Painted = ({ lines }) => html`<pre class="painted">${lines.map((line) => html`${painted(line).map(({ kind, text }) =>
  kind ? html`<i class=${kind}>${text}</i>` : text)}${"\n"}`)}</pre>`;

/** mark underlines what is wrong in a line: the key that is meant, or all of it. @param {string} line @param {Problem} p */
function mark(line, p) {
  const name = p.key.split(".").pop() || "";
  let from = name && !/^\d+$/.test(name) ? line.indexOf(name, Math.max(0, p.column - 1 < line.length && line.startsWith(name, p.column - 1) ? p.column - 1 : 0)) : -1, to = from + name.length;
  if (from < 0) [from, to] = [line.search(/\S|$/), line.trimEnd().length];
  return html`<span>${line.slice(0, from)}</span><u>${line.slice(from, to)}</u><span>${line.slice(to)}</span>`;
}

/** Doc shows what the key means on whose line the caret is. @param {{text: string, area: {current: HTMLTextAreaElement | null}, schema: import("./schema.js").Node | null}} props */
function Doc({ text, area, schema }) {
  const [line, set] = useState(-1);
  useLayoutEffect(() => {
    const moved = () => { if (area.current && document.activeElement === area.current) set(area.current.value.slice(0, area.current.selectionStart).split("\n").length - 1); };
    document.addEventListener("selectionchange", moved);
    return () => document.removeEventListener("selectionchange", moved);
  }, []);
  const entry = schema && line >= 0 ? entries(text).find((e) => e.line === line) : undefined;
  const key = entry && schema ? nodeAt(schema, entry.path, reader(text))?.key : undefined;
  const usual = key?.default && t("config.default", { value: key.default });
  const limits = [local(key?.type ?? ""), usual, local(key?.limits ?? "")].filter(Boolean).join(", ");
  return html`<p class="muted doc">${key ? html`<b class="mono">${key.key}</b> ${limits}. ${localDoc(key.doc)}` : t("config.hint")}</p>`;
}

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;

/** widthOf measures a text as the textarea shows it. @param {string} text @param {HTMLElement} box */
function widthOf(text, box) {
  ruler = ruler || document.createElement("canvas").getContext("2d");
  if (!ruler) return 0;
  ruler.font = getComputedStyle(box).font;
  return ruler.measureText(text).width;
}
