// What a run prints, live, for runs that the studio has started.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import * as api from "./api.js";
import { Actions } from "./act.js";
import { Loaded, State, number, plain, useData, useEvery, visible } from "./parts.js";
import { Token, isTokenMissing } from "./token.js";
import { local, t } from "./words.js";

/** The time before a line of a run that the studio did not start. */
const STAMP = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z /gm;

const RELOAD = 1000, MOST = 200000; // milliseconds; characters that are kept

/** @param {PageProps} props */
export function Log({ query }) {
  const id = query.get("run") || "";
  const about = useData(api.about, []), all = useData((signal) => api.runs(signal, id), [id]);
  const [failed, fail] = useState(/** @type {Error | null} */ (null));
  useEvery(2 * RELOAD, all.again);
  const runs = all.value ? [...all.value.runs].sort((a, b) => a.began - b.began) : [];
  return html`
    <${Loaded} data=${all} />
    ${all.value && !runs.length && html`<p class="muted" role="status">${t("log.young")}</p>`}
    ${runs.map((run) => html`<div class="row" key=${run.id}>${run.stage && html`<b>${plain(run.stage)}</b>`}<${State} run=${run} />
      <span class="muted">${t("step.n", { step: number(run.step) })}${run.total_steps > 0 && " / " + number(run.total_steps)}</span>
      <${Actions} run=${run} control=${!!about.value && about.value.control} onEnd=${(/** @type {Error | null} */ error) => {
        fail(error);
        all.again();
      }} />${run.error && html`<span class="error">${plain(local(run.error))}</span>`}</div>`)}
    ${isTokenMissing(failed) ? html`<${Token} />` : failed && html`<p class="error" role="alert">${plain(local(failed.message))}</p>`}
    <${Lines} key=${id} id=${id} />`;
}

/** @param {{id: string}} props */
function Lines({ id }) {
  const [{ text, error, elsewhere }, set] = useState(/** @type {{text: string, error?: Error, elsewhere?: boolean}} */ ({ text: "" }));
  const cursor = useRef(/** @type {number | undefined} */ (undefined)), busy = useRef(false), bottom = useRef(true);
  const box = useRef(/** @type {any} */ (null));
  const read = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      const got = await api.log(id, cursor.current);
      cursor.current = got.cursor;
      if (!got.started && got.reset && !got.text) set({ text: "", elsewhere: true });
      else if (got.reset || got.text) set((before) => ({
        text: ((got.reset ? "" : before.text) + got.text.replace(STAMP, "$1 $2 ")).slice(-MOST) }));
    } catch (failure) {
      set((before) => ({ ...before, error: /** @type {Error} */ (failure) }));
    }
    busy.current = false;
  };
  useEffect(() => { read(); }, []);
  useEvery(RELOAD, read);
  useLayoutEffect(() => { if (bottom.current && box.current) box.current.scrollTop = box.current.scrollHeight; }, [text]);
  if (elsewhere) return html`<p class="panel">${t("log.elsewhere")}</p>`;
  if (error && !text) return html`<p class="panel">${plain(local(error.message))}</p>`;
  return html`<div class="panel text mono log" ref=${box} tabindex="0" role="region" aria-label=${t("page.log")}
    onScroll=${(/** @type {any} */ e) => { bottom.current = e.currentTarget.scrollTop + e.currentTarget.clientHeight > e.currentTarget.scrollHeight - 30; }}>${visible(text)}</div>`;
}
