// The images that the model saw with an answer: small, and whole when somebody asks.
import { html, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { plain, useData } from "./parts.js";
import { local, t } from "./words.js";

/** How many images stay in memory, and how many of an answer are shown until somebody wants all. */
const mostKept = 64, mostShown = 12;

/** What was read, by digest: all answers of a group have the same images. @type {Map<string, Promise<string>>} */
const known = new Map();

/**
 * addressOf is what an image's src may be: a data: URL, because a request of the browser itself has no token.
 * @param {string} run @param {string} digest
 */
export function addressOf(run, digest) {
  let address = known.get(digest);
  if (!address) {
    address = api.blob(run, digest).then(written);
    address.catch(() => known.delete(digest));
    known.set(digest, address);
    for (const oldest of known.keys()) if (known.size > mostKept) known.delete(oldest);
  }
  return address;
}

/** written is a file as a data: URL. @param {Blob} file @returns {Promise<string>} */
const written = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result));
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

/** labelOf names an image of an answer. @param {Rollout} of @param {number} nth from 0 */
export const labelOf = (of, nth) => t("image.label", { n: nth + 1, of: (of.images || []).length, tokens: (of.images || [])[nth].len });

/**
 * Images shows the images of an answer whose tokens begin between two places; nothing if there are none.
 * @param {{run: string, of: Rollout, from?: number, to?: number}} props
 */
export function Images({ run, of, from = 0, to = Infinity }) {
  const [all, open] = useState(false);
  const here = (of.images || []).map((image, nth) => ({ image, nth })).filter(({ image }) => image.at >= from && image.at < to);
  const shown = all ? here : here.slice(0, mostShown);
  if (!here.length) return null;
  return html`<div class="images">${shown.map(({ image, nth }) => html`
      <${One} key=${nth} run=${run} digest=${image.digest} says=${labelOf(of, nth)} />`)}
    ${shown.length < here.length && html`
      <button class="link" onClick=${() => open(true)}>${t("image.more", { n: here.length - shown.length })}</button>`}</div>`;
}

/** One is an image, small until it is clicked. @param {{run: string, digest: string, says: string}} props */
function One({ run, digest, says }) {
  const [whole, enlarge] = useState(false);
  const address = useData(() => addressOf(run, digest), [run, digest]);
  if (address.error) return html`<p class="error" role="alert">${says}: ${plain(local(address.error.message))}</p>`;
  return html`<button class=${whole ? "image whole" : "image"} aria-expanded=${whole} title=${t(whole ? "image.small" : "image.whole")}
    onClick=${() => enlarge(!whole)}>${address.value ? html`<img src=${address.value} alt=${says} />` : says}</button>`;
}

/** Small is the first image of an answer in a line of a table. @param {{run: string, of: Rollout}} props */
export function Small({ run, of }) {
  const first = (of.images || [])[0];
  const address = useData(() => first ? addressOf(run, first.digest) : Promise.resolve(""), [run, first && first.digest]);
  return address.value ? html`<img class="image-small" src=${address.value} alt=${labelOf(of, 0)} />${" "}` : null;
}

/**
 * drawIn puts an image before the text of an element, which says what it is.
 * @param {HTMLElement} element @param {string} run @param {string} digest
 */
export function drawIn(element, run, digest) {
  const img = document.createElement("img");
  img.alt = "";
  addressOf(run, digest).then((address) => { img.src = address; element.prepend(img); }, () => { /* the page says elsewhere why */ });
}
