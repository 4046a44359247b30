// A wrong rule was deployed: reprocessing reports exactly the differences, and writes them once.
import { describe, expect, test } from "vitest";
import { differenceJson } from "../../apps/cli/commands/money/reprocess-print.ts";
import type { ReferenceRows, Rule } from "../../domain/reference/reference.ts";
import { closedMonthsOf, isClosed } from "../../modules/money/reprocess/difference.ts";
import { defaultLimits, stages } from "../../modules/money/reprocess/ports.ts";
import { decisionOnOrder } from "../../processors/settle/decision-claim.ts";
import type { DecisionKind } from "../../schemas/generated.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import { topics } from "../../topics.ts";
import {
  campaign,
  client,
  clientId,
  contract,
  crediting,
  dayMs,
  hourMs,
  noon,
  partner,
  rule,
} from "../support/builders.ts";
import { later, type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { click, clickBefore, pageView, purchase, refund, type Written } from "../support/shop.ts";

const [good, wrong] = [22, 23];
const coupon = { field: "coupon", op: "eq", value: "TEN" } as const;
/** The rule of the coupon, saved wrong, and corrected a day after all events. */
const mistaken: Rule = rule({ when: coupon, ...crediting(wrong) });
const corrected: Rule = { ...mistaken, version: 2, recorded_at: noon + dayMs, ...crediting(good) };
const everybody: Partial<ReferenceRows> = {
  partners: [partner(), partner({ partner_id: good }), partner({ partner_id: wrong })],
  contracts: [
    contract(),
    contract({ contract_id: 62, partner_id: good, rate_ppm: 50_000n }),
    contract({ contract_id: 63, partner_id: wrong }),
  ],
};
const before: Partial<ReferenceRows> = { ...everybody, rules: [mistaken] };
const after: Partial<ReferenceRows> = { ...everybody, rules: [mistaken, corrected] };

const order = (name: string, over: Written = {}, props: Written = { coupon: "TEN" }): Written =>
  purchase({ event_id: `purchase-${name}`, did: `device-${name}`, ...over }, { order_id: name, ...props });
const sold = async (...events: readonly Written[]): Promise<Reprocessed> => {
  const made = reprocessed(before);
  for (const event of events) await made.post([event]);
  made.learn(after);
  return made;
};
const decided = (kind: DecisionKind, order_id: string, partner_id: number | null) => ({
  data: decisionOnOrder(clientId, order_id, {
    decision_id: `00000000-0000-8000-8000-0000000000${order_id.slice(1).padStart(2, "0")}`,
    kind,
    actor: "user:ana",
    partner_id,
    campaign_id: null,
    reason: "by phone",
    at: noon + hourMs,
    flags: [],
    review_from: 101,
    reject_from: 101,
  }),
  at: noon + hourMs,
});

describe("a rule that was wrong", () => {
  test("is seen in every sale that it credited, and in no other", async () => {
    const { difference } = await sold(
      order("o1"),
      order("o2"),
      order("o3", {}, {}),
      order("o4", { svc_click_id: clickBefore(hourMs) }),
    );
    const found = await difference(after);
    expect(
      found.changes.map(({ order_id, before: was, after: is }) => [order_id, was.partner_id, is.partner_id]),
    ).toEqual([
      ["o1", wrong, good],
      ["o2", wrong, good],
    ]);
    expect(found.conversions).toEqual({
      gained: 0,
      lost: 0,
      moved: [{ from_partner: wrong, to_partner: good, lines: 2 }],
    });
    expect(found.byReason).toEqual([
      { from: `rule partner ${wrong}`, to: `rule partner ${good}`, lines: 2, events: 0 },
    ]);
    expect(found.lines).toMatchObject({ lines: 4, not_settled: 0 });
    expect(
      found.money.map(({ partner_id, month, commission_minor, closed }) => [
        partner_id,
        month,
        commission_minor,
        closed,
      ]),
    ).toEqual([
      [good, 6, 10_00n, false],
      [wrong, 6, -20_00n, false],
    ]);
  });

  test("is said without anything being written anywhere", async () => {
    const { difference, messages, earnings } = await sold(order("o1"));
    const count = (): number => Object.values(topics).reduce((sum, { name }) => sum + messages(name).length, 0);
    const [messagesBefore, earned] = [count(), earnings()];
    await difference(after);
    expect([count(), earnings()]).toEqual([messagesBefore, earned]);
  });

  test("is set right by one decision each, and the ledger moves by exactly what was said", async () => {
    const { difference, write, current, earnings, conversions } = await sold(order("o1"), order("o2"));
    const found = await difference(after);
    const was = earnings();
    await write(found);
    for (const { partner_id, year, month, currency, commission_minor } of found.money) {
      const key = `${partner_id} ${year}-${month} ${currency}`;
      expect((earnings()[key] ?? 0n) - (was[key] ?? 0n)).toBe(commission_minor);
    }
    expect(
      [...current().values()].map(({ version, credit }) => [
        version,
        credit.method,
        credit.partner_id,
        credit.rule_version,
      ]),
    ).toEqual([
      [2, "rule", good, 2],
      [2, "rule", good, 2],
    ]);
    expect(
      conversions()
        .slice(2)
        .map(({ kind, partner_id }) => [kind, partner_id]),
    ).toEqual([
      ["reversed", wrong],
      ["credited", good],
      ["reversed", wrong],
      ["credited", good],
    ]);
  });

  test("is set right once: the same difference written twice, and a further run, change nothing", async () => {
    const { difference, write, stored, entries } = await sold(order("o1"), order("o2"));
    const found = await difference(after);
    await write(found);
    const [rows, booked] = [
      new Set(stored().map((row) => JSON.stringify([row.event.event_id, row.version]))),
      entries().length,
    ];
    const ids = new Set(entries().map(({ entry_id }) => entry_id));
    await write(found);
    expect(new Set(stored().map((row) => JSON.stringify([row.event.event_id, row.version])))).toEqual(rows);
    expect(new Set(entries().map(({ entry_id }) => entry_id))).toEqual(ids);
    expect(booked).toBe(ids.size);
    expect((await difference(after)).changes).toEqual([]);
  });

  test("is set right by a second run after a first one that died midway, under the same ids", async () => {
    const { difference, write, earnings } = await sold(order("o1"), order("o2"), order("o3"));
    const found = await difference(after);
    await write({ ...found, changes: found.changes.slice(0, 1) });
    const again = await difference(after, { now: later + hourMs, from: noon - hourMs, to: noon + hourMs });
    expect(again.changes.map(({ decision_id }) => decision_id)).toEqual(
      found.changes.slice(1).map(({ decision_id }) => decision_id),
    );
    await write(again);
    expect(earnings()).toEqual({ [`${good} 2026-6 MXN`]: 15_00n });
  });

  test("can be set right and wrong again as often as it is saved", async () => {
    const { difference, write, learn, earnings } = await sold(order("o1"));
    await write(await difference(after));
    const backRules = [mistaken, corrected, { ...mistaken, version: 3, recorded_at: noon + dayMs + hourMs }];
    learn({ ...everybody, rules: backRules });
    await write(await difference({ ...everybody, rules: backRules }));
    expect(earnings()).toEqual({ [`${wrong} 2026-6 MXN`]: 10_00n });
    await write(await difference(after));
    expect(earnings()).toEqual({ [`${good} 2026-6 MXN`]: 5_00n });
  });

  test("gains a credit that was missing, and loses one that is wrong", async () => {
    const gained = reprocessed(everybody);
    await gained.post([order("o1")]);
    expect((await gained.difference({ ...everybody, rules: [corrected] })).conversions).toMatchObject({
      gained: 1,
      lost: 0,
    });
    const { difference } = await sold(order("o1"));
    const found = await difference({ ...everybody, rules: [mistaken, { ...corrected, status: "inactive" }] });
    expect(found.conversions).toMatchObject({ gained: 0, lost: 1 });
    expect(found.byReason).toEqual([{ from: `rule partner ${wrong}`, to: "no_click", lines: 1, events: 0 }]);
  });

  test("takes refunds along: what was given back is given back by the new partner", async () => {
    const { difference, write, earnings } = await sold(
      order("o1"),
      refund({ event_id: "refund-1" }, { order_id: "o1", amount: "40.00" }),
    );
    await write(await difference(after));
    expect(earnings()).toEqual({ [`${good} 2026-6 MXN`]: 3_00n });
  });
});

describe("a sale that was reported twice", () => {
  const server = (): Written =>
    order("o1", { event_id: "server", did: "server", svc_click_id: clickBefore(hourMs) }, {});

  test("keeps the credit that its second copy brought", async () => {
    const { difference } = await sold(order("o1", {}, {}), server());
    expect((await difference(after)).changes).toEqual([]);
  });

  test("gets today's credit of whichever copy brings one", async () => {
    const { difference, write, current } = await sold(
      order("o1", {}, {}),
      order("o1", { event_id: "server", did: "server" }),
    );
    const found = await difference(after);
    expect(found.conversions.moved).toEqual([{ from_partner: wrong, to_partner: good, lines: 1 }]);
    await write(found);
    expect([...current().values()].filter(({ merged_into }) => merged_into === null)).toMatchObject([
      { version: 3, credit: { partner_id: good } },
    ]);
  });
});

describe("a sale whose event id another order bears too", () => {
  const orderOn = (partition: number, but?: string): string =>
    Array.from({ length: 40 }, (_, n) => `o${n}`).find(
      (name) =>
        name !== but && partitionOf(Buffer.from(`${clientId}:o:${name}`), topics.claims.partitions) === partition,
    )!;
  // Some of these devices lie on a partition that is read before that of the sale.
  test.each([0, 3].flatMap((partition) => ["d1", "d2", "d3", "d4"].map((did) => [partition, did] as const)))(
    "is compared as it came first, whatever is read first (the other order on %i by %s)",
    async (partition, did) => {
      const first = orderOn(3);
      const second = orderOn(partition, first);
      const { difference } = await sold(
        order(first, { event_id: "p1" }),
        order(second, { event_id: "p1", did }, {}),
        order("o99"),
      );
      const found = await difference(after);
      expect(
        found.changes.map(({ order_id, before: was, after: is }) => [order_id, was.partner_id, is.partner_id]).sort(),
      ).toEqual(
        [
          [first, wrong, good],
          ["o99", wrong, good],
        ].sort(),
      );
      expect(found.lines).toMatchObject({ lines: 2, not_settled: 0 });
    },
  );
});

describe("what a person has decided", () => {
  test("stands, and is counted", async () => {
    const { send, difference } = await sold(order("o1"), order("o2"));
    await send(topics.claims, decided("reattribute", "o1", 21));
    const found = await difference(after);
    expect(found.changes.map(({ order_id }) => order_id)).toEqual(["o2"]);
    expect(found.lines.decided).toBe(1);
  });

  test("gives way when it is to be overridden", async () => {
    const { send, difference, write, earnings } = await sold(order("o1"));
    await send(topics.claims, decided("reattribute", "o1", 21));
    await write(await difference(after, { overridesDecisions: true }));
    expect(earnings()).toEqual({ [`${good} 2026-6 MXN`]: 5_00n });
    expect((await difference(after, { overridesDecisions: true })).changes).toEqual([]);
  });

  test("wins over a difference that was computed before it", async () => {
    const { send, difference, write, earnings } = await sold(order("o1"));
    const found = await difference(after);
    await send(topics.claims, decided("reattribute", "o1", 21));
    await write(found);
    expect(earnings()).toEqual({ "21 2026-6 MXN": 10_00n });
  });
});

describe("what was decided before its sale came", () => {
  const flags = [{ code: "flood", weight: 50, evidence: "of clicks" }];
  const botScores = { ua: "Googlebot/2.1 (+http://www.google.com/bot.html)", svc_click_id: clickBefore(hourMs) };
  /** The decision waits for the sale, outside of the window of the sale. */
  const waited = async (decision: ReturnType<typeof decided>, ...sales: readonly Written[]): Promise<Reprocessed> => {
    const made = reprocessed(before);
    await made.send(topics.claims, decision);
    for (const event of sales) await made.post([event], { receivedAt: noon + 2 * hourMs });
    return made;
  };

  test("a finding still holds the sale", async () => {
    const flag = decided("flag", "o1", null);
    const found = { ...flag.data, decision: { ...flag.data.decision!, flags, review_from: 50 } };
    const { difference, conversions } = await waited({ ...flag, data: found }, order("o1"));
    expect(conversions().map(({ review }) => review)).toEqual(["fraud_review"]);
    for (const stage of ["attribute", "score"] as const)
      expect((await difference(before, { stage })).changes).toEqual([]);
  });

  test("a release of a sale that no partner had yet still stands", async () => {
    const { difference, conversions } = await waited(
      decided("release", "o1", null),
      order("o1", { ...botScores, svc_click_id: undefined }, {}),
      order("o1", { event_id: "copy", did: "copy" }),
    );
    expect(conversions().map(({ review }) => review)).toEqual([null]);
    expect((await difference(before)).changes).toEqual([]);
  });

  test("a decision about another line waits for its own line again", async () => {
    const takesBack = decided("take_back", "o1", null);
    const ofB = { ...takesBack.data.attributed, event: { ...takesBack.data.attributed.event, product_id: "b" } };
    const onB = {
      ...takesBack.data,
      attributed: ofB,
      decision: { ...takesBack.data.decision!, scope: "line" as const },
    };
    const made = await waited({ ...takesBack, data: onB }, order("o1", {}, { coupon: "TEN", product_id: "a" }));
    await made.post([order("o1", { event_id: "late", did: "late" }, { coupon: "TEN", product_id: "b" })], {
      receivedAt: noon + 100 * hourMs,
    });
    for (const from of [noon - hourMs, noon + 90 * hourMs])
      expect((await made.difference(before, { from, to: noon + 110 * hourMs })).changes).toEqual([]);
    expect(made.earnings()).toEqual({ [`${wrong} 2026-6 MXN`]: 10_00n });
  });
});

describe("events that are no sale", () => {
  const visit = (name: string): Written =>
    pageView({ event_id: `visit-${name}`, did: `device-${name}`, url: `https://shop.example/${name}` });
  const pages: Rule = rule({ when: { field: "url.path", op: "eq", value: "/a" }, ...crediting(wrong) });
  const fixed: Rule = { ...pages, version: 2, recorded_at: noon + dayMs, ...crediting(good) };

  test("get a second version with today's credit, and move no money", async () => {
    const made = reprocessed({ ...everybody, rules: [pages] });
    await made.post([visit("a"), visit("b")]);
    const today = { ...everybody, rules: [pages, fixed] };
    made.learn(today);
    const found = await made.difference(today);
    expect(found).toMatchObject({
      money: [],
      byReason: [{ lines: 0, events: 1 }],
      events: { events: 2, not_stored: 0 },
    });
    await made.write(found);
    expect([...made.current().values()].map(({ version, credit }) => [version, credit.partner_id])).toEqual(
      expect.arrayContaining([
        [2, good],
        [1, null],
      ]),
    );
    expect((await made.difference(today)).changes).toEqual([]);
    expect(made.entries()).toEqual([]);
  });
});

describe("other reference data", () => {
  test("a campaign that ended too early by mistake is found by the clicks that it lost", async () => {
    const rows = (status: "active" | "ended", recorded_at: number) => campaign({ status, recorded_at });
    const made = reprocessed({ ...everybody, campaigns: [rows("ended", noon - dayMs)] });
    await made.post([order("o1", { svc_click_id: clickBefore(hourMs) }, {})]);
    const today = { ...everybody, campaigns: [rows("ended", noon - dayMs), rows("active", noon + dayMs)] };
    expect(await made.difference(today)).toMatchObject({
      conversions: { gained: 1 },
      byReason: [{ from: "campaign_inactive" }],
    });
  });

  test("a score with today's thresholds holds, or releases, a commission", async () => {
    const bot = { ua: "Googlebot/2.1 (+http://www.google.com/bot.html)", svc_click_id: clickBefore(hourMs) };
    const made = reprocessed(everybody);
    await made.post([order("o1", bot, {})]);
    const first = [...made.current().values()][0]!;
    const today: Partial<ReferenceRows> = {
      ...everybody,
      clients: [{ ...client(), recorded_at: noon + dayMs, fraud_rules: { ua_bot: { active: false } } }],
    };
    const found = await made.difference(today, { stage: "score" });
    expect([first.fraud.band, found.changes.map(({ parts }) => parts)]).toEqual(["review", [["fraud", "review"]]]);
    await made.write(found);
    expect([...made.current().values()][0]).toMatchObject({
      version: 2,
      fraud: { band: "ok" },
      credit: { partner_id: 21 },
    });
    expect((await made.difference(today, { stage: "attribute" })).changes).toEqual([]);
  });

  test("a contract that was wrong moves the commission and not the credit, by --stage commission alone", async () => {
    const made = reprocessed(everybody);
    await made.post([order("o1", { svc_click_id: clickBefore(hourMs) }, {})]);
    const today: Partial<ReferenceRows> = {
      ...everybody,
      contracts: [contract(), contract({ version: 2, recorded_at: noon + dayMs, rate_ppm: 200_000n })],
    };
    made.learn(today);
    expect((await made.difference(today)).changes).toEqual([]);
    const found = await made.difference(today, { stage: "commission" });
    expect(found.money).toMatchObject([{ partner_id: 21, commission_minor: 10_00n }]);
    const shown = differenceJson(found);
    expect(shown.money).toMatchObject([{ partner_id: 21, commission: "10.00", currency: "MXN" }]);
    expect(shown.samples).toMatchObject([{ value: "100.00", currency: "MXN" }]);
    expect(JSON.stringify(shown)).not.toContain("_minor");
    await made.write(found);
    expect(made.earnings()).toEqual({ "21 2026-6 MXN": 20_00n });
    expect((await made.difference(today, { stage: "commission" })).changes).toEqual([]);
    expect([...made.current().values()]).toMatchObject([{ version: 1 }]);
  });

  test("a client alone is looked at when it is asked for", async () => {
    const { difference } = await sold(order("o1"));
    expect((await difference(after, { clientId: clientId + 1 })).changes).toEqual([]);
    expect((await difference(after, { clientId })).changes).toHaveLength(1);
  });

  test("sales outside of the window are left alone", async () => {
    const { difference } = await sold(order("o1"));
    expect((await difference(after, { from: noon + 1, to: noon + dayMs })).lines.lines).toBe(0);
    expect((await difference(after, { from: noon, to: noon + 1 })).changes).toHaveLength(1);
  });
});

test("where nothing is different, no stage finds a difference", async () => {
  const made = reprocessed(before);
  await made.post([
    click(clickBefore(2 * dayMs), { did: "phone", ts: noon - 2 * dayMs }),
    pageView({
      event_id: "visit",
      ua: "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)",
      props: { email: "ana@example.com" },
    }),
    pageView({ event_id: "unseen", consent: 0 }),
    order("o1"),
    order(
      "o2",
      { svc_click_id: clickBefore(hourMs), ua: "Googlebot/2.1 (+http://www.google.com/bot.html)" },
      { user_id: "ana" },
    ),
    order("o3", { consent: 0, url: "https://shop.example/" }),
    order("o3", { event_id: "copy", did: "server" }),
    refund({ event_id: "refund" }, { order_id: "o1" }),
  ]);
  for (const stage of stages) {
    const found = await made.difference(before, { stage });
    expect([stage, found.changes.map(({ parts }) => parts), found.lines.not_settled, found.lines.not_read]).toEqual([
      stage,
      [],
      0,
      0,
    ]);
    expect(found.events).toMatchObject({
      not_stored: stage === "commission" ? 0 : expect.any(Number),
      would_be_claims: 0,
      would_be_dropped: 0,
    });
  }
});

test("journeys are read, so that clicks which the event did not carry are named as before", async () => {
  const { difference } = await sold(
    click(clickBefore(2 * dayMs), { did: "device-o1", ts: noon - 2 * dayMs }),
    order("o1"),
  );
  expect((await difference(after)).changes).toHaveLength(1);
});

test("of an erased subject nothing is read, and nothing is written (R4)", async () => {
  const { difference } = await sold(order("o1"), order("o2"));
  const found = await difference(after, {
    withholds: ({ data }) => (data.event ?? data.attributed?.event ?? data).order_id === "o1",
  });
  expect(found.changes.map(({ order_id }) => order_id)).toEqual(["o2"]);
});

test("a window that is too large is refused with the cure", async () => {
  const { difference } = await sold(order("o1"), order("o2"), order("o3"));
  await expect(difference(after, { limits: { ...defaultLimits, events: 2 } })).rejects.toThrow(/shorter windows/);
  await expect(difference(after, { limits: { ...defaultLimits, claims: 2 } })).rejects.toThrow(/--client/);
  await expect(difference(after, { limits: { ...defaultLimits, changes: 2 } })).rejects.toThrow(/more than 2/);
});

test("money of a closed month is said to be of one", async () => {
  const { difference } = await sold(order("o1"));
  const found = await difference(after, { now: noon + 60 * dayMs });
  expect([found.money.map(({ closed }) => closed), closedMonthsOf(found)]).toEqual([[true, true], ["2026-06"]]);
});

test("a month is closed after the seventh day of the next one in Mexico City", () => {
  expect(isClosed(2026, 6, Date.UTC(2026, 6, 8, 5, 59, 59, 999))).toBe(false);
  expect(isClosed(2026, 6, Date.UTC(2026, 6, 8, 6))).toBe(true);
});
