// Which partner is credited for an event, why no other is, and where the event goes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { type CampaignPattern, type ReferenceRows, reference } from "../../domain/reference/reference.ts";
import { attribute } from "../../processors/attribute/attribute.ts";
import {
  attributeFacts,
  clickKeys,
  clickKeysOf,
  type IdentityClickAsked,
  identityClicks,
} from "../../processors/attribute/facts.ts";
import { type Journey, journey } from "../../processors/attribute/journey.ts";
import type { Enrichment, EventAttributed, EventReceived, Fraud } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import {
  campaign,
  campaignId,
  client,
  contract,
  crediting,
  dayMs,
  forged,
  hourMs,
  link,
  linkId,
  longAgo,
  noon,
  partner,
  partnerId,
  purchase,
  reads,
  recorded,
  referenceWith,
  rule,
  scored,
} from "../support/builders.ts";
import { bytesOf, stateFrom } from "../support/remembered.ts";

const key = clickIdKey("a secret of these tests", 1);
const keys = clickKeysOf([key]);
/** A click `elapsedMs` before noon. */
const clickBefore = (elapsedMs: number, onLink = linkId): string =>
  mint(onLink, noon - elapsedMs, new Uint8Array(8), key);
const noClicks: Journey = { clicks: [] };

interface Given {
  readonly rows?: Partial<ReferenceRows>;
  readonly journey?: Journey;
  readonly fraud?: Partial<Fraud>;
  readonly enrichment?: Partial<Enrichment>;
  readonly at?: number;
  readonly receivedAt?: number;
  readonly referenceAsOf?: number;
  readonly identityClick?: string;
}
const outcomeOf = (event: Partial<EventReceived>, given: Given = {}) => {
  const data = scored(event, { fraud: given.fraud ?? {}, enrichment: given.enrichment ?? {} });
  const input = recorded(topics.eventsScored, data, {
    at: given.at ?? noon,
    receivedAt: given.receivedAt ?? given.at ?? noon,
  });
  const outcome = attribute(input, given.journey ?? noClicks, {
    reference: referenceWith(given.rows).at(input.at, input.receivedAt),
    referenceAtReceipt: referenceWith(given.rows).at(input.receivedAt, input.receivedAt),
    clickOf: keys.clickOf,
    referenceAsOf: given.referenceAsOf ?? null,
    identityClick: given.identityClick ?? null,
  });
  if (outcome.kind !== "emit" || outcome.events.length !== 1)
    throw new Error(`attribute emits one event, not ${outcome.kind}`);
  return { emitted: outcome.events[0]!, journey: outcome.state };
};
const attributedOf = (event: Partial<EventReceived>, given?: Given): EventAttributed => {
  const { emitted } = outcomeOf(event, given);
  return emitted.output === "claims" ? emitted.data.attributed : emitted.data;
};
const creditOf = (event: Partial<EventReceived>, given?: Given) => attributedOf(event, given).credit;
const sale = (over: Partial<EventReceived> = {}): EventReceived => purchase(over);
const unattributed = (reason: string) => ({
  status: "unattributed",
  reason,
  method: null,
  partner_id: null,
  campaign_id: null,
  link_id: null,
});
const coupon = (over: Parameters<typeof rule>[0] = {}) =>
  rule({ when: { field: "coupon", op: "eq", value: "TEN" }, ...over });

describe("a click id on the event", () => {
  test("credits the partner of its link", () => {
    const click_id = clickBefore(hourMs);
    expect(creditOf(sale({ click_id }))).toEqual({
      status: "attributed",
      method: "click",
      reason: null,
      partner_id: partnerId,
      campaign_id: campaignId,
      link_id: linkId,
      rule_id: null,
      rule_version: null,
      clicked_at: noon - hourMs,
      window_days: 30,
      candidates: [
        { method: "click", reference: click_id, partner_id: partnerId, campaign_id: campaignId, outcome: "won" },
      ],
      reference_as_of: null,
    });
  });

  test("is missing: no partner is credited", () =>
    expect(creditOf(sale())).toMatchObject({ ...unattributed("no_click"), candidates: [] }));

  test.each([
    ["one bit is wrong", forged(clickBefore(hourMs))],
    ["another service made it", "EAIaIQobChMI"],
    ["another key made it", mint(linkId, noon, new Uint8Array(8), clickIdKey("another secret", 1))],
  ])("proves nothing when %s", (_, click_id) =>
    expect(creditOf(sale({ click_id }))).toMatchObject({
      ...unattributed("bad_click_id"),
      clicked_at: null,
      candidates: [{ method: "click", reference: click_id, partner_id: null, outcome: "bad_click_id" }],
    }),
  );

  test("of another client's link proves nothing here, and does not name that client's partner", () =>
    expect(
      creditOf(sale({ click_id: clickBefore(hourMs) }), { rows: { links: [link({ client_id: 8 })] } }),
    ).toMatchObject({
      ...unattributed("bad_click_id"),
      candidates: [{ partner_id: null, campaign_id: null }],
    }));

  test("of an unknown link proves nothing", () =>
    expect(creditOf(sale({ click_id: clickBefore(hourMs, 999) }))).toMatchObject(unattributed("bad_click_id")));

  test("of text without end is cut for the explanation", () =>
    expect(creditOf(sale({ click_id: "x".repeat(5_000) })).candidates[0]!.reference).toHaveLength(128));
});

