// The reference data that a stage sees: valid at one event time, as known at one moment. First
// examples, then a comparison with a model that reads every row.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Campaign, Contract, Reference, Rule } from "../../domain/reference/reference.ts";
import { referenceOf } from "../../domain/reference/snapshot.ts";
import {
  campaign,
  campaignId,
  client,
  clientId,
  contract,
  dayMs,
  hourMs,
  link,
  linkId,
  longAgo,
  noon,
  partner,
  partnerId,
  referenceRows,
  referenceWith,
  rule,
} from "../support/builders.ts";

const sale = { client_id: clientId, partner_id: partnerId, segment: "MX", event_type: "purchase" };
const ruleIds = (reference: Reference, validAt = noon, knownAt = noon): readonly number[] =>
  reference
    .at(validAt, knownAt)
    .rules(clientId)
    .map(({ rule_id }) => rule_id);

describe("as known when received", () => {
  const paused = referenceWith({
    campaigns: [campaign(), campaign({ recorded_at: noon, valid_from: noon - hourMs, status: "paused" })],
  });

  test("a change counts from the millisecond in which it takes effect", () => {
    expect(paused.at(noon, noon - 1).campaign(campaignId)?.status).toBe("active");
    expect(paused.at(noon, noon).campaign(campaignId)?.status).toBe("paused");
  });
  test("an event of before the change is judged by how things were, however late it comes", () =>
    expect(paused.at(noon - 2 * hourMs, noon + dayMs).campaign(campaignId)?.status).toBe("active"));
  test("what was recorded after an event was received is unknown to it, even when it was valid before", () =>
    expect(paused.at(noon, noon - hourMs).campaign(campaignId)?.status).toBe("active"));
  test("a thing that is not recorded yet does not exist", () =>
    expect(
      referenceWith()
        .at(noon, longAgo - 1)
        .link(linkId),
    ).toBeUndefined());
  test("a later correction of the past replaces what was valid then", () => {
    const corrected = referenceWith({
      partners: [
        partner(),
        partner({ recorded_at: noon, valid_from: noon, status: "paused" }),
        partner({ recorded_at: noon + 1, valid_from: longAgo, status: "active", name: "Corrected" }),
      ],
    });
    expect(corrected.at(noon, noon + 1).partner(partnerId)?.name).toBe("Corrected");
  });
  test("the order in which rows are given makes no difference", () =>
    expect(
      referenceOf(referenceRows({ clients: [client({ recorded_at: noon, name: "New" }), client()] }), noon)
        .at(noon, noon)
        .client(clientId)?.name,
    ).toBe("New"));
});

describe("of rows recorded in the same millisecond", () => {
  test("the higher version is the newer one, in whatever order they are given", () => {
    const versions = [1, 3, 2].map((version) => contract({ version, rate_ppm: BigInt(version) }));
    for (const contracts of [versions, [...versions].reverse()])
      expect(referenceWith({ contracts }).at(noon, noon).contract(sale)?.version).toBe(3);
  });
  test("a thing that one change saves twice is as its higher version says", () => {
    const partners = [1, 2].map((version) => partner({ version, name: `Version ${version}` }));
    for (const rows of [partners, [...partners].reverse()])
      expect(referenceWith({ partners: rows }).at(noon, noon).partner(partnerId)?.name).toBe("Version 2");
  });
  test("of things the one that is valid from later on, in whatever order they are given", () => {
    const partners = [partner({ name: "Before" }), partner({ name: "Since", valid_from: noon })];
    for (const rows of [partners, [...partners].reverse()]) {
      const named = (validAt: number) => referenceWith({ partners: rows }).at(validAt, noon).partner(partnerId)?.name;
      expect([named(noon - 1), named(noon)]).toEqual(["Before", "Since"]);
    }
  });
});

