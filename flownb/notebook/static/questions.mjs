// @ts-check
// Below the main area: open questions that two buttons answer, forms that are not open yet, and what went wrong.
import { button, glyph, make, setText } from "./common.mjs";

/**
 * The questions to draw: an open form stands below the panel, drawn by Python.
 * @param {any} live
 * @returns {any[]}
 */
export const toDraw = (live) =>
  live.ended || live.bye ? [] : (live.questions ?? []).filter((/** @type {any} */ q) => q.kind === "bool" || !q.open);

/** @param {{ answer: (id: string, value: boolean) => number, form: (id: string) => number }} hooks each gives the intent's id */
export function questions(hooks) {
  const el = make("div", { class: "fl-questions" });
  /** @type {Map<string, { el: any, buttons: HTMLButtonElement[], said: any, title: any, by: any, intent: number }>} */
  const rows = new Map();

  /** @param {any} q */
  function makeRow(q) {
    const said = make("span", { class: "fl-dim fl-said" });
    const title = make("span", { class: "fl-qtitle" });
    const by = make("span", { class: "fl-dim fl-by" });
    const act = (/** @type {() => number} */ send) => () => {
      const row = rows.get(q.id);
      if (!row || row.intent) return;
      row.intent = send();
      for (const b of row.buttons) b.disabled = true;
      setText(said, q.kind === "bool" ? "sent" : "opening…");
      row.el.focus({ preventScroll: true });
    };
    const buttons =
      q.kind === "bool"
        ? [
            button(
              "cont",
              "Approve",
              act(() => hooks.answer(q.id, true)),
              { cls: "yes", tip: `Approve: ${q.title}` },
            ),
            button(
              "close",
              "Reject",
              act(() => hooks.answer(q.id, false)),
              { cls: "no", tip: `Reject: ${q.title}` },
            ),
          ]
        : [
            button(
              "down",
              "Open form",
              act(() => hooks.form(q.id)),
              { cls: "yes", tip: `Open form: ${q.title}` },
            ),
          ];
    if (q.kind === "bool") buttons[0].firstChild?.replaceWith(glyph("done"));
    const head = make(
      "div",
      { class: "fl-qhead" },
      glyph("person"),
      make("b", { text: "Needs you:" }),
      make("span", { class: "fl-qstep", text: q.step }),
      by,
    );
    const row = make(
      "div",
      { class: "fl-q", role: "group", "aria-label": `${q.step} asks`, tabindex: -1, "data-request": q.id },
      head,
      make("div", { class: "fl-qbody" }, title, make("span", { class: "fl-qacts" }, ...buttons, said)),
    );
    return { el: row, buttons, said, title, by, intent: 0 };
  }

  return {
    el,
    /** @param {any} live */
    draw(live) {
      const wanted = toDraw(live);
      const ids = new Set(wanted.map((q) => q.id));
      for (const [id, row] of rows) {
        if (ids.has(id)) continue;
        row.el.remove();
        rows.delete(id);
      }
      for (const q of wanted) {
        const row = rows.get(q.id) ?? makeRow(q);
        if (!rows.has(q.id)) {
          rows.set(q.id, row);
          el.append(row.el);
        }
        setText(row.title, q.title);
        setText(row.by, q.by ?? "");
      }
    },
    /** The engine refused intent `id`: the buttons work again. @param {number} id */
    refused(id) {
      for (const row of rows.values()) {
        if (row.intent !== id) continue;
        row.intent = 0;
        for (const b of row.buttons) b.disabled = false;
        setText(row.said, "");
      }
    },
  };
}

/**
 * What went wrong, in words: the run's own error, the first difference of a replay, and refusals that stay until they are
 * read.
 * @param {{ select: (step: string) => void, go?: (seq: number) => void }} hooks
 */
export function problems(hooks) {
  const failure = make("div", { class: "fl-failure", hidden: true });
  const replay = make("div", { class: "fl-replay", hidden: true });
  const refusals = make("div", { class: "fl-refusals" });
  let shown = "";
  let replayed = "";
  return {
    el: make("div", { class: "fl-problems" }, failure, replay, refusals),
    /** Of a replay. @param {{ run: string, text: string, step: string, seq: number } | null | undefined} line */
    replay(line) {
      const key = JSON.stringify(line ?? null);
      if (key === replayed) return;
      replayed = key;
      replay.hidden = !line?.text;
      if (!line?.text) return;
      replay.classList.toggle("differs", Boolean(line.step || line.seq));
      const { seq } = line;
      const to = make("button", {
        type: "button",
        class: "fl-link",
        text: `#${seq}`,
        "aria-label": `go to tick ${seq}`,
      });
      to.addEventListener("click", () => hooks.go?.(seq));
      replay.replaceChildren(
        make("b", { text: line.step || seq ? `First difference from ${line.run}: ` : `Compared with ${line.run}: ` }),
        line.step ? make("span", { class: "mono", text: `${line.step} ` }) : "",
        make("span", { text: line.text }),
        seq ? make("span", {}, " ", to) : "",
      );
    },
    /** @param {{ step: string, type: string, text: string } | null | undefined} error */
    failure(error) {
      const key = JSON.stringify(error ?? null);
      if (key === shown) return;
      shown = key;
      failure.hidden = !error;
      if (!error) return;
      const where = error.step
        ? make("button", {
            type: "button",
            class: "fl-link",
            text: error.step,
            title: "show its ticks",
            onclick: () => hooks.select(error.step),
          })
        : make("b", { text: "The run" });
      failure.replaceChildren(
        make(
          "div",
          { class: "fl-fhead" },
          glyph("failed"),
          where,
          make("span", { text: " failed: " }),
          make("b", { class: "mono", text: error.type }),
        ),
        make("div", { class: "fl-ftext", text: error.text }),
      );
    },
    /** @param {string} text */
    refusal(text) {
      if (refusals.lastElementChild?.textContent === text) return;
      const line = make("div", { class: "fl-refusal" }, glyph("failed"), make("span", { text }));
      line.append(button("close", "dismiss", () => line.remove(), { quiet: true, cls: "bare" }));
      refusals.append(line);
      while (refusals.childElementCount > 3) refusals.firstElementChild?.remove();
    },
  };
}
