// Whether bytes bear the signature of a client, by its secret as it was half a second ago at most:
// one that was replaced is good for nothing within a second, in every process.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { isSignatureOf } from "../../domain/signature.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import { clientSecretsOf } from "./client-secrets.ts";

const FRESH_MS = 500;
/** Clients that exist, and ids that strangers make up: the longest unasked is forgotten first. */
const MOST_KNOWN = 10_000;

interface Known {
  /** Before the database was asked, on the clock of this process. */
  readonly askedAt: number;
  readonly secret: () => string | undefined;
}

export interface Signing {
  /**
   * Whether `signature` is the hex HMAC-SHA256 of the bytes under the client's secret. Every no
   * takes the same steps: an unknown client, one without a secret, a signature of another form.
   * Throws CannotUnseal, and what Postgres throws.
   */
  readonly isSigned: (clientId: number, bytes: Buffer, signature: string | undefined) => Promise<boolean>;
  /** The secret was replaced by this process: from now on it asks for the new one. */
  readonly forget: (clientId: number) => void;
}

export const openSigning = (pool: pg.Pool, keyring: Keyring): Signing => {
  const known = new Map<number, Known>();
  const ask = inTurns((clients) => clientSecretsOf(pool, clients, keyring));
  /** In place of the secret that an unknown client lacks. */
  const dummy = randomBytes(32).toString("hex");

  const secretOf = async (clientId: number): Promise<string | undefined> => {
    const found = known.get(clientId);
    if (found !== undefined && performance.now() - found.askedAt <= FRESH_MS) return found.secret();
    const { askedAt, answer } = await ask(clientId);
    const read = { askedAt, secret: remembering(answer.get(clientId)) };
    known.delete(clientId);
    known.set(clientId, read);
    if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
    return read.secret();
  };

  return {
    isSigned: async (clientId, bytes, signature = "") =>
      isSignatureOf(bytes, signature, await secretOf(clientId), dummy),
    forget: (clientId) => known.delete(clientId),
  };
};

interface Asked<T> {
  readonly askedAt: number;
  readonly answer: ReadonlyMap<number, T>;
}

/** One question at a time; what is asked for meanwhile is the next one, all together. */
const inTurns = <T>(question: (ids: readonly number[]) => Promise<ReadonlyMap<number, T>>) => {
  const underway = new Map<number, Promise<Asked<T>>>();
  let waiting: number[] = [];
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<Asked<T>> | undefined;
  const put = async (): Promise<Asked<T>> => {
    await last.catch(() => undefined);
    const ids = waiting;
    waiting = [];
    next = undefined;
    const askedAt = performance.now();
    const answer = question(ids);
    last = answer;
    try {
      return { askedAt, answer: await answer };
    } finally {
      for (const id of ids) underway.delete(id);
    }
  };
  return (id: number): Promise<Asked<T>> => {
    const known = underway.get(id);
    if (known !== undefined) return known;
    waiting.push(id);
    next ??= put();
    underway.set(id, next);
    return next;
  };
};

/** Unsealing costs more than a signature, and the answer stays the same. */
const remembering = (unseal: (() => string) | undefined): (() => string | undefined) => {
  let secret: string | undefined;
  return () => {
    secret ??= unseal?.();
    return secret;
  };
};