describe("the window", () => {
  test("includes its last millisecond", () =>
    expect(creditOf(sale({ click_id: clickBefore(30 * dayMs) })).status).toBe("attributed"));
  test("ends", () =>
    expect(creditOf(sale({ click_id: clickBefore(30 * dayMs + 1) }))).toMatchObject({
      ...unattributed("click_expired"),
      clicked_at: noon - 30 * dayMs - 1,
      window_days: 30,
      candidates: [{ partner_id: partnerId, outcome: "click_expired" }],
    }));
  test("of an install is shorter", () => {
    expect(creditOf({ t: "install", click_id: clickBefore(7 * dayMs) })).toMatchObject({
      status: "attributed",
      window_days: 7,
    });
    expect(creditOf({ t: "install", click_id: clickBefore(7 * dayMs + 1) })).toMatchObject(
      unattributed("click_expired"),
    );
  });
  test("is the client's own", () =>
    expect(
      creditOf(sale({ click_id: clickBefore(2 * dayMs) }), { rows: { clients: [client({ click_window_days: 1 })] } }),
    ).toMatchObject({
      ...unattributed("click_expired"),
      window_days: 1,
    }));
  test("is that in force at event time", () => {
    const clients = [client(), client({ click_window_days: 1, valid_from: noon + 1, recorded_at: longAgo + 1 })];
    expect(creditOf(sale({ click_id: clickBefore(2 * dayMs) }), { rows: { clients } })).toMatchObject({
      status: "attributed",
      window_days: 30,
    });
  });
  test("opens with the click itself", () =>
    expect(creditOf(sale({ click_id: clickBefore(0) })).status).toBe("attributed"));
  test("counts a click that was received before the event, though the device's clock is behind it", () => {
    const behind = { at: noon, receivedAt: noon + 10_000 };
    expect(creditOf(sale({ click_id: clickBefore(-1) }), behind).status).toBe("attributed");
    expect(creditOf(sale({ click_id: clickBefore(-10_001) }), behind)).toMatchObject(
      unattributed("click_after_conversion"),
    );
  });
  test("ends at the time of the event, however late that is received", () => {
    const late = { at: noon, receivedAt: noon + 40 * dayMs };
    expect(creditOf(sale({ click_id: clickBefore(30 * dayMs) }), late).status).toBe("attributed");
    expect(creditOf(sale({ click_id: clickBefore(30 * dayMs + 1) }), late)).toMatchObject(
      unattributed("click_expired"),
    );
  });
  test("does not open for a click on another device that came after the event", () =>
    expect(creditOf(sale(), { identityClick: clickBefore(-1), receivedAt: noon + 10_000 }).candidates).toMatchObject([
      { method: "identity", outcome: "click_after_conversion" },
    ]));
  test("does not open before the click", () =>
    expect(creditOf(sale({ click_id: clickBefore(-1) }))).toMatchObject(unattributed("click_after_conversion")));
});

describe("what is not active at event time earns nothing", () => {
  const click_id = clickBefore(hourMs);
  test.each([
    ["a paused partner", { partners: [partner({ status: "paused" })] }, "partner_inactive"],
    ["an invited partner", { partners: [partner({ status: "invited" })] }, "partner_inactive"],
    ["a partner of other clients", { partners: [partner({ client_ids: [8] })] }, "partner_inactive"],
    ["a paused campaign", { campaigns: [campaign({ status: "paused" })] }, "campaign_inactive"],
    ["a campaign that has not begun", { campaigns: [campaign({ starts_at: noon + 1 })] }, "campaign_inactive"],
    ["a campaign that is over", { campaigns: [campaign({ ends_at: noon })] }, "campaign_inactive"],
    ["an archived link", { links: [link({ status: "archived" })] }, "campaign_inactive"],
  ])("%s", (_, rows, reason) =>
    expect(creditOf(sale({ click_id }), { rows })).toMatchObject({
      ...unattributed(reason),
      candidates: [{ partner_id: partnerId, outcome: reason }],
    }),
  );

  test("a campaign runs from its first moment on", () =>
    expect(
      creditOf(sale({ click_id }), { rows: { campaigns: [campaign({ starts_at: noon, ends_at: noon + 1 })] } }).status,
    ).toBe("attributed"));
  test("a campaign of another client, named by a rule", () =>
    expect(
      creditOf(sale(), {
        rows: { campaigns: [campaign({ client_id: 8 })], rules: [rule(crediting(partnerId, campaignId))] },
      }),
    ).toMatchObject(unattributed("campaign_inactive")));
  test("a partner paused after the sale still earns", () => {
    const partners = [partner(), partner({ status: "paused", valid_from: noon + 1, recorded_at: longAgo + 1 })];
    expect(creditOf(sale({ click_id }), { rows: { partners } }).status).toBe("attributed");
  });
  test("a partner paused unknown to anybody when the sale was received still earns", () => {
    const partners = [partner(), partner({ status: "paused", recorded_at: noon + 1 })];
    expect(creditOf(sale({ click_id }), { rows: { partners } }).status).toBe("attributed");
  });
});

