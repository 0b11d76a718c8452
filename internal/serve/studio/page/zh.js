// Chinese for what the program itself says: sentences of the server, and descriptions of keys and templates. Only a Chinese page loads it.
// It touches no page: a test runs it alone. zh/sentences.js has a sentence by the format that Go's source has, zh/docs.js a description by
// the checksum of its English. What they lack stays English.
//
// A sentence is matched by comparing its words from left to right, once: no regular expression is made of it, and nothing is tried twice.

import { docs } from "./zh/docs.js";
import { labels, sentences } from "./zh/sentences.js";

const LONGEST = 8000; // characters of a text that is translated
const DEEPEST = 8; // texts in texts
const MOST = 40 * LONGEST; // characters that are looked at for one text, so that no text takes long
const HEAD = 4; // characters by which sentences are found
const STRONG = 10; // characters of words that only a sentence of the program has: "%s is %s" has fewer
const VERB = /%(?:\[(\d)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z%])/g;

/**
 * Format is a format of Go: words stand around the verbs, one more than these. weight: characters of the words; to: its Chinese.
 * @typedef {{words: string[], verbs: {n: number, kind: string}[], weight: number, to: Format | null}} Format
 */

/** formatOf takes a format of Go apart. @param {string} text @returns {Format} */
export function formatOf(text) {
  const words = [""], verbs = [];
  let end = 0;
  for (const found of text.matchAll(VERB)) {
    words[words.length - 1] += text.slice(end, found.index);
    end = found.index + found[0].length;
    if (found[2] === "%") {
      words[words.length - 1] += "%";
      continue;
    }
    verbs.push({ n: found[1] ? Number(found[1]) - 1 : verbs.length ? verbs[verbs.length - 1].n + 1 : 0, kind: found[2] });
    words.push("");
  }
  words[words.length - 1] += text.slice(end);
  return { words, verbs, weight: words.join("").length, to: null };
}

/** The formats that have verbs: by their first characters, and those that begin with a verb or are short. */
const byHead = /** @type {Map<string, Format[]>} */ (new Map()), headless = /** @type {Format[]} */ ([]);
for (const [from, to] of Object.entries(sentences)) {
  const format = formatOf(from);
  if (!format.verbs.length) continue;
  format.to = formatOf(to);
  const head = format.words[0].length < HEAD ? "" : format.words[0].slice(0, HEAD);
  if (!head) headless.push(format);
  else if (byHead.has(head)) byHead.get(head)?.push(format);
  else byHead.set(head, [format]);
}

/** closing returns where a text in quotes ends that begins at a place, or −1. @param {string} text @param {number} at */
function closing(text, at) {
  const quote = text[at];
  if (quote !== '"' && quote !== "`") return -1;
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === quote) return i + 1;
    if (text[i] === "\\" && quote === '"') i++;
  }
  return -1;
}

/**
 * partsIn returns what the verbs of a format stand for in a text, or null if it is another text.
 * @param {Format} format @param {string} text
 */
export function partsIn({ words, verbs }, text) {
  if (!text.startsWith(words[0])) return null;
  const parts = /** @type {string[]} */ ([]);
  let at = words[0].length;
  for (let i = 0; i < verbs.length; i++) {
    const { n, kind } = verbs[i], next = words[i + 1], isLast = i === verbs.length - 1;
    let end = at;
    if (kind === "q") end = closing(text, at);
    else if (kind === "d") while (end < text.length && (text[end] >= "0" && text[end] <= "9" || end === at && text[end] === "-")) end++;
    else end = isLast ? text.length - next.length : next ? text.indexOf(next, at) : -1;
    if (end < at || end === at && (kind === "d" || !words[0] && !i) || !text.startsWith(next, end)) return null;
    if (parts[n] !== undefined && parts[n] !== text.slice(at, end)) return null;
    parts[n] = text.slice(at, end);
    at = end + next.length;
  }
  return at === text.length ? parts : null;
}

