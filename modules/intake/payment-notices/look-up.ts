// Asks the API of a payment processor for what its notice only names.
import { getOutbound } from "../../../infra/outbound/outbound.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";

/**
 * The object at `url`, asked with the access token of the account. Throws Unavailable for
 * everything else that comes: the notice is sent again, and the account may be mended by then.
 */
export type LookUp = (url: string, token: string) => Promise<Readonly<Record<string, unknown>>>;

/** Below what processors wait for an answer of ours. */
const TIMEOUT_MS = 8_000;
const MAX_BYTES = 192 * 1024;
/** Each holds a request and a connection. */
const AT_ONCE = 64;
const RETRY_SEC = 30;

/** Public addresses alone are asked. `get` is `getOutbound`. */
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
