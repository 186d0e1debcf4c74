// @ts-check
// What the table of open questions says and picks, without drawing: filter, next row, what is selected, countdowns.

/**
 * One question.
 * @typedef {{ id: string, run: string, workflow: string, step: string, text: string, since: number | null,
 *   due: number | null, default: string, yes: string, no: string, why: string, group: string, state: string,
 *   said: string }} Row
 */

/** Whether a question can still be answered. @param {Row | undefined} row */
export const isOpen = (row) => row?.state === "open" || row?.state === "failed";

/**
 * Whether a row has all words. `run:`, `workflow:` and `step:` look in one column.
 * @param {Row} row @param {string[]} words in lower case
 */
export function hasWords(row, words) {
  return words.every((word) => {
    const [, column, rest] = /^(run|workflow|step):(.*)$/.exec(word) ?? [];
    const text = column
      ? row[/** @type {"run" | "workflow" | "step"} */ (column)]
      : `${row.id} ${row.workflow} ${row.step} ${row.text}`;
    return text.toLowerCase().includes(column ? rest : word);
  });
}

/** @param {Row[]} rows @param {string} text */
export function wanted(rows, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? rows.filter((row) => hasWords(row, words)) : rows;
}

/**
 * The next open question after a row, from the top again; "" if there is none.
 * @param {Row[]} rows those in sight @param {string} id
 */
export function nextOpen(rows, id) {
  const at = rows.findIndex((row) => row.id === id);
  const round = [...rows.slice(at + 1), ...rows.slice(0, at + 1)];
  return round.find((row) => isOpen(row) && row.id !== id)?.id ?? "";
}

/**
 * The row so many lines further, the first or last at most.
 * @param {Row[]} rows @param {string} id @param {number} by
 */
export function moved(rows, id, by) {
  if (!rows.length) return "";
  const at = rows.findIndex((row) => row.id === id);
  return rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))].id;
}

/**
 * What one press would answer: the selected questions, else the one that the cursor is on.
 * @param {Row[]} rows all @param {Set<string>} selected @param {string} cursor
 * @returns {{ rows: Row[], why: string }} why: a sentence if they cannot be answered so
 */
export function aimedAt(rows, selected, cursor) {
  const picked = rows.filter((row) => isOpen(row) && (selected.size ? selected.has(row.id) : row.id === cursor));
  if (!picked.length) return { rows: [], why: "No open question is selected." };
  if (new Set(picked.map((row) => row.group)).size > 1)
    return { rows: picked, why: "These are not all answered alike: select questions of one kind." };
  return { rows: picked, why: picked[0].why };
}

/** The open questions in sight that are answered like one of them. @param {Row[]} rows @param {string} cursor */
export function ofOneKind(rows, cursor) {
  const like = rows.find((row) => row.id === cursor && isOpen(row)) ?? rows.find(isOpen);
  return rows.filter((row) => isOpen(row) && row.group === like?.group).map((row) => row.id);
}

/** "7 of 12 done". @param {{ done?: number, total?: number }} table */
export const progress = (table) => (table.total ? `${table.done ?? 0} of ${table.total} done` : "");

/** @param {number} n */
export const questions = (n) => (n === 1 ? "1 question" : `${n} questions`);

/** A span of time as people say it. @param {number} s seconds */
export function span(s) {
  if (s < 60) return `${Math.max(0, Math.round(s))} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 129600 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

/** The countdown of a question: "Reject in 0:52", "0:52, then Verdict(…)". @param {Row} row @param {number} now Unix seconds */
export function countdown(row, now) {
  if (row.due === null) return "";
  const left = Math.max(0, Math.round(row.due - now));
  const clock = left < 3600 ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : span(left);
  return row.default.length > 14 ? `${clock}, then ${row.default}` : `${row.default || "closes"} in ${clock}`;
}
