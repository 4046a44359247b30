// Session replay as the script has it: the file that records is loaded once all gates are open.
import { bytesOf, toJson } from "../data/json.ts";
import { deliver, handOver, isOffline, type PixelHost } from "../delivery/transport.ts";
import { loadPart } from "../parts.ts";
import type { Tracker } from "../tracker.ts";
import type { Visitor } from "../visitor/visitor.ts";

/** What the script lends to the file that records, which would else carry it a second time. */
const tools = { bytesOf, toJson, deliver, handOver, isOffline };
type Tools = typeof tools;

/** Between the script and the file that records. */
export interface Bridge extends Tools {
  /** Of POST /replay */
  readonly host: PixelHost;
  readonly visitor: Pick<Visitor, "stamp" | "mayReplay">;
  /** Set by the file: records from now on, if it does not yet and may. */
  begin?: () => void;
}

/** Asks the gates each time that it is called. */
export const openRecorder = (tracker: Tracker, clientId: number): (() => void) => {
  const { visitor, base } = tracker;
  const bridge: Bridge = { ...tools, host: { url: `${base}/replay`, clientId }, visitor };
  let isAsked = false;
  return () => {
    if (!visitor.mayReplay(visitor.stamp().sid)) return;
    if (bridge.begin) bridge.begin();
    else if (!isAsked) loadPart(tracker, "replay.js", { bridge });
    isAsked = true;
  };
};
