// The events that wait to be delivered. Bounded; what is vital goes last when it is full.

/** One event as POST /e takes it. */
export interface PixelEvent {
  readonly t: string;
  readonly ts: number;
  readonly event_id: string;
  readonly did: string;
  readonly sid: string;
  readonly url: string;
  readonly ref?: string | undefined;
  readonly svc_click_id?: string | undefined;
  readonly consent?: number | undefined;
  readonly props: Readonly<Record<string, unknown>>;
}

/** Seen by itself, asked for by the page, or money or consent depends on it. */
export const SIGNAL = 0;
export const CALL = 1;
export const VITAL = 2;
export type Weight = typeof SIGNAL | typeof CALL | typeof VITAL;
export interface QueuedEvent {
  readonly event: PixelEvent;
  readonly weight: Weight;
  /** As it travels. */
  readonly json: string;
  /** Not sent before this moment, unless the page goes. Unix ms. */
  readonly notBefore: number;
}

export const MAX_WAITING = 300;
/** Twice this fits into what a browser lets a page have under way when it goes (64 KiB). */
export const MAX_BODY = 30_000;
const MAX_EVENTS = 50;

/** With one more. Where that is too many, the oldest of the lightest goes. */
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

/** Those that fit into one body, in order: at least one, if there is any. */
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
