// The calls of the server, /api/v1. Each returns a promise that fails with one line for people.
// Numbers that JSON lacks come as the texts "NaN", "Infinity" and "-Infinity": Number(x) reads them.

/** Refused is an error of the server. */
class Refused extends Error {
  /** @param {number} status @param {string} line */
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

/** takeToken keeps the token of #token=… in the address, which does not stay there, and reports whether there was one. */
export function takeToken() {
  const found = /^#token=([^&/]*)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem("token", decodeURIComponent(found[1]));
    location.replace("#/runs");
  }
  return !!found;
}

takeToken();

/** enterToken keeps the token that somebody typed. @param {string} token */
export const enterToken = (token) => sessionStorage.setItem("token", token);

/**
 * @param {string} path below /api/v1/
 * @param {Record<string, string | number | string[] | undefined | null>} [query]
 * @param {AbortSignal} [signal]
 * @param {unknown} [body] is sent as JSON
 */
async function call(path, query = {}, signal = undefined, body = undefined) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const one of [value].flat()) parameters.append(name, String(one));
  }
  const token = sessionStorage.getItem("token");
  /** @type {Record<string, string>} */
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = parameters.toString();
  const response = await fetch("api/v1/" + path + (text && "?" + text),
    { headers, signal, method: body === undefined ? "GET" : "POST", body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.ok) return response;
  const reply = await response.text();
  let line = reply;
  try { line = JSON.parse(reply).error; } catch { /* no JSON: the text is the line */ }
  throw new Refused(response.status, line || response.statusText);
}

/** @type {(path: string, query?: any, signal?: AbortSignal) => Promise<any>} */
const json = async (path, query, signal) => (await call(path, query, signal)).json();

/** @type {(path: string, body: unknown, signal?: AbortSignal) => Promise<any>} */
const post = async (path, body, signal) => (await call(path, {}, signal, body)).json();

/** @param {string} id of a run */
const runPath = (id) => "runs/" + encodeURIComponent(id);

/**
 * @returns {Promise<{version: string, page: string, dir: string, now: number, control: boolean}>} page: a checksum of its files;
 * control: the studio starts and stops runs
 */
export const about = (/** @type {AbortSignal} */ signal) => json("about", {}, signal);

/** @type {(signal: AbortSignal, below?: string) => Promise<{runs: Run[], damaged: string[]}>} below: only this run and its stages */
export const runs = (signal, below) => json("runs", { below }, signal);

/** @type {(id: string, signal?: AbortSignal) => Promise<RunDetails>} */
export const run = (id, signal) => json(runPath(id), {}, signal);

/** @type {(id: string, signal?: AbortSignal) => Promise<{names: string[], cursor: string, damaged: string[]}>} */
export const names = (id, signal) => json(runPath(id) + "/names", {}, signal);

/** @type {(id: string, signal?: AbortSignal) => Promise<{steps: number[]}>} */
export const steps = (id, signal) => json(runPath(id) + "/steps", {}, signal);

/** @type {(id: string, step: number, signal?: AbortSignal, q?: string) => Promise<{step: number, rollouts: Rollout[], failures: Failure[], damaged: string[]}>} */
export const rollouts = (id, step, signal, q) => json(`${runPath(id)}/steps/${step}/rollouts`, { q }, signal);

/** evaluations names those of a run, by step. @type {(id: string, signal?: AbortSignal) => Promise<{evaluations: string[]}>} */
export const evaluations = (id, signal) => json(runPath(id) + "/evaluations", {}, signal);

/**
 * answers are those of two evaluations to the same held-out rows, of all tasksets or of one.
 * @typedef {{run: string, at: string}} Side
 * @type {(a: Side, b: Side, of: {which: string, q: string, taskset: string}, signal?: AbortSignal) => Promise<HeldOutAnswers>}
 */
export const answers = (a, b, of, signal) => json("answers", { run: [a.run, b.run], at: [a.at, b.at], ...of }, signal);