/** divided cuts a text at a separator that stands in no quotes. @param {string} text @param {string} by */
function divided(text, by) {
  const out = [];
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"' || text[i] === "`") {
      const end = closing(text, i);
      if (end > 0) i = end - 1;
    } else if (text.startsWith(by, i)) {
      out.push(text.slice(from, i));
      from = i + by.length;
      i = from - 1;
    }
  }
  return [...out, text.slice(from)];
}

/** Where a text is cut that is no sentence, and what stands there in Chinese. */
const JOINTS = [["; ", "；"], [": ", "："], [", because ", "，因为"], [", ", "，"]];

let left = MOST;

/** isKnown reports whether parts are names or have Chinese. @param {string[]} parts @param {number} deep @returns {boolean} */
const isKnown = (parts, deep) => parts.every((part) => !part.includes(" ") || translated(part, deep + 1) !== part);

/** translated returns the Chinese of a text, or the text. @param {string} text @param {number} deep @returns {string} */
function translated(text, deep) {
  left -= text.length;
  if (!/[a-z]/.test(text) || deep > DEEPEST || left < 0) return text;
  if (Object.hasOwn(sentences, text)) return sentences[text];
  return filled(text, deep) ?? remarked(text, deep) ?? joined(text, deep) ?? text;
}

/** has reports whether a format has some characters in its words. @param {Format} format @param {string} some */
const has = (format, some) => format.words.some((words) => words.includes(some));

/** filled returns the Chinese of a text that has a format. @param {string} text @param {number} deep @returns {string | null} */
function filled(text, deep) {
  const several = divided(text, "; ").length > 1;
  let best = /** @type {Format | null} */ (null), parts = /** @type {string[]} */ ([]);
  for (const format of [...byHead.get(text.slice(0, HEAD)) ?? [], ...headless]) {
    const found = best && best.weight >= format.weight ? null : partsIn(format, text);
    const fits = found && (!several || has(format, "; ")) && (format.weight >= STRONG || isKnown(found, deep));
    if (fits) [best, parts] = [format, found];
  }
  if (!best || !best.to) return null;
  const { words, verbs } = best.to, both = text.includes(" and ") && !has(best, " and ") ? pair(text, deep) : null;
  const part = (/** @type {{n: number, kind: string}} */ { n, kind }) => kind === "q" ? parts[n] : translated(parts[n], deep + 1);
  return both ?? words[0] + verbs.map((verb, i) => part(verb) + words[i + 1]).join("");
}

/**
 * pair returns the Chinese of two texts with "and" between them, if both have one.
 * @param {string} text @param {number} deep @returns {string | null}
 */
function pair(text, deep) {
  const all = divided(text, " and "), done = all.map((part) => translated(part, deep + 1));
  return all.length === 2 && done.every((part, i) => part !== all[i]) ? done[0] + (/[!-~]$/.test(done[0]) ? " 且" : "且") + done[1] : null;
}

/**
 * remarked returns the Chinese of a text that begins in the middle of another, or ends with a remark in brackets.
 * @param {string} text @param {number} deep @returns {string | null}
 */
function remarked(text, deep) {
  const [lead] = /^[,; ]*/.exec(text) ?? [""], at = text.indexOf(" (");
  if (lead) {
    const rest = text.slice(lead.length), done = translated(rest, deep + 1);
    return done === rest ? null : (({ ",": "，", ";": "；" })[lead.trim()] ?? "") + done;
  }
  if (at < 1 || !text.endsWith(")")) return null;
  const before = text.slice(0, at), remark = text.slice(at + 2, -1), done = [translated(before, deep + 1), translated(remark, deep + 1)];
  return done[0] === before && done[1] === remark ? null : `${done[0]}（${done[1]}）`;
}

/**
 * joined returns the Chinese of a text of several parts, if one of them has some.
 * @param {string} text @param {number} deep @returns {string | null}
 */
function joined(text, deep) {
  for (const [by, join] of JOINTS) {
    const all = divided(text, by);
    if (all.length < 2) continue;
    const done = all.map((part) => translated(part, deep + 1)), isDone = (/** @type {number} */ i) => done[i] !== all[i];
    if (!done.some((_, i) => isDone(i))) continue;
    return done.reduce((out, part, i) => {
      if (by === ": " ? !isDone(i) || !isDone(i - 1) : by === ", " && !isDone(i)) return out + by + part; // as "file.yaml:3: key: " stays
      return out + join + (by.length > 2 && /^[!-~]/.test(part) ? " " : "") + part;
    });
  }
  return text.includes(" and ") ? pair(text, deep) : null;
}

/** What was translated last, because a page is drawn again and again. @type {Map<string, string>} */
const known = new Map();

/** sentence returns the Chinese of what the program says, or what it says. @param {string} text */
export function sentence(text) {
  if (text.length > LONGEST) return text;
  const before = known.get(text);
  if (before !== undefined) return before;
  if (known.size > 500) known.clear();
  left = MOST;
  const out = /\n| {2}/.test(text) ? text.split("\n").map(line).join("\n") : translated(text, 0);
  known.set(text, out);
  return out;
}

/** line translates a line of a table: its cells keep their places. @param {string} text */
function line(text) {
  const [margin] = /^ */.exec(text) ?? [""];
  return margin + text.slice(margin.length).split(/( {2,})/).map((cell, i, cells) => {
    if (i % 2 === 0) return cellOf(cell);
    return " ".repeat(Math.max(2, cell.length + cells[i - 1].length - width(cellOf(cells[i - 1]))));
  }).join("");
}

/** cellOf translates a cell: a label, perhaps with a remark in brackets, or a sentence. @param {string} cell */
function cellOf(cell) {
  const at = cell.indexOf(" ("), label = at < 0 ? cell : cell.slice(0, at);
  if (!Object.hasOwn(labels, label) || at >= 0 && !cell.endsWith(")")) return translated(cell, 0);
  return labels[label] + (at < 0 ? "" : `（${translated(cell.slice(at + 2, -1), 0)}）`);
}

/** width counts the columns of a text: a Chinese character has two. @param {string} text */
const width = (text) => [...text].reduce((n, c) => n + (c >= "⺀" ? 2 : 1), 0);

/** checksum is FNV-1a, as the test in Go has it. @param {string} text */
export function checksum(text) {
  let sum = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) sum = Math.imul(sum ^ byte, 0x01000193) >>> 0;
  return sum.toString(16).padStart(8, "0");
}

/** The descriptions by the checksums of their English; before it stands a key that has the description. */
const bySum = new Map(Object.entries(docs).map(([key, text]) => [key.split(" ")[1], text]));

/** description returns the Chinese of a key's description, or the description. @param {string} text */
export const description = (text) => bySum.get(checksum(text)) ?? text;
