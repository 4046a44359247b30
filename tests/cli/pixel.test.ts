// The pixel doctor reports each problem in a sentence with a fix.
import { expect, test } from "vitest";
import { findingsOf } from "../../modules/catalog/pixel/findings.ts";
import { defaultPixel } from "../../modules/catalog/pixel/pixel-config.ts";
import type { Sighting } from "../../modules/catalog/pixel/sightings.ts";

const config = { ...defaultPixel, jurisdiction: "MX", consent_default: 255 } as const;
const week = (...types: readonly string[]) => ({ types: new Set(types), fromServers: 0 });
const active = { events_last_hour: 9, last_seen_at: 1, week: week(...config.tracked_events) };
const seen = (code: string, subject: string, count: number, largest_ms = 0): Sighting => ({
  ...{ client_id: 7, code, subject, count, largest_ms, last_at: 1 },
});
const said = (sightings: readonly Sighting[], over: object = {}, more: object = {}) =>
  findingsOf({ ...active, sightings, ...over }, { ...config, ...more }).map(
    ({ code, sentence }) => `${code}: ${sentence}`,
  );

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
  expect(said(views, { week: week("page_view", "lead_submit") })).toEqual([
    "no_purchase: The pixel sends events, and no purchase came from anywhere for a week.",
  ]);
  expect(said(views, { week: week("page_view", "lead_submit", "ext_purchase") })).toEqual([]);
  expect(said([seen("taken", "", 5)], { week: week() })).toEqual([]);
});

test("a tracked event that does not come is reported, and one that is not tracked is not", () => {
  const views = [seen("taken", "", 500)];
  const tracked = { tracked_events: ["page_view", "quiz_done", "add_to_cart"] };
  expect(said(views, { week: week("page_view") }, tracked)).toEqual([
    "not_seen: The pixel sends events, and no quiz_done, no add_to_cart came from anywhere for a week.",
  ]);
  expect(said(views, { week: week() }, { tracked_events: [] })).toEqual([]);
  expect(said(views, { week: undefined }, tracked)).toEqual([]);
});

test.each([
  ["PIXEL", ["never_seen"], ["silent"], []],
  ["HYBRID", ["never_seen", "no_server_events"], ["silent", "no_server_events"], ["no_server_events"]],
  ["S2S", ["no_server_events"], ["no_server_events"], ["unexpected_pixel", "no_server_events"]],
  ["APP", ["no_server_events"], ["no_server_events"], ["unexpected_pixel", "no_server_events"]],
])("of %s the pixel, a server or both are expected", (tracking_type, never, silent, active) => {
  const codes = (over: object) => said([], over, { tracking_type }).map((text) => text.split(":")[0]);
  expect(codes({ last_seen_at: null, events_last_hour: 0 })).toEqual(never);
  expect(codes({ events_last_hour: 0 })).toEqual(silent);
  expect(codes({})).toEqual(active);
  expect(codes({ week: { ...week(), fromServers: 1 } })).not.toContain("no_server_events");
});

test("every finding has a fix", () => {
  const all = ["domain_not_allowed", "missing_prop", "wrong_client", "bad_did"].map((code) => seen(code, "a b", 99));
  for (const { fix } of findingsOf({ ...active, sightings: all, last_seen_at: null }, config))
    expect(fix.length).toBeGreaterThan(20);
});
