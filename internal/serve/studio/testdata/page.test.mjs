// Tests of the page's modules that touch no page. page_test.go copies both into a directory and runs node there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { commonStart, difference, endAt, words } from "./diff.js";
import { awaited, place, spanAt, ticks, within, zoom } from "./lanes.js";
import { clippedTokens, disagreement, longest, measuresOf, numbered, scaled, strength, unlikeliest } from "./measures.js";
import { behind, blocksOf, framesIn, imageAt, partsOf, placed, rowsOf, saidIn, shownAt } from "./sequence.js";
import { nodeAt, proposals, treeOf } from "./schema.js";
import { changed, context, entries, painted, valueOf, reader } from "./yaml.js";
import { checksum, formatOf, partsIn, sentence } from "./zh.js";

test("what all texts begin with ends at a word", () => {
  for (const [texts, want] of [
    [["one"], 0], [["say one", "say two"], 4], [["same", "same"], 4], [["word", "words"], 0], [["a 🙂", "a 🙃"], 2], [["", "x"], 0], [["1. a", "1. a b"], 3],
  ]) assert.equal(commonStart(texts), want, JSON.stringify(texts));
});

test("a text's end begins with a word", () => {
  for (const [text, most, want] of [
    ["", 5, ""], ["short", 5, "short"], ["so it is 42", 5, "is 42"], ["so it is 42", 4, "42"], ["so it is 42", 3, "42"],
    ["so it is 42", 2, "42"], ["0123456789", 4, "6789"],
    ["a🙂b", 2, "b"], ["<think>no</think>\n7", 3, "7"],
  ]) assert.equal(text.slice(endAt(text, most)), want, text);
});

test("bars of equal numbers tell nothing", () => {
  for (const [values, want] of [
    [[], 0], [[3], 0], [[2, 2, 2], 0], [[2, null, 2], 0], [[0, 1], 1], [[-3, 2], 3], [["NaN", "1", 0.5], 1], [[-1, 1], 1],
  ]) {
    assert.equal(longest(values), want, JSON.stringify(values));
  }
});

test("the tokens that were least likely", () => {
  const of = { tokens: [0, 1, 2, 3, 4], mask: [false, true, true, true, true], streams: { logprobs: [-9, -1, -3, NaN, -3] }, updates: [] };
  assert.deepEqual(unlikeliest(of, 2), [2, 4]);
  assert.deepEqual(unlikeliest(of, 9), [2, 4, 1]);
  assert.deepEqual(unlikeliest({ ...of, streams: {} }, 2), []);
});

test("a block's tokens of the template are counted apart", () => {
  const chat = {
    texts: ["<s>", "system", "\n", "Be brief", "<e>", "\n", "<s>", "user", "\n", "user", "<e>", "\n", "<s>", "assistant", "\n", "7", "<e>"],
    roles: ["system", "system", "system", "system", "", "", "user", "user", "user", "user", "", "", ...Array(4).fill("assistant"), ""],
    special: [true, false, false, false, true, false, true, false, false, false, true, false, true, false, false, false, true],
    mask: [...Array(15).fill(false), true, true], tokens: Array(17).fill(0), prompt_tokens: 15,
  };
  assert.deepEqual(blocksOf(chat).map((block) => [block.role, block.to - block.from, framesIn(chat, block)]), [
    ["system", 4, 3], ["user", 6, 5], ["assistant", 7, 5], // each takes the end of the message before it
  ]);
  const bracket = {
    texts: ["[INST]", "user", " 3+4?", "[/INST]", "7"], special: [true, false, false, true, false], mask: [false, false, false, false, true],
    roles: ["user", "user", "user", "user", "assistant"], tokens: [0, 1, 2, 3, 4], prompt_tokens: 4,
  };
  assert.deepEqual(blocksOf(bracket).map((block) => framesIn(bracket, block)), [2, 0]);
  const bare = {
    texts: ["a", "b", "</s>"], special: [false, false, true], mask: [false, true, true], roles: ["", "", ""], tokens: [0, 1, 2],
    prompt_tokens: 1,
  };
  assert.deepEqual(blocksOf(bare).map((block) => framesIn(bare, block)), [0, 0]);
});

