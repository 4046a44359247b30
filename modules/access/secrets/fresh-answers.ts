// Caches saved values of clients for at most half a second, so that a replacement takes effect in
// every process within a second.
import { setTimeout as sleep } from "node:timers/promises";

const FRESH_MS = 500;
/** Between two queries for a client whose value does not fit. */
const REST_MS = 100;
/**
 * Bounds the cache, because strangers can invent ids; the least recently requested entry goes
 * first.
 */
const MOST_KNOWN = 10_000;

export interface Fresh<T> {
  /** Undefined: nothing is saved for the client. Throws the error of the query. */
  readonly of: (clientId: number) => Promise<T | undefined>;
  /**
   * For a signature that does not fit, since the value may be new: the next call returns one that
   * was queried after this call. Takes a tenth of a second, and calls of that time share a query,
   * so that strangers cost little.
   */
  readonly renew: (clientId: number) => Promise<void>;
  /** This process replaced the value, so the next call queries again. */
  readonly forget: (clientId: number) => void;
}

export const openFresh = <T>(question: (clients: readonly number[]) => Promise<ReadonlyMap<number, T>>): Fresh<T> => {
  const known = new Map<number, { readonly askedAt: number; readonly found: T | undefined }>();
  const ask = inTurns(question);
  return {
    of: async (clientId) => {
      const saved = known.get(clientId);
      if (saved !== undefined && performance.now() - saved.askedAt <= FRESH_MS) return saved.found;
      const { askedAt, answer } = await ask(clientId);
      const found = answer.get(clientId);
      known.delete(clientId);
      known.set(clientId, { askedAt, found });
      if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
      return found;
    },
    renew: async (clientId) => {
      const began = performance.now();
      // Always as long, so that it does not reveal what this process knows.
      await sleep(REST_MS, undefined, { ref: false });
      if ((known.get(clientId)?.askedAt ?? began) < began) known.delete(clientId);
    },
    forget: (clientId) => void known.delete(clientId),
  };
};

interface AnswerAt<T> {
  /** The time before the query, on this process's clock. */
  readonly askedAt: number;
  readonly answer: ReadonlyMap<number, T>;
}

/** Runs one query at a time. Ids that are requested meanwhile share the next query. */
const inTurns = <T>(question: (ids: readonly number[]) => Promise<ReadonlyMap<number, T>>) => {
  const underway = new Map<number, Promise<AnswerAt<T>>>();
  let waiting: number[] = [];
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<AnswerAt<T>> | undefined;
  const put = async (): Promise<AnswerAt<T>> => {
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
  return (id: number): Promise<AnswerAt<T>> => {
    const known = underway.get(id);
    if (known !== undefined) return known;
    waiting.push(id);
    next ??= put();
    underway.set(id, next);
    return next;
  };
};

/** Keeps an unsealed value, because unsealing costs more than a signature. */
export const remembering = <T>(unseal: () => T): (() => T) => {
  let found: { readonly value: T } | undefined;
  return () => {
    found ??= { value: unseal() };
    return found.value;
  };
};
