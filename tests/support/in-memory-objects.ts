// Object storage in this process; it passes the contract suite, so that it may stand for the real
// ones.
import { checkKey, ObjectMissing, type Objects } from "../../infra/objects/objects.ts";

export interface InMemoryObjects extends Objects {
  readonly held: Map<string, Buffer>;
}

/** `before` is called before each effect, e.g. to throw where a process dies. */
export const inMemoryObjects = (before: (effect: string) => void = () => undefined): InMemoryObjects => {
  const held = new Map<string, Buffer>();
  return {
    held,
    put: async (key, body) => {
      before(`put ${checkKey(key)}`);
      held.set(key, Buffer.from(body));
    },
    putNew: async (key, body) => {
      before(`putNew ${checkKey(key)}`);
      if (held.has(key)) return false;
      held.set(key, Buffer.from(body));
      return true;
    },
    get: async (key) => {
      const body = held.get(checkKey(key));
      if (body === undefined) throw new ObjectMissing(key);
      return Buffer.from(body);
    },
    list: async function* (prefix, after = "") {
      for (const key of [...held.keys()].sort())
        if (key.startsWith(prefix) && key > after) yield { key, bytes: held.get(key)!.length };
    },
    delete: async (key) => {
      before(`delete ${checkKey(key)}`);
      held.delete(key);
    },
    close: async () => undefined,
  };
};