test("a difference says both texts", () => {
  let seed = 1;
  const random = (n) => (seed = seed * 48271 % 2147483647) % n;
  for (let round = 0; round < 300; round++) {
    const text = () => Array.from({ length: random(30) }, () => ["a", "b", " ", "🙂", "\n", "word"][random(6)]).join("");
    const a = text(), b = text(), { pieces, whole } = difference(a, b);
    assert.ok(whole);
    assert.equal(pieces.filter((p) => p.kind !== "new").map((p) => p.text).join(""), a);
    assert.equal(pieces.filter((p) => p.kind !== "gone").map((p) => p.text).join(""), b);
  }
});

test("a difference is the shortest", () => {
  assert.deepEqual(difference("the old cat sat", "the new cat sat down").pieces, [
    { kind: "same", text: "the " }, { kind: "gone", text: "old" }, { kind: "new", text: "new" }, { kind: "same", text: " cat sat" }, { kind: "new", text: " down" },
  ]);
  assert.deepEqual(words("a  b, 漢字"), ["a", "  ", "b", ",", " ", "漢字"]);
});

test("a difference gives up at its bound", () => {
  const many = (word) => Array.from({ length: 5000 }, (_, i) => word + i).join(" "), found = difference("x " + many("a") + " y", "x " + many("b") + " y", 100);
  assert.equal(found.whole, false);
  assert.deepEqual(found.pieces.map((p) => p.kind), ["same", "gone", "new", "same"]);
});

test("tokens of a template belong to the block that they begin", () => {
  const roles = ["", "", "user", "user", "", "assistant", "think", "assistant", ""];
  assert.deepEqual(blocksOf({ tokens: roles.map((_, i) => i), roles, prompt_tokens: 5 }), [
    { role: "user", from: 0, to: 4 }, { role: "assistant", from: 4, to: 6 }, { role: "think", from: 6, to: 7 }, { role: "assistant", from: 7, to: 9 },
  ]);
  assert.deepEqual(blocksOf({ tokens: [1, 2, 3], roles: ["", "", ""], prompt_tokens: 1 }), [{ role: "prompt", from: 0, to: 1 }, { role: "answer", from: 1, to: 3 }]);
  assert.deepEqual(blocksOf({ tokens: [1, 2, 3], roles: ["prompt", "prompt", "assistant"], prompt_tokens: 2 }), [
    { role: "prompt", from: 0, to: 2 }, { role: "assistant", from: 2, to: 3 },
  ]);
  assert.deepEqual(blocksOf({ tokens: [1, 2, 3, 4], roles: ["", "user", "user", "assistant"], prompt_tokens: 3 }), [
    { role: "user", from: 0, to: 3 }, { role: "assistant", from: 3, to: 4 },
  ]);
  assert.deepEqual(blocksOf({ tokens: [], roles: [], prompt_tokens: 0 }), []);
});

test("rows break before a token, at a line feed and inside what is wide", () => {
  const texts = ["ab", "cd", "e⏎\n", "漢字", "0123456789"], blocks = [{ role: "answer", from: 0, to: 5 }];
  const { rows, at } = rowsOf(blocks, (i) => texts[i], 4, new Set());
  assert.deepEqual(rows.map((row) => row.pieces && row.pieces.map((p) => p.text).join("|")), [null, "ab|cd", "e⏎", "漢字", "0123", "4567", "89"]);
  assert.deepEqual([...at], [1, 1, 2, 3, 4]);
  const folded = rowsOf(blocks, (i) => texts[i], 4, new Set([0]));
  assert.equal(folded.rows.length, 1);
  assert.deepEqual([...folded.at], [0, 0, 0, 0, 0]);
});

