// Reports what a visitor does with the pointer: clicks by their target, rage clicks, dead clicks,
// copying, selecting, printing and hovering.
import { doc, guarded, later, listen, win } from "../guard.ts";
import type { Tracker } from "../tracker.ts";
import { describe, looksClickable, meant } from "./element.ts";

const FILES = /\.(pdf|zip|docx?|xlsx?|pptx?|csv|txt|rtf|mp[34]|avi|mov|exe|dmg|apk|gz|rar|7z|epub)$/i;
const SHARES =
  /(facebook|twitter|x|whatsapp|linkedin|pinterest|t|wa)\.(?:com|me)\/(?:share|intent|pin|send|dialog|\+?\d|\?text)/i;
const RAGE_CLICKS = 3;
const RAGE_MS = 1_000;
const RAGE_PIXELS = 40;
const DEAD_MS = 1_000;
const HOVER_MS = 800;

export const startPointer = (tracker: Tracker): void => {
  const { signal } = tracker;
  const rage = rageOf(signal);
  listen<MouseEvent>(doc, "click", (event) => {
    const element = meant(event.target);
    if (element === null) return;
    signal("page_click", { ...describe(element), x: event.clientX, y: event.clientY });
    const link = element.closest("a[href]") as HTMLAnchorElement | null;
    if (link !== null) ofLink(link, signal);
    rage(event, element);
    if (link === null && looksClickable(element)) whenDead(element, signal);
  });
  listen(doc, "copy", () => signal("copy", { characters: selected().length }));
  listen(win, "beforeprint", () => signal("print"));
  onSelection(signal);
  onHover(signal);
};

type SendSignal = Tracker["signal"];
const selected = (): string => `${doc.getSelection() ?? ""}`;

/** Phone numbers and addresses in tel: and mailto: links are not sent. */
const ofLink = (link: HTMLAnchorElement, signal: SendSignal): void => {
  const { protocol, host, pathname, href } = link;
  const { label } = describe(link);
  if (protocol === "tel:") signal("tel_click", { label });
  if (protocol === "mailto:") signal("mail_click", { label });
  if (!/^https?:$/.test(protocol)) return;
  const [, kind] = FILES.exec(pathname) ?? [];
  if (kind !== undefined || link.hasAttribute("download"))
    signal("download", { href, extension: kind?.toLowerCase() ?? "", label });
  const [, network] = SHARES.exec(href) ?? [];
  if (network !== undefined) signal("share", { network: network.toLowerCase() });
  if (host !== win.location.host) signal("outbound_click", { href, host, label });
};

/** Sends one signal for a burst of clicks on one spot, when the burst is over. */
const rageOf = (signal: SendSignal): ((event: MouseEvent, element: Element) => void) => {
  let burst = { x: 0, y: 0, at: 0, clicks: 0 };
  return ({ clientX: x, clientY: y }, element) => {
    const now = Date.now();
    const isNear = Math.abs(x - burst.x) < RAGE_PIXELS && Math.abs(y - burst.y) < RAGE_PIXELS;
    if (!isNear || now - burst.at > RAGE_MS) burst = { x, y, at: now, clicks: 0 };
    burst.at = now;
    burst.clicks += 1;
    if (burst.clicks !== RAGE_CLICKS) return;
    const mine = burst;
    const whenOver = (): void => {
      if (Date.now() - mine.at < RAGE_MS && mine === burst) later(RAGE_MS, whenOver);
      else signal("rage_click", { ...describe(element), clicks: mine.clicks, x, y });
    };
    later(RAGE_MS, whenOver);
  };
};

let isWatched = false;
/**
 * Sends a signal if the page, its address, scroll position and focus stay the same for a second.
 */
const whenDead = (element: Element, signal: SendSignal): void => {
  if (isWatched || !win.MutationObserver) return;
  isWatched = true;
  const before = `${win.location.href} ${win.scrollY} ${selected()}`;
  const focused = doc.activeElement;
  let hasChanged = false;
  const observer = new MutationObserver(
    guarded(() => {
      hasChanged = true;
      observer.disconnect();
    }),
  );
  observer.observe(doc, { subtree: true, childList: true, attributes: true, characterData: true });
  later(DEAD_MS, () => {
    isWatched = false;
    observer.disconnect();
    const after = `${win.location.href} ${win.scrollY} ${selected()}`;
    if (!hasChanged && before === after && focused === doc.activeElement)
      signal("dead_click", { ...describe(element) });
  });
};

const onSelection = (signal: SendSignal): void => {
  let latest = 0;
  listen(doc, "selectionchange", () => {
    latest += 1;
    const mine = latest;
    later(1_000, () => {
      const { length } = selected();
      if (mine === latest && length > 2) signal("text_select", { characters: length });
    });
  });
};

/** Sends a signal when the pointer rests on a link or button and moves on without a click. */
const onHover = (signal: SendSignal): void => {
  let over: Element | null = null;
  let since = 0;
  const end = (wasClicked: boolean): void => {
    const ms = Date.now() - since;
    if (over !== null && !wasClicked && ms >= HOVER_MS) signal("hover_intent", { ...describe(over), ms });
    over = null;
  };
  listen<PointerEvent>(doc, "pointerover", ({ target, pointerType }) => {
    const element = pointerType === "mouse" ? meant(target) : null;
    const wanted = element?.matches("a,button,[role=button]") ? element : null;
    if (wanted === over) return;
    end(false);
    over = wanted;
    since = Date.now();
  });
  listen(doc, "click", () => end(true));
};
