"use strict";

// The words of the page: those of index.html are English, and its attributes data-t and data-title name them here.
const english = {
  done: "{done} of {pairs} pairs done, you have decided on {mine}", agree: "; annotators agree on {share} % of {pairs} pairs",
  kappa: ", {name}'s κ {kappa}", rest: "Nothing is left for you now; what others are at may come back.",
  all: "All pairs are done. Thank you! (u takes the last decision back.)", rated: "rated {n}", edited: "edited", empty: "An empty answer cannot be learnt.",
  opens: "Opening the data …",
  lost: "No answer ({error}). Nothing was lost: try again.",
};
const chinese = {
  done: "已完成 {done} / {pairs} 对，你决定了 {mine} 对", agree: "；标注者在 {pairs} 对中有 {share} % 一致", kappa: "，{name} 的 κ {kappa}",
  rest: "现在没有留给你的了；别人正在处理的可能会回来。", all: "全部完成。谢谢！（u 撤回上一个决定。）", rated: "评分 {n}", edited: "已编辑",
  empty: "空的回答无法学习。", opens: "正在打开数据 …", lost: "没有响应（{error}）。没有丢失任何内容：请重试。",
  title: "哪个回答更好？", other: "换一个名字工作", keys: "按键 (?)", yourname: "你的名字", begin: "开始", prompt: "提示", left: "左边的回答", right: "右边的回答",
  isleft: "← 左边更好", equal: "= 一样好", isright: "右边更好 →", rate: "评分", edit: "编辑", skip: "跳过", undo: "撤回",
  kside: "左边、右边的回答更好", kequal: "两者一样好", kskip: "跳过：由别人判断", kundo: "撤回，次数不限", kmark: "标记另一个回答",
  krate: "给标记的回答评分，5 最好；再按一次取消", kedit: "编辑标记的回答；Ctrl+Enter 保留，Esc 放弃。若你之后选择该回答，编辑才有效", khelp: "显示或隐藏此帮助",
};
const inChinese = localStorage.getItem("language") === "zh";

// t returns a sentence with its values.
const t = (key, values = {}) => ((inChinese && chinese[key]) || english[key]).replace(/{(\w+)}/g, (_, name) => values[name]);

// local returns a sentence of the server in the studio's language. The studio has its Chinese; elsewhere it stays English.
const local = (text) => (text && inChinese ? import("../../zh.js").then((zh) => zh.sentence(text), () => text) : text);

// What the studio keeps in the browser holds here too: its token, language and colours.
const studio = (key) => (typeof sessionStorage === "undefined" ? null : sessionStorage.getItem(key));
const token = new URLSearchParams(location.search).get("token") || studio("token");
const at = (id) => document.getElementById(id);
const answers = ["left", "right"];

let name = localStorage.getItem("annotator") || "";
let pair = null; // what is shown
let ratings, edits; // of it, by side
let marked = "left";
let editing = false;
let busy = false; // a request is in flight
let renewal; // timer

// ask posts a request and returns the reply; an error becomes a message and undefined.
async function ask(path, fields) {
  try {
    const headers = { "Content-Type": "application/json" };
    if (token) headers.Authorization = "Bearer " + token;
    const response = await fetch("api/" + path, { method: "POST", headers, body: JSON.stringify({ annotator: name, ...fields }) });
    const reply = await response.json();
    const decided = response.status === 409 && await ask("next", {}); // in another window: go on with what comes next
    say(await local(reply.error || ""), true);
    return decided || (reply.error ? undefined : reply);
  } catch (error) {
    say(t("lost", { error: error.message }), true);
  }
}

// turn asks for what is to be shown next; keys that are pressed meanwhile do nothing.
async function turn(path, fields) {
  busy = true;
  show(await ask(path, fields));
  busy = false;
}

function say(text, isError) {
  at("message").textContent = text;
  at("message").className = isError ? "error" : "";
}

// show takes a reply in.
function show(reply) {
  if (!reply) return;
  const p = reply.progress;
  at("bar").max = p.pairs;
  at("bar").value = p.done;
  at("progress").textContent = t("done", p) + agreement(p.agreement);
  clearInterval(renewal);
  renewal = setInterval(renew, 1000 * reply.renew);
  pair = reply.pair;
  editing = false;
  marked = "left";
  at("pair").hidden = !pair;
  if (!pair) {
    say(t(p.done < p.pairs ? "rest" : "all"));
    return;
  }
  ratings = pair.before ? pair.before.ratings : { left: 0, right: 0 };
  edits = pair.before ? pair.before.edits : { left: null, right: null };
  at("prompt").replaceChildren(...pair.prompt.flatMap((m) => [labelled("role", m.role), ...text(m.content)]));
  answers.forEach(draw);
  at("left").focus();
}

