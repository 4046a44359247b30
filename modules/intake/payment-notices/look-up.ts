// Fetches from the API of a payment provider what its notice names.
import { getOutbound } from "../../../infra/outbound/outbound.ts";
import { MERCADOPAGO } from "../../../infra/runtime/environment.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";

/**
 * Fetches the object at `path` with the access token of the account. Throws Unavailable for every
 * other result: the provider sends the notice again, and the account may be fixed by then.
 */
export type LookUp = (path: string, token: string) => Promise<Readonly<Record<string, unknown>>>;

/** Shorter than the time that providers wait for our response. */
const TIMEOUT_MS = 8_000;
const MAX_BYTES = 192 * 1024;
/** Each look-up holds a request and a connection. */
const AT_ONCE = 64;
const RETRY_SEC = 30;

/** Every address: the operator has named the host, and the notice has only its path. */
const EVERYWHERE = ["0.0.0.0/0", "::/0"];

/**
 * `base` is the address of Mercado Pago, the one provider whose API is asked. Mercado Pago itself
 * is asked at public addresses alone; another host may be one of a private network, in plain text
 * too. `get` is `getOutbound`.
 */
export const openLookUp = (log: Pick<Log, "warn">, base: string, get: typeof getOutbound = getOutbound): LookUp => {
  const prefix = base.replace(/\/$/, "");
  const allowed = new URL(base).hostname === new URL(MERCADOPAGO).hostname ? [] : EVERYWHERE;
  let underWay = 0;
  return async (path, token) => {
    if (underWay >= AT_ONCE) throw new Unavailable("too many payments are asked for: send it again", RETRY_SEC);
    underWay += 1;
    const url = new URL(`${prefix}${path}`);
    const headers = { authorization: `Bearer ${token}`, accept: "application/json" };
    try {
      const { status, body } = await get({ url, headers, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, allowed });
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
