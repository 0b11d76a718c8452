// The numbers of a token, and their scales. This module touches no page.

/**
 * @typedef {Float64Array | null} Numbers one of each token; null: nobody computed them
 * @typedef {Record<string, Numbers>} Named
 * @typedef {{update: number, streams: Named}} Optimized what an optimizer step saw and did
 * @typedef {{tokens: number[], mask: boolean[], streams: Named, updates: Optimized[]}} Numbered a sequence
 *
 * @typedef {object} Measure a number of each token
 * @property {string} key its name in the tables of words
 * @property {(token: number) => number} at NaN where there is none
 * @property {"signed" | "amount"} kind signed: around 0; amount: from low to high
 * @property {number} low where the scale begins
 * @property {number} high
 */

/**
 * numbered reads the numbers of an answer of the API.
 * @param {RolloutTokens} reply
 * @returns {Numbered}
 */
export function numbered(reply) {
  /** @param {Record<string, any>} all @returns {Named} */
  const read = (all) => Object.fromEntries(Object.entries(all).filter(([, of]) => Array.isArray(of) && of.length)
    .map(([name, of]) => {
      const numbers = new Float64Array(of.length);
      for (let i = 0; i < of.length; i++) numbers[i] = of[i] === null ? NaN : Number(of[i]);
      return [name, numbers];
    }));
  return {
    tokens: reply.tokens, mask: reply.mask, streams: read(reply.streams),
    updates: reply.updates.map((u) => ({ update: u.update, streams: read(u) })),
  };
}

/**
 * trainerLogprobs returns the log-probabilities of the trained policy before its first optimizer step, or null.
 * @param {Numbered} of
 */
export function trainerLogprobs(of) {
  const first = of.updates[0];
  return of.streams.old_logprobs || (first && first.update === 0 && first.streams.now_logprobs) || null;
}

/**
 * disagreement returns how far sampler and trainer are apart, in nats a trained token, or null if that is not known.
 * @param {Numbered} of
 */
export function disagreement(of) {
  const sampler = of.streams.logprobs, trainer = trainerLogprobs(of);
  if (!sampler || !trainer) return null;
  let sum = 0, count = 0, worst = -1, token = -1;
  of.mask.forEach((learned, i) => {
    const apart = Math.abs(sampler[i] - trainer[i]);
    if (!learned || Number.isNaN(apart)) return;
    sum += apart;
    count++;
    if (apart > worst) [worst, token] = [apart, i];
  });
  return count ? { mean: sum / count, worst, token, count } : null;
}

/**
 * unlikeliest returns the learned tokens that were sampled with the lowest probabilities, the lowest first, at most n. What made an
 * answer wrong is often one of them.
 * @param {Numbered} of @param {number} n
 */
export function unlikeliest(of, n) {
  const logprobs = of.streams.logprobs;
  if (!logprobs) return [];
  return of.mask.flatMap((learned, i) => learned && Number.isFinite(logprobs[i]) ? [i] : [])
    .sort((a, b) => logprobs[a] - logprobs[b] || a - b).slice(0, n);
}

/**
 * clippedTokens returns the tokens that an optimizer step leaves as they are although their advantage is not 0, or null if that is
 * not known.
 * @param {Numbered} of @param {Optimized | undefined} update
 */
export function clippedTokens(of, update) {
  const advantages = of.streams.advantages, derivatives = update && update.streams.d_logprobs;
  if (!advantages || !derivatives) return null;
  return of.mask.flatMap((learned, i) => learned && advantages[i] !== 0 && derivatives[i] === 0 ? [i] : []);
}

/**
 * measuresOf returns the numbers that an answer has, as one optimizer step saw them.
 * @param {Numbered} of @param {Optimized | undefined} update
 * @returns {Measure[]}
 */
export function measuresOf(of, update) {
  const s = of.streams, u = update ? update.streams : {};
  const trainer = trainerLogprobs(of), before = trainer || s.logprobs, now = u.now_logprobs || before;
  /** @type {Measure[]} */
  const all = [];
  /**
   * add adds a number if its streams are there.
   * @param {string} key @param {Measure["kind"]} kind @param {(Numbers | undefined)[]} needs
   * @param {(...at: number[]) => number} value of the streams at a token
   */
  const add = (key, kind, needs, value) => {
    if (!needs.every(Boolean)) return;
    const [a, b] = /** @type {Float64Array[]} */ (needs);
    all.push({ key, kind, at: (i) => value(a[i], b ? b[i] : 0), low: 1, high: 0 });
  };
  const itself = (x) => x, minus = (x, y) => x - y;
  add("probability", "amount", [s.logprobs], Math.exp);
  add("ratio", "signed", [u.now_logprobs, before], minus);
  add("apart", "signed", [trainer, s.logprobs], minus);
  add("advantage", "signed", [s.advantages], itself);
  add("derivative", "signed", [u.d_logprobs], itself);
  add("entropy", "amount", [u.now_entropies || s.entropies], itself);
  add("kl", "signed", [now, s.ref_logprobs], minus);
  add("value", "signed", [s.values], itself);
  add("return", "signed", [s.returns], itself);
  add("teacher", "signed", [s.teacher_logprobs, now], minus);
  add("weight", "amount", [s.policy_weights], itself);
  return all;
}

/**
 * scaled returns the measure with the ends of its scale, beyond which are 1 % of the trained tokens. A probability is from 1 to 0.
 * @param {Measure} measure @param {Numbered} of
 * @returns {Measure}
 */
export function scaled(measure, of) {
  if (measure.key === "probability") return measure;
  const sizes = new Float64Array(of.tokens.length);
  let n = 0;
  for (let i = 0; i < of.tokens.length; i++) {
    const size = Math.abs(measure.at(i));
    if (of.mask[i] && Number.isFinite(size)) sizes[n++] = size;
  }
  const sorted = sizes.subarray(0, n).sort();
  const high = (n && (sorted[Math.floor(0.99 * (n - 1))] || sorted[n - 1])) || 1;
  return { ...measure, high, low: measure.kind === "signed" ? -high : 0 };
}

/**
 * longest returns the largest size of numbers, for their bars: 0 if all are equal, so that bars would tell nothing.
 * @param {(number | string | null | undefined)[]} values
 */
export function longest(values) {
  const sizes = values.filter((v) => v !== null && v !== undefined).map(Number).filter(Number.isFinite);
  return sizes.some((x) => x !== sizes[0]) ? Math.max(...sizes.map(Math.abs)) : 0;
}

/**
 * strength returns where a number stands on a scale: from −1 to 1 if it is signed, otherwise from 0 to 1. The root spreads small ones.
 * @param {Measure} measure @param {number} value
 */
export function strength(measure, value) {
  if (Number.isNaN(value)) return 0;
  const share = measure.kind === "signed" ? value / measure.high : (value - measure.low) / (measure.high - measure.low);
  const root = Math.sign(share) * Math.sqrt(Math.min(1, Math.abs(share)));
  return measure.kind === "amount" ? Math.max(0, root) : root;
}
