// Which time dates the money of a sale: runs every example of docs/design/money.md, "The time of
// the money".
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { type ReferenceRows, reference } from "../../domain/reference/reference.ts";
import { attribute } from "../../processors/attribute/attribute.ts";
import { attributeFacts, clickKeys, clickKeysOf } from "../../processors/attribute/facts.ts";
import { contracts } from "../../processors/commission/contracts.ts";
import type { Claim, EventReceived } from "../../schemas/generated.ts";
import { appEventRows } from "../../sinks/app-events/rows.ts";
import { identityLinkRows } from "../../sinks/identity/rows.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { velocityRows } from "../../sinks/velocity/rows.ts";
import { sets } from "../../sinks/velocity/table.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import {
  attributed,
  client,
  clientId,
  contract,
  crediting,
  dayMs,
  hourMs,
  linkId,
  longAgo,
  noon,
  partnerId,
  purchase,
  reads,
  recorded,
  referenceWith,
  rule,
  scored,
} from "../support/builders.ts";
import { committed, refund, sale, settled } from "../support/money-builders.ts";

const minuteMs = 60_000;
const key = clickIdKey("a secret of these tests", 1);
/** Every purchase is credited to partner 21, with and without a click. */
const always = { rules: [rule({ ...crediting(partnerId) })] };

let sent = 0;
/** The claim that attribute makes of a purchase that is received at noon. */
const claimOf = async (
  event: Partial<EventReceived>,
  rows: Partial<ReferenceRows> = {},
  receivedAt = noon,
): Promise<Recorded<Claim>> => {
  sent += 1;
  const event_id = `00000000-0000-8000-8000-${String(sent).padStart(12, "0")}`;
  const made = purchase({ event_id, ...event });
  const input = recorded(topics.eventsScored, scored(made), { at: Math.min(made.ts, receivedAt), receivedAt });
  const known = reads([reference, referenceWith({ ...always, ...rows })], [clickKeys, clickKeysOf([key])]);
  const facts = await attributeFacts.load([input], known);
  const outcome = attribute(input, { clicks: [] }, facts(input));
  const [emitted] = outcome.kind === "emit" ? outcome.events : [];
  if (emitted?.output !== "claims") throw new Error("attribute makes a claim of a purchase");
  return recorded(topics.claims, emitted.data, { at: emitted.at ?? input.at, receivedAt });
};
const server = { source: "batch", client_side: false } as const;
const senders: Readonly<Record<string, Partial<EventReceived>>> = {
  pixel: {},
  "token of pages": { source: "batch" },
  server,
  notice: { ...server, source: "postback:stripe" },
  lead: { ...server, source: "lead" },
  file: { ...server, source: "upload" },
  pull: { ...server, source: "pull" },
};

