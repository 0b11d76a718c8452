// Routes: `#/curves?run=a&run=b`.

/** parse takes a route apart. @param {string} hash */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { route: path.replace(/\/$/, "") || "runs", query: new URLSearchParams(query) };
}

/** @param {URLSearchParams} query @param {Parameters_} parameters */
function change(query, parameters) {
  for (const [name, value] of Object.entries(parameters)) {
    query.delete(name);
    for (const one of [value ?? []].flat()) query.append(name, String(one));
  }
}

/** href is the address of a route, for links. @param {string} route @param {Parameters_} [parameters] */
export function href(route, parameters = {}) {
  const query = new URLSearchParams();
  change(query, parameters);
  const text = query.toString();
  return "#/" + route + (text && "?" + text);
}

/** go shows a route; "" is the present one, whose other parameters stay. @type {Go} */
export function go(route, parameters = {}, { replace = false } = {}) {
  let to = href(route, parameters);
  if (route === "") {
    const now = parse(location.hash);
    change(now.query, parameters);
    const text = now.query.toString();
    to = "#/" + now.route + (text && "?" + text);
  }
  if (replace) location.replace(to);
  else location.hash = to;
}
