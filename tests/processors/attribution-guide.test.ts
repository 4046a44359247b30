// Runs the worked examples of docs/attribution.md, read from the page itself.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { parseCondition } from "../../domain/conditions/condition.ts";
import { compile } from "../../domain/conditions/evaluate.ts";
import { Subject } from "../../domain/conditions/fields.ts";
import type { Condition, ReferenceRows } from "../../domain/reference/reference.ts";
import { attribute } from "../../processors/attribute/attribute.ts";
import { clickKeysOf } from "../../processors/attribute/facts.ts";
import type { Credit, EventReceived, Fraud } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import {
  campaign,
  client,
  crediting,
  dayMs,
  link,
  linkId,
  longAgo,
  noon,
  partner,
  partnerId,
  purchase,
  received,
  recorded,
  referenceWith,
  rule,
  scored,
} from "../support/builders.ts";

const page = readFileSync(new URL("../../docs/attribution.md", import.meta.url), "utf8");
/** The rows of every table with this header line. */
const rowsUnder = (header: string): readonly (readonly string[])[] =>
  page
    .split(`${header}\n`)
    .slice(1)
    .flatMap((part) => {
      const lines = part.split("\n").slice(1);
      const end = lines.findIndex((line) => !line.startsWith("|"));
      return lines.slice(0, end === -1 ? undefined : end);
    })
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );

const key = clickIdKey("a secret of these tests", 1);
const clickAt = (at: number): string => mint(linkId, at, new Uint8Array(8), key);
const norteId = 99;
const verde = partner({ name: "Verde", referral_code: "VERDE" });
const names = new Map<number | null, string>([
  [partnerId, "Verde"],
  [norteId, "Norte"],
  [null, "none"],
]);
const boletin = campaign({ patterns: [{ kind: "utm_source", value: "boletin", partner_id: norteId }] });
const norteRule = rule({ when: { field: "coupon", op: "eq", value: "NORTE" }, ...crediting(norteId) });

/** The time of a click, from `click 2 days before` or `click 1 day after`. */
const momentOf = (text: string): number => {
  const [, days, side] = /(\d+) days? (before|after)$/.exec(text) ?? [];
  return noon + (side === "after" ? 1 : -1) * Number(days) * dayMs;
};

interface Given {
  event: Partial<EventReceived>;
  rows: Partial<ReferenceRows>;
  clicks: readonly { click_id: string; at: number; link_id: number }[];
  identityClick: string | null;
}
const carrying: readonly (readonly [RegExp, (given: Given, text: string) => void])[] = [
  [
    /^click /,
    (given, text) => {
      given.event = { ...given.event, click_id: clickAt(momentOf(text)) };
    },
  ],
  [
    /^forged click$/,
    (given) => {
      given.event = { ...given.event, click_id: `${clickAt(noon - dayMs).slice(0, -2)}xx` };
    },
  ],
  [
    /^foreign click$/,
    (given) => {
      given.event = { ...given.event, click_id: clickAt(noon - dayMs) };
      given.rows = { ...given.rows, links: [link({ client_id: 8 })] };
    },
  ],
  [
    /^linked click /,
    (given, text) => {
      given.identityClick = clickAt(momentOf(text));
    },
  ],
  [
    /^earlier click /,
    (given, text) => {
      given.clicks = [{ click_id: clickAt(momentOf(text)), at: momentOf(text), link_id: linkId }];
    },
  ],
  [
    /^partner /,
    (given, text) => {
      given.event = { ...given.event, source: "generic:shop", partner_ref: text.split(" ")[1]! };
    },
  ],
  [
    /^utm_source /,
    (given, text) => {
      given.event = { ...given.event, url: `https://shop.example/?utm_source=${text.split(" ")[1]}` };
    },
  ],
  [
    /^coupon /,
    (given, text) => {
      given.event = { ...given.event, props: JSON.stringify({ coupon: text.split(" ")[1] }) };
    },
  ],
];
const norte = partner({ partner_id: norteId, name: "Norte" });
interface But {
  readonly event?: Partial<EventReceived>;
  readonly rows?: Partial<ReferenceRows>;
  readonly fraud?: Partial<Fraud>;
}
const buts: Readonly<Record<string, But>> = {
  "": {},
  "the order id is null": { event: { order_id: "null" } },
  "the window is 1 day": { rows: { clients: [client({ click_window_days: 1 })] } },
  "Verde is paused": { rows: { partners: [{ ...verde, status: "paused" }, norte] } },
  "the campaign is paused": { rows: { campaigns: [campaign({ status: "paused" })] } },
  "the campaign ended yesterday": { rows: { campaigns: [campaign({ ends_at: noon - dayMs })] } },
  "the link is archived": { rows: { links: [link({ status: "archived" })] } },
  "Verde was paused afterwards": {
    rows: { partners: [verde, { ...verde, status: "paused", valid_from: noon + 1, recorded_at: longAgo + 1 }, norte] },
  },
  "the fraud score is in the band reject": { fraud: { score: 85, band: "reject" } },
  "the fraud score is in the band review": { fraud: { score: 50, band: "review" } },
};

