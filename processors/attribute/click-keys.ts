// A view that verifies click ids with the current keys, so that no stage holds a secret.

import { type Click, type ClickIdKey, verify } from "../../domain/click-id.ts";
import { memo } from "../../domain/memo.ts";
import type { View } from "../../stream/flow.ts";

export interface ClickKeys {
  /**
   * Decodes a click id. Null if the id is not ours: wrong format, unknown key, or a changed bit.
   */
  readonly clickOf: (clickId: string) => Click | null;
}
export const clickKeys: View<ClickKeys> = { view: "click-keys" };

/**
 * Every event of a visit repeats its click id, so results are cached: 20,000 visits take about 4
 * MB. A MAC costs 5 us, a cached result 0.1 us.
 */
const clicksRemembered = 20_000;

/** Builds the view. The app calls this once, after reading its secrets. */
export const clickKeysOf = (keys: readonly ClickIdKey[]): ClickKeys => ({
  clickOf: memo(clicksRemembered, (clickId) => verify(clickId, keys) ?? null),
});
