// @ts-check
// What went wrong, below the main area: the run's failure, the difference of a replay, what was refused.
import { button, glyph, make } from "./common.mjs";

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
