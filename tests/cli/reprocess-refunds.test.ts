// Refunds that are copies of others stay copies when nothing has changed: rule 33 of
// docs/design/money.md.
import { expect, test } from "vitest";
import { sentEventId } from "../../domain/ids.ts";
import type { ReferenceRows } from "../../domain/reference/reference.ts";
import { decisionOnLine } from "../../processors/settle/decision-claim.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, hourMs, noon, partner } from "../support/builders.ts";
import { type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { clickBefore, purchase, refund, type Written } from "../support/shop.ts";

const rows: Partial<ReferenceRows> = { partners: [partner()], contracts: [contract()] };
const back = (event_id: string, props: Written = {}): Written =>
  refund({ event_id, ts: noon + 1 }, { amount: "30.00", ...props });
const sold = async (): Promise<Reprocessed> => {
  const made = reprocessed(rows);
  await made.post([purchase({ event_id: "s1", svc_click_id: clickBefore(hourMs) })]);
  return made;
};
const isCopied = (made: Reprocessed, sent: string): boolean =>
  [...made.current().values()].some(({ event, merged_into }) => event.sender_event_id === sent && merged_into !== null);
/** A person says of a held refund that it is the one that another source has reported. */
const isTheSame = (sent: string) => {
  const said = { kind: "reject", actor: "user:ana", partner_id: null, campaign_id: null } as const;
  const decision_id = "00000000-0000-8000-8000-000000000011";
  const rest = { reason: "the same one", at: noon + hourMs, flags: [], review_from: 101, reject_from: 101 };
  const event = { event_id: sentEventId(clientId, sent), t: "refund", order_id: "o1" };
  return { data: decisionOnLine(clientId, event, { decision_id, ...said, ...rest }), at: noon + hourMs };
};

test("a refund that came twice under one refund_id differs in nothing", async () => {
  const made = await sold();
  for (const name of ["r1", "r2"]) await made.post([back(name, { refund_id: "R1" })]);
  expect(isCopied(made, "r2")).toBe(true);
  expect((await made.difference(rows)).changes).toEqual([]);
});

test("so does one that waited for its sale with its copy", async () => {
  const made = reprocessed(rows);
  for (const name of ["r1", "r2"]) await made.post([back(name, { refund_id: "R1", product_id: "sku1" })]);
  await made.post([purchase({ event_id: "s1", svc_click_id: clickBefore(hourMs) })]);
  expect(isCopied(made, "r2")).toBe(true);
  expect((await made.difference(rows)).changes).toEqual([]);
});

test("so does one that a person found to be another source's", async () => {
  const made = await sold();
  await made.post([back("r1")], { source: "batch" });
  await made.post([back("r2")], { source: "stripe" });
  await made.send(topics.claims, isTheSame("r2"));
  expect(isCopied(made, "r2")).toBe(true);
  expect((await made.difference(rows)).changes).toEqual([]);
});