test("the tokens of an image are one tile, and no markers of the template", () => {
  const texts = ["<|im_start|>", "<|pad|>", "<|pad|>", "<|pad|>", "What?"];
  const answer = { texts, special: [true, true, true, true, false], mask: texts.map(() => false), images: [{ at: 1, len: 3 }] };
  assert.deepEqual(texts.map((_, i) => imageAt(answer, i)), [-1, 0, 0, 0, -1]);
  assert.deepEqual(texts.map((_, i) => shownAt(answer, i)), [0, 1, 1, 1, 4]);
  assert.deepEqual(texts.map((_, i) => behind(answer, i)), [1, 4, 4, 4, 5]);
  assert.deepEqual([imageAt({}, 1), shownAt({}, 1), behind({}, 1)], [-1, 1, 2]);
  const { rows, at } = rowsOf([{ role: "user", from: 0, to: 5 }], (i) => ["a", "image 1", "", "", "b"][i], 9, new Set());
  assert.deepEqual(rows.map((row) => row.pieces && row.pieces.map((p) => p.token)), [null, [0, 1, 4]]);
  assert.deepEqual([...at], [1, 1, 1, 1, 1]);
  assert.equal(framesIn(answer, { role: "user", from: 0, to: 5 }), 1);
});

test("every character of every token is in a row", () => {
  const texts = Array.from({ length: 2000 }, (_, i) => ["word", " ", "\n", "long ".repeat(i % 9), "漢", "é", ""][i % 7]);
  const { rows } = rowsOf([{ role: "", from: 0, to: texts.length }], (i) => texts[i], 20, new Set());
  assert.equal(rows.flatMap((row) => row.pieces || []).map((p) => p.text).join(""), texts.join("").replaceAll("\n", ""));
});

test("calls of tools and thoughts are read, broken ones stay text", () => {
  const parts = partsOf('<think>hm</think>\nso <tool_call>{"name": "sum", "arguments": {"x": [1], "code": "a\\nb"}}</tool_call><tool_call>{"name": </tool_call>');
  assert.deepEqual(parts.map((p) => p.kind), ["think", "text", "call", "text"]);
  assert.deepEqual([parts[2].name, parts[2].values], ["sum", [["x", "[\n  1\n]"], ["code", "a\nb"]]]);
  assert.equal(partsOf("<tool_call>null</tool_call>")[0].kind, "text");
});

test("calls that the server has read stand in their block", () => {
  const calls = [{ at: 4, text: "so", calls: [{ name: "sum", arguments: { x: [1], code: "a" } }, { name: "f", arguments: "x" }] }], text = '<tool_call>{"name": "g"}</tool_call>';
  const parts = saidIn({ calls }, { role: "assistant", from: 3, to: 6 }, text);
  assert.deepEqual(parts.map((p) => [p.kind, p.name]), [["text", undefined], ["call", "sum"], ["call", "f"]]);
  assert.deepEqual(parts[1].values, [["x", "[\n  1\n]"], ["code", "a"]]);
  for (const [of, block] of [[{ calls }, { role: "assistant", from: 5, to: 9 }], [{ calls }, { role: "user", from: 0, to: 4 }], [{}, { role: "", from: 0, to: 9 }]]) {
    assert.deepEqual(saidIn(of, block, text), partsOf(text));
  }
});

/** answer is a sequence of three tokens, of which two are trained. */
const answer = (more) => numbered({
  tokens: [1, 2, 3], mask: [false, true, true], prompt_tokens: 1,
  streams: { logprobs: [0, -1, -2], old_logprobs: [0, -1.5, -2.25], advantages: [0, 1, 1], ref_logprobs: null, ...more },
  updates: [{ update: 0, now_logprobs: [0, -1.5, -2.25], d_logprobs: [0, -0.5, 0], now_entropies: null }],
});

test("sampler and trainer disagree", () => {
  assert.deepEqual(disagreement(answer()), { mean: 0.375, worst: 0.5, token: 1, count: 2 });
  assert.deepEqual(disagreement(answer({ old_logprobs: null })).worst, 0.5);
  assert.equal(disagreement(answer({ logprobs: null })), null);
  assert.equal(disagreement(answer({ old_logprobs: [0, "NaN", "NaN"] })), null);
});

