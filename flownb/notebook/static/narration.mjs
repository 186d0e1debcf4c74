// @ts-check
// One sentence for the shown tick. It is polite: what it says of every tick goes into no live region.
import { make, setText } from "./common.mjs";

/**
 * The sentence, as far as it is known without asking: what the row of the tick says.
 * @param {{ kind: string, step: string, event: string }} row
 */
export function inShort(row) {
  if (!row.kind) return "";
  return [row.step || "run", row.kind, row.event].filter(Boolean).join(" ");
}

export function narration() {
  const text = make("span", { class: "fl-sentence" });
  const note = make("span", { class: "fl-dim fl-note" });
  return {
    el: make("div", { class: "fl-told" }, text, note),
    /** @param {{ seq: number, last: number, told: string, note: string }} at */
    draw({ seq, last, told, note: said }) {
      const words = seq ? told : last ? "Before the first tick." : "Nothing has happened yet.";
      setText(text, words);
      text.title = words;
      setText(note, said);
      note.title = said;
    },
  };
}