describe("contracts", () => {
  test("the contract of the segment comes before the one for all segments", () => {
    const reference = referenceWith({
      contracts: [contract(), contract({ contract_id: 62, segment: "MX", rate_ppm: 50_000n })],
    });
    expect(reference.at(noon, noon).contract(sale)?.contract_id).toBe(62);
    expect(reference.at(noon, noon).contract({ ...sale, segment: "VD" })?.contract_id).toBe(61);
    expect(reference.at(noon, noon).contract({ ...sale, segment: null })?.contract_id).toBe(61);
  });
  test("a contract is in force from its first millisecond up to, not including, its end", () => {
    const reference = referenceWith({ contracts: [contract({ effective_from: noon, effective_to: noon + dayMs })] });
    const found = (at: number) => reference.at(at, noon + 2 * dayMs).contract(sale)?.contract_id;
    expect([found(noon - 1), found(noon), found(noon + dayMs - 1), found(noon + dayMs)]).toEqual([
      undefined,
      61,
      61,
      undefined,
    ]);
  });
  test("a contract that was shortened does not live on in its older row", () => {
    const reference = referenceWith({
      contracts: [
        contract(),
        contract({ version: 2, recorded_at: noon, valid_from: noon, effective_to: noon - dayMs }),
      ],
    });
    expect(reference.at(noon, noon - 1).contract(sale)?.version).toBe(1);
    expect(reference.at(noon, noon).contract(sale)).toBeUndefined();
  });
  test("an archived contract pays nothing", () =>
    expect(
      referenceWith({ contracts: [contract({ status: "archived" })] })
        .at(noon, noon)
        .contract(sale),
    ).toBeUndefined());
  test("no partner earns by another's contract, client or event type", () => {
    const at = referenceWith().at(noon, noon);
    expect(at.contract({ ...sale, partner_id: 22 })).toBeUndefined();
    expect(at.contract({ ...sale, client_id: 8 })).toBeUndefined();
    expect(at.contract({ ...sale, event_type: "install" })).toBeUndefined();
  });
  test("an event type is commissioned while any partner has a contract for it in force", () => {
    const at = referenceWith({ contracts: [contract({ event_type: "demo_booked", effective_to: noon })] });
    expect(at.at(noon - 1, noon).isCommissioned(clientId, "demo_booked")).toBe(true);
    expect(at.at(noon, noon).isCommissioned(clientId, "demo_booked")).toBe(false);
    expect(at.at(noon - 1, noon).isCommissioned(8, "demo_booked")).toBe(false);
  });
});

describe("rules", () => {
  const leaf = { field: "t", op: "eq", value: "purchase" } as const;
  test("the highest priority wins, then the most comparisons, then the lowest id", () =>
    expect(
      ruleIds(
        referenceWith({
          rules: [
            rule({ rule_id: 4 }),
            rule({ rule_id: 3 }),
            rule({ rule_id: 2, when: { all: [leaf, { not: { any: [leaf, leaf] } }] } }),
            rule({ rule_id: 9, priority: 1 }),
          ],
        }),
      ),
    ).toEqual([9, 2, 3, 4]));
  test("inactive rules and those out of their dates are left out", () =>
    expect(
      ruleIds(
        referenceWith({
          rules: [
            rule({ rule_id: 1, status: "inactive" }),
            rule({ rule_id: 2, effective_to: noon }),
            rule({ rule_id: 3, effective_from: noon }),
            rule({ rule_id: 4, effective_from: noon + 1 }),
          ],
        }),
      ),
    ).toEqual([3]));
  test("asking about the past between two questions about now changes neither", () => {
    const reference = referenceWith({ rules: [rule(), rule({ version: 2, recorded_at: noon, status: "inactive" })] });
    const asked = [noon, noon - 1, noon].map((knownAt) => ruleIds(reference, noon, knownAt));
    expect(asked).toEqual([[], [51], []]);
  });
  test("a client without rules has none", () => expect(referenceWith().at(noon, noon).rules(8)).toEqual([]));
});

describe("names", () => {
  test("a slug leads to its client", () => {
    expect(referenceWith().clientIdOf("acme")).toBe(clientId);
    expect(referenceWith().clientIdOf("absent")).toBeUndefined();
  });
  test("the partners of a client are those that list it then", () => {
    const reference = referenceWith({
      partners: [
        partner(),
        partner({ recorded_at: noon, valid_from: noon, client_ids: [8] }),
        partner({ partner_id: 22 }),
      ],
    });
    const ids = (validAt: number) =>
      reference
        .at(validAt, noon)
        .partnersOf(clientId)
        .map(({ partner_id }) => partner_id);
    expect(ids(noon - 1)).toEqual([partnerId, 22]);
    expect(ids(noon)).toEqual([22]);
  });
  test("the partners of a client come once each, lowest id first, however often they have changed", () => {
    const partners = [
      partner({ partner_id: 23 }),
      partner(),
      partner({ partner_id: 23, recorded_at: noon, client_ids: [8, clientId] }),
    ];
    const ids = (id: number) =>
      referenceWith({ partners })
        .at(noon, noon)
        .partnersOf(id)
        .map(({ partner_id }) => partner_id);
    expect([ids(clientId), ids(8), ids(9)]).toEqual([[partnerId, 23], [23], []]);
  });
  test("a link is found by its id, as known", () => {
    const reference = referenceWith({
      links: [link(), link({ recorded_at: noon, valid_from: noon, status: "archived" })],
    });
    expect(reference.at(noon, noon - 1).link(linkId)?.status).toBe("active");
    expect(reference.at(noon, noon).link(linkId)?.status).toBe("archived");
  });
});

