// Loads what measures the page's speed, once there is nothing more urgent to do.
import { doc, later, listen, whenIdle, win } from "../guard.ts";
import { loadPart } from "../parts.ts";
import type { Tracker } from "../tracker.ts";

/** Long after the numbers of most pages are final; they are all buffered by the browser. */
const AFTER_LOAD_MS = 500;

export const startSpeed = (tracker: Tracker): void => {
  const load = (): void => {
    if (!tracker.visitor.mayObserve()) return;
    loadPart(tracker, "vitals.js", { report: tracker.signal });
  };
  const soon = (): void => later(AFTER_LOAD_MS, () => whenIdle(load));
  if (doc.readyState === "complete") soon();
  else listen(win, "load", (event) => event.target === doc && soon());
};