/** failures are the newest of a run, at most limit. @type {(id: string, limit?: number, signal?: AbortSignal) => Promise<Failed>} */
export const failures = (id, limit, signal) => json(runPath(id) + "/failures", { limit }, signal);

/** @type {(id: string, step: number, rollout: string, signal?: AbortSignal) => Promise<RolloutTokens>} */
export const rollout = (id, step, rollout, signal) => json(`${runPath(id)}/steps/${step}/rollouts/${encodeURIComponent(rollout)}`, {}, signal);

/** blob is the file of an image that a run keeps. @type {(id: string, digest: string) => Promise<Blob>} */
export const blob = async (id, digest) => (await call(`${runPath(id)}/blob/${encodeURIComponent(digest)}`)).blob();

/** @type {(id: string, range: {from?: number, to?: number, width?: number}, signal?: AbortSignal) => Promise<Spans>} */
export const spans = (id, range, signal) => json(runPath(id) + "/spans", range, signal);

/**
 * metrics returns series: all, or what came after a cursor. reset: the file was cut back, and this is everything again.
 * @param {string} id
 * @param {string[]} names
 * @param {string} [since]
 * @param {AbortSignal} [signal]
 * @returns {Promise<{cursor: string, reset: boolean, series: Series[]}>}
 */
export async function metrics(id, names, since, signal) {
  const data = await (await call(runPath(id) + "/metrics", { name: names, since }, signal)).arrayBuffer();
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  let at = 4 + length;
  const column = (/** @type {number} */ n) => {
    const out = new Float64Array(data, at, n);
    at += 8 * n;
    return out;
  };
  /** @type {Series[]} */
  const series = [];
  for (const { name, n, as } of header.series) { // as: the place of the series with the same steps and times
    const { steps, times } = series[as] ?? { steps: column(n), times: column(n) };
    series.push({ name, steps, times, values: column(n) });
  }
  return { cursor: header.cursor, reset: !!header.reset, series };
}

/**
 * eventsOf reads a stream of events with fetch, because an EventSource sends no token. An event without a name has "".
 * @param {Response} response
 * @returns {AsyncGenerator<{name: string, data: string}>}
 */
async function* eventsOf(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader(), decoder = new TextDecoder();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = /** @type {string} */ (events.pop());
    for (const event of events) {
      const name = /^event: ?(.*)$/m.exec(event), data = /^data: ?(.*)$/m.exec(event);
      if (data) yield { name: name ? name[1] : "", data: data[1] };
    }
  }
}

/**
 * live calls on for each event of a run until signal ends it; the promise fails when the connection ends.
 * @param {string} id
 * @param {string | undefined} since
 * @param {(event: string, data: any) => void} on
 * @param {AbortSignal} signal
 */
export async function live(id, since, on, signal) {
  for await (const { name, data } of eventsOf(await call(runPath(id) + "/live", { since }, signal))) on(name, JSON.parse(data));
  throw new Error("the server closed the connection");
}

/** How many runs one compares at most. */
export const MOST_COMPARED = 16;

/**
 * compare compares runs as `trinity compare` does; with a metric the groups are sorted by it, best first.
 * @type {(ids: string[], of: {metric: string, by: string, alone: boolean}, signal?: AbortSignal) => Promise<Comparison>}
 */
export const compare = (ids, { metric, by, alone }, signal) => json("compare", { run: ids, metric: metric || undefined, by,
  alone: alone ? 1 : undefined }, signal);

/**
 * groups are runs that differ in their names and seeds alone.
 * @type {(ids: string[], signal?: AbortSignal) => Promise<{groups: {name: string, runs: string[]}[], labels: string[]}>}
 */
export const groups = (ids, signal) => json("groups", { run: ids }, signal);

/** tasks are the tasks that at least two runs have answered. @type {(ids: string[], signal?: AbortSignal) => Promise<{tasks: SharedTask[], left_off: number, damaged: string[]}>} */
export const tasks = (ids, signal) => json("tasks", { run: ids }, signal);

/** @returns {Promise<Schema>} */
export const schema = (/** @type {AbortSignal} */ signal) => json("config/schema", {}, signal);

