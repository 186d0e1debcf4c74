// @ts-check
// Begins a replay page: reads the run that the page holds, follows the reader's choice of light or dark.
import { replayPage } from "./page_view.mjs";

/** @param {Document} page */
export function openPage(page) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const dress = () => page.documentElement.setAttribute("data-jp-theme-light", String(!dark.matches));
  dark.addEventListener("change", dress);
  dress();
  const data = JSON.parse(page.getElementById("flownb-run")?.textContent || "{}");
  replayPage(data, page.body);
}

if (typeof document !== "undefined") openPage(document);
