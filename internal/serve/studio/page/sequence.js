// The tokens of a sequence as rows of equal height, so that a page shows those in sight alone. This module touches no page.

/**
 * @typedef {{role: string, from: number, to: number}} Block what one role says, and the tokens of the template before it
 * @typedef {{token: number, text: string}} Piece a token, or what of it is in a row
 * @typedef {{block: Block, pieces: Piece[]|null}} Row null: the head of the block
 */

/**
 * blocksOf groups tokens by role. Tokens without a role, which a template adds, belong to the block that they begin; the last ones to
 * the block that they end.
 * @param {{tokens: number[], roles?: string[]|null, prompt_tokens: number}} answer
 * @returns {Block[]}
 */
export function blocksOf(answer) {
  const n = answer.tokens.length, roles = answer.roles;
  if (!n) return [];
  if (!roles || !roles.some(Boolean)) {
    const cut = Math.min(answer.prompt_tokens, n);
    return [{ role: "prompt", from: 0, to: cut }, { role: "answer", from: cut, to: n }].filter((b) => b.from < b.to);
  }
  /** @type {Block[]} */
  const blocks = [];
  for (let i = 0; i < n; i++) {
    const last = blocks[blocks.length - 1];
    if (last && (last.role === roles[i] || !last.role)) {
      last.to = i + 1;
      last.role = roles[i] || last.role;
    } else blocks.push({ role: roles[i], from: i, to: i + 1 });
  }
  const last = blocks[blocks.length - 1];
  if (!last.role && blocks.length > 1) {
    blocks.pop();
    blocks[blocks.length - 1].to = n;
  }
  return blocks;
}

/**
 * imageAt returns which image of an answer a token belongs to, from 0; −1 for a token of text.
 * @param {{images?: {at: number, len: number}[]}} answer @param {number} token
 */
export const imageAt = ({ images }, token) => images ? images.findIndex(({ at, len }) => token >= at && token < at + len) : -1;

/**
 * shownAt returns the token that stands for a token on the page: all tokens of an image are shown as its first one.
 * @param {{images?: {at: number, len: number}[]}} answer @param {number} token
 */
export function shownAt(answer, token) {
  const nth = imageAt(answer, token);
  return nth < 0 || !answer.images ? token : answer.images[nth].at;
}

/**
 * behind returns the token behind one, or behind the image that it belongs to.
 * @param {{images?: {at: number, len: number}[]}} answer @param {number} token
 */
export function behind(answer, token) {
  const nth = imageAt(answer, token);
  return nth < 0 || !answer.images ? token + 1 : answer.images[nth].at + answer.images[nth].len;
}

/** What templates call a role, in the head of a message. */
const HEADER = /^\s*(system|developer|user|human|assistant|model|gpt|tool|ipython|function|observation|environment)\s*$/i;

/**
 * framesIn returns how many tokens of a block a template has added: its markers, and the name of the role behind the first one. What the
 * model sampled is its own.
 * @param {{texts: string[], special: boolean[], mask: boolean[], roles?: string[] | null, images?: {at: number, len: number}[]}} answer
 * @param {Block} block
 */
export function framesIn(answer, { role, from, to }) {
  const { texts, special, mask, roles } = answer;
  const known = !!role && !!roles && roles.some(Boolean);
  let count = 0;
  for (let i = from; i < to; i++) {
    if (mask[i] || imageAt(answer, i) >= 0) continue;
    if (!special[i]) {
      count += Number(known && !roles[i]);
      continue;
    }
    count++;
    let name = "", end = i + 1;
    while (end < to && !special[end] && !mask[end] && !name.includes("\n")) name += texts[end++];
    if (!HEADER.test(name)) continue;
    count += end - i - 1;
    i = end - 1;
  }
  return count;
}

/**
 * cellsOf returns how many columns of a monospaced font a character takes.
 * @param {number} code
 */
function cellsOf(code) {
  if (code < 0x300) return 1;
  if (code >= 0x1100 && (code <= 0x115f || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) || code >= 0x1f000)) return 2;
  return /\p{M}/u.test(String.fromCodePoint(code)) ? 0 : 1;
}

/**
 * rowsOf lays tokens out in rows of this many columns. shown returns a token as people read it; a line break in it ends the row.
 * A token with an empty text is shown with the one before it. A row breaks before a token that does not fit, and inside one that is wider
 * than a row. at[i] is the row where token i begins, or that of its folded block.
 * @param {Block[]} blocks @param {(token: number) => string} shown @param {number} columns @param {Set<number>} folded blocks by their first token
 * @returns {{rows: Row[], at: Int32Array}}
 */
