// The operations that this product needs of object storage; fs.ts and s3.ts implement them, and one
// contract suite tests both.

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** When it was last put, by the clock of the store; Unix milliseconds. */
  readonly storedAt: number;
}

/** No object is stored under the key. */
export class ObjectMissing extends Error {
  constructor(key: string) {
    super(`there is no object ${key}`);
    this.name = "ObjectMissing";
  }
}

/**
 * Keys are paths of `A-Za-z0-9._=-` parts joined by `/`, at most 512 characters. Every call rejects
 * with the store's own error when the store cannot be reached, and no call leaves half an object
 * behind: readers see the whole object or none.
 */
export interface Objects {
  /** Resolves once the object is durable. An object under the same key is replaced. */
  readonly put: (key: string, body: Uint8Array) => Promise<void>;
  /**
   * Puts an object only if the key is free; otherwise keeps the existing one and returns false. Of
   * two concurrent calls one wins.
   */
  readonly putNew: (key: string, body: Uint8Array) => Promise<boolean>;
  /** Rejects with ObjectMissing. */
  readonly get: (key: string) => Promise<Buffer>;
  /**
   * Lists objects in the order of their keys (by code unit); if `after` is given, only keys after
   * it.
   */
  readonly list: (prefix: string, after?: string) => AsyncIterable<StoredObject>;
  /** Deleting a missing object succeeds. */
  readonly delete: (key: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

const KEY = /^(?!.*(^|\/)\.{1,2}(\/|$))[A-Za-z0-9._=-]+(\/[A-Za-z0-9._=-]+)*$/;

/** Throws on a key that could leave the store, e.g. one with `..`. */
export const checkKey = (key: string): string => {
  if (key.length > 512 || !KEY.test(key)) throw new Error(`${JSON.stringify(key)} is no key of an object`);
  return key;
};
