// Ids that were taken when an event came, as a fold asks for them.
import type { Conflict, Recorded } from "../flow.ts";

export interface TakenIds {
  /**
   * Why an event that memory does not know is not the first one of its id; null if it says the same
   * as the first one, and undefined if nothing is known of another one.
   */
  readonly of: (event: Pick<Recorded<unknown>, "id" | "key">) => Conflict | null | undefined;
}

export const nothingTaken: TakenIds = { of: () => undefined };

/** Names an event: one id came first under one record key, and later under another. */
export const takenName = ({ id, key }: Pick<Recorded<unknown>, "id" | "key">): string => `${id} ${key}`;