export function rowsOf(blocks, shown, columns, folded) {
  /** @type {Row[]} */
  const rows = [];
  const at = new Int32Array(blocks.length ? blocks[blocks.length - 1].to : 0);
  for (const block of blocks) {
    rows.push({ block, pieces: null });
    if (folded.has(block.from)) {
      at.fill(rows.length - 1, block.from, block.to);
      continue;
    }
    /** @type {Piece[]} */
    let pieces = [];
    let used = 0;
    const end = () => {
      rows.push({ block, pieces });
      pieces = [];
      used = 0;
    };
    for (let token = block.from; token < block.to; token++) {
      const text = shown(token), wide = widthOf(text);
      if (text === "") {
        at[token] = rows.length;
        continue;
      }
      if (used && used + wide > columns) end();
      at[token] = rows.length;
      let piece = "";
      if (wide <= columns && !text.includes("\n")) {
        pieces.push({ token, text });
        used += wide;
        continue;
      }
      for (const char of text) {
        const cells = char === "\n" ? 0 : cellsOf(char.codePointAt(0) || 0);
        if (char === "\n" || used + cells > columns) {
          if (piece) pieces.push({ token, text: piece });
          piece = "";
          end();
        }
        if (char !== "\n") piece += char;
        used += cells;
      }
      if (piece) pieces.push({ token, text: piece });
    }
    if (pieces.length) end();
  }
  return { rows, at };
}

/**
 * widthOf returns the columns of the first line of a text, up to where it is wider than any row.
 * @param {string} text
 */
function widthOf(text) {
  if (/^[ -~]*$/.test(text)) return text.length;
  let cells = 0;
  for (const char of text) {
    if (char === "\n" || cells > 1000) break;
    cells += cellsOf(char.codePointAt(0) || 0);
  }
  return cells;
}

/**
 * saidIn cuts a block into parts as partsOf does, with the calls of tools that the server has read in it.
 * @param {{calls?: {at: number, text: string, calls: {name: string, arguments: any}[]}[]}} answer
 * @param {Block} block @param {string} text of the block
 */
export function saidIn(answer, block, text) {
  const read = answer.calls && answer.calls.find((of) => of.at >= block.from && of.at < block.to);
  if (!read) return partsOf(text);
  return [...partsOf(read.text), ...read.calls.map((call) => callOf(JSON.stringify(call))).filter((call) => call !== null)];
}

/**
 * partsOf cuts what a model wrote into text, thoughts and calls of tools. A call without JSON stays text.
 * @param {string} text
 * @returns {{kind: "text"|"think"|"call", text: string, name?: string, values?: [string, string][]}[]}
 */
export function partsOf(text) {
  /** @type {ReturnType<typeof partsOf>} */
  const parts = [];
  const say = (plain) => { if (plain.trim()) parts.push({ kind: "text", text: plain }); };
  const lastClose = { think: text.lastIndexOf("</think>"), tool_call: text.lastIndexOf("</tool_call>") };
  let from = 0;
  for (const tag of text.matchAll(/<(think|tool_call)>/g)) {
    const begin = tag.index + tag[0].length;
    if (tag.index < from || lastClose[tag[1]] < begin) continue;
    const end = text.indexOf(`</${tag[1]}>`, begin), inside = text.slice(begin, end);
    say(text.slice(from, tag.index));
    from = end + tag[1].length + 3;
    if (tag[1] === "think") parts.push({ kind: "think", text: inside.trim() });
    else parts.push(callOf(inside) || { kind: "text", text: text.slice(tag.index, from) });
  }
  say(text.slice(from));
  return parts;
}

/** @param {string} json @returns {{kind: "call", text: string, name: string, values: [string, string][]}|null} */
function callOf(json) {
  try {
    const call = JSON.parse(json), values = call.arguments ?? call.parameters ?? {};
    const listed = typeof values === "object" && values ? Object.entries(values) : [["", values]];
    return {
      kind: "call", text: json, name: String(call.name),
      values: listed.map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value, null, 2)]),
    };
  } catch { return null; }
}

/**
 * placed lays the tokens of an answer over its text. Tokens that are parts of characters share a piece. A token that the text does not
 * have, such as the one that ended it, is a piece without text.
 * @param {string} text @param {{token: string}[]} tokens
 * @returns {{text: string, from: number, to: number}[]} pieces with their tokens, from up to to
 */
export function placed(text, tokens) {
  const pieces = [];
  let at = 0;
  for (let from = 0, to; from < tokens.length; from = to) {
    to = from + 1;
    let end = at + tokens[from].token.length;
    if (!text.startsWith(tokens[from].token, at)) {
      end = at;
      if (tokens[from].token.includes("\ufffd")) {
        while (to < tokens.length && tokens[to].token.includes("\ufffd") && !text.startsWith(tokens[to].token, at)) to++;
        end = text.length;
        for (let next = to; next < tokens.length; next++) {
          const found = text.indexOf(tokens[next].token, at);
          if (found >= 0) { end = found; break; }
        }
      }
    }
    pieces.push({ text: text.slice(at, end), from, to });
    at = end;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), from: tokens.length, to: tokens.length });
  return pieces;
}