describe("a partner named by the source", () => {
  const rows = { partners: [partner({ referral_code: "ANA" }), partner({ partner_id: 22 })] };
  test.each([
    ["by referral code", "ANA", { partner_id: partnerId, campaign_id: null, link_id: null }],
    ["by link code", "promo", { partner_id: partnerId, campaign_id: campaignId, link_id: linkId }],
    ["by id", "22", { partner_id: 22, campaign_id: null, link_id: null }],
  ])("is found %s", (_, partner_ref, found) =>
    expect(creditOf(sale({ source: "generic:shop", partner_ref }), { rows })).toMatchObject({
      status: "attributed",
      method: "partner_param",
      ...found,
    }),
  );

  test("may be unknown: then there was no click either", () =>
    expect(creditOf(sale({ partner_ref: "UNKNOWN" }), { rows })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [{ method: "partner_param", reference: "UNKNOWN", partner_id: null, outcome: "unknown_partner" }],
    }));
  test("must be one of the client's own", () =>
    expect(
      creditOf(sale({ partner_ref: "22" }), { rows: { partners: [partner({ partner_id: 22, client_ids: [8] })] } }),
    ).toMatchObject({
      candidates: [{ partner_id: null, outcome: "unknown_partner" }],
    }));
  test("who is paused earns nothing", () =>
    expect(
      creditOf(sale({ partner_ref: "21" }), { rows: { partners: [partner({ status: "paused" })] } }),
    ).toMatchObject(unattributed("partner_inactive")));
  test("of an upload is the uploader, unless the row has a valid click id", () => {
    expect(creditOf(sale({ source: "upload", partner_ref: "22" }), { rows })).toMatchObject({
      method: "upload",
      partner_id: 22,
    });
    expect(creditOf(sale({ source: "upload", partner_ref: "22", click_id: clickBefore(1) }), { rows })).toMatchObject({
      method: "click",
      partner_id: partnerId,
      candidates: [{ outcome: "won" }, { method: "upload", partner_id: 22, outcome: "lower_precedence" }],
    });
    expect(creditOf(sale({ source: "upload", partner_ref: "22", click_id: "bad" }), { rows })).toMatchObject({
      method: "upload",
      partner_id: 22,
    });
  });
  test("of an upload is the uploader, though another partner has that id as a code", () => {
    const partners = [partner({ referral_code: "22" }), partner({ partner_id: 22 })];
    const credited = (source: string) => creditOf(sale({ source, partner_ref: "22" }), { rows: { partners } });
    expect(credited("upload")).toMatchObject({ method: "upload", partner_id: 22 });
    expect(credited("generic:shop")).toMatchObject({ method: "partner_param", partner_id: partnerId });
  });
});