test("clipped tokens have an advantage and no derivative", () => {
  assert.deepEqual(clippedTokens(answer(), answer().updates[0]), [2]);
  assert.equal(clippedTokens(answer({ advantages: null }), answer().updates[0]), null);
});

test("an answer has the numbers whose streams it has", () => {
  const of = answer(), all = measuresOf(of, of.updates[0]);
  assert.deepEqual(all.map((m) => m.key), ["probability", "ratio", "apart", "advantage", "derivative"]);
  const [probability, , apart, , derivative] = all;
  assert.equal(probability.at(1), Math.exp(-1));
  assert.equal(apart.at(2), -0.25);
  assert.equal(strength(scaled(derivative, of), -1e300), -1);
  assert.equal(strength(scaled(derivative, of), -0.125), -0.5);
  assert.equal(strength(scaled(derivative, of), NaN), 0);
  assert.equal(strength(probability, 1), 0);
  assert.equal(strength(probability, 0), 1);
});

test("what a role does at once stands below one another", () => {
  const span = (begin, end) => ({ begin, end });
  const lanes = ["rollout", "rollout 10", "reward", "rollout 2"].map((name, i) => ({ role: "explorer", name, spans: [span(i, i + 10)] }));
  const { placed, height } = place(lanes);
  assert.deepEqual(placed.map((p) => p.rows.map((lane) => lane.name)), [["rollout", "rollout 2", "rollout 10"], ["reward"]]);
  assert.ok(placed[1].top >= placed[0].top + placed[0].height && height > placed[1].top);
  assert.equal(spanAt(placed, 5, placed[0].top + 1, 0).span, lanes[0].spans[0]);
  assert.equal(spanAt(placed, 12, placed[0].top + 15, 0).span, lanes[3].spans[0]);
  assert.equal(spanAt(placed, 25, placed[0].top + 1, 1), null);
});

test("a wait is for a role, or for the calls of a model", () => {
  const lane = (role, name, ...spans) => ({ role, name, spans: spans.map(([begin, end, kind]) => ({ begin, end, kind: kind || name })) });
  const { placed } = place([
    lane("trainer", "trainer", [0, 20, "wait"], [20, 30, "update"], [30, 50, "wait"]),
    lane("explorer right", "rollout", [0, 10], [18, 49]), lane("explorer left", "wait", [5, 20]), lane("explorer left", "rollout", [0, 19], [25, 60]),
    lane("explorer left", "model_call", [1, 4]), lane("evaluation", "rollout", [0, 20]),
  ]);
  for (const [role, of, end, want] of [
    ["trainer", "explorer", 20, "explorer left rollout"], ["trainer", "explorer", 50, "explorer right rollout"], ["trainer", "explorer", 48.5, "explorer right rollout"],
    ["trainer", "explorer", -9, "explorer right rollout"], ["explorer left", "trainer", 40, "trainer trainer"], ["trainer", "nobody", 20, ""], ["trainer", "", 20, ""],
    ["explorer left", "a slot of the model", 20, "explorer left model_call"], ["explorer right", "a slot of the model", 20, ""], ["trainer", "trainer", 20, ""],
  ]) {
    const found = awaited(placed, placed.find((p) => p.role === role), { for: of, begin: 0, end });
    assert.equal(found ? `${found.role} ${found.name}` : "", want, `${role} for ${of} until ${end}`);
  }
});

test("a range stays within the whole", () => {
  assert.deepEqual(zoom([0, 100], 0.5, 25, [0, 100]), [12.5, 62.5]);
  assert.deepEqual(zoom([0, 100], 4, 0, [0, 100]), [0, 100]);
  assert.deepEqual(within(90, 20, [0, 100]), [80, 100]);
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
});

const written = `name: a # what it is called
model: {model_path: "m x", init: {style: fan_in}}
stages:
  - stage_name: one
    buffer:
      total_steps: 3
  - {stage_name: two, mode: train}
note: |
  name: no key
list: [1, {a: 2}]
`;

