// Runs whose settings differ in their names and seeds alone are a group.

/** The settings of a run by key, without those that name it or are seeds. Paths lack its name. @param {RunDetails} run */
function comparable(run) {
  const out = {};
  for (const [key, value] of Object.entries(run.settings ?? {}).sort()) {
    if (key === "name" || key === "seed" || key.endsWith(".seed")) continue;
    out[key] = String(JSON.stringify(value)).replaceAll("/" + run.name + "/", "/…/");
  }
  return out;
}

/** @param {RunDetails[]} runs @returns {{name: string, runs: string[]}[]} in the order of the first runs */
export function groupsOf(runs) {
  /** @type {Map<string, RunDetails[]>} */
  const groups = new Map();
  for (const run of runs) {
    const key = run.stage + JSON.stringify(comparable(run));
    groups.set(key, [...groups.get(key) ?? [], run]);
  }
  return [...groups.values()].map((members) => ({ name: shared(members.map((run) => run.id)), runs: members.map((run) => run.id) }));
}

/** How the names begin, without _seed. @param {string[]} names */
function shared(names) {
  if (names.length === 1) return names[0];
  let begin = names[0];
  for (const name of names) while (!name.startsWith(begin)) begin = begin.slice(0, -1);
  return begin.replace(/[-_. (]*(seed)?[-_. (]*\d*$/, "") || names.join(", ");
}

/** The settings in which runs differ, by key. @param {RunDetails[]} runs @returns {{key: string, values: unknown[]}[]} */
export function differences(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings ?? {})))].sort();
  return keys.map((key) => ({ key, values: runs.map((run) => run.settings?.[key]) }))
    .filter(({ values }) => values.some((v) => JSON.stringify(v) !== JSON.stringify(values[0])));
}
