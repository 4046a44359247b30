// Makes the events of one page: adds visitor, page and consent, and passes them to the sender. All
// parts of the running script can be reached from it.
import { cleanProps, cleanText } from "./data/clean.ts";
import { bytesOf, toJson } from "./data/json.ts";
import { CALL, MAX_BODY, type PixelEvent, SIGNAL, type Weight } from "./delivery/queue.ts";
import { type Sender, weightOf } from "./delivery/sender.ts";
import { doc, randomId, win } from "./guard.ts";
import type { Visitor } from "./visitor/visitor.ts";

/** Names that the server takes unchanged; every other name is sent as a custom name. */
const NAME = /^[a-z][a-z0-9_.:-]{0,63}$/;
const MAX_NAME = 64;
/** Reserved for clicks on tracking links, which earn credit. */
const LINK_CLICK = "click";
/** A limit that no visitor reaches; without it a broken page could send for ever. */
const MOST_SIGNALS = 400;
const BURST = 10;
const REFILL_MS = 3_000;
const SAME_PAGE_MS = 1_000;

export interface Tracker {
  /** Returns the id of the event, or null if there is none. `hold`: see Sender. */
  readonly event: (name: unknown, props?: unknown, hold?: number) => string | null;
  readonly page: (props?: unknown) => void;
  /** Sends only while consent allows it, and no more often than a person can act. */
  readonly signal: (name: string, props?: Readonly<Record<string, unknown>>) => void;
  /** `work` runs at each page view, for signals that are counted by page. */
  readonly onPage: (work: () => void) => void;
  readonly visitor: Visitor;
  readonly sender: Sender;
  /** The folder that the script was loaded from, and the nonce that the page's policy asks for. */
  readonly base: string;
  readonly nonce: string;
}

/** Makes a too long event fit into a body: fewer props, shorter texts, no lists and no objects. */
const fitted = (event: PixelEvent): string => {
  const json = toJson(event);
  if (bytesOf(json) <= MAX_BODY) return json;
  const props: Record<string, unknown> = { truncated: true };
  for (const [key, value] of Object.entries(event.props).slice(0, 50))
    if (typeof value !== "object") props[key] = typeof value === "string" ? value.slice(0, 150) : value;
  return toJson({ ...event, url: event.url.slice(0, 2_000), ref: undefined, props });
};

/** Each signal may come in a burst and then once in a while; a page limits all of them together. */
const openSignalBudget = (): ((name: string) => boolean) => {
  const budgets: Record<string, { left: number; at: number }> = {};
  let signals = 0;
  return (name) => {
    if (signals >= MOST_SIGNALS) return false;
    const now = Date.now();
    const budget = budgets[name] || { left: BURST, at: now };
    budgets[name] = budget;
    budget.left = Math.min(BURST, budget.left + (now - budget.at) / REFILL_MS);
    budget.at = now;
    if (budget.left < 1) return false;
    budget.left -= 1;
    signals += 1;
    return true;
  };
};

const urlNow = (): string => cleanText(win.location.href);

const eventOf = (
  name: string,
  props: Record<string, unknown>,
  ref: string | undefined,
  { did, sid, click, consent, gpc, dnt }: ReturnType<Visitor["stamp"]>,
): PixelEvent => {
  const isName = NAME.test(name) && name !== LINK_CLICK;
  return {
    t: isName ? name : "custom",
    ts: Date.now(),
    event_id: randomId(),
    did,
    sid,
    url: urlNow(),
    ref,
    svc_click_id: click,
    consent,
    props: {
      ...props,
      custom_name: isName ? props.custom_name : name,
      gpc: gpc || props.gpc,
      dnt: dnt || props.dnt,
    },
  };
};

export const openTracker = (
  parts: Pick<Tracker, "visitor" | "sender" | "base" | "nonce">,
  referrerOf: () => string,
): Tracker => {
  const { visitor, sender } = parts;
  const pageWork: (() => void)[] = [];
  const spend = openSignalBudget();
  let page = { url: "", at: 0, ref: "" };

  const send = (name: string, props: Record<string, unknown>, weight: Weight, hold: number): string => {
    const stamp = visitor.stamp();
    const event = eventOf(name, props, page.ref || cleanText(referrerOf()) || undefined, stamp);
    sender.send(event, fitted(event), weight, hold);
    return event.event_id;
  };

  return {
    ...parts,
    event: (given, props, hold = 0) => {
      const name = typeof given === "string" ? given.trim().slice(0, MAX_NAME) : "";
      return name === "" ? null : send(name, cleanProps(props), weightOf(name), hold);
    },
    page: (props) => {
      const url = urlNow();
      const now = Date.now();
      if (url === page.url && now - page.at < SAME_PAGE_MS) return;
      page = { url, at: now, ref: page.url === "" || page.url === url ? page.ref : page.url };
      send("page_view", { page_title: title(), ...cleanProps(props) }, CALL, 0);
      for (const work of pageWork) work();
    },
    signal: (name, props = {}) => {
      if (visitor.mayObserve() && spend(name)) send(name, cleanProps(props), SIGNAL, 0);
    },
    onPage: (work) => {
      pageWork.push(work);
    },
  };
};

const title = (): string => cleanText(`${doc.title}`.slice(0, 300));
