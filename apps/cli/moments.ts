// Reads a place in the log: a time, a time ago, an offset, or the beginning.

import { UsageError } from "../../infra/runtime/command-errors.ts";
import type { RewindTo } from "../../modules/log/rewind/rewind-plan.ts";
import type { UnixMs } from "../../stream/flow.ts";

const AGO = /^-(\d{1,6})(s|m|h|d)$/;
const OFFSET = /^offset:(\d{1,15})$/;
const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;
const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Reads `2026-11-21T14:05Z` or `-2h`. Throws UsageError: a time without its zone would be a guess,
 * and the broker reads a negative time as a command: -1 means the end.
 */
export const momentOf = (flag: string, text: string, now: UnixMs): UnixMs => {
  const ago = AGO.exec(text);
  const then = MOMENT.test(text) ? Date.parse(text) : Number.NaN;
  const at = ago === null ? then : now - Number(ago[1]) * unitMs[ago[2]!]!;
  if (at < 0) throw new UsageError(`${flag}: ${text} lies before 1970`);
  if (Number.isNaN(at))
    throw new UsageError(
      `${flag}: ${text} is not a time; give it with its zone, as ` +
        `${new Date(now).toISOString().slice(0, 16)}Z, or as -2h`,
    );
  return at;
};

/** Throws UsageError for a malformed or a future time. */
export const rewindToOf = (text: string, now: UnixMs): RewindTo => {
  if (text === "earliest") return { kind: "earliest" };
  const offset = OFFSET.exec(text);
  if (offset !== null) return { kind: "offset", offset: Number(offset[1]) };
  const at = momentOf("--to", text, now);
  if (at > now) throw new UsageError(`--to: ${text} has not come yet`);
  return { kind: "time", at };
};

/** Formats a moment for lists, in UTC: `2026-11-21T14:05`; null stays null. */
export const minuteOf = (at: UnixMs | null): string | null =>
  at === null ? null : new Date(at).toISOString().slice(0, 16);

/** Formats a span for people: 42 s, 3 min, 5 h. */
export const spanOf = (seconds: number): string => {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`;
};
