// What this product asks of object storage; fs.ts and s3.ts satisfy it, and one contract suite
// holds both to it.

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** When it was put last, by the clock of the store; Unix milliseconds. */
  readonly storedAt: number;
}

/** Nothing is stored under the key. */
export class ObjectMissing extends Error {
  constructor(key: string) {
    super(`there is no object ${key}`);
    this.name = "ObjectMissing";
  }
}

/**
 * Keys are paths of `A-Za-z0-9._=-` parts joined by `/`, at most 512 characters. Every call rejects
 * with the store's own error when it cannot be reached, and none of them leaves half an object
 * behind: readers see all of it or nothing.
 */
export interface Objects {
  /** Resolves once the object is stored for good. What stood under the key is replaced. */
  readonly put: (key: string, body: Uint8Array) => Promise<void>;
  /** The same, but leaves alone what is there: false when something is. Of two at once one wins. */
  readonly putNew: (key: string, body: Uint8Array) => Promise<boolean>;
  /** Rejects with ObjectMissing. */
  readonly get: (key: string) => Promise<Buffer>;
  /** In the order of their keys (by code unit); those after `after`, if given. */
  readonly list: (prefix: string, after?: string) => AsyncIterable<StoredObject>;
  /** Deleting what is not there is done. */
  readonly delete: (key: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

const KEY = /^(?!.*(^|\/)\.{1,2}(\/|$))[A-Za-z0-9._=-]+(\/[A-Za-z0-9._=-]+)*$/;

/** Throws on a key that could leave the store, e.g. one with `..`. */
export const checkKey = (key: string): string => {
  if (key.length > 512 || !KEY.test(key)) throw new Error(`${JSON.stringify(key)} is no key of an object`);
  return key;
};
