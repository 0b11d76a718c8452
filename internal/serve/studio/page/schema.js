// The keys that a configuration may have, as a tree. This module touches no page: a test runs it alone.

/** @typedef {{key?: SchemaKey, below: Map<string, Node>, plugins?: Schema["plugins"]}} Node */

/** @param {SchemaKey[]} keys @param {Schema["plugins"]} [plugins] @returns {Node} */
export function treeOf(keys, plugins) {
  /** @type {Node} */
  const root = { below: new Map(), plugins };
  for (const key of keys) {
    let at = root;
    for (const name of key.key.split(".")) {
      if (!at.below.has(name)) at.below.set(name, { below: new Map() });
      at = /** @type {Node} */ (at.below.get(name));
    }
    at.key = key;
  }
  return root;
}

/**
 * nodeAt returns what the schema knows of a path of a configuration. A stage has the sections of the whole.
 * Arguments are those of the plug-in that valueAt, the value at a path, says.
 * @param {Node} root @param {string} path @param {(path: string) => string} [valueAt]
 * @returns {Node | undefined}
 */
export function nodeAt(root, path, valueAt = () => "") {
  const names = path === "" ? [] : path.split(".");
  const step = (/** @type {Node | undefined} */ at, /** @type {string} */ name) =>
    at && (at.below.get(name) ?? (/^\d+$/.test(name) ? at.below.get("*") : undefined) ?? at.below.get("<name>"));
  const walk = (/** @type {string[]} */ names, /** @type {string[]} */ above) => names.reduce((at, name, i) => {
    const next = step(at, name), naming = next?.key?.argsOf;
    return naming && at ? withArguments(root, next, at, valueAt([...above, ...names.slice(0, i), naming].join("."))) : next;
  }, /** @type {Node | undefined} */ (root));
  const found = walk(names, []);
  if (names[0] !== "stages" || names.length < 3) return found;
  return found && (found.below.size || found.key?.type !== "section") ? found : walk(names.slice(2), names.slice(0, 2)) ?? found;
}

/**
 * withArguments returns a node with the arguments of the plug-in that the key beside it names.
 * @param {Node} root @param {Node} node @param {Node} section @param {string} name @returns {Node}
 */
function withArguments(root, node, section, name) {
  const naming = section.below.get(node.key?.argsOf ?? "")?.key;
  const all = root.plugins?.[naming?.plugin ?? ""]?.[name || (naming?.default ?? "")] ?? [];
  return { key: node.key, below: new Map(all.map((key) => [key.key, { key, below: new Map() }])) };
}

/**
 * proposals returns what may be written: keys below a path, or values of a key, those that begin with the word first.
 * @param {Node} root @param {{path: string, word: string, value: boolean}} context @param {Set<string>} [written] names that stand there already
 * @param {(path: string) => string} [valueAt] the value at a path
 * @returns {{name: string, doc: string, type: string, section: boolean}[]}
 */
export function proposals(root, { path, word, value }, written = new Set(), valueAt = undefined) {
  const node = nodeAt(root, path, valueAt);
  if (!node) return [];
  const low = word.toLowerCase();
  const fits = (/** @type {string} */ name) => name.toLowerCase().includes(low);
  const first = (/** @type {{name: string}} */ a, /** @type {{name: string}} */ b) => Number(b.name.toLowerCase().startsWith(low)) - Number(a.name.toLowerCase().startsWith(low));
  if (value) {
    const values = node.key?.type === "bool" ? ["true", "false"] : node.key?.values ?? [];
    return values.filter((v) => v !== "" && fits(v)).map((name) => ({ name, doc: node.key?.doc ?? "", type: "", section: false })).sort(first);
  }
  return [...node.below].filter(([name]) => !/^[*<]/.test(name) && fits(name) && (name === word || !written.has(name)))
    .map(([name, n]) => ({ name, doc: n.key?.doc ?? "", type: n.key ? n.key.type : "section", section: !n.key || n.key.type === "section" })).sort(first);
}
