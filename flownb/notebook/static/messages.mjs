// @ts-check
// What goes up to Python and what is still unanswered.

/** An intent without an answer for this long is said to wait for the kernel. */
export const PATIENCE_MS = 700;

export class Outbox {
  /**
   * @param {(message: any) => void} post
   * @param {{ view: string, run: () => string }} who
   */
  constructor(post, who) {
    this.post = post;
    this.who = who;
    this.id = 0;
    this.unsent = 0;
    /** @type {Map<number, { kind: string, at: number, told?: (m: any) => boolean }>} */
    this.open = new Map();
  }

  /**
   * Sends a message; (view, id) names it, so that a repeat is harmless.
   * @param {string} kind @param {Record<string, any>} [more]
   * @returns {number} its id
   */
  send(kind, more = {}) {
    this.id += 1;
    this.post({ kind, run: this.who.run(), view: this.who.view, id: this.id, ...more });
    return this.id;
  }

  /** A message could not be sent at all: there is no answer to wait for. @param {number} id */
  lost(id) {
    this.unsent = id;
    this.open.delete(id);
  }

  /**
   * Sends what must be answered by `done`, `draft` or `error`.
   * @param {string} kind @param {Record<string, any>} more @param {number} now in ms
   * @param {(m: any) => boolean} [told] gets the answer; gives true if it showed it
   */
  intend(kind, more, now, told) {
    const id = this.send(kind, more);
    if (id !== this.unsent) this.open.set(id, { kind, at: now, told });
    else told?.({ kind: "error", of: id, text: "The kernel is gone: nothing can be sent to the run." });
    return id;
  }

  /**
   * An answer came.
   * @param {number} id @param {any} [message]
   * @returns {boolean} whether whoever asked showed it
   */
  settle(id, message) {
    const told = this.open.get(id)?.told;
    this.open.delete(id);
    return Boolean(message && told?.(message));
  }

  /** Words about intents that wait, "" if none does. @param {number} now in ms */
  waiting(now) {
    const late = [...this.open.values()].filter((intent) => now - intent.at >= PATIENCE_MS);
    if (!late.length) return "";
    const words =
      late.length === 1 ? `“${WAITING_WORDS[late[0].kind] ?? late[0].kind}” waits` : `${late.length} wishes wait`;
    return `${words} for the kernel…`;
  }
}

/** @type {Record<string, string>} */
const WAITING_WORDS = {
  cont: "Continue",
  pause: "Pause",
  step: "Step",
  over: "Step over",
  out: "Step out",
  into: "Into",
  run_to: "Run to",
  cancel: "Stop",
  fork: "Fork here",
  retry: "Retry",
  replay: "Replay",
  admit: "Admit now",
  edit: "Edit",
  drop: "Drop",
  fire: "Fire now",
  draft: "Edit",
  break: "The breakpoint",
  break_at: "The breakpoint",
  breakpoint: "The breakpoint",
  answer: "Your answer",
  form: "Open form",
  hold: "Hold",
  later: "Later",
  notify: "The bell",
  compact: "Fold",
};

/** Details of ticks: asked for a moment after the person stopped moving, kept, and asked again once the run went on. */
export class Details {
  /** @param {{ ask: (seq: number) => void, changed: () => void }} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {Map<number, { detail: any, length: number }>} */
    this.kept = new Map();
    this.seq = 0;
    this.asked = 0;
    this.isLate = false;
    /** @type {any} */
    this.timer = 0;
    /** @type {any} */
    this.patience = 0;
  }

  /**
   * The tick that is shown now.
   * @param {number} seq @param {number} length ticks of the run so far @param {number} delayMs
   */
  want(seq, length, delayMs) {
    const kept = this.kept.get(seq);
    if (seq === this.seq && (kept || this.timer || this.asked === seq)) return;
    this.seq = seq;
    clearTimeout(this.timer);
    this.timer = 0;
    if (seq === 0 || kept?.length === length) return;
    this.timer = setTimeout(() => this.ask(), delayMs);
  }

  ask() {
    this.timer = 0;
    this.asked = this.seq;
    this.isLate = false;
    clearTimeout(this.patience);
    this.patience = setTimeout(() => {
      this.isLate = true;
      this.hooks.changed();
    }, 500);
    this.hooks.ask(this.seq);
  }

  /** @param {any} detail the message @param {number} length */
  take(detail, length) {
    this.kept.delete(detail.seq);
    this.kept.set(detail.seq, { detail, length });
    if (this.kept.size > 200) this.kept.delete(/** @type {number} */ (this.kept.keys().next().value));
    if (detail.seq === this.asked) {
      clearTimeout(this.patience);
      this.asked = 0;
      this.isLate = false;
    }
    this.hooks.changed();
  }

  /** @param {number} seq */
  get(seq) {
    return this.kept.get(seq)?.detail ?? null;
  }

  clear() {
    this.kept.clear();
    this.seq = 0;
    this.asked = 0;
    this.dispose();
  }

  dispose() {
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    this.timer = 0;
  }
}
