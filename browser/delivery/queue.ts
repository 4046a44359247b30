// The list of events that wait for delivery. It is bounded, and vital events are dropped last.

import type { Choice } from "../../domain/personal/choice.ts";

/** One event in the form that POST /e takes. */
export interface PixelEvent {
  readonly t: string;
  readonly ts: number;
  readonly event_id: string;
  readonly did: string;
  readonly sid: string;
  readonly url: string;
  readonly ref?: string | undefined;
  readonly svc_click_id?: string | undefined;
  readonly consent?: number | Choice | undefined;
  readonly props: Readonly<Record<string, unknown>>;
}

/**
 * A signal is seen by the script itself, a call is made by the page, and on a vital event depends
 * money or consent.
 */
export const SIGNAL = 0;
export const CALL = 1;
export const VITAL = 2;
export type Weight = typeof SIGNAL | typeof CALL | typeof VITAL;
export interface QueuedEvent {
  readonly event: PixelEvent;
  readonly weight: Weight;
  /** The text that is sent. */
  readonly json: string;
  /** The event is not sent before this moment, unless the page closes. Unix ms. */
  readonly notBefore: number;
}

export const MAX_WAITING = 300;
/** Two bodies of this size fit into the 64 KiB that a browser still sends for a closing page. */
export const MAX_BODY = 30_000;
const MAX_EVENTS = 50;

/** Adds one event. Where that is too many, the oldest of the lightest is dropped. */
export const withOne = (waiting: readonly QueuedEvent[], one: QueuedEvent): readonly QueuedEvent[] => {
  const all = waiting.concat(one);
  if (all.length <= MAX_WAITING) return all;
  const lightest = Math.min(...all.map(({ weight }) => weight));
  all.splice(
    all.findIndex(({ weight }) => weight === lightest),
    1,
  );
  return all;
};

/** The events that fit into one body, in order: at least one, if there are any. */
export const oneBody = (waiting: readonly QueuedEvent[], bytesOf: (text: string) => number): readonly QueuedEvent[] => {
  let bytes = 0;
  let count = 0;
  for (const { json } of waiting) {
    bytes += bytesOf(json);
    if (count > 0 && (bytes > MAX_BODY || count === MAX_EVENTS)) break;
    count += 1;
  }
  return waiting.slice(0, count);
};
