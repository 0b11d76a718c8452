// Runs page.js against a server, with just as much of a browser as it uses, and presses keys: node page.mjs URL TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [url, token] = process.argv.slice(2);

class Element {
  constructor(tag) { Object.assign(this, { tagName: tag.toUpperCase(), children: [], listeners: {}, dataset: {}, hidden: true, className: "", value: "", open: false, own: "" }); }
  set textContent(text) { this.children = []; this.own = text; }
  get textContent() { return this.own + this.children.map((c) => c.textContent).join(""); }
  get firstChild() { return this.children[0]; }
  replaceChildren(...children) { this.own = ""; this.children = children; }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  focus() { focused = this; this.listeners.focusin?.(); }
  showModal() { this.open = true; }
  close() { this.open = false; }
}

let focused;
const byID = {};
const buttons = ["ArrowLeft", "=", "ArrowRight", "e", "s", "u"].map((key) => Object.assign(new Element("button"), { dataset: { key } }));
const documentListeners = {};
const document = {
  getElementById: (id) => (byID[id] ??= new Element(id === "who" ? "input" : "section")),
  createElement: (tag) => new Element(tag),
  addEventListener: (kind, listener) => { documentListeners[kind] = listener; },
  querySelectorAll: () => buttons,
};
let pending = 0;
const browser = {
  document, URLSearchParams, console, location: { search: token ? `?token=${token}` : "" }, localStorage: { getItem: () => null, setItem() {} },
  setInterval: (f) => f, clearInterval() {},
  fetch: async (path, options) => {
    pending++;
    try { return await fetch(url + path, options); } finally { pending--; }
  },
};
vm.runInNewContext(readFileSync(new URL("../page/page.js", import.meta.url), "utf8"), browser);

const at = document.getElementById;
const settle = async () => { do await new Promise((r) => setTimeout(r, 5)); while (pending); await new Promise((r) => setTimeout(r, 5)); };
const press = async (key, more = {}) => {
  documentListeners.keydown({ key, target: focused, preventDefault() {}, ...more });
  await settle();
};
const shown = (side) => at(side).textContent;

assert.equal(at("login").hidden, false, "a stranger is asked for a name");
at("who").value = " ann ";
at("login").listeners.submit({ preventDefault() {} });
await settle();
assert.equal(at("message").textContent, "");
assert.equal(at("name").textContent, "ann");
assert.equal(at("prompt").textContent, "userp");
assert.deepEqual([shown("left"), shown("right")].sort(), ["<b>p1", "p2"], "what is no text shows as text");
assert.match(at("progress").textContent, /^0 of 4 pairs done/);

// rate both, edit the left answer, prefer it
await press("5");
assert.match(shown("left"), /^rated 5/);
await press("5");
assert.doesNotMatch(shown("left"), /rated/, "the same again takes it back");
await press("4");
at("right").focus();
await press("2");
assert.match(shown("right"), /^rated 2/);
at("left").focus();
await press("e");
assert.equal(focused.tagName, "TEXTAREA");
await press("s"); // a letter of the text
focused.value = "mine";
await press("Enter", { ctrlKey: true });
assert.equal(shown("left"), "rated 4, editedmine");
await press("e");
focused.value = "not this";
await press("Escape");
assert.equal(shown("left"), "rated 4, editedmine");
await press("ArrowLeft", { repeat: true });
await press("ArrowLeft", { ctrlKey: true });
assert.equal(at("prompt").textContent, "userp", "keys that are held or have another meaning decide nothing");
await press("ArrowLeft");
assert.equal(at("prompt").textContent, "userq");
assert.match(at("progress").textContent, /^1 of 4 pairs done, you have decided on 1/);

// what another window has decided otherwise is told, and passed over
const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
const elsewhere = async (path, fields) => (await fetch(url + "api/" + path, { method: "POST", headers, body: JSON.stringify({ annotator: "ann", ...fields }) })).json();
const other = (await elsewhere("next", {})).pair.id;
await elsewhere("decide", { pair: other, verdict: "skip" });
await press("=");
assert.match(at("message").textContent, /undo that first/);
assert.equal(at("prompt").textContent, "userr");
await press("u");
await press("u");
assert.equal(at("prompt").textContent, "userp");
await press("ArrowLeft");
assert.equal(at("prompt").textContent, "userq");

// undo brings it back as it was
await press("u");
assert.equal(at("prompt").textContent, "userp");
assert.equal(shown("left"), "rated 4, editedmine");
assert.match(shown("right"), /^rated 2/);
await press("ArrowLeft");

// a tie, a skip, and the right answer, by a button and while an edit is open
buttons[1].listeners.click();
await settle();
assert.equal(at("prompt").textContent, "userr");
await press("?");
assert.equal(at("help").open, true);
await press("s");
assert.equal(at("prompt").textContent, "userr", "nothing is decided behind the help");
await press("?");
await press("s");
assert.equal(at("prompt").textContent, "users");
at("right").focus();
await press("e");
focused.value = " ";
buttons[2].listeners.click();
await settle();
assert.match(at("message").textContent, /empty answer/);
focused.value = "also mine";
buttons[2].listeners.click();
await settle();
assert.equal(at("pair").hidden, true);
assert.match(at("message").textContent, /^Nothing is left for you/);
await press("ArrowLeft"); // of what is not there

// blocks of code
const parts = browser.text("a <i>\n```go\nx := 1\n```\nb\n```\nnot closed");
assert.equal(JSON.stringify(parts.map((p) => [p.tagName, p.textContent])), JSON.stringify([["P", "a <i>\n"], ["PRE", "x := 1\n"], ["P", "\nb\n```\nnot closed"]]));