describe("a rule", () => {
  const tenOff = sale({ props: '{"coupon":"TEN"}' });
  test("that matches credits its partner, in its version", () =>
    expect(
      creditOf(tenOff, { rows: { rules: [coupon({ version: 3, ...crediting(partnerId, campaignId) })] } }),
    ).toMatchObject({
      status: "attributed",
      method: "rule",
      partner_id: partnerId,
      campaign_id: campaignId,
      rule_id: 51,
      rule_version: 3,
      link_id: null,
      candidates: [{ method: "rule", reference: "51", outcome: "won" }],
    }));
  test("that does not match is no candidate", () =>
    expect(creditOf(sale(), { rows: { rules: [coupon()] } })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [],
    }));
  test("comes after a click and after a named partner, and says so", () =>
    expect(
      creditOf({ ...tenOff, click_id: clickBefore(1), partner_ref: "21" }, { rows: { rules: [coupon()] } }),
    ).toMatchObject({
      method: "click",
      rule_id: null,
      candidates: [
        { method: "click", outcome: "won" },
        { method: "partner_param", outcome: "lower_precedence" },
        { method: "rule", outcome: "lower_precedence" },
      ],
    }));
  test("takes the place of a click that has expired", () =>
    expect(creditOf({ ...tenOff, click_id: clickBefore(31 * dayMs) }, { rows: { rules: [coupon()] } })).toMatchObject({
      method: "rule",
      reason: null,
      candidates: [{ outcome: "click_expired" }, { outcome: "won" }],
    }));
  test("wins by priority, then by more comparisons, then by lower id; the others would have matched", () => {
    const two = { all: [coupon().when, { field: "t", op: "eq", value: "purchase" }] } as const;
    const rules = [
      coupon({ rule_id: 4 }),
      coupon({ rule_id: 3, when: two }),
      coupon({ rule_id: 2, when: two }),
      coupon({ rule_id: 9, priority: 1 }),
    ];
    expect(
      creditOf(tenOff, { rows: { rules } }).candidates.map(({ reference, outcome }) => `${reference} ${outcome}`),
    ).toEqual(["9 won", "2 lower_precedence", "3 lower_precedence", "4 lower_precedence"]);
  });
  test("for an inactive partner leaves the place to the next", () =>
    expect(
      creditOf(tenOff, {
        rows: {
          partners: [partner(), partner({ partner_id: 22, status: "archived" })],
          rules: [coupon({ priority: 1, ...crediting(22) }), coupon({ rule_id: 52 })],
        },
      }),
    ).toMatchObject({
      rule_id: 52,
      candidates: [{ partner_id: 22, outcome: "partner_inactive" }, { outcome: "won" }],
    }));
  test("counts from its first to before its last moment", () => {
    const during = (effective_from: number | null, effective_to: number | null) =>
      creditOf(tenOff, { rows: { rules: [coupon({ effective_from, effective_to })] } }).status;
    expect([during(noon, null), during(noon + 1, null), during(null, noon), during(null, noon + 1)]).toEqual([
      "attributed",
      "unattributed",
      "unattributed",
      "attributed",
    ]);
  });
  test("whose row holds no condition credits no partner and stops nothing", () =>
    expect(creditOf(tenOff, { rows: { rules: [coupon({ when: { sometimes: true } as never })] } })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [{ method: "rule", outcome: "bad_condition" }],
    }));
});

describe("a rejected score", () => {
  test("credits no partner, and each that would have been credited is listed with the reason", () =>
    expect(
      creditOf(sale({ click_id: clickBefore(1), partner_ref: "UNKNOWN", props: '{"coupon":"TEN"}' }), {
        fraud: { score: 90, band: "reject" },
        rows: { rules: [coupon()] },
      }),
    ).toMatchObject({
      ...unattributed("fraud_rejected"),
      candidates: [{ outcome: "fraud_rejected" }, { outcome: "unknown_partner" }, { outcome: "fraud_rejected" }],
    }));
  test("in review is credited: the commission is held later", () =>
    expect(creditOf(sale({ click_id: clickBefore(1) }), { fraud: { score: 60, band: "review" } }).status).toBe(
      "attributed",
    ));
});

test.each(["purchase", "ext_purchase", "lead_submit", "install"])(
  "without the analytics bit a %s is credited as usual: it is a contract",
  (t) => expect(creditOf({ t, click_id: clickBefore(1) }, { enrichment: { consent: 0xfa } }).status).toBe("attributed"),
);

