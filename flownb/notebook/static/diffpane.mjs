// @ts-check
// The State pane: what differs in the user's state after the shown tick, against the tick before or another one.
import { button, make, setText } from "./common.mjs";
import { count } from "./captions.mjs";
import { dim } from "./eventpane.mjs";

/**
 * @typedef {{ seq: number, detail: any, waits: string, against: number | null, last: number }} Shown `against` null: the
 * tick before
 * @param {{ against: (seq: number | null) => void }} hooks
 */
export function diffPane(hooks) {
  const after = make("span", { class: "fl-dim" });
  const other = make("input", {
    type: "number",
    min: 0,
    step: 1,
    class: "fl-against mono",
    "aria-label": "compared with tick",
  });
  const reset = button("close", "compare with the tick before", () => hooks.against(null), {
    quiet: true,
    cls: "bare",
  });
  const bar = make("p", { class: "fl-diffbar" }, after, other, reset);
  const rows = make("div", {});
  const el = make("div", {}, bar, rows);
  other.addEventListener("change", () => {
    const seq = Math.round(Number(other.value));
    hooks.against(other.value === "" || !Number.isFinite(seq) ? null : seq);
  });
  return {
    el,
    /** @param {Shown} shown */
    draw(shown) {
      bar.hidden = !shown.seq;
      setText(after, `After tick ${count(shown.seq)}, against tick`);
      other.max = String(shown.last);
      if (document.activeElement !== other) other.value = String(shown.against ?? Math.max(0, shown.seq - 1));
      reset.hidden = shown.against === null;
      rows.replaceChildren(...lines(shown));
    },
  };

  /** @param {Shown} shown @returns {Node[]} */
  function lines(shown) {
    if (!shown.seq) return [dim("Before the first tick.")];
    if (!shown.detail) return [dim(shown.waits)];
    const found = shown.detail.state ?? [];
    if (!found.length) return [dim(shown.against === null ? "This tick changed no state." : "The state is the same.")];
    return [make("dl", { class: "fl-delta" }, ...found.flatMap(differenceRow))];
  }
}

/** @param {[string, string | null, string | null]} difference */
const differenceRow = ([path, before, after]) => [
  make("dt", { text: path, title: path }),
  make(
    "dd",
    { title: `${before ?? "(not set)"} → ${after ?? "(removed)"}` },
    before === null ? make("span", { class: "fl-dim", text: "not set" }) : make("del", { text: before }),
    make("span", { class: "fl-dim", text: " → " }),
    after === null ? make("span", { class: "fl-dim", text: "removed" }) : make("ins", { text: after }),
  ),
];
