// The rows that the velocity sink writes for an event, for the hints of later events.
import { expect, test } from "vitest";
import type { EventAttributed } from "../../schemas/generated.ts";
import { velocityRows } from "../../sinks/velocity/rows.ts";
import { sets } from "../../sinks/velocity/table.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, clientId, hourMs, noon, recorded } from "../support/builders.ts";

const rowsOf = (data: EventAttributed) => velocityRows(recorded(topics.eventsAttributed, data));
const namesOf = (data: EventAttributed) => rowsOf(data).map(({ set }) => set);

test("a conversion stands under its visitor's address, by the hour", () => {
  const sale = attributed({ ip: "8.8.8.8" });
  expect(rowsOf(sale)).toEqual([
    { client_id: clientId, set: sets.conversionsOf(clientId, "8.8.8.8", noon), member: sale.event.event_id, at: null },
  ]);
  expect(sets.conversionsOf(clientId, "8.8.8.8", noon)).not.toBe(
    sets.conversionsOf(clientId, "8.8.8.8", noon + hourMs),
  );
  expect(sets.conversionsOf(clientId, "8.8.8.8", noon)).toBe(
    sets.conversionsOf(clientId, "8.8.8.8", noon + hourMs - 1),
  );
});

test("a server's address counts for no device, and page views count nowhere", () => {
  expect(rowsOf(attributed({ ip: "8.8.8.8", ip_source: "request", client_side: false }))).toEqual([]);
  expect(rowsOf(attributed({ t: "page_view", ip: "8.8.8.8", click_id: "c" }, { credit: clickCredit() }))).toEqual([]);
});

test("a click stands under its id with device and country, once its MAC was found good", () => {
  const click = { t: "click", click_id: "c" };
  expect(namesOf(attributed(click, { credit: clickCredit(), enrichment: { country: "MX" } }))).toEqual([
    sets.devicesOf(clientId, "c"),
    sets.clicksOf(clientId, "d1"),
    sets.countriesOf(clientId, "c"),
  ]);
  expect(namesOf(attributed(click, { enrichment: { country: "MX" } }))).toEqual([]);
});

test("a device stands under its person, and under none without one", () =>
  expect(rowsOf(attributed({ t: "custom" }, { enrichment: { person: "email:x" } }))).toEqual([
    { client_id: clientId, set: sets.devicesOfPerson(clientId, "email:x"), member: "d1", at: noon },
  ]));

test("neither addresses nor click ids can be read in the names, and every name holds its client", () => {
  const data = attributed(
    { ip: "203.0.113.77", click_id: "a-click-id" },
    { credit: clickCredit(), enrichment: { person: "email:x" } },
  );
  for (const name of namesOf(data)) {
    expect(name).toMatch(new RegExp(`^${clientId}:`));
    expect(name).not.toMatch(/203\.0\.113|a-click-id/);
  }
  expect(sets.conversionsOf(7, "8.8.8.8", noon).split(":")[2]).not.toBe(
    sets.conversionsOf(8, "8.8.8.8", noon).split(":")[2],
  );
});
