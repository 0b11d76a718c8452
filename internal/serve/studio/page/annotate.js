// Annotate: the books of decisions, on which people compare answers. Each has a page of its own, /annotate/ID/.

import { html } from "./vendor/preact.js";
import * as api from "./api.js";
import { Loaded, plain, useData } from "./parts.js";
import { href } from "./route.js";
import { t } from "./words.js";

/** Annotate is the page. */
export function Annotate() {
  const about = useData(api.about, []), all = useData(api.annotations, []);
  if (!all.value) return html`<${Loaded} data=${all} />`;
  return html`<p class="muted">${t("annotate.intro")}</p>
    ${about.value && !about.value.control && html`<p class="muted">${t("annotate.readonly")}</p>`}
    ${!all.value.books.length && html`<p class="muted">${t("annotate.none")}</p>`}
    ${all.value.books.map((book) => html`<section class="panel books" key=${book.id}>
      <div class="row"><h2 class="grow">${plain(book.data)}</h2>
        ${about.value && about.value.control && html`<a class="button" href=${`annotate/${book.id}/`}>${t("annotate.open")}</a>`}</div>
      ${book.run && html`<p><a href=${href("data", { run: book.run })}>${plain(book.run)}</a></p>`}
      <p class="muted">${t("annotate.dir", { dir: plain(book.dir) })}</p>
    </section>`)}`;
}
