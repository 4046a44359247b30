// What was saved of a client, as it was half a second ago at most: what one process replaces is
// replaced within a second in every process.

const FRESH_MS = 500;
/** Clients that exist, and ids that strangers make up: the longest unasked is forgotten first. */
const MOST_KNOWN = 10_000;

export interface Fresh<T> {
  /** Undefined: nothing of it is saved. Throws what the question threw. */
  readonly of: (clientId: number) => Promise<T | undefined>;
  /** It was replaced by this process: from now on the question is asked again. */
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
    forget: (clientId) => void known.delete(clientId),
  };
};

interface AnswerAt<T> {
  /** Before the database was asked, on the clock of this process. */
  readonly askedAt: number;
  readonly answer: ReadonlyMap<number, T>;
}

/** One question at a time; what is asked for meanwhile is the next one, all together. */
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

/** Unsealing costs more than a signature, and the answer stays the same. */
export const remembering = <T>(unseal: () => T): (() => T) => {
  let found: { readonly value: T } | undefined;
  return () => {
    found ??= { value: unseal() };
    return found.value;
  };
};
