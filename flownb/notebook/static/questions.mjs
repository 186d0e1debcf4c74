// @ts-check
// Below the main area: open questions that two buttons answer, questions that are lines, how the last ones ended.
import { button, glyph, make, setText } from "./common.mjs";
import { count, left } from "./captions.mjs";

/** From so many seconds on a countdown is marked. */
const SOON_S = 10;

/**
 * The questions to draw: an open form stands below the panel, drawn by Python.
 * @param {any} live
 * @returns {any[]}
 */
export const toDraw = (live) =>
  live.ended || live.bye ? [] : (live.questions ?? []).filter((/** @type {any} */ q) => q.kind === "bool" || !q.open);

/**
 * The words of a countdown, "" without one: "default reject in 0:52", "held: no deadline".
 * @param {any} q @param {number} now the run's clock, in seconds
 */
export function countdown(q, now) {
  if (q.due === null || q.due === undefined) return q.held ? "held: no deadline" : "";
  return `${q.words} in ${left(q.due - now)}`;
}

/** Whether a deadline is near. @param {any} q @param {number} now */
export const isSoon = (q, now) => q.due !== null && q.due !== undefined && q.due - now <= SOON_S;

/**
 * What an intent of a row is waiting for, in a word.
 * @type {Record<string, string>}
 */
const SAID = { answer: "sent", form: "opening…", hold: "holding…", later: "" };

/**
 * @typedef {{ el: any, buttons: HTMLButtonElement[], hold: HTMLButtonElement | null, said: any, title: any, about: any, place: any,
 *   when: any, error: any, open: boolean, intent: number }} Row
 * @param {{ answer: (id: string, value: boolean) => number, form: (id: string) => number, hold: (id: string) => number,
 *   later: (id: string) => number }} hooks each gives the intent's id
 */
