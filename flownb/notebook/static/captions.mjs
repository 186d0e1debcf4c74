// @ts-check
// The words of the panel. Pure: states in, text out.
import { STATES } from "./common.mjs";

/** @typedef {[string, string, number[] | null]} NodeState  state, short text, counts of a fan's items */

/** @type {Record<string, string>} */
export const WORDS = {
  idle: "not reached",
  queued: "queued",
  running: "running",
  person: "waits for a person",
  waiting: "waiting",
  done: "done",
  failed: "failed",
  retrying: "retrying",
  skipped: "skipped",
};

/** @type {Record<string, [string, string]>} status of a run: [tone, words] */
const STATUS = {
  running: ["running", "running"],
  waiting: ["waiting", "waiting"],
  paused: ["paused", "paused"],
  blocked: ["failed", "blocked"],
  suspended: ["waiting", "suspended"],
  cancelling: ["skipped", "stopping"],
  completed: ["done", "done"],
  failed: ["failed", "failed"],
  timed_out: ["failed", "timed out"],
  cancelled: ["skipped", "cancelled"],
};

/** What makes a step worth looking at, most urgent first. */
const URGENT = ["failed", "person", "retrying", "running", "waiting", "queued"];

/** @param {number} n */
export const count = (n) => n.toLocaleString("en");

/**
 * The pills of the header: tone and words, never colour alone.
 * @param {any} live
 * @returns {[string, string][]}
 */
export function pills(live) {
  if (!live.status) return [["idle", "not started"]];
  if (live.bye) return [["skipped", "closed, this cell was run again"]];
  if (live.ended) return [STATUS[live.status] ?? ["idle", live.status]];
  /** @type {[string, string][]} */
  const out = [];
  if (live.paused || live.status === "paused") out.push(["paused", `paused at tick ${count(live.tick ?? 0)}`]);
  if (live.needs > 0) out.push(["person", live.needs > 1 ? `needs you ×${live.needs}` : "needs you"]);
  if (!out.length || live.status === "cancelling" || live.status === "blocked") {
    out.unshift(STATUS[live.status] ?? ["idle", live.status]);
  }
  return out.slice(0, 2);
}

/**
 * What the live region says when the run goes from `before` to `now`; "" if it is none of pause, needs you, failure, end.
 * @param {any} before @param {any} now @param {string} name
 */
export function announcement(before, now, name) {
  if (now.bye) return before.bye ? "" : `${name}: closed, this cell was run again.`;
  if (now.ended && !before.ended) {
    const words = STATUS[now.status]?.[1] ?? now.status;
    return now.error ? `${name}: ${words}. ${now.error.step} ${now.error.type}.` : `${name}: ${words}.`;
  }
  if ((now.needs ?? 0) > (before.needs ?? 0)) {
    const asked = (now.questions ?? []).at(-1);
    return `${name} needs you${asked ? `: ${asked.title || asked.step}` : ""}.`;
  }
  if (now.paused && !before.paused) return `${name}: paused at tick ${count(now.tick ?? 0)}.`;
  return "";
}

/** @param {number} seconds @returns {string} "00:04.2", from an hour on "1:02:03" */
export function clock(seconds) {
  const s = Math.max(0, seconds || 0);
  const two = (/** @type {number} */ x) => String(Math.floor(x)).padStart(2, "0");
  if (s >= 3600) return `${Math.floor(s / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}`;
  const tenths = Math.floor(s * 10 + 1e-6);
  return `${two(tenths / 600)}:${two((tenths % 600) / 10)}.${tenths % 10}`;
}

/** Time that is left. @param {number} seconds @returns {string} "0:52", from an hour on "1:02:03" */
export function left(seconds) {
  const s = Math.max(0, Math.ceil(seconds || 0));
  const two = (/** @type {number} */ x) => String(Math.floor(x)).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two((s % 3600) / 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/** @param {number} ms @returns {string} "52 ms", "1.2 s", "" for none */
export function took(ms) {
  if (!ms) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} m ${Math.round((ms % 60_000) / 1000)} s`;
}

/** @param {string} text @param {number} room in characters */
export function shorten(text, room) {
  const line = text.replace(/\s+/gu, " ").trim();
  const chars = Array.from(line);
  return chars.length <= room
    ? line
    : chars
        .slice(0, room - 1)
        .join("")
        .trimEnd() + "…";
}

/**
 * What a node is called aloud: "score, 3 of 8, running". What is seen comes first and in its order, since people who
 * steer by voice say what they see.
 * @param {string} label @param {NodeState} state
 */
export function spoken(label, [state, sub, bar]) {
  const word = WORDS[state] ?? state;
  const parts = [label, sub, sub.startsWith(word) ? "" : word];
  if (bar) {
    const [done, running, queued, failed] = bar;
    parts.push(`${done} done, ${running} running, ${queued} queued${failed ? `, ${failed} failed` : ""}`);
  }
  return parts.filter(Boolean).join(", ");
}

/**
 * How many steps are in each state; start and stop are no steps.
 * @param {NodeState[]} states @param {{ shape: string }[]} nodes
 * @returns {{ total: number, by: Record<string, number> }}
 */
export function tally(states, nodes) {
  const by = Object.fromEntries(STATES.map((s) => [s, 0]));
  let total = 0;
  nodes.forEach((node, i) => {
    if (node.shape === "start" || node.shape === "stop") return;
    total += 1;
    const state = states[i]?.[0] ?? "idle";
    by[state] = (by[state] ?? 0) + 1;
  });
  return { total, by };
}

/**
 * The node to keep in sight: the most urgent one; -1 if none.
 * @param {NodeState[]} states
 */
export function mostUrgent(states) {
  for (const state of URGENT) {
    const i = states.findIndex((s) => s[0] === state);
    if (i >= 0) return i;
  }
  return -1;
}

/**
 * The text of the compact line.
 * @param {any} live @param {{ total: number, by: Record<string, number> }} steps
 */
export function compactText(live, steps) {
  const parts = [
    `${steps.by.done}/${steps.total} steps`,
    `${count(live.tick ?? 0)} ${live.tick === 1 ? "tick" : "ticks"}`,
  ];
  if (live.note) parts.push(live.note);
  return parts.join(" · ");
}
