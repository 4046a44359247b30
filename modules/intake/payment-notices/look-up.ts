// Fetches from the API of a payment provider what its notice only names.
import { getOutbound } from "../../../infra/outbound/outbound.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";

/**
 * Fetches the object at `url` with the access token of the account. Throws Unavailable for every
 * other result: the provider sends the notice again, and the account may be fixed by then.
 */
export type LookUp = (url: string, token: string) => Promise<Readonly<Record<string, unknown>>>;

/** Shorter than the time that providers wait for our response. */
const TIMEOUT_MS = 8_000;
const MAX_BYTES = 192 * 1024;
/** Each look-up holds a request and a connection. */
const AT_ONCE = 64;
const RETRY_SEC = 30;

/** Only public addresses are fetched. `get` is `getOutbound`. */
export const openLookUp = (log: Pick<Log, "warn">, get: typeof getOutbound = getOutbound): LookUp => {
  let underWay = 0;
  return async (address, token) => {
    if (underWay >= AT_ONCE) throw new Unavailable("too many payments are asked for: send it again", RETRY_SEC);
    underWay += 1;
    const url = new URL(address);
    const headers = { authorization: `Bearer ${token}`, accept: "application/json" };
    try {
      const { status, body } = await get({ url, headers, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, allowed: [] });
      if (status !== 200) throw new Error(`answered ${status}`);
      return objectIn(body);
    } catch (error) {
      const { message } = error as Error;
      log.warn("postbacks.not_looked_up", { host: url.host, problem: message });
      throw new Unavailable(`${url.host} does not say what was paid (${message}): send it again`, RETRY_SEC);
    } finally {
      underWay -= 1;
    }
  };
};

const objectIn = (body: Buffer): Readonly<Record<string, unknown>> => {
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    throw new Error("its answer is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("its answer is no object");
  return value as Readonly<Record<string, unknown>>;
};
