// Records a visit. The script loads this file when all conditions hold, and they are checked again
// for each event. Every input is masked; canvas and mouse moves are not recorded.
import { record } from "@rrweb/record";
import { doc, guarded, later, listen, quietly, randomId, runs, win } from "../guard.ts";
import type { Bridge } from "./begin.ts";
import { type Chunks, openChunks } from "./chunks.ts";
import { MASK, maskEvent } from "./masks.ts";

/**
 * The most bytes of one event; the first event of a page is the whole page. The host takes 1 MiB.
 */
const MOST_BYTES = 900_000;
const LONGEST_MS = 30 * 60_000;

const options = {
  // Masks by element name, so that no type of input is missed, also if the type changes later.
  maskInputOptions: { input: true, textarea: true, select: true } as object,
  maskInputFn: () => MASK,
  maskTextFn: () => MASK,
  maskTextClass: "svc-mask",
  maskTextSelector: ".svc-mask, [contenteditable]",
  blockClass: "svc-block",
  ignoreClass: "svc-ignore",
  sampling: { mousemove: false, scroll: 300, input: "last" as const },
  slimDOMOptions: { script: true, comment: true, headMetaSocial: true, headMetaRobots: true },
  recordCanvas: false,
  errorHandler: () => true,
};

const openRecorder = (bridge: Bridge): (() => void) => {
  const { host, visitor, toJson, bytesOf } = bridge;
  let stop: (() => void) | undefined;
  let chunks: Chunks | undefined;
  let isOver = false;

  const end = (): void => {
    quietly(() => stop?.());
    stop = undefined;
  };
  /** Ends recording for this page: the host refused, or there was too much. */
  const giveUp = (): void => {
    isOver = true;
    chunks?.drop();
    end();
  };
  const begin = (): void => {
    if (stop || isOver) return;
    const { did, sid } = visitor.stamp();
    if (!visitor.mayReplay(sid)) return;
    const page = randomId();
    const bodyOf = (seq: number, events: string): string | null => {
      if (!visitor.mayReplay(sid)) return null;
      const { consent, gpc, dnt } = visitor.stamp();
      // Each chunk bears the ticket, because chunks of a closing page may arrive in any order. A
      // script of the release before, from a cache, has none.
      const ticket = visitor.replayTicket?.();
      const head = toJson({ cid: host.clientId, did, sid, page, seq, consent, gpc, dnt, ticket });
      return `${head.slice(0, -1)},"events":${events}}`;
    };
    const own = openChunks(bridge, bodyOf, giveUp);
    chunks = own;
    const take = (event: unknown): void => {
      maskEvent(event, (id) => record.mirror.getNode(id)?.nodeName);
      const json = toJson(event);
      if (bytesOf(json) > MOST_BYTES) giveUp();
      else own.add(json);
    };
    const emit = (event: unknown): void => {
      if (!visitor.mayReplay(sid)) {
        own.drop();
        end();
      } else if (stop !== undefined && !runs(() => take(event))) giveUp();
    };
    stop = () => undefined;
    stop = record({ ...options, emit: guarded(emit) }) || stop;
    later(LONGEST_MS, end);
  };
  const leave = (): void => chunks?.leave();
  listen(win, "pagehide", leave, "last");
  listen(win, "visibilitychange", () => doc.visibilityState === "hidden" && leave(), "last");
  return begin;
};

quietly(() => {
  const { bridge } = doc.currentScript as unknown as { readonly bridge?: Bridge };
  if (bridge === undefined || !win.MutationObserver) return;
  bridge.begin = guarded(openRecorder(bridge));
  bridge.begin();
});
