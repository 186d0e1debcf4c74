// @ts-check
// The panel: puts the panes together, draws what the traits say, looks back without asking Python.
import { clamp, make } from "./common.mjs";
import { announcement, tally } from "./captions.mjs";
import { Feed } from "./feed.mjs";
import { graphPane } from "./graph.mjs";
import { tickTable } from "./ticks.mjs";
import { inspector } from "./inspector.mjs";
import { header } from "./header.mjs";
import { allowed, controls, setDisabled } from "./controls.mjs";
import { slider } from "./slider.mjs";
import { problems, questions } from "./questions.mjs";
import { Details, Outbox } from "./messages.mjs";
import { helpBox, panelKeys } from "./keys.mjs";
import { focusCell, guardBox, hideTwin, isGone } from "./page.mjs";

/** Messages that the panel sends by itself. */
const LOOKING = new Set(["hello", "bye", "ticks", "detail", "compact"]);

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  const uid = `v${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  let graph = model.get("graph") ?? {};
  const live = () => model.get("live") ?? {};
  const at = { seq: 0, isLive: true, node: -1, isCompact: Boolean(model.get("compact")), frame: 0 };
  const known = { live: live(), since: performance.now() };

  // ---- messages up ----
  const outbox = new Outbox(post, { view: uid, run: () => graph.run ?? "" });
  const intend = (/** @type {string} */ kind, more = {}) => {
    const id = outbox.intend(kind, more, performance.now());
    setTimeout(later, 750);
    return id;
  };
  const verbs = {
    cont: () => allowed(live()).cont && intend("cont"),
    pause: () => allowed(live()).pause && intend("pause"),
    step: () => allowed(live()).step && intend("step", { n: 1 }),
    stop: () => allowed(live()).stop && intend("cancel"),
  };
  const feed = new Feed((from) => outbox.send("ticks", { from }));
  const details = new Details({ ask: (seq) => outbox.send("detail", { seq }), changed: later });

  // ---- the parts ----
  const say = make("div", { class: "fl-sr", role: "status", "aria-live": "polite" });
  const top = header({ ...verbs, toggle: () => fold(!at.isCompact) });
  const row = controls({ ...verbs, help: () => help(box.el.hidden) });
  const rail = slider({ go, back: () => go(at.seq - 1), forward: () => go(at.seq + 1), live: goLive });
  const inspect = inspector({ go }, uid);
  const table = tickTable({ go, clear: () => select(-1) });
  const ask = questions({
    answer: (id, value) => intend("answer", { request: id, value }),
    form: (id) => intend("form", { request: id }),
  });
  const wrong = problems({
    select: (step) => select((graph.nodes ?? []).findIndex((/** @type {any} */ n) => n.label === step)),
  });
  const box = helpBox(() => help(false));
  let pane = graphPane(graph, { select });
  const main = make("div", { class: "fl-main" }, pane.el, inspect.el, table.el);
  const full = make("div", { class: "fl-full" }, row.el, rail.el, main);
  const root = make(
    "div",
    { class: "flownb", role: "region", tabindex: -1 },
    say,
    top.line,
    top.head,
    full,
    wrong.el,
    ask.el,
    box.el,
  );
  el.append(root);

  // ---- what the person does ----
  /** @param {number} seq */
  function go(seq) {
    at.seq = clamp(seq, feed.history.first, feed.history.length);
    at.isLive = false;
    draw();
  }

  function goLive() {
    at.isLive = true;
    pane.follow();
    draw();
    table.follow();
  }

  /** @param {number} node picked again it is let go */
  function select(node) {
    at.node = node === at.node ? -1 : node;
    table.pick(at.node, graph.nodes?.[at.node]?.label ?? "");
    draw();
  }

  /** @param {boolean} isCompact */
  function fold(isCompact) {
    at.isCompact = isCompact;
    intend("compact", { on: isCompact });
    draw();
    (isCompact ? top.unfold : top.fold).focus({ preventScroll: true });
  }

  /** @param {boolean} isOpen */
  function help(isOpen) {
    box.el.hidden = !isOpen;
    if (isOpen) box.el.focus({ preventScroll: true });
    else root.focus({ preventScroll: true });
  }

  /** Nobody looks back in one line. @param {() => void} act */
  const unfolded = (act) => () => at.isCompact || act();
  const unKey = panelKeys(root, {
    F9: verbs.cont,
    c: verbs.cont,
    F10: verbs.step,
    n: verbs.step,
    p: verbs.pause,
    "Shift-F9": verbs.stop,
    b: unfolded(() => go(at.seq - 1)),
    ArrowLeft: unfolded(() => go(at.seq - 1)),
    ArrowRight: unfolded(() => go(at.seq + 1)),
    Home: unfolded(() => go(0)),
    End: goLive,
    "/": unfolded(() => table.filter.focus()),
    "?": unfolded(() => help(box.el.hidden)),
    Escape: () => (box.el.hidden ? focusCell(el) : help(false)),
  });
  const unGuard = guardBox(el);
  let showTwin = hideTwin(root, graph.twin ?? "");

  // ---- drawing ----
  function later() {
    if (!at.frame) at.frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(at.frame);
    at.frame = 0;
    const now = live();
    const last = Math.max(feed.history.length, now.tick ?? 0);
    if (at.isLive) at.seq = last;
    const nowNodes = now.nodes ?? [];
    const picture = at.isLive ? { nodes: nowNodes, edges: now.edges ?? [] } : feed.history.at(at.seq);
    pane.draw(picture, at.node, at.isLive);
    const kind = feed.history.get("kind", at.seq);
    const step = feed.history.get("step", at.seq);
    rail.draw({
      seq: at.seq,
      first: feed.history.first,
      last,
      isLive: at.isLive,
      what: kind ? `${step || "run"} ${kind}` : "",
    });
    setDisabled(rail.back, at.seq <= feed.history.first, root);
    setDisabled(rail.forward, at.seq >= last, root);
    root.classList.toggle("is-past", !at.isLive);
    root.classList.toggle("compact", at.isCompact);
    root.dataset.status = now.status ?? "";
    top.draw(now, tally(nowNodes, graph.nodes ?? []));
    drawVerbs(now);
    row.note(outbox.waiting(performance.now()) || now.note || "");
    table.at(at.seq, at.isLive);
    drawInspector(now, last);
    wrong.failure(now.error);
    ask.draw(now);
    tick();
  }

  /** @param {any} now */
  function drawVerbs(now) {
    const can = allowed(now);
    for (const verb of /** @type {("cont" | "pause" | "step" | "stop")[]} */ (["cont", "pause", "step", "stop"])) {
      setDisabled(row.buttons[verb], !can[verb], root);
    }
    setDisabled(top.buttons.step, !can.step, root);
    for (const [button, isShown] of /** @type {const} */ ([
      [top.buttons.cont, can.cont],
      [top.buttons.pause, !can.cont && can.pause],
      [top.buttons.step, can.step],
    ])) {
      button.hidden = !isShown;
    }
  }

  /** @param {any} now @param {number} last */
  function drawInspector(now, last) {
    const read = (/** @type {string} */ column) => feed.history.get(column, at.seq);
    if (!at.isCompact) details.want(at.seq, feed.history.length, at.isLive ? 250 : 60);
    const waits = isGone(root)
      ? "The kernel is gone: this was not loaded."
      : details.isLate
        ? "Loads when the cell is done."
        : "…";
    inspect.set({
      seq: at.seq,
      kind: read("kind"),
      step: read("step"),
      event: read("event"),
      t: at.seq && read("kind") ? Number(read("t")) : NaN,
      detail: details.get(at.seq),
      waits,
      past: !at.isLive && at.seq < last,
      queue: now.queue ?? [],
    });
  }

  /** The clock runs on between two messages, but not after the kernel is gone. */
  function tick() {
    const now = live();
    const runs = now.counting && !now.ended && !isGone(root);
    top.clock((now.elapsed ?? 0) + (runs ? (performance.now() - known.since) / 1000 : 0));
  }
  const clockTimer = setInterval(tick, 200);

  // ---- messages down ----
  /** @param {any} m */
  function post(m) {
    try {
      if (!isGone(root)) return model.send(m);
    } catch (error) {
      console.warn("flownb: the kernel cannot be reached", error);
    }
    // Looking back goes on without the kernel, so only what the person wished for is worth a word.
    outbox.lost(m.id);
    if (!LOOKING.has(m.kind))
      wrong.refusal("The kernel is gone: nothing can be sent to the run. Looking back still works.");
  }

  /** @param {any} m */
  function onMessage(m) {
    if (m.kind === "ticks" && (!m.run || m.run === graph.run)) onTicks(m);
    if (m.view !== undefined && m.view !== uid) return;
    if (m.kind === "detail") details.take(m, feed.history.length);
    if (m.kind === "done" || m.kind === "error" || m.kind === "detail") outbox.settle(m.of);
    if (m.kind === "error") {
      wrong.refusal(m.text);
      ask.refused(m.of);
      say.textContent = m.text;
    }
    if (m.kind === "done" || m.kind === "error") later();
  }

  /** @param {any} m */
  function onTicks(m) {
    if (!feed.take(m)) return;
    rail.marks(feed.history.cols.kind);
    table.set(feed.history);
    later();
  }

  function onLive() {
    const now = live();
    const words = announcement(known.live, now, graph.name ?? "run");
    if (words) say.textContent = words;
    known.live = now;
    known.since = performance.now();
    feed.expect(now.tick ?? 0);
    later();
  }

  function onCompact() {
    at.isCompact = Boolean(model.get("compact"));
    later();
  }

  function onGraph() {
    const before = graph;
    graph = model.get("graph") ?? {};
    name();
    if (graph.svg !== before.svg || graph.hash !== before.hash || graph.nodes?.length !== before.nodes?.length) {
      const old = pane;
      pane = graphPane(graph, { select });
      old.el.replaceWith(pane.el);
      old.dispose();
    }
    if (graph.twin !== before.twin) {
      showTwin();
      showTwin = hideTwin(root, graph.twin ?? "");
    }
    const isOther = ["nodes", "edges"].some((part) => graph[part]?.length !== before[part]?.length);
    if (graph.run !== before.run || isOther) begin();
    later();
  }

  /** A run is shown from its first tick on. */
  function begin() {
    feed.reset(graph.nodes?.length ?? 0, graph.edges?.length ?? 0);
    details.clear();
    table.set(feed.history);
    rail.marks([]);
    outbox.send("hello", { have: 0 });
    feed.expect(live().tick ?? 0);
  }

  function name() {
    top.name(graph);
    root.dataset.run = graph.run ?? "";
    root.setAttribute("aria-label", `run ${graph.name ?? ""} ${graph.run ?? ""}`.trim());
    main.className = `fl-main ${graph.tall === false ? "wide" : "tall"}`;
    box.store.textContent = graph.store ?? "";
  }

  model.on("change:graph", onGraph);
  model.on("change:live", onLive);
  model.on("change:compact", onCompact);
  model.on("msg:custom", onMessage);
  name();
  begin();
  draw();

  return () => {
    model.off("change:graph", onGraph);
    model.off("change:live", onLive);
    model.off("change:compact", onCompact);
    model.off("msg:custom", onMessage);
    clearInterval(clockTimer);
    feed.dispose();
    cancelAnimationFrame(at.frame);
    details.dispose();
    pane.dispose();
    table.dispose();
    unKey();
    unGuard();
    showTwin();
    outbox.send("bye");
    root.remove();
  };
}

export default { render };
