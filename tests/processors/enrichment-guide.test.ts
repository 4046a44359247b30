// Runs the tables of docs/enrichment.md, read from the page itself.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import { clickKeysOf } from "../../processors/attribute/facts.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { networksOf } from "../../processors/enrich/networks.ts";
import { rules } from "../../processors/score/rules.ts";
import { score } from "../../processors/score/score.ts";
import { eventColumns } from "../../sinks/analytics/generated.ts";
import { topics } from "../../topics.ts";
import { clientId, enriched, linkId, noon, partner, recorded, referenceWith } from "../support/builders.ts";

const page = readFileSync(new URL("../../docs/enrichment.md", import.meta.url), "utf8");
/** The rows of the table under a heading, cell by cell. */
const tableUnder = (heading: string): readonly (readonly string[])[] => {
  const [, text = ""] = page.split(`## ${heading}\n`);
  const lines = text.split("\n## ")[0]!.split("\n");
  return lines
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
};

test("every rule stands on the page with its weight and threshold, in the order of reasons", () =>
  expect(tableUnder("The rules").map(([code, weight, threshold]) => [code, weight, threshold])).toEqual(
    rules.map(({ code, weight, threshold }) => [
      `\`${code}\``,
      String(weight),
      threshold === null ? "" : threshold >= 1_000 ? `${threshold} ms` : String(threshold),
    ]),
  ));

test("every column that the page names is one of the table, or computed from one", () => {
  const named = tableUnder("What is added").flatMap(([columns]) =>
    [...columns!.matchAll(/`([a-z_*]+)`/g)].map(([, name]) => name!),
  );
  expect(named.length).toBeGreaterThan(12);
  for (const name of named.filter((it) => it !== "hint_*" && it !== "extended_retention"))
    expect(eventColumns.map((column) => column.name)).toContain(name);
});

test("the list of networks that is shown can be read", () => {
  const [, list = ""] = /```\n(# NETWORKS_FILE[^`]*)```/.exec(page) ?? [];
  const { networks, problems } = networksOf(list);
  expect(problems).toEqual([]);
  const classes = ["203.0.113.1", "203.0.113.65", "2001:db8::1", "8.8.8.8"].map((ip) => networks.classOf(ip, 64_500));
  expect(classes).toEqual(["hosting", "vpn", "vpn", "hosting"]);
});

const secret = "the secret of this page";
const key = clickIdKey(secret, 1);
const email = "ana@example.com";
const reference = referenceWith({
  partners: [partner({ email_sha256: createHash("sha256").update(email).digest("hex") })],
});

describe("the worked example", () => {
  test.each(tableUnder("Worked examples"))(
    "%s, %s after the click, seen: %s",
    (t, after, seen, reasons, points, band) => {
      const has = (words: string): boolean => seen!.includes(words);
      const numberOf = (words: string): number | null =>
        has(words) ? Number(new RegExp(`(\\d+) ${words}`).exec(seen!)![1]) : null;
      const elapsed = after === "" ? null : Number.parseFloat(after!) * 1_000;
      const event = {
        t: t!,
        click_id: elapsed === null ? null : mint(linkId, noon - elapsed, new Uint8Array(8), key),
        props: has("e-mail") ? JSON.stringify({ email: identifierHash(pepperOf(secret, clientId), email) }) : "{}",
      };
      const enrichment = {
        is_bot: has("a bot"),
        asn_class: has("data centre") ? "hosting" : "unknown",
        country: has("from Mexico") ? "MX" : "ES",
      };
      const outcome = score(recorded(topics.eventsEnriched, enriched(event, enrichment)), null, {
        review: 40,
        reject: 70,
        rules: undefined,
        exclusions: [],
        hints: {
          address_conversions: numberOf("other conversions"),
          click_devices: numberOf("other devices"),
          click_country: elapsed === null ? null : "ES",
        },
        clickOf: clickKeysOf([key]).clickOf,
        identifyOf: identityKeysOf(secret).identifyOf,
        reference: reference.at(noon, noon),
      });
      if (outcome.kind !== "emit") throw new Error(outcome.kind);
      const { fraud } = outcome.events[0]!.data;
      expect([fraud.reasons.map(({ code }) => code).join(", "), String(fraud.score), fraud.band]).toEqual([
        reasons,
        points,
        band,
      ]);
    },
  );
});
