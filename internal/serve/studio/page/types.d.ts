// What the type checker must know of the libraries in vendor, and the types of the server's replies.
// docs/reference has the meaning of the fields.

declare const uPlot: any;

interface Run {
  id: string; stage: string; project: string; group: string; name: string; state: string; waiting: string; error: string;
  algorithm: string; mode: string; model: string; step: number; total_steps: number;
  reward: number | string | null; reward_name: string; spark: (number | string)[];
  began: number; updated: number; seconds_left: number | null; traced: boolean;
  /** the run of which it is a stage, its sweep, what tells it from the others of the sweep */
  parent: string; sweep: string; label: string; sets: { key: string; head: string; value: string }[]; evaluation: Evaluation | null;
  /** how many sets of rows the run evaluates; the evaluation is of one of them */
  tasksets: number;
  /** the checkpoint by which the run is judged, and the newest lines with which it warned */
  weights: Checkpoint | null; warnings: string[];
}

/** The first metric of a run's evaluations; falls: less is better. */
interface Evaluation {
  name: string; first: number | string; best: number | string; step: number; version: number; last: number | string; falls: boolean;
  /** the first value is that of the model with which the run began */
  is_start: boolean;
}

/** A checkpoint of a run; best: that of its best evaluation. */
interface Checkpoint { step: number; path: string; best: boolean }

interface RunDetails extends Run { config: string; settings: Record<string, unknown> }

interface Series { name: string; steps: Float64Array; times: Float64Array; values: Float64Array }

interface Rollout {
  id: string; task: string; explore_step: number; run: number; turn: number; prompt: string; response: string; cut: boolean;
  truth: string; verdict: string; chat?: { role: string; content: string }[];
  reward: number | string | null; reward_parts: Record<string, number | string>; reason: string; dropped: string; truncated: string;
  expert: boolean; chosen: boolean; advantage: number | string | null; prompt_tokens: number; response_tokens: number; temperature: number;
  oldest_version: number; model_version: number; staleness: number; kl: number | string | null; flags: string[];
  metrics: Record<string, number | string>; info: Record<string, unknown>;
  /** that the model saw, in the order of their tokens */
  images?: { digest: string; at: number; len: number; grid: number[] }[];
}

interface Failure {
  role: string; id: string; step: number; task: string; run: number; kind: string; reason: string; retries: number;
  question?: string; truth?: string;
  prompt?: number[]; sampled?: number[]; time: string; prompt_text?: string; sampled_text?: string;
}

interface HeldOutSide { run: string; at: string; n: number; right: number }

interface HeldOutAnswer {
  response: string; cut: boolean; chat?: { role: string; content: string }[]; reward: number | string | null;
  reward_parts: Record<string, number | string>; reason: string; verdict: string; response_tokens: number;
  model_version: number;
}

interface HeldOutPair {
  change: string; taskset: string; row: number; repeat: number; prompt: string; truth: string;
  a: HeldOutAnswer | null; b: HeldOutAnswer | null;
}

/** The answers of two evaluations; of: how many pairs fit what was asked for, of which the first are here. */
interface HeldOutAnswers { a: HeldOutSide | null; b: HeldOutSide | null; counts: Record<string, number>; of: number; pairs: HeldOutPair[] }

/** The newest failed rollouts of a run; total counts all. */
interface Failed { failures: Failure[]; total: number; damaged: string[] }

interface Update {
  update: number; now_logprobs: Stream; now_entropies: Stream; now_divergences: Stream;
  d_logprobs: Stream; d_entropies: Stream; d_divergences: Stream;
}

type Stream = (number | string | null)[] | null;

interface RolloutTokens extends Rollout {
  tokens: number[]; texts: string[]; mask: boolean[]; special: boolean[]; roles: string[]; bytes?: Record<string, string>;
  streams: Record<string, Stream>; updates: Update[]; calls?: { at: number; text: string; calls: { name: string; arguments: any }[] }[];
}

interface Span { kind: string; name: string; for: string; step: number; id: string; begin: number; end: number; n: number }

interface Spans {
  from: number; to: number; first: number; last: number;
  lanes: { role: string; name: string; spans: Span[] }[]; waits: Record<string, number>; damaged?: string[];
}

/** A mean over seeds with its confidence interval, which one seed does not have. */
interface Interval { mean: number; low: number | null; high: number | null; n: number }

interface ComparedGroup { name: string; runs: { name: string; seed: string; steps: number }[] }

/** A metric in a group: its first and its final value, and by how much that is more than in the first group. */
interface Compared extends Interval { first: number; best?: Interval; more?: Away }