const creditOf = (type: string, carries: string, but: string): Credit => {
  const made = buts[but];
  if (made === undefined) throw new Error(`nothing is known of: ${but}`);
  const given: Given = {
    event: { ...(type === "purchase" ? purchase() : received({ t: type })), ...made.event },
    rows: { partners: [verde, norte], rules: [norteRule], campaigns: [boletin], ...made.rows },
    clicks: [],
    identityClick: null,
  };
  for (const text of carries === "" ? [] : carries.split(", ")) {
    const known = carrying.find(([form]) => form.test(text));
    if (known === undefined) throw new Error(`nothing is known of: ${text}`);
    known[1](given, text);
  }
  const input = recorded(topics.eventsScored, scored(given.event, { fraud: made.fraud ?? {} }), { at: noon });
  const facts = {
    reference: referenceWith(given.rows).at(input.at, input.receivedAt),
    referenceAtReceipt: referenceWith(given.rows).at(input.receivedAt, input.receivedAt),
    clickOf: clickKeysOf([key]).clickOf,
    identityClick: given.identityClick,
    referenceAsOf: null,
  };
  const outcome = attribute(input, { clicks: given.clicks }, facts);
  if (outcome.kind !== "emit") throw new Error(`attribute emits, and does not ${outcome.kind}`);
  const { data } = outcome.events[0]!;
  return "attributed" in data ? data.attributed.credit : data.credit;
};

const decided = rowsUnder("| event | carries | but | credited | by | reason | considered |");
describe("who is credited", () => {
  test("both tables are read, and nothing of this file is left over", () => {
    expect(decided).toHaveLength(33);
    expect(new Set(decided.map(([, , but]) => but))).toEqual(new Set(Object.keys(buts)));
  });
  test.each(decided)("%s carrying %s, but %s: %s by %s, %s", (type, carries, but, credited, by, reason, considered) => {
    const credit = creditOf(type!, carries!, but!);
    expect({
      credited: names.get(credit.partner_id),
      by: credit.method ?? "",
      reason: credit.reason ?? "",
      considered: credit.candidates.map(({ method, outcome }) => `${method} ${outcome}`).join(", "),
    }).toEqual({ credited, by, reason, considered });
  });
  test("every reason in the examples is explained", () => {
    const explained = new Set(
      rowsUnder("| reason | what it says | what to do |").map(([reason]) => reason!.replaceAll("`", "")),
    );
    for (const [, , , , , reason] of decided) if (reason !== "") expect(explained).toContain(reason);
  });
});

const leaves = (count: number): Condition => ({
  all: Array.from({ length: count }, () => ({ field: "t", op: "eq", value: "purchase" }) as const),
});
test.each(rowsUnder("| rules that match | wins |"))("of the rules %s wins %s", (rules, wins) => {
  const given = rules!.split("; ").map((text, n) => {
    const [, name, priority, count] = /^(\w): priority (\d+), (\d+) comparisons?$/.exec(text)!;
    return {
      name,
      rule: rule({
        rule_id: n + 1,
        priority: Number(priority),
        when: leaves(Number(count)),
        ...crediting(n === 0 ? partnerId : norteId),
      }),
    };
  });
  const facts = {
    reference: referenceWith({ partners: [verde, norte], rules: given.map((one) => one.rule).toReversed() }).at(
      noon,
      noon,
    ),
    referenceAtReceipt: referenceWith().at(noon, noon),
    clickOf: () => null,
    identityClick: null,
    referenceAsOf: null,
  };
  const outcome = attribute(recorded(topics.eventsScored, scored(purchase()), { at: noon }), { clicks: [] }, facts);
  const data = outcome.kind === "emit" ? outcome.events[0]!.data : undefined;
  const credit = data !== undefined && "attributed" in data ? data.attributed.credit : undefined;
  expect(given.find((one) => one.rule.rule_id === credit?.rule_id)?.name).toBe(wins);
});

describe("conditions", () => {
  const examples = rowsUnder("| condition | event | matches |").map((cells) =>
    cells.map((cell) => cell.replaceAll("`", "")),
  );
  test("all are read", () => expect(examples).toHaveLength(23));
  test.each(examples)("%s asked of %s: %s", (when, event, matches) => {
    const parsed = parseCondition(JSON.parse(when!));
    if (parsed.kind === "problems") throw new Error(JSON.stringify(parsed.problems));
    const { props = {}, value_minor = null, ...fields } = JSON.parse(event!);
    const subject = new Subject(
      scored({
        ...fields,
        props: JSON.stringify(props),
        value_minor: value_minor === null ? null : BigInt(value_minor),
      }),
    );
    expect(compile(parsed.condition)(subject).matches ? "yes" : "no").toBe(matches);
  });
});
