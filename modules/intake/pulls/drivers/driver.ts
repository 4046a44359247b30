// What a driver of external sources is: it asks for the rows of a window, a page at a time.
import type { AllowedNetworks } from "../../../../infra/outbound/outbound.ts";
import type { UnixMs } from "../../../../stream/flow.ts";

/** [from, to) of event time. */
export interface PullWindow {
  readonly from: UnixMs;
  readonly to: UnixMs;
}
export interface PulledPage {
  readonly rows: readonly unknown[];
  /** Where the next page begins; null: this was the last one. */
  readonly nextCursor: string | null;
}
/** How a source is asked, as `sources.pull` keeps it, with its credential in plain text. */
export interface DriverSettings {
  readonly url: string;
  readonly secret: string | null;
  readonly allowed: AllowedNetworks;
  readonly signal?: AbortSignal;
}
export interface PullDriver {
  /**
   * One page; the same window and cursor may be asked for again. Throws with the verdict
   * `transient` where the same request may succeed later, else with what has to be changed.
   */
  readonly fetch: (settings: DriverSettings, window: PullWindow, cursor: string | null) => Promise<PulledPage>;
}

/** The source is away, or has too much to do. */
export class SourceBusy extends Error {
  readonly verdict = "transient";
  /** As the source said; null: it did not. */
  readonly retryAfterMs: number | null;
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message);
    this.name = "SourceBusy";
    this.retryAfterMs = retryAfterMs;
  }
}
/** What the source answers cannot be used, however often it is asked. */
export class BadAnswer extends Error {
  readonly verdict = "fatal";
  constructor(message: string) {
    super(message);
    this.name = "BadAnswer";
  }
}
