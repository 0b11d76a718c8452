// Differences of texts. This module touches no page: a test runs it alone.

/** @typedef {{kind: "same"|"gone"|"new", text: string}} Piece */

/**
 * commonStart returns how many characters all texts begin with. It ends at the end of a word, and never inside a character.
 * @param {string[]} texts
 */
export function commonStart(texts) {
  if (texts.length < 2) return 0;
  const [first, ...others] = texts;
  let n = 0;
  while (n < first.length && others.every((text) => text[n] === first[n])) n++;
  if (texts.every((text) => text.length === n)) return n;
  if (isLow(first, n)) n--;
  while (n > 0) {
    const before = isLow(first, n - 1) ? 2 : 1;
    if (!/[\p{L}\p{N}_]/u.test(first.slice(n - before, n))) break;
    n -= before;
  }
  return n;
}

/**
 * endAt returns where the last characters of a text begin, at most this many; they begin with a word if one begins soon.
 * @param {string} text @param {number} most
 */
export function endAt(text, most) {
  const at = Math.max(0, text.length - most), word = at && text.slice(at - 1, at + 40).search(/(?<=\s)\S/);
  return word > 0 ? at - 1 + word : at + Number(isLow(text, at));
}

/**
 * isLow reports whether a text has the second half of a character there.
 * @param {string} text @param {number} at
 */
function isLow(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}

/**
 * words cuts a text into words, stretches of white space, and other characters.
 * @param {string} text
 * @returns {string[]}
 */
export function words(text) { return text.match(/\s+|[\p{L}\p{N}_]+|[^]/gu) || []; }

/**
 * difference returns what turns one text into the other, by words: the shortest edit (Myers). Beyond maxEdits it gives up: what is
 * left is then one piece gone and one new, and whole is false.
 * @param {string} from @param {string} to @param {number} [maxEdits]
 * @returns {{pieces: Piece[], whole: boolean}}
 */
export function difference(from, to, maxEdits = 1000) {
  const a = words(from), b = words(to);
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const left = a.slice(start, a.length - end), right = b.slice(start, b.length - end);
  const edits = shortestEdit(left, right, maxEdits);
  /** @type {Piece[]} */
  const pieces = [];
  /** @param {Piece["kind"]} kind @param {string[]} some */
  const add = (kind, some) => {
    if (!some.length) return;
    const last = pieces[pieces.length - 1];
    if (last && last.kind === kind) last.text += some.join("");
    else pieces.push({ kind, text: some.join("") });
  };
  add("same", a.slice(0, start));
  if (edits) for (const [kind, word] of edits) add(kind, [word]);
  else {
    add("gone", left);
    add("new", right);
  }
  add("same", a.slice(a.length - end));
  return { pieces, whole: edits !== null };
}

/**
 * shortestEdit returns the words of both in order, or null if more than max of them differ.
 * @param {string[]} a @param {string[]} b @param {number} max
 * @returns {[Piece["kind"], string][] | null}
 */
function shortestEdit(a, b, max) {
  const limit = Math.min(max, a.length + b.length);
  let reach = new Int32Array(2 * limit + 3); // by diagonal: how far into a
  const middle = limit + 1;
  /** @type {Int32Array[]} */
  const history = [];
  for (let edits = 0; edits <= limit; edits++) {
    history.push(reach.slice(middle - edits - 1, middle + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach[middle + k - 1] < reach[middle + k + 1]);
      let x = down ? reach[middle + k + 1] : reach[middle + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, history);
    }
  }
  return null;
}

/**
 * walkBack reads the edit out of how far each number of edits reached.
 * @param {string[]} a @param {string[]} b @param {Int32Array[]} history
 * @returns {[Piece["kind"], string][]}
 */
function walkBack(a, b, history) {
  /** @type {[Piece["kind"], string][]} */
  const steps = [];
  let x = a.length, y = b.length;
  for (let edits = history.length - 1; edits >= 0; edits--) {
    const reach = history[edits], middle = edits + 1, k = x - y;
    const down = k === -edits || (k !== edits && reach[middle + k - 1] < reach[middle + k + 1]);
    const before = down ? k + 1 : k - 1;
    const fromX = edits ? reach[middle + before] : 0, fromY = edits ? fromX - before : 0;
    while (x > fromX && y > fromY) {
      steps.push(["same", a[--x]]);
      y--;
    }
    if (edits) steps.push(down ? ["new", b[--y]] : ["gone", a[--x]]);
  }
  return steps.reverse();
}