/** @returns {Promise<{templates: Template[]}>} */
export const templates = (/** @type {AbortSignal} */ signal) => json("config/templates", {}, signal);

/** @type {(id: string, signal?: AbortSignal) => Promise<{text: string, overrides: string[]}>} */
export const configOf = (id, signal) => json(runPath(id) + "/config", {}, signal);

/** @type {(written: Written, signal?: AbortSignal) => Promise<Checked>} */
export const check = (written, signal) => post("config/check", written, signal);

/** @type {(written: Written) => Promise<{errors: Problem[], text: string}>} */
export const plan = (written) => post("config/plan", written);

/** @type {(written: Written) => Promise<{id: string}>} */
export const start = (written) => post("runs", written);

/** @type {(id: string, now: boolean) => Promise<{id: string}>} */
export const stop = (id, now) => post(runPath(id) + "/stop", { now });

/** @type {(id: string) => Promise<{id: string}>} */
export const resume = (id) => post(runPath(id) + "/resume", {});

/** advice is what trinity plan finds for a run, or the reason why there is nothing to plan. @type {(id: string, signal?: AbortSignal) => Promise<{advice: Planned | null, reason: string}>} */
export const advice = (id, signal) => post(runPath(id) + "/advice", {}, signal);

/** @type {(id: string, since?: number) => Promise<{started: boolean, text: string, cursor: number, reset: boolean}>} */
export const log = (id, since) => json(runPath(id) + "/log", { since });

/** The data of a run: tasksets, buffers, copies of experiences. @type {(run: string, signal?: AbortSignal) => Promise<{sources: DataSource[]}>} */
export const data = (run, signal) => json("data", { run }, signal);

/** @type {(of: DataQuery, signal?: AbortSignal) => Promise<Scanned & {rows: DataRow[]}>} */
export const dataRows = (of, signal) => json("data/rows", of, signal);

/** @type {(of: DataQuery, signal?: AbortSignal) => Promise<Scanned & {prompt: number[], response: number[], damaged: number}>} response: −1 without one */
export const dataLengths = (of, signal) => json("data/lengths", of, signal);

/** @type {(of: DataQuery, signal?: AbortSignal) => Promise<Scanned & DataRow & {text: string, cut: boolean}>} */
export const dataRow = (of, signal) => json("data/row", of, signal);

/** The books of decisions on which of two answers is better. @returns {Promise<{books: {id: string, run: string, data: string, dir: string}[]}>} */
export const annotations = (/** @type {AbortSignal | undefined} */ signal) => json("annotations", {}, signal);

/** Begins a book about data of a run. @type {(run: string, source: string) => Promise<{id: string}>} */
export const beginAnnotation = (run, source) => post("annotations", { run, source });

/** @type {(id: string, signal?: AbortSignal) => Promise<{models: RunModel[]}>} */
export const models = (id, signal) => json(runPath(id) + "/models", {}, signal);

/** @returns {Promise<{talks: TalkModel[], most: number}>} the models that are loaded, the newest last */
export const talks = (/** @type {AbortSignal} */ signal) => json("talk", {}, signal);

/**
 * load starts to load a model. length 0: the longest conversation is the model's usual one.
 * @type {(run: string, model: string, length: number) => Promise<TalkModel>}
 */
export const load = (run, model, length) => post("talk", { run, model, length });

/** @type {(id: string) => Promise<TalkModel>} */
export const unload = (id) => post(`talk/${id}/end`, {});

/**
 * chat asks a model, and calls on for each part of its answer as OpenAI's API has it.
 * @param {string} id @param {unknown} request @param {(part: any) => void} on @param {AbortSignal} signal
 */
export async function chat(id, request, on, signal) {
  for await (const { name, data } of eventsOf(await call(`talk/${id}/chat`, {}, signal, request))) {
    if (data === "[DONE]") return;
    if (name === "error") throw new Error(JSON.parse(data).error);
    on(JSON.parse(data));
  }
  throw new Error("the server closed the connection");
}
