// The pixel doctor reports each problem in a sentence with a fix.
import { expect, test } from "vitest";
import { findingsOf } from "../../modules/catalog/pixel/findings.ts";
import { defaultPixel } from "../../modules/catalog/pixel/pixel-config.ts";
import type { Sighting } from "../../modules/catalog/pixel/sightings.ts";

const config = { ...defaultPixel, jurisdiction: "MX", consent_default: 255 } as const;
const active = { events_last_hour: 9, last_seen_at: 1, purchases: 3 };
const seen = (code: string, subject: string, count: number, largest_ms = 0): Sighting => ({
  ...{ client_id: 7, code, subject, count, largest_ms, last_at: 1 },
});
const said = (sightings: readonly Sighting[], over: object = {}) =>
  findingsOf({ ...active, sightings, ...over }, config).map(({ code, sentence }) => `${code}: ${sentence}`);

test("an integration that works has nothing to say", () =>
  expect(said([seen("taken", "https://shop.example", 900), seen("without_consent", "", 100)])).toEqual([]));

test.each([
  [
    [seen("domain_not_allowed", "https://new.example", 12), seen("domain_not_allowed", "https://b.example", 2)],
    "blocked_domain: https://new.example sent 12 events and is not on the list of allowed domains.",
  ],
  [
    [seen("missing_prop", "purchase props.order_id", 4)],
    "missing_props: 4 events of type purchase came without props.order_id and were not taken.",
  ],
  [
    [seen("wrong_client", "page_view cid", 3)],
    "wrong_client: 3 events name another client than the page that sent them.",
  ],
  [
    [seen("bad_currency", "purchase props.currency", 2)],
    "refused_events: 2 events were refused as bad_currency (purchase props.currency).",
  ],
  [[seen("page_problem", "double_init", 5)], 'double_init: svc("init") ran twice on a page, 5 times.'],
  [
    [seen("taken", "", 40), seen("without_consent", "", 60)],
    "consent_missing: 60 of 100 events came without consent to analytics and were not stored.",
  ],
  [
    [seen("taken", "", 100), seen("clock_skew", "", 60, 3_600_000)],
    "clock_skew: 60 requests had a clock that was off by up to 60 minutes.",
  ],
])("what was seen is a sentence (%#)", (sightings, sentence) => expect(said(sightings)).toEqual([sentence]));

test("views without a purchase from anywhere are reported, and not those of a shop that sells elsewhere", () => {
  const views = [seen("taken", "", 500)];
  expect(said(views, { purchases: 0 })).toEqual([
    "no_purchase: The pixel sends events, and no purchase came from anywhere for a week.",
  ]);
  expect(said(views, { purchases: 1 })).toEqual([]);
  expect(said([seen("taken", "", 5)], { purchases: 0 })).toEqual([]);
});

test("every finding has a fix", () => {
  const all = ["domain_not_allowed", "missing_prop", "wrong_client", "bad_did"].map((code) => seen(code, "a b", 99));
  for (const { fix } of findingsOf({ ...active, sightings: all, last_seen_at: null }, config))
    expect(fix.length).toBeGreaterThan(20);
});