test("keys are found in blocks, lists and braces", () => {
  assert.deepEqual(entries(written).map((e) => [e.line + 1, e.path, valueOf(written, e)]), [
    [1, "name", "a"], [2, "model", '{model_path: "m x", init: {style: fan_in}}'], [2, "model.model_path", "m x"], [2, "model.init", "{style: fan_in}"],
    [2, "model.init.style", "fan_in"], [3, "stages", ""], [4, "stages.0.stage_name", "one"], [5, "stages.0.buffer", ""], [6, "stages.0.buffer.total_steps", "3"],
    [7, "stages.1.stage_name", "two"], [7, "stages.1.mode", "train"], [8, "note", "|"], [10, "list", "[1, {a: 2}]"], [10, "list.1.a", "2"],
  ]);
});

test("a form changes, adds and takes out keys, and leaves the rest", () => {
  for (const [path, value, from, to] of [
    ["name", "b", "name: a #", "name: b #"], ["model.model_path", "y: z", '"m x"', '"y: z"'], ["model.init.style", "", "{style: fan_in}", "{}"],
    ["model.model_path", "", '{model_path: "m x", init', "{init"], ["model.init.seed", "1", "fan_in}", "fan_in, seed: 1}"],
    ["stages.0.buffer.batch_size", "8", "      total_steps", "      batch_size: 8\n      total_steps"], ["seed", "3", "{a: 2}]\n", "{a: 2}]\nseed: 3\n"],
    ["trainer.save_interval", "5", "{a: 2}]\n", "{a: 2}]\ntrainer:\n  save_interval: 5\n"], ["name.x", "1", "", ""], ["gone", "", "", ""],
    ["stages.0.buffer.total_steps", "", "      total_steps: 3\n", ""],
  ]) assert.equal(changed(written, path, value), written.replace(from, to), path);
});

test("what is written at a place is known", () => {
  for (const [text, want] of [
    ["mo", { path: "", word: "mo", value: false }], ["model:\n  mod", { path: "model", word: "mod", value: false }],
    ["model: {a: 1, mod", { path: "model", word: "mod", value: false }], ["mode: tr", { path: "mode", word: "tr", value: true }],
    ["a:\n  - b: 1\n    c", { path: "a.0", word: "c", value: false }], ["a: {b: {c: d", { path: "a.b.c", word: "d", value: true }],
    ["# mo", null], ['a: "x', null],
  ]) assert.deepEqual(context(text, text.length), want, text);
});

test("the schema proposes keys and values, in stages too", () => {
  const tree = treeOf([
    { key: "mode", type: "string", default: "both", doc: "", values: ["both", "train"] }, { key: "model", type: "section", default: "", doc: "" },
    { key: "model.model_path", type: "string", default: "", doc: "where" }, { key: "stages", type: "list", default: "", doc: "" },
    { key: "stages.*.mode", type: "string", default: "", doc: "", values: ["", "train"] }, { key: "stages.*.model", type: "section", default: "", doc: "" },
    { key: "tables.<name>.x", type: "bool", default: "", doc: "" },
  ]);
  const names = (path, word, value, written) => proposals(tree, { path, word, value }, written).map((p) => p.name);
  assert.deepEqual(names("", "mo", false), ["mode", "model"]);
  assert.deepEqual(names("", "mo", false, new Set(["mode"])), ["model"]);
  assert.deepEqual(names("stages.1.model", "", false), ["model_path"]);
  assert.deepEqual(names("stages.1.mode", "t", true), ["train"]);
  assert.deepEqual(names("tables.any.x", "", true), ["true", "false"]);
  assert.deepEqual(names("nothing", "", false), []);
});

