// Object storage in memory. It passes the contract suite, so it may replace the real ones.
import { checkKey, ObjectMissing, type Objects } from "../../infra/objects/objects.ts";

export interface InMemoryObjects extends Objects {
  readonly held: Map<string, Buffer>;
  readonly storedAt: Map<string, number>;
}

/** `before` is called before each effect, e.g. to throw where a process dies. */
export const inMemoryObjects = (before: (effect: string) => void = () => undefined): InMemoryObjects => {
  const held = new Map<string, Buffer>();
  const storedAt = new Map<string, number>();
  const keep = (key: string, body: Uint8Array): void => {
    held.set(key, Buffer.from(body));
    storedAt.set(key, Date.now());
  };
  return {
    held,
    storedAt,
    put: async (key, body) => {
      before(`put ${checkKey(key)}`);
      keep(key, body);
    },
    putNew: async (key, body) => {
      before(`putNew ${checkKey(key)}`);
      if (held.has(key)) return false;
      keep(key, body);
      return true;
    },
    get: async (key) => {
      const body = held.get(checkKey(key));
      if (body === undefined) throw new ObjectMissing(key);
      return Buffer.from(body);
    },
    list: async function* (prefix, after = "") {
      for (const key of [...held.keys()].sort())
        if (key.startsWith(prefix) && key > after)
          yield { key, bytes: held.get(key)!.length, storedAt: storedAt.get(key) ?? 0 };
    },
    delete: async (key) => {
      before(`delete ${checkKey(key)}`);
      held.delete(key);
    },
    close: async () => undefined,
  };
};
