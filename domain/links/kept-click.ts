// Finds the click id that a visitor of a tracking link already has.
import type { UnixMs } from "../../stream/flow.ts";
import { type Click, type ClickIdKey, verify } from "../click-id.ts";

/** Following a link again within this time counts as the same click. */
const REPEAT_MS = 3_600_000;

export interface KeptClick extends Click {
  readonly click_id: string;
}

/**
 * The first of the visitor's ids that is ours, belongs to this link and is less than an hour old.
 * Later than that, a visit is a new click. Null if there is none.
 */
export const keptClick = (
  given: readonly string[],
  { linkId, now }: { readonly linkId: number; readonly now: UnixMs },
  keys: readonly ClickIdKey[],
): KeptClick | null => {
  for (const click_id of given) {
    const click = verify(click_id, keys);
    if (click?.link_id === linkId && click.clicked_at <= now && now - click.clicked_at < REPEAT_MS)
      return { ...click, click_id };
  }
  return null;
};