describe("against a model that reads every row", () => {
  const moment = fc.integer({ min: 0, max: 20 });
  /** Rows in the order of recording; no two have the same moment, as in the database. */
  const history = <Row extends { readonly recorded_at: number }>(
    row: fc.Arbitrary<Row>,
  ): fc.Arbitrary<readonly Row[]> => fc.uniqueArray(row, { selector: ({ recorded_at }) => recorded_at, maxLength: 12 });
  const newest = <Row extends { readonly recorded_at: number }>(rows: readonly Row[]): Row | undefined =>
    rows.reduce<Row | undefined>(
      (best, row) => (best === undefined || row.recorded_at > best.recorded_at ? row : best),
      undefined,
    );

  test("a thing is its newest row that was known and valid", () => {
    const rows = history(
      fc
        .record({
          recorded_at: moment,
          valid_from: moment,
          campaign_id: fc.integer({ min: 1, max: 3 }),
          name: fc.string(),
        })
        .map((over): Campaign => campaign(over)),
    );
    fc.assert(
      fc.property(rows, moment, moment, fc.integer({ min: 1, max: 3 }), (campaigns, validAt, knownAt, id) => {
        const expected = newest(
          campaigns.filter((row) => row.campaign_id === id && row.recorded_at <= knownAt && row.valid_from <= validAt),
        );
        expect(referenceOf(referenceRows({ campaigns }), 20).at(validAt, knownAt).campaign(id)).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  test("a contract is the newest known row of its id, when that one is in force", () => {
    const rows = history(
      fc
        .record({
          recorded_at: moment,
          contract_id: fc.integer({ min: 1, max: 4 }),
          segment: fc.constantFrom(null, "MX", "VD"),
          status: fc.constantFrom("active" as const, "archived" as const),
          effective_from: moment,
          effective_to: fc.option(moment),
        })
        .map((over): Contract => contract(over)),
    );
    fc.assert(
      fc.property(rows, moment, moment, (contracts, validAt, knownAt) => {
        const known = [1, 2, 3, 4].flatMap(
          (id) => newest(contracts.filter((row) => row.contract_id === id && row.recorded_at <= knownAt)) ?? [],
        );
        const inForce = known.filter(
          (row) =>
            row.status === "active" &&
            row.effective_from <= validAt &&
            (row.effective_to === null || validAt < row.effective_to),
        );
        const at = referenceOf(referenceRows({ contracts }), 20).at(validAt, knownAt);
        const found = at.contract(sale);
        const candidates = inForce.some(({ segment }) => segment === "MX")
          ? inForce.filter(({ segment }) => segment === "MX")
          : inForce.filter(({ segment }) => segment === null);
        if (candidates.length === 0) expect(found).toBeUndefined();
        else expect(candidates).toContainEqual(found);
        expect(at.isCommissioned(clientId, "purchase")).toBe(inForce.length > 0);
      }),
      { numRuns: 500 },
    );
  });

  test("rules are the same whether the picture was asked before or not, and whatever was recorded later", () => {
    const rows = history(
      fc
        .record({
          recorded_at: moment,
          rule_id: fc.integer({ min: 1, max: 4 }),
          priority: fc.integer({ min: 0, max: 2 }),
          status: fc.constantFrom("active" as const, "inactive" as const),
          effective_to: fc.option(moment),
        })
        .map((over): Rule => rule(over)),
    );
    fc.assert(
      fc.property(rows, fc.array(fc.tuple(moment, moment), { minLength: 1, maxLength: 6 }), (rules, questions) => {
        const reference = referenceOf(referenceRows({ rules }), 20);
        for (const [validAt, knownAt] of questions) {
          const fresh = referenceOf(
            referenceRows({ rules: rules.filter(({ recorded_at }) => recorded_at <= knownAt) }),
            20,
          );
          expect(ruleIds(reference, validAt, knownAt)).toEqual(ruleIds(fresh, validAt, knownAt));
        }
      }),
      { numRuns: 500 },
    );
  });
});
