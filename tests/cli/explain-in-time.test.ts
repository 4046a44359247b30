// Conversions of a sale are explained in the order in which they were opened, though no time of it
// is stored.
import { expect, test } from "vitest";
import { sentEventId } from "../../domain/ids.ts";
import { inTime } from "../../modules/money/explain/in-time.ts";
import { takenBackBy } from "../../modules/money/explain/taken-back.ts";
import { rememberedOrders } from "../../modules/money/reprocess/orders/lines.ts";
import { decisionOnOrder } from "../../processors/settle/decision-claim.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, hourMs, noon, partner, recorded } from "../support/builders.ts";
import { reprocessed } from "../support/reprocessing.ts";
import { clickBefore, purchase, refund, type Shop, shop, type Written } from "../support/shop.ts";

const svc_click_id = clickBefore(hourMs);
const sold = (event_id: string, revenue: string, props: Written = {}): Written =>
  purchase({ event_id, svc_click_id, ts: noon + Number(event_id.slice(1)) }, { revenue, ...props });
const given = (kind: "reattribute" | "take_back", n: number, partner_id: number | null) => {
  const decision_id = `00000000-0000-8000-8000-00000000000${n}`;
  const said = { decision_id, kind, actor: "user:ana", partner_id, campaign_id: null, reason: "by phone" };
  const limits = { flags: [], review_from: 101, reject_from: 101 };
  return { data: decisionOnOrder(clientId, "o1", { ...said, ...limits, at: noon + n }), at: noon + n };
};
/** The conversions as they are stored, in the order of their ids, and that of their opening. */
const storedIn = (made: Shop) => {
  const newest = new Map(
    made.conversions().flatMap((one) => {
      const [row] = conversionRows(recorded(topics.conversions, one));
      return [[one.conversion_id, row!] as const];
    }),
  );
  const opened = [...newest.keys()];
  return { stored: [...newest.values()].sort((a, b) => (a.conversion_id < b.conversion_id ? -1 : 1)), opened };
};

test("a line that was amended, given away and taken back is read in that order", async () => {
  const made = shop({
    partners: [partner(), partner({ partner_id: 22 })],
    contracts: [contract(), contract({ contract_id: 62, partner_id: 22 })],
  });
  for (const [n, revenue] of ["100.00", "150.00", "120.00", "80.00"].entries())
    await made.post([sold(`e${n}`, revenue)]);
  await made.send(topics.claims, given("reattribute", 1, 22));
  await made.send(topics.claims, given("take_back", 2, null));
  const { stored, opened } = storedIn(made);
  expect(stored).toHaveLength(5);
  const shown = inTime(stored, 8);
  expect(shown.map(({ conversion_id }) => conversion_id)).toEqual(opened);
  expect(shown.map(({ reason, is_opened_again }) => [reason, is_opened_again])).toEqual([
    ["amended", true],
    ["amended", true],
    ["amended", true],
    ["reattributed", true],
    ["manual", false],
  ]);
  expect(
    inTime(stored, 1_000_000).map(({ conversion_id }) => conversion_id),
    "too many to compute",
  ).toEqual(stored.map(({ conversion_id }) => conversion_id));
  expect(inTime(stored.toReversed(), 8).map(({ conversion_id }) => conversion_id)).toEqual(opened);
});

test("a refund in another currency than its sale has taken nothing, and one of no sale waits for it", async () => {
  const made = reprocessed({ partners: [partner()], contracts: [contract()] });
  await made.post([refund({ event_id: "r1" }, { amount: "5.00", currency: "USD" })]);
  const why = async () => {
    const order = (await rememberedOrders(made.memory, [`${clientId}:o:o1`])).get(`${clientId}:o:o1`) ?? null;
    return takenBackBy(sentEventId(clientId, "r1"), false, { conversions: [], entries: [], order }).nothing;
  };
  expect(await why()).toBe("waits_for_sale");
  await made.post([sold("e1", "100.00")]);
  expect(await why()).toBe("other_currency");
});
