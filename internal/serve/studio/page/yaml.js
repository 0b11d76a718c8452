// Where the keys of a configuration stand in its text, and how a form changes one. This module touches no page: a test runs it alone.
// It reads what people write in configurations: blocks by indentation, lists with "- ", and {…} and […] within a line. The server checks the text.

/** @typedef {{path: string, line: number, from: number, to: number, indent: number, flow: boolean}} Entry the value of a key stands at from … to of the text */

/** @param {string} path @param {string | number} name */
const join = (path, name) => path === "" ? String(name) : `${path}.${name}`;

/**
 * entries returns the keys of a text, in order.
 * @param {string} text
 * @returns {Entry[]}
 */
export function entries(text) {
  /** @type {Entry[]} */
  const found = [];
  /** @type {{indent: number, path: string, items: number}[]} */
  let open = [{ indent: -1, path: "", items: 0 }];
  let at = 0, skip = -1; // the indentation of a key whose text runs over the lines below it
  text.split("\n").forEach((whole, line) => {
    const begin = at;
    at += whole.length + 1;
    const content = whole.slice(0, commentAt(whole));
    let indent = content.search(/\S/);
    if (indent < 0) return;
    if (skip >= 0 && indent > skip) return;
    skip = -1;
    for (let item = /^-(\s+|$)/.exec(content.slice(indent)); item; item = /^-(\s+|$)/.exec(content.slice(indent))) {
      while (open.length > 1 && open[open.length - 1].indent > indent || isItem(open, indent)) open.pop();
      const list = open[open.length - 1];
      open.push({ indent, path: join(list.path, list.items++), items: -1 });
      indent += item[0].length;
      if (indent >= content.length) return;
    }
    const key = /^("[^"]*"|'[^']*'|[^\s#:{}[\],"'][^:{}[\],]*?)\s*:(\s+|$)/.exec(content.slice(indent));
    if (!key) {
      if (content[indent] === "{") flow(text, begin + indent, open[open.length - 1].path, line, found);
      return;
    }
    while (open.length > 1 && (open[open.length - 1].indent > indent || open[open.length - 1].indent === indent && open[open.length - 1].items >= 0)) open.pop();
    const path = join(open[open.length - 1].path, key[1].replace(/^["']|["']$/g, ""));
    const from = begin + indent + key[0].length, value = content.slice(indent + key[0].length).trimEnd();
    found.push({ path, line, from: value ? from : begin + indent + key[0].trimEnd().length, to: value ? from + value.length : begin + indent + key[0].trimEnd().length, indent, flow: false });
    if (/^[|>]/.test(value)) skip = indent;
    if (value[0] === "{" || value[0] === "[") flow(text, from, path, line, found);
    if (!value) open.push({ indent, path, items: 0 });
  });
  return found;
}

/** isItem reports whether the last thing open is an earlier item of the list at an indentation. @param {{indent: number, items: number}[]} open @param {number} indent */
const isItem = (open, indent) => open[open.length - 1].indent === indent && open[open.length - 1].items < 0;

/** commentAt returns where the comment of a line begins, or its length. @param {string} line */
function commentAt(line) {
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    if (quote) { if (line[i] === quote) quote = ""; }
    else if ((line[i] === '"' || line[i] === "'") && /[\s:,{[]/.test(line[i - 1] ?? " ")) quote = line[i];
    else if (line[i] === "#" && (i === 0 || /\s/.test(line[i - 1]))) return i;
  }
  return line.length;
}

const QUOTED = /("(?:[^"\\]|\\.)*"|'[^']*'|\$\{[^}]*\})/, NAME = /([\w.-]+)(?=\s*:(?:\s|$))/;
const NUMBER = /((?<![\w.-])(?:[-+]?\d[\d_]*(?:\.\d*)?(?:e[-+]?\d+)?|true|false|null|~)(?=[\s,}\]]|$))/;
const WORD = new RegExp([QUOTED, NAME, NUMBER].map((of) => of.source).join("|"), "gi");

/** @typedef {{kind: "" | "key" | "quoted" | "number" | "comment", text: string}} Painted */

/**
 * painted cuts a line into its keys, quoted texts, numbers and comment, and what is between them.
 * @param {string} line
 * @returns {Painted[]}
 */
export function painted(line) {
  /** @type {Painted[]} */
  const parts = [];
  const add = (/** @type {Painted["kind"]} */ kind, /** @type {string} */ text) => { if (text) parts.push({ kind, text }); };
  const end = commentAt(line);
  let at = 0;
  for (const found of line.slice(0, end).matchAll(WORD)) {
    add("", line.slice(at, found.index));
    add(found[2] || /^\s*:(\s|$)/.test(line.slice(found.index + found[0].length, end)) ? "key" : found[1] ? "quoted" : "number", found[0]);
    at = found.index + found[0].length;
  }
  add("", line.slice(at, end));
  add("comment", line.slice(end));
  return parts;
}

/**
 * flow finds the keys of a mapping or list in a line that begins at a place of the text, and returns where it ends.
 * @param {string} text @param {number} at @param {string} path @param {number} line @param {Entry[]} found
 * @returns {number}
 */
function flow(text, at, path, line, found) {
  const list = text[at] === "[";
  const stop = text.indexOf("\n", at), end = stop < 0 ? text.length : stop;
  let items = 0;
  for (at++; at < end;) {
    const rest = text.slice(at, end), gap = /^[\s,]+/.exec(rest);
    if (gap) { at += gap[0].length; continue; }
    if (rest[0] === "}" || rest[0] === "]") return at + 1;
    let to = path;
    if (list) to = join(path, items++);
    else {
      const key = /^("[^"]*"|'[^']*'|[^\s:{}[\],]+)(\s*:\s*)?/.exec(rest);
      if (!key) return at + 1;
      at += key[0].length;
      if (!key[2]) continue;
      to = join(path, key[1].replace(/^["']|["']$/g, ""));
    }
    const entry = { path: to, line, from: at, to: at, indent: -1, flow: true };
    if (!list) found.push(entry);
    if (text[at] === "{" || text[at] === "[") {
      at = entry.to = flow(text, at, to, line, found);
      continue;
    }
    const value = /^("(?:[^"\\]|\\.)*"|'[^']*'|\$\{[^}]*\}|[^,{}[\]])*/.exec(text.slice(at, end));
    entry.to = at + (value ? value[0].trimEnd().length : 0);
    at += value ? value[0].length : 0;
  }
  return at;
}

/** valueOf is the text of a value without its quotes. @param {string} text @param {Entry} entry */
export function valueOf(text, entry) {
  const value = text.slice(entry.from, entry.to);
  if (/^".*"$/s.test(value)) { try { return JSON.parse(value); } catch { return value; } }
  return /^'.*'$/s.test(value) ? value.slice(1, -1).replaceAll("''", "'") : value;
}

/** reader returns the value of a text at a path, "" if there is none. @param {string} text @returns {(path: string) => string} */
export function reader(text) {
  const all = entries(text);
  return (path) => { const e = all.find((x) => x.path === path); return e ? valueOf(text, e) : ""; };
}

/** quoted writes a value so that YAML reads it back as it is. @param {string} value */
const quoted = (value) => /^[\w./$~+-][\w./$~+:\\-]*$/.test(value) && !value.endsWith(":") ? value : JSON.stringify(value);

/**
 * changed returns a text in which a key has a value; where there is no such key it comes into its section. An empty value takes the key out.
 * @param {string} text @param {string} path @param {string} value
 * @returns {string}
 */
export function changed(text, path, value) {
  const all = entries(text), entry = all.find((e) => e.path === path);
  if (entry) {
    if (value === "") return without(text, entry);
    return text.slice(0, entry.from) + (entry.from === entry.to && text[entry.from - 1] === ":" ? " " : "") + quoted(value) + text.slice(entry.to);
  }
  if (value === "") return text;
  const names = path.split(".");
  for (let n = names.length - 1; n > 0; n--) {
    const section = all.find((e) => e.path === names.slice(0, n).join("."));
    if (!section) continue;
    const rest = names.slice(n), flowing = text[section.from] === "{";
    if (flowing) {
      const inside = text.slice(section.from + 1, section.to - 1).trim();
      const added = rest.slice(0, -1).map((name) => name + ": {").join("") + `${rest[rest.length - 1]}: ${quoted(value)}` + "}".repeat(rest.length - 1);
      return text.slice(0, section.to - 1) + (inside ? ", " : "") + added + text.slice(section.to - 1);
    }
    if (section.from !== section.to) return text; // a value stands where the section should be
    const child = all.find((e) => !e.flow && e.path.startsWith(section.path + ".") && e.line > section.line);
    const indent = child ? child.indent : section.indent + 2;
    const end = text.indexOf("\n", section.to), after = end < 0 ? text.length : end + 1;
    return text.slice(0, after) + (end < 0 ? "\n" : "") + block(rest, value, indent) + text.slice(after);
  }
  return text + (text === "" || text.endsWith("\n") ? "" : "\n") + block(names, value, 0);
}

/** block writes nested keys, one a line. @param {string[]} names @param {string} value @param {number} indent */
const block = (names, value, indent) => names.map((name, i) => " ".repeat(indent + 2 * i) + name + ":" + (i === names.length - 1 ? " " + quoted(value) : "") + "\n").join("");

/** without returns a text without a key. @param {string} text @param {Entry} entry */
function without(text, entry) {
  if (entry.flow) {
    const before = text.slice(0, entry.from).replace(/[^\s,{]+\s*:\s*$/, ""), after = text.slice(entry.to);
    return /,\s*$/.test(before) ? before.replace(/\s*,\s*$/, "") + after : before + after.replace(/^\s*,\s*/, "");
  }
  const begin = text.lastIndexOf("\n", entry.from - 1) + 1, end = text.indexOf("\n", entry.to);
  if (/^\s*- /.test(text.slice(begin, entry.from))) return text; // the first key of an item holds its dash
  return text.slice(0, begin) + (end < 0 ? "" : text.slice(end + 1));
}

/**
 * context tells what is being written at a place of the text: a key below a path, or the value of the key with a path; null if neither.
 * @param {string} text @param {number} at
 * @returns {{path: string, word: string, value: boolean} | null}
 */
export function context(text, at) {
  const begin = text.lastIndexOf("\n", at - 1) + 1, line = text.slice(begin, at);
  if (commentAt(line) < line.length) return null;
  const probe = "\u0001"; // stands for the word
  const value = /^(.*?[\w"'-]\s*:\s+)([^\s{}[\],]*)$/.exec(line);
  const key = /^((?:.*[{,])?\s*(?:-\s+)*)([\w-]*)$/.exec(line);
  const before = value ? value[1] : key ? key[1] : null, word = value ? value[2] : key ? key[2] : "";
  if (before === null || value && /^[|>"']/.test(word)) return null;
  const part = text.slice(0, begin) + before + (value ? probe : probe + ": 1");
  const last = entries(part).filter((e) => e.line === part.split("\n").length - 1);
  const entry = value ? last.find((e) => part.slice(e.from, e.to) === probe) : last.find((e) => e.path === probe || e.path.endsWith("." + probe));
  if (!entry) return null;
  return { path: value ? entry.path : entry.path.slice(0, Math.max(0, entry.path.length - 2)), word, value: !!value };
}