describe("the journey", () => {
  const onPhone = { click_id: clickBefore(hourMs), at: noon - hourMs, link_id: linkId };
  test("grows by a click whose id is good", () =>
    expect(outcomeOf({ t: "click", click_id: onPhone.click_id }, { at: noon - hourMs }).journey).toEqual({
      clicks: [onPhone],
    }));
  test.each([
    ["a forged click", { t: "click", click_id: forged(onPhone.click_id) }],
    ["a click without an id", { t: "click" }],
    ["a page view that carries a click id", { t: "page_view", click_id: onPhone.click_id }],
    ["a filtered click", { t: "click_filtered", click_id: onPhone.click_id }],
    ["a purchase", { t: "purchase", click_id: onPhone.click_id }],
  ])("does not change by %s", (_, event) => expect(outcomeOf(event).journey).toBe(noClicks));
  test("knows a click once", () => {
    const known = { clicks: [onPhone] };
    expect(outcomeOf({ t: "click", click_id: onPhone.click_id }, { journey: known }).journey).toBe(known);
  });
  test("keeps the five newest clicks, in whatever order they came", () =>
    fc.assert(
      fc.property(fc.shuffledSubarray([1, 2, 3, 4, 5, 6, 7, 8], { minLength: 8 }), (order) => {
        const after = order.reduce(
          (known, n) => outcomeOf({ t: "click", click_id: clickBefore(n * hourMs) }, { journey: known }).journey,
          noClicks,
        );
        expect(after.clicks.map(({ at }) => (noon - at) / hourMs)).toEqual([1, 2, 3, 4, 5]);
      }),
    ));
  test("answers 'I clicked, why no credit?': the event did not carry the click", () =>
    expect(creditOf(sale(), { journey: { clicks: [onPhone] } })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [
        {
          method: "click",
          reference: onPhone.click_id,
          partner_id: partnerId,
          campaign_id: campaignId,
          outcome: "not_carried",
        },
      ],
    }));
  test("names an older click beside the one that won, and not that one twice", () => {
    const carried = { click_id: clickBefore(1), at: noon - 1, link_id: linkId };
    expect(
      creditOf(sale({ click_id: carried.click_id }), { journey: { clicks: [carried, onPhone] } }).candidates,
    ).toMatchObject([
      { reference: carried.click_id, outcome: "won" },
      { reference: onPhone.click_id, outcome: "not_carried" },
    ]);
  });
  test("tells a click out of its window from one that was not carried, and keeps the reason of the event", () => {
    const old = { click_id: clickBefore(31 * dayMs), at: noon - 31 * dayMs, link_id: linkId };
    expect(creditOf(sale(), { journey: { clicks: [old] } })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [{ outcome: "click_expired" }],
    });
  });
  test("explains claims alone", () =>
    expect(creditOf({ t: "click" }, { journey: { clicks: [onPhone] } }).candidates).toEqual([]));
  test("stays as it is when a click is older than all that are kept", () => {
    const full = { clicks: [1, 2, 3, 4, 5].map((n) => ({ click_id: `c${n}`, at: noon - n, link_id: linkId })) };
    expect(outcomeOf({ t: "click", click_id: onPhone.click_id }, { journey: full }).journey).toBe(full);
  });
  test("does not name a click that came after the sale", () => {
    const later = { click_id: clickBefore(-hourMs), at: noon + hourMs, link_id: linkId };
    expect(creditOf(sale(), { journey: { clicks: [later] } }).candidates).toEqual([]);
  });
  test("is read by clicks and claims alone", () => {
    const readBy = (t: string) => journey.keysOf(recorded(topics.eventsScored, scored({ t }))).length === 1;
    expect(["click", "purchase", "ext_purchase", "lead_submit", "install"].every(readBy)).toBe(true);
    expect(["page_view", "custom", "add_to_cart", "refund", "click_filtered"].some(readBy)).toBe(false);
  });
  test("is remembered byte for byte as it was", () => {
    const known = { clicks: [onPhone, { click_id: "b", at: 2, link_id: 3 }] };
    const [change] = bytesOf(journey, ["k"], noClicks, known);
    expect(stateFrom(journey, ["k"], [change!.value])).toEqual(known);
    expect(journey.stateOf([], [])).toEqual(noClicks);
    expect(journey.changes(["k"], known, known)).toEqual([]);
  });
});

describe("where an event goes", () => {
  const destination = (event: Partial<EventReceived>, rows: Partial<ReferenceRows> = {}) => {
    const { emitted } = outcomeOf(event, { rows });
    return emitted.output === "claims" ? `${emitted.data.kind} ${emitted.data.order_key}` : emitted.output;
  };
  test.each([
    ["a purchase, by its order", { t: "purchase", order_id: "o9" }, "conversion o:o9"],
    ["an app purchase, by its order", { t: "ext_purchase", order_id: "o9", sale_hash: "h" }, "conversion o:o9"],
    ["a refund, by its order", { t: "refund", order_id: "o9" }, "refund o:o9"],
    ["a lead, by its key", { t: "lead_submit", lead_key: "k", order_id: "o9" }, "conversion l:k"],
    ["an install, by its device", { t: "install", dedup_key: "x" }, "conversion i:d1"],
    [
      "a sale without an order, by its source's key",
      { t: "purchase", source: "generic:shop", dedup_key: "x", sale_hash: "h" },
      "conversion s:generic:shop:x",
    ],
    ["a pulled sale without an order, by its hash", { t: "ext_purchase", sale_hash: "h" }, "conversion p:h"],
    [
      "a lead that nothing else names, by itself",
      { t: "lead_submit" },
      "conversion e:00000000-0000-8000-8000-000000000001",
    ],
    [
      "a sale that came with a lead's key, by itself",
      { t: "purchase", lead_key: "k" },
      "conversion e:00000000-0000-8000-8000-000000000001",
    ],
    ["a page view, to the store", { t: "page_view", order_id: "o9" }, "attributed"],
    ["a cart, to the store", { t: "add_to_cart" }, "attributed"],
    ["a custom event without a commission, to the store", { t: "custom", custom_name: "signup" }, "attributed"],
  ])("%s", (_, event, expected) => expect(destination(event)).toBe(expected));

  test.each(["purchase", "ext_purchase", "refund"])("a %s of an order that is none, by itself", (t) =>
    expect(destination({ t, order_id: "null" })).toMatch(/^(conversion|refund) e:/),
  );
  test("a sale of an order that is none earns nothing, and says so", () => {
    const click_id = clickBefore(hourMs);
    expect(creditOf(sale({ order_id: "None", click_id }))).toMatchObject({
      ...unattributed("weak_order_id"),
      candidates: [{ method: "click", outcome: "weak_order_id" }],
    });
    expect(creditOf({ t: "page_view", order_id: "none", click_id }).status).toBe("attributed");
  });

  test("a custom event that somebody earns on at event time is a claim", () => {
    const signup = { t: "custom", custom_name: "signup", order_id: "o9" };
    expect(destination(signup, { contracts: [contract({ event_type: "signup" })] })).toBe("conversion o:o9");
    expect(destination({ ...signup, order_id: null }, { contracts: [contract({ event_type: "signup" })] })).toMatch(
      /^conversion e:/,
    );
    expect(destination(signup, { contracts: [contract({ event_type: "signup", effective_from: noon + 1 })] })).toBe(
      "attributed",
    );
    expect(destination(signup, { contracts: [contract({ event_type: "signup", client_id: 8 })] })).toBe("attributed");
  });

  test("everything goes on whole, as version 1", () =>
    expect(attributedOf(sale(), { fraud: { score: 10 }, enrichment: { country: "MX" } })).toMatchObject({
      ...scored(sale(), { fraud: { score: 10 }, enrichment: { country: "MX" } }),
      version: 1,
      merged_into: null,
    }));
});

