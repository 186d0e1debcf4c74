// A clock that a test turns: setTimeout and clearTimeout until the test ends.

/** @param {import("node:test").TestContext} t */
export function fakeClock(t) {
  const real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  const due = new Map();
  let now = 0;
  let id = 0;
  globalThis.setTimeout = (act, ms, ...args) => {
    due.set(++id, { at: now + ms, act: () => act(...args) });
    return id;
  };
  globalThis.clearTimeout = (which) => due.delete(which);
  t.after(() => Object.assign(globalThis, real));
  return {
    /** Lets `ms` pass; what comes due runs at its time, what that arms too. */
    pass(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = [...due].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at);
        if (!next) break;
        due.delete(next[0]);
        now = next[1].at;
        next[1].act();
      }
      now = end;
    },
  };
}