/** A difference over pairs of seeds, or over the held-out rows that two runs answered. */
interface Away extends Interval { over: string; tells: string }

/** A single run at the best of its evaluations: by how much it gained, and is more than the first one. */
interface Standing extends Evaluation { run: string; label: string; gain?: Away; more?: Away; weights: string; model: string }

interface Comparison {
  groups: ComparedGroup[]; apart: { key: string; head: string; values: string[] }[]; differences: { key: string; values: string[] }[];
  metrics: { stage?: string; name: string; values: (Compared | null)[] }[]; best: Standing[];
  others: { name: string; run: string; label: string; best: number | string; step: number; has: number | string }[];
  notes: string[];
}

/** The answers of a run to a task in a train step: how many, and their mean reward. */
interface Asked { step: number; explore_step: number; n: number; invalid: number; mean: number | string | null }

/** A task, and what each of the compared runs answered to it, by step. */
interface SharedTask { task: string; runs: Asked[][] }

interface SchemaKey { key: string; type: string; default: string; doc: string; limits?: string; values?: string[]; argsOf?: string; plugin?: string }

/** The keys of a configuration, and the arguments of plug-ins by kind and name. */
interface Schema { keys: SchemaKey[]; plugins: Record<string, Record<string, SchemaKey[]>> }

/** A configuration to begin with; missing are the files that it needs and that are not in the studio's directory. */
interface Template { name: string; doc: string; text: string; model: string; minutes: number; missing: string[] }

/** A configuration: its text, and key=value settings that come after it. */
interface Written { text: string; overrides: string[] }

/** What is wrong, or worth a warning, at a line of a configuration; line 0 is all of it, or a setting. */
interface Problem { line: number; column: number; key: string; text: string; warning?: boolean }

interface Checked { errors: Problem[]; warnings: Problem[]; stages: { name: string; settings: Record<string, unknown> }[] }

/** Rows that a run reads, or experiences that it writes. */
interface DataSource { key: string; name: string; kind: string; path: string; problem: string }

interface DataQuery { run: string; source: string; at?: string | null; n?: number; q?: string | null; prompt?: string | null; response?: string | null }

/** How far a request has read: unit is that of lengths, why says that there are no tokens. */
interface Scanned { next: string; end: boolean; seen: number; unit: "tokens" | "characters"; why: string }

/** What a model reads and learns of a row. tokens and what follows are only in a single row, if the model's tokenizer is there. */
interface Example {
  label: string; id: string; prompt: string; response: string; answer: string; cut: boolean; prompt_length: number; response_length: number | null;
  learned: number; reward: number | string | null; tokens?: number[] | null; more?: number;
}

interface DataRow { at: string; where: string; error?: string; examples: Example[] }

/** A model of a run. kind: model, adapter, or base; why one cannot talk to it. */
interface RunModel { name: string; kind: string; path: string; why: string }

/** A model that the studio has loaded, or that has ended. Times are ms since 1970; 0 is none. */
interface TalkModel {
  id: string; run: string; model: string; kind: string; state: "loading" | "ready" | "ended"; length: number; said: string; error: string;
  planned: number; resident: number; began: number; ends: number;
}

/** A token of an answer with its log-probability, and the likeliest tokens at its place. */
interface SaidToken { token: string; logprob: number; top_logprobs?: { token: string; logprob: number }[] }

interface PlannedChoice {
  report: { train_steps_per_hour: number; explorer_idle: number; trainer_idle: number; staleness: { mean: number } };
}

/** What trinity plan finds: who bounds a step now and then, and the settings. */
interface Planned {
  current: PlannedChoice; recommended: PlannedChoice;
  advice: { bound: string; then: string; gain: number; settings: string; keys: string[]; more_staleness: boolean };
}

/** Parameters of a route. null removes one; several values repeat it. */
type Parameters_ = Record<string, string | number | string[] | null | undefined>;

/** go shows a route: "" is the present one, whose other parameters stay. */
type Go = (route: string, parameters?: Parameters_, options?: { replace?: boolean }) => void;

interface PageProps { query: URLSearchParams; go: Go }

interface Column<Row> {
  key: string;
  title: any;
  /** what the column sorts by; without it it does not sort */
  value?: (row: Row) => number | string | null;
  cell: (row: Row, index: number) => any;
  width?: string;
  align?: "right";
  /** hidden on narrow screens */
  wide?: boolean;
}

/** What a key does on a page. */
interface KeyAction { key: string; says: string; run: () => void }
