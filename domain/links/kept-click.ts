// The click id that a visitor of a tracking link already has.
import type { UnixMs } from "../../stream/flow.ts";
import { type Click, type ClickIdKey, verify } from "../click-id.ts";

/** A link that is followed again within it was followed once. */
const REPEAT_MS = 3_600_000;

export interface KeptClick extends Click {
  readonly click_id: string;
}

/**
 * Of the ids that a visitor brings the first that is ours, of this link and less than an hour old:
 * later than that a visit is a click of its own. Null: none is.
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
