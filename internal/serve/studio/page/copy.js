// The clipboard.

import { html, useState } from "./vendor/preact.js";
import { t } from "./words.js";

/**
 * CopyButton copies a text, and says so for a moment.
 * @param {{text: () => string, label: string, disabled?: boolean, title?: string}} props
 */
export function CopyButton({ text, label, disabled, title }) {
  const [done, set] = useState(false);
  return html`<button type="button" disabled=${disabled} title=${title} onClick=${async () => {
    await copy(text());
    set(true);
    setTimeout(() => set(false), 1500);
  }}>${done ? t("talk.copied") : label}</button>`;
}

/**
 * copy puts a text into the clipboard, with the older call where the page is not encrypted or lacks the permission.
 * @param {string} text
 */
async function copy(text) {
  try { return await navigator.clipboard.writeText(text); } catch { /* the older call */ }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