test("the schema knows the arguments of the plug-in that the text names", () => {
  const plain = { type: "string", default: "", doc: "" };
  const tree = treeOf([
    { ...plain, key: "kind", default: "slow", plugin: "engine" }, { ...plain, key: "kind_args", type: "dict", argsOf: "kind" },
    { ...plain, key: "stages", type: "list" }, { ...plain, key: "stages.*.mode" },
  ], { engine: { slow: [{ ...plain, key: "rest", limits: "at least 1" }], fast: [{ ...plain, key: "gear", values: ["low", "high"] }] } });
  const text = "kind_args: {x: 1}\nstages:\n  - kind: fast\n    kind_args: {gear: low}\n", at = reader(text);
  const names = (path, word, value) => proposals(tree, { path, word, value }, new Set(), at).map((p) => p.name);
  assert.deepEqual(names("kind_args", "", false), ["rest"]);
  assert.equal(nodeAt(tree, "kind_args.rest", at).key.limits, "at least 1");
  assert.deepEqual(names("stages.0.kind_args", "", false), ["gear"]);
  assert.deepEqual(names("stages.0.kind_args.gear", "h", true), ["high"]);
  assert.equal(nodeAt(tree, "kind_args.gear", at), undefined);
});

test("a burst of updates asks twice, and for names with commas", async () => {
  const asked = [];
  Object.assign(globalThis, {
    location: { hash: "" }, sessionStorage: { getItem: () => null },
    fetch: async (path) => {
      asked.push(new URL(path, "http://studio/").searchParams.getAll("name"));
      const header = new TextEncoder().encode(JSON.stringify({ cursor: "c", reset: false, series: [{ name: "a,b", n: 0 }] }).padEnd(84)), body = new Uint8Array(4 + header.length);
      new DataView(body.buffer).setUint32(0, header.length, true);
      body.set(header, 4);
      return new Response(body);
    },
  });
  const { Store } = await import("./series.js"), store = new Store(), { signal } = new AbortController();
  const first = store.update("run", ["a,b"], signal);
  await new Promise((wake) => setTimeout(wake));
  await Promise.all([first, ...Array.from({ length: 50 }, () => store.update("run", ["a,b"], signal))]);
  await store.update("run", ["a,b"], signal);
  assert.ok(asked.length <= 3, `${asked.length} requests`);
  assert.deepEqual(asked[0], ["a,b"]);
});

test("an axis comes from a series of the trainer", async () => {
  const { pointsOf } = await import("./series.js");
  const series = (steps, values) => ({ cursor: "", steps: Float64Array.from(steps), times: Float64Array.from(steps, (s) => 1000 * s), values: Float64Array.from(values) });
  const reward = series([0, 1, 2, 3, 9], [5, 6, 7, 8, 9]);
  assert.deepEqual([...pointsOf(reward, "updates", 0, series([1, 2, 4], [4, 8, 13])).x], [0, 4, 8, 8, 13]);
  assert.deepEqual([...pointsOf(reward, "tokens", 0, series([1, 2, 4], [100, 50, 7])).x], [0, 100, 150, 150, 157]);
  assert.deepEqual([...pointsOf(reward, "time", 1000, undefined).x], [-1, 0, 1, 2, 8]);
  assert.deepEqual([...pointsOf(reward, "updates", 0, undefined).x], []);
});

test("the tokens of an answer lie over its text", () => {
  const pieces = (text, ...tokens) => placed(text, tokens.map((token) => ({ token }))).map((p) => [p.text, p.from, p.to]);
  assert.deepEqual(pieces("Hi you", "Hi", " you", "<|end|>"), [["Hi", 0, 1], [" you", 1, 2], ["", 2, 3]]);
  assert.deepEqual(pieces("a 漢 b", "a ", "\ufffd", "\ufffd", " b"), [["a ", 0, 1], ["漢", 1, 3], [" b", 3, 4]]);
  assert.deepEqual(pieces("🙂", "\ufffd", "\ufffd", "<|end|>"), [["🙂", 0, 2], ["", 2, 3]]);
  assert.deepEqual(pieces("x\ufffdy", "x", "\ufffd", "y"), [["x", 0, 1], ["\ufffd", 1, 2], ["y", 2, 3]]);
  assert.deepEqual(pieces("more than that", "more"), [["more", 0, 1], [" than that", 1, 1]]);
  assert.deepEqual(pieces("", "<|end|>"), [["", 0, 1]]);
});