function agreement(a) {
  if (!a.pairs) return "";
  const kappa = a.kappa === null ? "" : t("kappa", { name: a.name, kappa: a.kappa.toFixed(2) });
  return t("agree", { share: Math.round(100 * a.share), pairs: a.pairs }) + kappa;
}

// renew keeps the pair, or looks whether there is one again. What is on the screen stays there: a decision on it counts in any case.
async function renew() {
  if (busy || !name) return;
  const shown = pair;
  const reply = await ask("next", {});
  if (!shown && !pair) show(reply);
}

// draw shows an answer as it is now.
function draw(side) {
  const state = [ratings[side] ? t("rated", { n: ratings[side] }) : "", edits[side] === null ? "" : t("edited")].filter(Boolean).join(", ");
  at(side).replaceChildren(labelled("state", state), ...text(edits[side] ?? pair[side]));
  at(side).className = side === marked ? "answer marked" : "answer";
}

// text makes elements of what a model wrote: blocks of code between fences of ```, and text. Nothing of it is read as HTML.
function text(content) {
  return content.split(/^(```[^\n]*\n[^]*?^```[^\S\n]*$)/m).filter(Boolean).map((part) => {
    const code = /^```[^\n]*\n([^]*?)^```[^\S\n]*$/m.exec(part);
    const e = document.createElement(code ? "pre" : "p");
    e.className = code ? "" : "text";
    e.textContent = code ? code[1] : part;
    return e;
  });
}

function labelled(className, content) {
  const e = document.createElement("div");
  e.className = className;
  e.textContent = content || "";
  return e;
}

function mark(side) {
  marked = side;
  answers.forEach((s) => { at(s).className = s === marked ? "answer marked" : "answer"; });
}

function rate(n) {
  ratings[marked] = ratings[marked] === n ? 0 : n;
  draw(marked);
}

function edit() {
  const area = document.createElement("textarea");
  area.value = edits[marked] ?? pair[marked];
  at(marked).replaceChildren(area);
  editing = true;
  area.focus();
}

function endEdit(keep) {
  const value = at(marked).firstChild.value;
  if (keep && value.trim() === "") return say(t("empty"), true);
  if (keep) edits[marked] = value === pair[marked] ? null : value;
  editing = false;
  draw(marked);
  at(marked).focus();
}

function decide(verdict) { turn("decide", { pair: pair.id, verdict, ratings, edits }); }

function help() { at("help").open ? at("help").close() : at("help").showModal(); }

const keys = {
  ArrowLeft: () => decide("left"), ArrowRight: () => decide("right"), "=": () => decide("tie"), s: () => decide("skip"), e: edit,
  1: () => rate(1), 2: () => rate(2), 3: () => rate(3), 4: () => rate(4), 5: () => rate(5),
};

// press does what a key does. What is being edited is kept first; what needs a pair does nothing without one.
function press(key) {
  if (key === "?") return help();
  if (busy || !name || at("help").open) return;
  if (editing) endEdit(true);
  if (editing) return;
  if (key === "u") turn("undo", {});
  else if (pair) keys[key]();
}

document.addEventListener("keydown", (event) => {
  if (editing && (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey)))) {
    event.preventDefault();
    return endEdit(event.key === "Enter");
  }
  const typing = event.target.tagName === "TEXTAREA" || event.target.tagName === "INPUT";
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?" || event.key === "u" || keys[event.key]) {
    event.preventDefault();
    press(event.key);
  }
});

document.querySelectorAll("nav button").forEach((b) => b.addEventListener("click", () => { press(b.dataset.key); }));
answers.forEach((side) => at(side).addEventListener("focusin", () => { if (!editing) mark(side); }));
at("help-button").addEventListener("click", help);
at("name").addEventListener("click", () => enter(""));
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(at("who").value.trim());
});

// enter begins under a name; without one it asks for it.
function enter(as) {
  name = as;
  localStorage.setItem("annotator", name);
  at("name").textContent = name;
  at("name").hidden = !name;
  at("login").hidden = !!name;
  at("pair").hidden = true;
  pair = null;
  if (!name) return at("who").focus();
  say(t("opens"));
  turn("next", {});
}

// translate puts the words of the studio's language in place of the English ones, and takes its colours.
function translate() {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
  if (!inChinese) return;
  document.documentElement.lang = "zh";
  document.title = chinese.title;
  document.querySelectorAll("[data-t]").forEach((e) => { e.textContent = chinese[e.dataset.t]; });
  document.querySelectorAll("[data-title]").forEach((e) => { e.title = chinese[e.dataset.title]; });
  document.querySelectorAll("[data-label]").forEach((e) => { e.setAttribute("aria-label", chinese[e.dataset.label]); });
}

translate();
enter(name);
