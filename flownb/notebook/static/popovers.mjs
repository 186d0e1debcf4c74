// @ts-check
// Small boxes over the panel that nothing waits for: one open at a time, closed by Esc, by a click beside it or by the
// button that opened it.
import { button, clamp, make } from "./common.mjs";

/** @param {HTMLElement} root the panel */
export function popovers(root) {
  /** @type {{ el: any, anchor: any, opened?: () => void } | null} */
  let open = null;
  /** @type {any} who had the focus before */
  let before = null;

  /** @param {boolean} [back] whether the focus goes back to where it was */
  function close(back = true) {
    if (!open) return;
    const { el, anchor } = open;
    const hadFocus = el.contains(document.activeElement);
    open = null;
    el.hidden = true;
    anchor?.setAttribute("aria-expanded", "false");
    if (!back || !hadFocus) return;
    const to = before?.isConnected && !before.disabled && before.offsetParent !== null ? before : root;
    to.focus({ preventScroll: true });
  }

  const onPointer = (/** @type {any} */ ev) => {
    if (!open || open.el.contains(ev.target) || open.anchor?.contains(ev.target)) return;
    close(false);
  };
  document.addEventListener("pointerdown", onPointer, true);

  /** Under its anchor, inside the panel. @param {any} el @param {any} anchor */
  function place(el, anchor) {
    if (!anchor?.offsetParent) return;
    const [box, at] = [root.getBoundingClientRect(), anchor.getBoundingClientRect()];
    el.style.left = `${clamp(at.left - box.left, 8, Math.max(8, box.width - el.offsetWidth - 10))}px`;
    el.style.right = "auto";
    el.style.top = `${at.bottom - box.top + 6}px`;
  }

  return {
    isOpen: () => open !== null,
    close,
    /**
     * A box with a title and a close button.
     * @param {{ cls: string, title: string, anchor?: any, opened?: () => void }} what `opened` fills it and gives the
     * focus to its first control
     * @param {...Node} kids
     */
    add(what, ...kids) {
      const head = make(
        "div",
        { class: "fl-pop-head" },
        make("b", { text: what.title }),
        button("close", "close", () => close(), { quiet: true, cls: "bare" }),
      );
      const attributes = { role: "dialog", "aria-label": what.title, tabindex: -1, hidden: true };
      const el = make("div", { class: `fl-pop ${what.cls}`, ...attributes }, head, ...kids);
      what.anchor?.setAttribute("aria-haspopup", "dialog");
      what.anchor?.setAttribute("aria-expanded", "false");
      root.append(el);
      const one = { el, anchor: what.anchor, opened: what.opened };
      return {
        el,
        toggle() {
          if (open?.el === el) return close();
          close(false);
          before = document.activeElement;
          open = one;
          el.hidden = false;
          what.anchor?.setAttribute("aria-expanded", "true");
          place(el, what.anchor);
          el.focus({ preventScroll: true });
          what.opened?.();
        },
        isShown: () => open?.el === el,
      };
    },
    dispose: () => document.removeEventListener("pointerdown", onPointer, true),
  };
}
