// Where the spans of a run stand on a canvas. This module touches no page.

/**
 * @typedef {{role: string, name: string, spans: Span[]}} Lane
 * @typedef {{lane: Lane, top: number, height: number, places: number[]}} Placed places[i] is the row of span i in its lane
 */

/** The height of a row of spans, the gap between lanes, and how many spans that overlap get rows of their own. */
export const spanHeight = 14, laneGap = 20, mostRows = 8;

/**
 * place puts lanes below one another. Spans that overlap get rows of their own: the first that is free.
 * @param {Lane[]} lanes
 * @returns {{placed: Placed[], height: number}}
 */
export function place(lanes) {
  let top = laneGap;
  const placed = lanes.map((lane) => {
    /** @type {number[]} */
    const ends = [];
    const places = lane.spans.map((span) => {
      let row = ends.findIndex((end) => end <= span.begin);
      if (row < 0) row = ends.length < mostRows ? ends.push(span.begin) - 1 : mostRows - 1;
      ends[row] = Math.max(ends[row], span.end);
      return row;
    });
    const height = Math.max(1, ends.length) * spanHeight, at = top;
    top += height + laneGap;
    return { lane, top: at, height, places };
  });
  return { placed, height: top };
}

/**
 * spanAt returns the span at a time and a height, or null. What is narrower than slack is found beside it, too.
 * @param {Placed[]} placed @param {number} time @param {number} y @param {number} slack
 * @returns {{lane: Lane, span: Span} | null}
 */
export function spanAt(placed, time, y, slack) {
  const lane = placed.find((p) => y >= p.top && y < p.top + p.height);
  if (!lane) return null;
  const row = Math.floor((y - lane.top) / spanHeight);
  let best = null, nearest = Infinity;
  lane.lane.spans.forEach((span, i) => {
    const away = Math.max(span.begin - time, time - span.end, 0);
    if (lane.places[i] === row && away <= slack && away <= nearest) [best, nearest] = [span, away];
  });
  return best && { lane: lane.lane, span: best };
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
