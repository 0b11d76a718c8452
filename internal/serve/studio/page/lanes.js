// Where the spans of a run stand on a canvas. This module touches no page.

/**
 * @typedef {{role: string, name: string, spans: Span[]}} Lane
 * @typedef {{role: string, name: string, top: number, height: number, rows: Lane[]}} Placed lanes of what a role did at once
 */

/** The height of a row of spans, and the gap above, which has the name. */
export const spanHeight = 14, laneGap = 20;

/**
 * place puts lanes below one another. "rollout 2" is a row below "rollout".
 * @param {Lane[]} lanes
 * @returns {{placed: Placed[], height: number}}
 */
export function place(lanes) {
  /** @type {Map<string, Placed>} */
  const groups = new Map();
  for (const lane of lanes) {
    const name = lane.name.replace(/ \d+$/, ""), key = JSON.stringify([lane.role, name]);
    if (!groups.has(key)) groups.set(key, { role: lane.role, name, top: 0, height: 0, rows: [] });
    /** @type {Placed} */ (groups.get(key)).rows.push(lane);
  }
  let top = laneGap;
  const placed = [...groups.values()];
  for (const group of placed) {
    group.rows.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    group.top = top;
    group.height = group.rows.length * spanHeight;
    top += group.height + laneGap;
  }
  return { placed, height: top };
}

/**
 * spanAt returns the span at a time and a height, or null. What is narrower than slack is found beside it, too.
 * @param {Placed[]} placed @param {number} time @param {number} y @param {number} slack
 * @returns {{lane: Lane, span: Span} | null}
 */
export function spanAt(placed, time, y, slack) {
  const group = placed.find((p) => y >= p.top && y < p.top + p.height);
  if (!group) return null;
  const lane = group.rows[Math.floor((y - group.top) / spanHeight)];
  /** @type {Span | null} */
  let best = null;
  let nearest = Infinity;
  for (const span of lane.spans) {
    const away = Math.max(span.begin - time, time - span.end, 0);
    if (away <= slack && away <= nearest) [best, nearest] = [span, away];
  }
  return best && { lane, span: best };
}

/** By how many ms the end of a span may come after that of the wait which it ends. */
const late = 2;

/**
 * awaited returns the lanes that a wait was for, or null: the calls of a model if it was for a slot; of several roles, such as the
 * explorers, what ended last before the wait did.
 * @param {Placed[]} placed @param {Placed} waiting the lanes of who waited @param {Span} wait
 * @returns {Placed | null}
 */
export function awaited(placed, waiting, wait) {
  if (wait.for === "a slot of the model") return placed.find((p) => p.role === waiting.role && p.name === "model_call") || null;
  /** @type {Placed | null} */
  let best = null;
  let newest = -Infinity;
  for (const of of placed) {
    if (!wait.for || of.role === waiting.role || !of.role.startsWith(wait.for) || of.name === "wait") continue;
    best = best || of;
    for (const { spans } of of.rows) {
      let low = 0, high = spans.length; // the first span that begins after the wait
      while (low < high) {
        const middle = (low + high) >> 1;
        if (spans[middle].begin > wait.end) high = middle;
        else low = middle + 1;
      }
      while (low > 0 && (spans[low - 1].kind === "wait" || spans[low - 1].end > wait.end + late)) low--;
      if (low > 0 && spans[low - 1].end > newest) [best, newest] = [of, spans[low - 1].end];
    }
  }
  return best;
}

/**
 * zoom returns a range that is factor times as wide, around a time, within the whole.
 * @param {[number, number]} range @param {number} factor @param {number} around @param {[number, number]} whole
 * @returns {[number, number]}
 */
export function zoom([from, to], factor, around, whole) {
  const width = Math.max(1, Math.min((to - from) * factor, whole[1] - whole[0]));
  return within(around - (around - from) / Math.max(1e-9, to - from) * width, width, whole);
}

/**
 * within moves a range of a width into the whole.
 * @param {number} from @param {number} width @param {[number, number]} whole @returns {[number, number]}
 */
export function within(from, width, whole) {
  const start = Math.max(whole[0], Math.min(from, whole[1] - width));
  return [start, start + width];
}

/**
 * ticks returns round times of an axis, in ms from its begin.
 * @param {number} from @param {number} to @param {number} most how many
 */
export function ticks(from, to, most) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  const step = steps.find((s) => (to - from) / s <= most) || Math.ceil((to - from) / most / 864e5) * 864e5;
  const all = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) all.push(at);
  return all;
}
