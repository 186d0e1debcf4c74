// @ts-check
// The bar of a fan's items: one cell per item up to 16, above that one segment per state. Pure.

/** Most items drawn one by one. */
const MOST_CELLS = 16;

/**
 * @typedef {{ cls: string, x: number, w: number }} Cell
 * @param {number[] | null} bar counts [done, running, queued, failed]
 * @param {number} x left end @param {number} width
 * @returns {Cell[]} from left to right: done, failed, running, queued
 */
export function barCells(bar, x, width) {
  if (!bar) return [];
  const [done, running, queued, failed] = bar;
  /** @type {[string, number][]} */
  const parts = [
    ["b-done", done],
    ["b-failed", failed],
    ["b-run", running],
    ["b-queued", queued],
  ];
  const total = done + running + queued + failed;
  if (total <= 0) return [];
  if (total > MOST_CELLS)
    return segments(
      parts.filter(([, n]) => n > 0),
      total,
      x,
      width,
    );
  const each = width / total;
  const gap = total > 1 ? 1.5 : 0;
  const classes = parts.flatMap(([cls, n]) => Array(n).fill(cls));
  return classes.map((cls, i) => ({ cls, x: x + i * each, w: each - gap }));
}

/**
 * Widths in proportion, but none narrower than 2 px: one failed item of a thousand must be seen.
 * @param {[string, number][]} parts @param {number} total @param {number} x @param {number} width
 * @returns {Cell[]}
 */
function segments(parts, total, x, width) {
  const least = 2;
  const raw = parts.map(([, n]) => Math.max(least, (width * n) / total));
  const spare = raw.reduce((a, w) => a + Math.max(0, w - least), 0);
  const over = raw.reduce((a, w) => a + w, 0) - width;
  let at = x;
  return parts.map(([cls], i) => {
    const w = raw[i] - (spare > 0 ? (over * Math.max(0, raw[i] - least)) / spare : 0);
    const cell = { cls, x: at, w };
    at += w;
    return cell;
  });
}
