// The driver of mobile-measurement partners: JSON pages over HTTP, GET ?from=&to=&cursor=.
import { getOutbound, type OutboundAnswer } from "../../../../infra/outbound/outbound.ts";
import { BadAnswer, type PullDriver, type PulledPage, SourceBusy } from "./driver.ts";

const TIMEOUT_MS = 15_000;
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_ROWS = 10_000;
const MAX_CURSOR = 2_048;

/**
 * Pages are `{rows: [...], next_cursor}`; the credential is sent as a bearer token. Retries 429 and
 * 5xx; every other status but 200 is an unusable response.
 */
export const mmp: PullDriver = {
  fetch: async ({ url, secret, allowed, signal }, { from, to }, cursor) => {
    const asked = new URL(url);
    asked.searchParams.set("from", new Date(from).toISOString());
    asked.searchParams.set("to", new Date(to).toISOString());
    if (cursor !== null) asked.searchParams.set("cursor", cursor);
    const headers = { accept: "application/json", ...(secret !== null && { authorization: `Bearer ${secret}` }) };
    const limits = { timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, allowed };
    const answer = await getOutbound({ url: asked, headers, ...limits, ...(signal && { signal }) });
    return pageOf(answer, cursor);
  },
};

const pageOf = ({ status, headers, body }: OutboundAnswer, cursor: string | null): PulledPage => {
  if (status === 429 || status >= 500) throw new SourceBusy(`the source answers ${status}`, waitIn(headers));
  if (status !== 200) throw new BadAnswer(`the source answers ${status}: look at its address and its credential`);
  const page = jsonIn(body);
  const rows = page?.rows;
  const next = page?.next_cursor ?? null;
  if (!Array.isArray(rows)) throw new BadAnswer("the answer has no list `rows`");
  if (rows.length > MAX_ROWS) throw new BadAnswer(`a page has ${rows.length} rows: at most ${MAX_ROWS} are taken`);
  if (next !== null && (typeof next !== "string" || next === "" || next.length > MAX_CURSOR))
    throw new BadAnswer(`next_cursor must be a text of 1 to ${MAX_CURSOR} characters, or null`);
  // A source that always returns the same cursor would be fetched from forever.
  if (next !== null && next === cursor) throw new BadAnswer("next_cursor is the cursor that was asked for");
  return { rows, nextCursor: next };
};

const jsonIn = (body: Buffer): { readonly rows?: unknown; readonly next_cursor?: unknown } | null => {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    throw new BadAnswer("the answer is no JSON");
  }
};

/** Parses Retry-After: seconds, or a date in the future; null when it is absent. */
const waitIn = ({ "retry-after": given }: OutboundAnswer["headers"]): number | null => {
  const seconds = given !== undefined && /^\d{1,6}$/.test(given) ? Number(given) : null;
  return seconds === null ? null : seconds * 1_000;
};