describe("a device that refused analytics", () => {
  const unseen = { enrichment: { consent: 0xfe } };
  const way = { url: "https://shop.example/?utm_source=news", ref: "https://news.example/" };
  const byAddress = rule({ when: { field: "url.query.utm_source", op: "eq", value: "news" } });
  test("leaves its sale to the partner whose rule it matches, and the row hides its way", () =>
    expect(attributedOf(sale(way), { ...unseen, rows: { rules: [byAddress] } })).toMatchObject({
      event: { url: null, ref: null },
      credit: { status: "attributed", method: "rule" },
    }));
  test("shows its way when it agreed", () => expect(attributedOf(sale(way)).event).toMatchObject(way));
  test("leaves a custom event that a partner earns on, and nothing else of its own", () => {
    const trial = { t: "custom", custom_name: "trial", ...way };
    const earning = { ...unseen, rows: { contracts: [contract({ event_type: "trial" })] } };
    expect(attributedOf(trial, earning).event).toMatchObject({ custom_name: "trial", url: null, ref: null });
    const input = recorded(topics.eventsScored, scored(trial, unseen));
    const facts = {
      reference: referenceWith().at(noon, noon),
      referenceAtReceipt: referenceWith().at(noon, noon),
      clickOf: keys.clickOf,
      referenceAsOf: null,
      identityClick: null,
    };
    expect(attribute(input, noClicks, facts)).toMatchObject({ kind: "drop", reason: "no_analytics_consent" });
  });
});

describe("the facts", () => {
  test("are those valid at event time, as known when the event was received", async () => {
    const known = referenceWith({
      clients: [
        client({ name: "first" }),
        client({ name: "from noon on", valid_from: noon, recorded_at: longAgo + 1 }),
        client({ name: "from noon on, corrected later", valid_from: noon, recorded_at: noon + hourMs }),
      ],
    });
    const seenBy = (at: number, receivedAt: number) => recorded(topics.eventsScored, scored(), { at, receivedAt });
    const batch = [seenBy(noon - 1, noon), seenBy(noon, noon), seenBy(noon, noon + hourMs)];
    const facts = await attributeFacts.load(batch, reads([reference, known], [clickKeys, keys]));
    expect(batch.map((event) => facts(event).reference.client(7)?.name)).toEqual([
      "first",
      "from noon on",
      "from noon on, corrected later",
    ]);
  });
  const load = (asOf: number) => {
    const known = { ...referenceWith(), asOf };
    return attributeFacts.load([recorded(topics.eventsScored, scored())], reads([reference, known], [clickKeys, keys]));
  };
  test("that could not be refreshed are marked with their time", async () => {
    const stale = (await load(noon - 1_001))(recorded(topics.eventsScored, scored()));
    expect(stale.referenceAsOf).toBe(noon - 1_001);
    expect(creditOf(sale(), { referenceAsOf: stale.referenceAsOf! }).reference_as_of).toBe(noon - 1_001);
  });
  test("that are fresh enough bear no mark", async () =>
    expect((await load(noon - 1_000))(recorded(topics.eventsScored, scored())).referenceAsOf).toBeNull());
});

const anyEvent = fc.record({
  t: fc.constantFrom("page_view", "click", "purchase", "install", "lead_submit", "refund", "form_start"),
  click_id: fc.oneof(
    fc.constant(null),
    fc.constant("bad"),
    fc.integer({ min: -2, max: 40 }).map((days) => clickBefore(days * dayMs)),
    fc.constant(clickBefore(1, 999)),
  ),
  partner_ref: fc.constantFrom(null, "21", "22", "promo", "UNKNOWN"),
  props: fc.constantFrom("{}", '{"coupon":"TEN"}'),
});
const anyGiven = fc.record({
  fraud: fc.constantFrom<Partial<Fraud>[]>({}, { score: 50, band: "review" }, { score: 90, band: "reject" }),
  enrichment: fc.constantFrom({ consent: 0xff }, { consent: 0xfe }),
  journey: fc.constantFrom(noClicks, {
    clicks: [{ click_id: clickBefore(2 * hourMs), at: noon - 2 * hourMs, link_id: linkId }],
  }),
  rows: fc.record({
    partners: fc
      .tuple(fc.constantFrom("active", "paused"), fc.constantFrom("active", "archived"))
      .map(([one, two]) => [
        partner({ status: one as "active" }),
        partner({ partner_id: 22, status: two as "active" }),
      ]),
    campaigns: fc.constantFrom("active", "ended").map((status) => [campaign({ status: status as "active" })]),
    rules: fc.subarray([coupon(), coupon({ rule_id: 52, ...crediting(22) }), rule({ rule_id: 53 })]),
  }),
});

