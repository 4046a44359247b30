// The interface of a driver of external sources: it fetches the rows of a window, a page at a time.
import type { AllowedNetworks } from "../../../../infra/outbound/outbound.ts";
import type { UnixMs } from "../../../../stream/flow.ts";

/** [from, to) of event time. */
export interface PullWindow {
  readonly from: UnixMs;
  readonly to: UnixMs;
}
export interface PulledPage {
  readonly rows: readonly unknown[];
  /** Where the next page begins; null: this was the last page. */
  readonly nextCursor: string | null;
}
/** How to reach a source, as in `sources.pull`, with its credential in plain text. */
export interface DriverSettings {
  readonly url: string;
  readonly secret: string | null;
  readonly allowed: AllowedNetworks;
  readonly signal?: AbortSignal;
}
export interface PullDriver {
  /**
   * Fetches one page; the same window and cursor may be fetched again. Throws with the verdict
   * `transient` when the same request may succeed later, else with the setting that must be
   * changed.
   */
  readonly fetch: (settings: DriverSettings, window: PullWindow, cursor: string | null) => Promise<PulledPage>;
}

/** The source is down or overloaded. */
export class SourceBusy extends Error {
  readonly verdict = "transient";
  /** The delay that the source named; null: it named none. */
  readonly retryAfterMs: number | null;
  constructor(message: string, retryAfterMs: number | null = null) {
    super(message);
    this.name = "SourceBusy";
    this.retryAfterMs = retryAfterMs;
  }
}
/** The source's response is unusable, and a retry would not change that. */
export class BadAnswer extends Error {
  readonly verdict = "fatal";
  constructor(message: string) {
    super(message);
    this.name = "BadAnswer";
  }
}
