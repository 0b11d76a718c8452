// The keys that a configuration may have, as a tree. This module touches no page: a test runs it alone.

/** @typedef {{key?: SchemaKey, below: Map<string, Node>}} Node */

/** @param {SchemaKey[]} keys @returns {Node} */
export function treeOf(keys) {
  /** @type {Node} */
  const root = { below: new Map() };
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
 * @param {Node} root @param {string} path
 * @returns {Node | undefined}
 */
export function nodeAt(root, path) {
  const names = path === "" ? [] : path.split(".");
  const walk = (/** @type {string[]} */ names) => names.reduce((/** @type {Node | undefined} */ at, name) =>
    at && (at.below.get(name) ?? (/^\d+$/.test(name) ? at.below.get("*") : undefined) ?? at.below.get("<name>")), root);
  const found = walk(names);
  if (names[0] !== "stages" || names.length < 3) return found;
  return found && (found.below.size || found.key?.type !== "section") ? found : walk(names.slice(2)) ?? found;
}

/**
 * proposals returns what may be written: keys below a path, or values of a key, those that begin with the word first.
 * @param {Node} root @param {{path: string, word: string, value: boolean}} context @param {Set<string>} [written] names that stand there already
 * @returns {{name: string, doc: string, type: string, section: boolean}[]}
 */
export function proposals(root, { path, word, value }, written = new Set()) {
  const node = nodeAt(root, path);
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