describe("whatever happens", () => {
  test("at most one candidate wins, and it is the one who is credited", () =>
    fc.assert(
      fc.property(anyEvent, anyGiven, (event, given) => {
        const credit = creditOf(event, given);
        const won = credit.candidates.filter(({ outcome }) => outcome === "won");
        expect(won.map(({ partner_id, method }) => [partner_id, method])).toEqual(
          credit.status === "attributed" ? [[credit.partner_id, credit.method]] : [],
        );
        expect(credit.reason === null).toBe(credit.status === "attributed");
        expect(credit.partner_id === null).toBe(credit.status === "unattributed");
      }),
    ));
  test("precedence is total: everybody before the winner has a fault, everybody after it is lower or has one", () => {
    const order = ["click", "partner_param", "rule"];
    fc.assert(
      fc.property(anyEvent, anyGiven, (event, given) => {
        const carried = creditOf(event, given).candidates.filter(({ outcome }) => outcome !== "not_carried");
        const ranks = carried.map(({ method }) => order.indexOf(method));
        expect(ranks).toEqual([...ranks].sort((a, b) => a - b));
        const winner = carried.findIndex(({ outcome }) => outcome === "won");
        const before = carried.slice(0, Math.max(0, winner));
        expect(before.every(({ outcome }) => outcome !== "lower_precedence")).toBe(true);
        if (winner === -1) expect(carried.every(({ outcome }) => outcome !== "lower_precedence")).toBe(true);
      }),
    );
  });
  test("a rejected event is never credited", () =>
    fc.assert(
      fc.property(anyEvent, anyGiven, (event, given) => {
        const credit = creditOf(event, { ...given, fraud: { score: 100, band: "reject" }, enrichment: {} });
        expect(credit).toMatchObject({ status: "unattributed", reason: "fraud_rejected" });
      }),
    ));
  test("the same arguments have the same outcome", () =>
    fc.assert(
      fc.property(anyEvent, anyGiven, (event, given) => {
        expect(outcomeOf(event, given)).toEqual(outcomeOf(event, given));
      }),
    ));
  test("every reason is one that is documented", () => {
    const clicks = /no_click|bad_click_id|click_expired|click_after_conversion/.source;
    const others = /partner_inactive|campaign_inactive|fraud_rejected|weak_order_id/.source;
    const documented = new RegExp(`^(${clicks}|${others})$`);
    fc.assert(
      fc.property(anyEvent, anyGiven, (event, given) => documented.test(creditOf(event, given).reason ?? "no_click")),
    );
  });
});