const spans: Readonly<Record<string, number>> = { ms: 1, min: minuteMs, h: hourMs, d: dayMs };
/** `10 min`, `72 h 1 ms`. */
const spanOf = (text: string): number =>
  [...text.matchAll(/(\d+) (ms|min|h|d)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * spans[unit!]!, 0);

const page = readFileSync(new URL("../../docs/design/money.md", import.meta.url), "utf8");
const examples = (page.split("| sent by | happened | click | dated by | why |\n")[1] ?? "")
  .split("\n")
  .slice(1)
  .filter((_, n, all) => all.slice(0, n + 1).every((one) => one.startsWith("|")))
  .map((line) => line.split("|").map((cell) => cell.trim()));

/** May is closed for partner 21, as was known before the receipts of these tests. */
const closedMay = {
  ...{ client_id: clientId, partner_id: partnerId, year: 2026, month: 5, status: "closed" as const },
  ...{ recorded_at: longAgo, valid_from: longAgo },
};

describe("the examples of docs/design/money.md", () => {
  test("are read", () => expect(examples.length).toBeGreaterThan(10));
  test.each(examples)(
    "%s%s, which happened %s before, with a click %s before: by %s, %s",
    async (_, by, was, click, dated, why) => {
      const [ts, clickedAt] = [noon - spanOf(was!), noon - spanOf(click!)];
      const click_id = click === "" ? null : mint(linkId, clickedAt, new Uint8Array(8), key);
      const claim = await claimOf({ ...senders[by!]!, ts, click_id }, { periods: [closedMay] });
      const at = { event: ts, click: clickedAt, receipt: noon }[dated!];
      expect([claim.at, claim.data.dated_by, claim.data.dated_because ?? ""]).toEqual([at, dated, why]);
      expect(claim.data.attributed.event).toMatchObject({ ts, warnings: why === "" ? [] : [why] });
    },
  );
});

describe("a server's time counts for the hours that its client allows", () => {
  const old = { ...server, ts: noon - 100 * hourMs };
  test("as they were when the event was received, whatever held when it happened", async () => {
    const saved = client({ late_hours: 100, recorded_at: noon - hourMs, valid_from: noon - hourMs });
    expect(await claimOf(old, { clients: [client(), saved] })).toMatchObject({ at: old.ts });
    const later = client({ late_hours: 100, recorded_at: noon + hourMs, valid_from: noon + hourMs });
    expect(await claimOf(old, { clients: [client(), later] })).toMatchObject({ at: noon });
  });
});

test("a click id of another client, or one that is not ours, dates nothing", async () => {
  const ts = noon - 2 * hourMs;
  const click_id = mint(99, noon - hourMs, new Uint8Array(8), key);
  for (const id of [click_id, "no click id"])
    expect(await claimOf({ ...server, ts, click_id: id })).toMatchObject({ at: ts, data: { dated_by: "event" } });
});

test("a refund is dated by no rule: what it takes belongs to its sale", async () => {
  const claim = await claimOf({ ...server, t: "refund", ts: noon - 200 * hourMs });
  expect(claim).toMatchObject({ at: noon - 200 * hourMs, data: { dated_by: null, dated_because: null } });
});

const booked = async (claims: readonly Recorded<Claim>[], rows: Partial<ReferenceRows> = {}) => {
  const { conversions } = settled(...claims);
  return committed(conversions, await contracts.load(conversions, reads([reference, referenceWith(rows)])));
};

describe("the money of a page whose clock is 150 days slow", () => {
  const spring = contract({ rate_ppm: 500_000n, effective_to: noon - dayMs });
  const summer = contract({ contract_id: 62, effective_from: noon - dayMs });
  const slow = { ts: noon - 150 * dayMs };

  test("has contract, month and hold of its receipt, and its receipt says so", async () => {
    const [entry] = await booked([await claimOf(slow)], { contracts: [spring, summer] });
    expect(entry).toMatchObject({ contract_id: 62, amount_minor: 10_00n, year: 2026, month: 6, occurred_at: noon });
    expect(entry?.payable_from).toBe(noon + 30 * dayMs);
    expect(JSON.parse(entry!.inputs)).toMatchObject({ dated_by: "receipt", dated_because: "client_clock" });
  });

  test("uses the cap of the month of its receipt", async () => {
    const capped = contract({ currency: "MXN", cap: { period: "month", amount_minor: 15_00n } });
    const claims = [await claimOf(server), await claimOf({ ...slow, order_id: "o2" })];
    expect((await booked(claims, { contracts: [capped] })).map(({ amount_minor }) => amount_minor)).toEqual([
      10_00n,
      5_00n,
    ]);
  });

  test("is dated alike in reports, while scores and identities count by the time of the event", async () => {
    const row = attributed({ t: "purchase", ...slow, ip: "8.8.8.8" }, { enrichment: { edges: [edge] } });
    const written = recorded(topics.eventsAttributed, row, { at: noon });
    expect(saleRows(written)).toMatchObject([{ occurred_at: noon }]);
    expect(velocityRows(written)).toMatchObject([{ set: sets.conversionsOf(clientId, "8.8.8.8", slow.ts) }]);
    expect(identityLinkRows(written)).toMatchObject([{ at: slow.ts }]);
    const install = recorded(topics.eventsAttributed, attributed({ t: "install", ...slow }), { at: noon });
    expect(appEventRows(install)).toMatchObject([{ occurred_at: noon }]);
  });
});
const edge = { kind: "email", identifier: "a", method: "email_on_event", confidence: 1, expires_at: noon + dayMs };

describe("the hold of a sale", () => {
  test("runs from its receipt, however old a time of a server or a file counts", async () => {
    for (const sender of [server, senders.file!]) {
      const [entry] = await booked([await claimOf({ ...sender, ts: noon - 48 * hourMs })]);
      expect([entry?.occurred_at, entry?.payable_from]).toEqual([noon - 48 * hourMs, noon + 30 * dayMs]);
      expect(JSON.parse(entry!.inputs)).toMatchObject({ hold_from: new Date(noon).toISOString() });
      expect(JSON.parse(entry!.inputs)).not.toHaveProperty("dated_by");
    }
  });

  test("stays when the sale is credited again, which a refund that is spread otherwise does", async () => {
    const first = await claimOf({ ...server, ts: noon - hourMs, product_id: "a" });
    const second = await claimOf({ ...server, product_id: "b" }, {}, noon + 5 * hourMs);
    const back = refund({ value_minor: 50_00n, receivedAt: noon + hourMs });
    const of = (await booked([first, back, second])).filter(({ kind }) => kind === "earned");
    expect(
      new Set(of.filter(({ occurred_at }) => occurred_at === noon - hourMs).map((one) => one.payable_from)),
    ).toEqual(new Set([noon + 30 * dayMs]));
  });

  test("of a claim from before times were judged runs from the time of the event, as it did", async () => {
    const claim = sale({ at: noon - 48 * hourMs, receivedAt: noon });
    const [entry] = await booked([claim]);
    expect([entry?.occurred_at, entry?.payable_from]).toEqual([noon - 48 * hourMs, noon + 28 * dayMs]);
    expect(entry?.inputs).not.toMatch(/dated|hold_from/);
  });
});

test("two leads are one by the times of their events, whatever dates their money", async () => {
  const lead = { t: "lead_submit", order_id: null, lead_key: "k", value_minor: null, currency: null };
  const slow = await claimOf({ ...lead, ts: noon - 5 * dayMs });
  const near = await claimOf({ ...lead, ...server, ts: noon - 4 * dayMs });
  const far = await claimOf({ ...lead, ...server, ts: noon });
  expect(settled(slow, near).rows.at(-1)).toMatchObject({ merged_into: slow.id });
  expect(settled(slow, far).rows.at(-1)).toMatchObject({ merged_into: null });
});