test("what the server says is found by its format, and its parts are put into the Chinese", () => {
  for (const [text, want] of [
    ['the run "a: b, \\"c\\"" has kept no configuration', '运行 "a: b, \\"c\\"" 没有保存配置'],
    ["run is given 1 times: name 2 to 16 runs", "给出了 1 次 run：请给出 2 至 16 个运行"],
    ["limit is x: want 1 to 9", "limit is x: want 1 to 9"], // no number: another sentence
    ["width is 0: want 1 to 5000 pixels", "width 是 0：应为 1 至 5000 像素"],
    ["the run's configuration cannot be read: open /a/b: no such file or directory", "无法读取此运行的配置：打开 /a/b：没有这样的文件或目录"],
    ["config.yaml:3: buffer.batch_size: the studio ends", "config.yaml:3: buffer.batch_size: 工作室正在结束"],
    ["the studio ends; wait for it", "工作室正在结束；请等待"],
    ['the run "the studio ends" is gone', '运行 "the studio ends" 已不存在'], // a name is a name
    ["  wait for it      the studio ends", "  请等待           工作室正在结束"],
    ["is 7, must be more than 0 and at most 1", "是 7，应为大于 0 且至多 1"],
    ['unknown algorithm "grppo"; did you mean "grpo"?', '未知的 algorithm "grppo"；是否指 "grpo"？'],
    ["cpu, because trainer.trainer_type is auto", "cpu，因为 trainer.trainer_type 是 auto"],
    ["  memory       about 142.9 MiB of 21.4 GiB that are available", "  内存         约 142.9 MiB，可用 21.4 GiB"],
    ["                   1.6 MiB  weights (float32)", "                   1.6 MiB  权重（float32）"],
    ["a sentence that has no Chinese, because nobody wrote it", "a sentence that has no Chinese, because nobody wrote it"],
    ["", ""], ["%s", "%s"], ["constructor", "constructor"], ["toString: valueOf", "toString: valueOf"],
  ]) assert.equal(sentence(text), want);
});

test("a format is compared once: no text makes it try again and again", () => {
  assert.deepEqual(partsIn(formatOf("%s is %d of %[1]s, 100 %%"), "a is 3 of a, 100 %"), ["a", "3"]);
  assert.equal(partsIn(formatOf("%s is %d of %[1]s"), "a is 3 of b"), null);
  assert.deepEqual(partsIn(formatOf("%q and %s"), "`a and b` and c"), ["`a and b`", "c"]);
  assert.equal(partsIn(formatOf("%q and %s"), '"a and b'), null);
  for (const part of ["a is ", ": ", "; ", ", ", '"', "is is ", "the run ", "%s ", " (", '": '])
    assert.equal(typeof sentence(part.repeat(8000 / part.length).trim() + "."), "string");
  const long = "the studio ends; ".repeat(1000);
  assert.equal(sentence(long), long);
});

test("a description is found by its checksum", () => {
  assert.equal(checksum(""), "811c9dc5");
  assert.equal(checksum("a"), "e40c292c");
  assert.equal(checksum("KL 散度"), "f7fb2a27");
});

test("a line has its keys, texts, numbers and comment apart", () => {
  const kinds = (line) => painted(line).filter((p) => p.kind).map((p) => `${p.kind} ${p.text}`);
  for (const [line, want] of [
    ["  - lr: 1e-4 # slow", ["key lr", "number 1e-4", "comment # slow"]],
    ["model: {model_path: 'a b', max: 64, on: true, url: x:y}", ["key model", "key model_path", "quoted 'a b'", "key max", "number 64", "key on", "number true", "key url"]],
    ["name: run_2 of 3b", ["key name"]],
    ['"a b": ${oc.env:HOME}', ['key "a b"', "quoted ${oc.env:HOME}"]],
    ["", []],
  ]) {
    assert.deepEqual(kinds(line), want);
    assert.equal(painted(line).map((p) => p.text).join(""), line);
  }
});