export function questions(hooks) {
  const over = make("div", { class: "fl-ends" });
  const open = make("div", { class: "fl-open" });
  const lines = make("div", { class: "fl-qlines", role: "list", "aria-label": "questions that are not open" });
  const el = make("div", { class: "fl-questions", tabindex: -1 }, over, open, lines);
  /** @type {Map<string, Row>} */
  const rows = new Map();
  let drawn = "";

  /** @param {any} q @returns {Row} */
  function makeRow(q) {
    const parts = {
      said: make("span", { class: "fl-dim fl-said", role: "status" }),
      title: make("span", { class: "fl-qtitle" }),
      about: make("span", { class: "fl-dim fl-about" }),
      place: make("span", { class: "fl-dim fl-nth" }),
      when: make("span", { class: "fl-dim fl-due" }),
      error: make("span", { class: "fl-qerror" }),
    };
    const act = (/** @type {string} */ kind, /** @type {() => number} */ send) => () => {
      const row = rows.get(q.id);
      if (!row || row.intent) return;
      row.intent = send();
      for (const b of row.buttons) b.disabled = true;
      row.said.classList.remove("refused");
      setText(row.said, SAID[kind]);
      row.el.focus({ preventScroll: true });
    };
    const row = q.open && q.kind === "bool" ? makeOpen(q, act, parts) : makeLine(q, act, parts);
    return { ...row, ...parts, open: q.open, intent: 0 };
  }

  /** A yes-or-no question with its buttons. @param {any} q @param {any} act @param {any} parts */
  function makeOpen(q, act, parts) {
    const yes = button(
      "cont",
      "Approve",
      act("answer", () => hooks.answer(q.id, true)),
      {
        cls: "yes",
        tip: `Approve: ${q.title}`,
      },
    );
    yes.firstChild?.replaceWith(glyph("done"));
    const no = button(
      "close",
      "Reject",
      act("answer", () => hooks.answer(q.id, false)),
      {
        cls: "no",
        tip: `Reject: ${q.title}`,
      },
    );
    const hold = button(
      "pause",
      "Hold",
      act("hold", () => hooks.hold(q.id)),
      {
        tip: "stop the countdown: nothing is taken while you look",
      },
    );
    const later = button(
      "later",
      "Later",
      act("later", () => hooks.later(q.id)),
      { tip: "put it off: the next one opens" },
    );
    const head = make(
      "div",
      { class: "fl-qhead" },
      glyph("person"),
      make("b", { text: "Needs you:" }),
      make("span", { class: "fl-qstep", text: q.step }),
      parts.place,
      make("span", { class: "fl-grow" }),
      parts.when,
    );
    const row = make(
      "div",
      { class: "fl-q", role: "group", "aria-label": `${q.step} asks`, tabindex: -1, "data-request": q.id },
      head,
      make(
        "div",
        { class: "fl-qbody" },
        parts.title,
        make("span", { class: "fl-qacts" }, yes, no, hold, later, parts.said),
      ),
      parts.error,
    );
    return { el: row, buttons: [yes, no, hold, later], hold };
  }

  /** A question that is not open: a line with a button. @param {any} q @param {any} act @param {any} parts */
  function makeLine(q, act, parts) {
    const open = button(
      "down",
      q.kind === "bool" ? "Open" : "Open form",
      act("form", () => hooks.form(q.id)),
      {
        cls: "small",
        tip: `Open: ${q.title}`,
      },
    );
    const row = make(
      "div",
      { class: "fl-qline", role: "listitem", tabindex: -1, "data-request": q.id },
      glyph("person"),
      make("span", { class: "fl-qstep", text: q.step }),
      parts.place,
      make("span", { class: "fl-qwhat" }, parts.title, parts.about),
      parts.error,
      parts.when,
      parts.said,
      open,
    );
    return { el: row, buttons: [open], hold: null };
  }

  /** @param {any} live */
  function drawEnds(live) {
    const ends = live.answers ?? [];
    const key = JSON.stringify([ends, live.earlier]);
    if (key === drawn) return;
    drawn = key;
    const earlier = live.earlier > 0 ? `${count(live.earlier)} earlier: run.requests.all()` : "";
    over.replaceChildren(
      ...(earlier ? [make("div", { class: "fl-end fl-dim", text: earlier })] : []),
      ...ends.map((/** @type {any} */ end) =>
        make(
          "div",
          { class: end.answer ? "fl-end answered" : "fl-end", "data-request": end.id },
          glyph(end.answer ? "done" : "skipped"),
          make("b", { text: end.step }),
          make("span", { text: `${end.subject} · ${end.text}` }),
        ),
      ),
    );
  }

  return {
    el,
    /** @param {any} live */
    draw(live) {
      drawEnds(live);
      const wanted = toDraw(live);
      const known = new Map(wanted.map((q) => [q.id, q]));
      for (const [id, row] of rows) {
        if (known.get(id)?.open === row.open) continue;
        if (row.el.contains(document.activeElement)) el.focus({ preventScroll: true });
        row.el.remove();
        rows.delete(id);
      }
      wanted.forEach((q) => {
        const isNew = !rows.has(q.id);
        const row = rows.get(q.id) ?? makeRow(q);
        if (isNew) {
          rows.set(q.id, row);
          place(row, q.place, wanted);
        }
        setText(row.title, q.title);
        setText(row.about, q.about ?? "");
        row.title.title = row.open ? "" : [q.title, q.about].filter(Boolean).join("\n");
        setText(row.place, live.needs > 1 ? `${q.place} of ${count(live.needs)}` : "");
        setText(row.error, q.error ?? "");
        if (row.hold) row.hold.hidden = q.due === null || q.due === undefined;
      });
      el.hidden = !wanted.length && !(live.answers ?? []).length && !(live.earlier > 0);
    },
    /**
     * The countdowns, of forms below the panel too.
     * @param {any} live @param {number} now the run's clock, in seconds @param {Element | null} box round panel and forms
     */
    tick(live, now, box) {
      for (const q of live.questions ?? []) {
        const row = rows.get(q.id);
        if (row) show(row.when, q, now);
        else if (q.open && (q.due || q.held))
          for (const at of box?.querySelectorAll(".flownb-form .fl-when[data-request]") ?? [])
            if (/** @type {HTMLElement} */ (at).dataset.request === q.id) show(at, q, now);
      }
    },
    /**
     * The engine refused intent `id`: the buttons work again, and the row says why.
     * @param {number} id @param {string} text
     * @returns {boolean} whether a row said it
     */
    refused(id, text) {
      for (const row of rows.values()) {
        if (row.intent !== id) continue;
        settle(row);
        row.said.classList.add("refused");
        setText(row.said, text);
        return true;
      }
      return false;
    },
    /** The engine did what intent `id` wished. @param {number} id @param {string} kind */
    done(id, kind) {
      for (const row of rows.values()) {
        if (row.intent !== id || kind === "answer") continue; // an answer stays sent until its row goes
        settle(row);
        setText(row.said, "");
      }
    },
  };

  /** @param {Row} row */
  function settle(row) {
    row.intent = 0;
    for (const b of row.buttons) b.disabled = false;
  }

  /** Among its like by age. @param {Row} row @param {number} at @param {any[]} wanted */
  function place(row, at, wanted) {
    const next = wanted.find((q) => q.place > at && rows.get(q.id)?.open === row.open);
    const before = next ? rows.get(next.id)?.el : null;
    (row.open ? open : lines).insertBefore(row.el, before ?? null);
  }
}

/** @param {any} at @param {any} q @param {number} now */
function show(at, q, now) {
  setText(at, countdown(q, now));
  const soon = isSoon(q, now);
  if (at.classList.contains("soon") !== soon) at.classList.toggle("soon", soon);
}