describe("the pattern of a campaign", () => {
  const withPatterns = (...patterns: readonly CampaignPattern[]) => ({ campaigns: [campaign({ patterns })] });
  const visit = (over: Partial<EventReceived> = {}) =>
    sale({ url: "https://shop.example/sale?utm_source=news&utm_campaign=june", ...over });
  test.each([
    ["coupon", "TEN", { props: '{"coupon":"TEN"}' }],
    ["utm_source", "news", {}],
    ["utm_campaign", "june", {}],
    ["url_prefix", "https://shop.example/sale", {}],
  ] as const)("%s credits the partner that it names", (kind, value, event) => {
    const rows = withPatterns({ kind, value, partner_id: partnerId });
    expect(creditOf(visit(event), { rows })).toMatchObject({
      ...{ status: "attributed", method: "campaign", partner_id: partnerId, campaign_id: campaignId, link_id: null },
      candidates: [{ method: "campaign", reference: `${kind}:${value}`, outcome: "won" }],
    });
    const others = withPatterns({ kind, value: `${value}x`, partner_id: partnerId });
    expect(creditOf(visit(event), { rows: others })).toMatchObject(unattributed("no_click"));
  });
  test("without a partner credits the only one of its campaign, and none of several", () => {
    const patterns = [{ kind: "utm_source", value: "news" }] as const;
    expect(creditOf(visit(), { rows: withPatterns(...patterns) }).partner_id).toBe(partnerId);
    const links = [link(), link({ link_id: 42, partner_id: 22, code: "other" })];
    expect(creditOf(visit(), { rows: { ...withPatterns(...patterns), links } })).toMatchObject({
      ...unattributed("no_click"),
      candidates: [{ method: "campaign", partner_id: null, outcome: "unknown_partner" }],
    });
    const archived = [link(), link({ link_id: 42, partner_id: 22, code: "other", status: "archived" })];
    expect(creditOf(visit(), { rows: { ...withPatterns(...patterns), links: archived } }).partner_id).toBe(partnerId);
  });
  test("comes after every rule and before a click on another device", () => {
    const rows = { ...withPatterns({ kind: "utm_source", value: "news", partner_id: partnerId }), rules: [coupon()] };
    expect(creditOf(visit({ props: '{"coupon":"TEN"}' }), { rows }).method).toBe("rule");
    expect(creditOf(visit(), { rows, identityClick: clickBefore(hourMs) }).method).toBe("campaign");
  });
  test("that says more comes first: a coupon, a campaign, a source, the longer address", () => {
    const rows = withPatterns(
      { kind: "url_prefix", value: "https://", partner_id: partnerId },
      { kind: "url_prefix", value: "https://shop.example/", partner_id: partnerId },
      { kind: "utm_source", value: "news", partner_id: partnerId },
      { kind: "utm_campaign", value: "june", partner_id: partnerId },
      { kind: "coupon", value: "TEN", partner_id: partnerId },
    );
    expect(
      creditOf(visit({ props: '{"coupon":"TEN"}' }), { rows }).candidates.map(({ reference }) => reference),
    ).toEqual([
      "coupon:TEN",
      "utm_campaign:june",
      "utm_source:news",
      "url_prefix:https://shop.example/",
      "url_prefix:https://",
    ]);
  });
  test("of a campaign that is not running credits no partner, and says so", () => {
    const patterns = [{ kind: "utm_source", value: "news", partner_id: partnerId }] as const;
    const rows = { campaigns: [campaign({ patterns, status: "paused" })] };
    expect(creditOf(visit(), { rows })).toMatchObject(unattributed("campaign_inactive"));
  });
});

describe("a click of the same person on another device", () => {
  const elsewhere = clickBefore(hourMs);
  test("credits its partner when nothing else does, and says that it was through identity", () =>
    expect(creditOf(sale(), { identityClick: elsewhere })).toMatchObject({
      status: "attributed",
      method: "identity",
      partner_id: partnerId,
      link_id: linkId,
      clicked_at: noon - hourMs,
      candidates: [{ method: "identity", reference: elsewhere, outcome: "won" }],
    }));
  test("comes after every other way to a credit", () => {
    const rows = { partners: [partner(), partner({ partner_id: 22 })], rules: [rule(crediting(22))] };
    expect(creditOf(sale(), { rows, identityClick: elsewhere })).toMatchObject({ method: "rule", partner_id: 22 });
    expect(creditOf(sale({ click_id: clickBefore(2 * hourMs) }), { identityClick: elsewhere }).method).toBe("click");
  });
  test("is judged like one on the event: an expired one credits no partner, and says so", () =>
    expect(creditOf(sale(), { identityClick: clickBefore(31 * dayMs) })).toMatchObject({
      status: "unattributed",
      reason: "click_expired",
      candidates: [{ method: "identity", outcome: "click_expired" }],
    }));
  test("earns nothing for a sale that is too risky", () =>
    expect(creditOf(sale(), { identityClick: elsewhere, fraud: { score: 90, band: "reject" } }).reason).toBe(
      "fraud_rejected",
    ));
  test("that the event carries itself stands once among the candidates", () =>
    expect(creditOf(sale({ click_id: elsewhere }), { identityClick: elsewhere }).candidates).toHaveLength(1));

  const askedFor = async (
    isOn: boolean,
    event: Partial<EventReceived>,
    enrichment: Partial<Enrichment> = { person: "email:x" },
  ) => {
    const asked: IdentityClickAsked[] = [];
    const known = referenceWith({ clients: [client({ identity_link: isOn })] });
    const input = recorded(topics.eventsScored, scored(event, { enrichment }));
    const lookUp = async (all: readonly IdentityClickAsked[]) => {
      asked.push(...all);
      return new Map([[input.id, elsewhere]]);
    };
    const facts = await attributeFacts.load(
      [input],
      reads([reference, known], [clickKeys, keys], [identityClicks, { lookUp }]),
    );
    return { asked, found: facts(input).identityClick };
  };
  test("is asked for where the client switched it on", async () =>
    expect(await askedFor(true, purchase())).toEqual({
      asked: [{ client_id: 7, event_id: purchase().event_id, at: noon, did: "d1", person: "email:x" }],
      found: elsewhere,
    }));
  test.each([
    ["where the client did not", false, purchase(), {}],
    ["for a page view", true, {}, {}],
    ["for a refund", true, { t: "refund" }, {}],
    ["for a sale of an unknown person", true, purchase(), { person: null }],
  ] as const)("is not asked for %s", async (_, isOn, event, over) =>
    expect(await askedFor(isOn, event, { person: "email:x", ...over })).toEqual({ asked: [], found: null }),
  );
});
