// Protects the terms of a contract on days of a month whose plan is approved.
import { conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { type FrozenBy, frozenMonth } from "../planner/frozen.ts";

/**
 * Throws RefusalError `month_approved` if the contract pays for a line of an approved plan within
 * these days.
 */
export const refuseApproved = async (
  { tx }: Pick<Work, "tx">,
  contract: FrozenBy,
  days: { readonly from: string; readonly to: string | null },
  path: string,
): Promise<void> => {
  const month = await frozenMonth(tx, contract, days);
  if (month === undefined) return;
  const detail = `the plan of ${firstDayOf(month).slice(0, 7)} is approved with this partner: reopen it first`;
  throw conflict("month_approved", detail, { path });
};
