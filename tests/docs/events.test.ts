// docs/events.md is true: each of its examples is sent to an edge, and its tables have every type,
// required prop, refusal and warning.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { REFUND_REASONS } from "../../domain/refunds.ts";
import { acceptsBatch, admitBatch } from "../../processors/admit/batch.ts";
import { eventTypeOf, eventTypes } from "../../processors/admit/event-types.ts";

const page = readFileSync("docs/events.md", "utf8");
const examples = [...page.matchAll(/^```json\n([\s\S]*?)^```/gm)].map(([, block]) => block!);

const facts = {
  ...{ clientId: 1, segments: [], consentDefault: 0xff, isClientSide: false },
  identify: identifyFor(pepperOf("a secret of the installation", 1), 100),
};
const arrival = { receivedAt: 1_781_546_460_000, sender: "1", address: null, header: () => undefined };
const admitted = (event: string) => [...admitBatch(acceptsBatch(`{"events": [${event}]}`), arrival, facts)][0]!;

/** Warnings that the page promises for its examples. */
const promised: Readonly<Record<string, readonly string[]>> = {
  "lead-5": ["pii_hashed"],
  "typo-1": ["unknown_type_taken_as_custom"],
};

test.each(examples)("%s", (event) => {
  const admission = admitted(event);
  if (admission.kind === "refused") throw new Error(JSON.stringify(admission.refusal));
  const { sender_event_id, warnings } = admission.data;
  expect(warnings).toEqual(promised[sender_event_id!] ?? []);
});

describe("the page has", () => {
  test("every type by an example, with the props that it requires", () => {
    const shown = new Set(examples.map((event) => (JSON.parse(event) as { t: string }).t));
    for (const type of eventTypes) {
      expect([...shown], type).toContain(type);
      const row = page
        .split("\n")
        .find((line) => line.startsWith("| `") && line.split("|")[1]!.includes(`\`${type}\``));
      const { required, amount } = eventTypeOf(type)!;
      for (const prop of required) expect(row, type).toContain(`\`${prop}\``);
      if (amount !== null) expect(row?.split("|")[4], type).toContain(`\`${amount}\``);
      const example = JSON.parse(examples.find((one) => (JSON.parse(one) as { t: string }).t === type)!);
      for (const prop of required) {
        const { [prop]: _, ...props } = { ...example.props };
        const { url: __, ...rest } = example;
        const admission = admitted(JSON.stringify({ ...(prop === "url" ? rest : example), props }));
        expect(admission.kind === "refused" ? admission.refusal.code : "taken", `${type} without ${prop}`).toBe(
          "missing_prop",
        );
      }
    }
  });

  const sources = ["event", "props", "shape"].map((name) => readFileSync(`processors/admit/${name}.ts`, "utf8"));
  const section = (heading: string): string => page.split(/^## /m).find((part) => part.startsWith(heading))!;
  test("every code of a refusal and every warning", () => {
    const refused = sources.flatMap((text) => [...text.matchAll(/(?:refuse\(\s*|code: )"([a-z_]+)"/g)]);
    for (const [, code] of refused) expect(section("Refusals"), code).toContain(`\`${code}\``);
    const warned = sources.flatMap((text) => [...text.matchAll(/warnings\.push\("([a-z_]+)"\)/g)]);
    expect(warned.length).toBeGreaterThan(5);
    for (const [, code] of warned) expect(section("Warnings"), code).toContain(`\`${code}\``);
  });
  test("every reason of a refund", () => {
    for (const reason of REFUND_REASONS) expect(section("Types"), reason).toContain(`\`${reason}\``);
  });
});
