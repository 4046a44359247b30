// How the browser's script treats data: its hash, its JSON, the values that it removes, and the
// consent mask.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cleanProps, cleanText } from "../../browser/data/clean.ts";
import { choiceAfter, maskInForce } from "../../browser/data/consent.ts";
import { bytesOf, toJson } from "../../browser/data/json.ts";
import { sha256 } from "../../browser/data/sha256.ts";
import { identifyFor } from "../../domain/device-id.ts";
import { fullChoice, maskOf } from "../../domain/personal/choice.ts";
import { scrub } from "../../domain/personal/personal-data.ts";

const text = fc.string({ unit: "grapheme", maxLength: 300 });

test("its SHA-256 is that of the platform, for every length around a block", () => {
  for (let length = 0; length < 200; length += 1) {
    const given = "ñ€x"[length % 3]!.repeat(length);
    expect(sha256(given)).toBe(createHash("sha256").update(given).digest("hex"));
  }
  fc.assert(
    fc.property(text, (given) => {
      expect(sha256(given)).toBe(createHash("sha256").update(given).digest("hex"));
    }),
  );
});

describe("JSON", () => {
  test("reads back as what was written", () => {
    const value = fc.jsonValue({ maxDepth: 4, noUnicodeString: false, stringUnit: "grapheme" });
    fc.assert(
      fc.property(value, (given) => {
        // JSON.stringify writes -0 as 0, and so does the script.
        const expected = JSON.parse(JSON.stringify(given).replaceAll("\\u0000", "")) as unknown;
        expect(JSON.parse(toJson(given))).toEqual(expected);
      }),
    );
  });
  test("holds nothing that the server refuses: no NUL, no lone surrogate, no number without end", () => {
    expect(JSON.parse(toJson({ a: "x\0y", b: "\ud800", c: "🙂", d: Number.NaN, e: undefined }))).toEqual({
      a: "xy",
      b: "\ufffd",
      c: "🙂",
      d: null,
    });
  });
  test("is written although a library gave every list a toJSON", () => {
    const given = Object.assign([1, 2], { toJSON: () => "broken" });
    expect(toJson({ given })).toBe('{"given":[1,2]}');
  });
  test("its length in bytes is never counted too small", () => {
    fc.assert(fc.property(text, (given) => bytesOf(given) >= Buffer.byteLength(given)));
  });
});

describe("personal data", () => {
  const identify = identifyFor(Buffer.from("pepper of a client"), 100);
  const afterServer = (props: unknown) => scrub(props, identify).value;

  test.each([
    ["email", "  Ana.López@Example.MX "],
    ["email", "ＡＮＡ@example.mx"],
    ["e_mail", "ana@example.mx"],
    ["phone", "+52 1 55 1234 5678"],
    ["Phone", "(55) 1234-5678 ext. 12"],
    ["phone", "+44 (0)20 7946 0958"],
    ["first_name", "  José   María "],
    ["address", "Calle 5, Núm. 3"],
  ])("%s %j becomes the keyed hash that the server gives the plain value", (key, value) => {
    const sent = cleanProps({ [key]: value });
    expect(sent[key]).toMatch(/^[0-9a-f]{64}$/);
    expect(afterServer(sent)).toEqual(afterServer({ [key]: value }));
  });
  test("any e-mail or phone does", () => {
    const key = fc.constantFrom("email", "phone", "name");
    fc.assert(
      fc.property(key, text, (name, value) => {
        fc.pre(value.trim() !== "");
        expect(afterServer(cleanProps({ [name]: value }))).toEqual(afterServer({ [name]: value }));
      }),
    );
  });
  test("one that the page has hashed stays that hash", () => {
    const hash = sha256("ana@example.mx");
    expect(cleanProps({ email: hash.toUpperCase() })).toEqual({ email: hash });
  });
  test("half a character in it does not lose the event", () => {
    expect(cleanProps({ name: "Ana \ud83d", order_id: "A-1" })).toEqual({
      name: expect.stringMatching(/^[0-9a-f]{64}$/),
      order_id: "A-1",
    });
  });
  test("lists and objects under a personal key stay in the browser", () => {
    expect(toJson(cleanProps({ address: { street: "Calle 5" }, email: ["ana@example.mx"], product: "x" }))).toBe(
      '{"product":"x"}',
    );
  });
  test.each([
    "https://shop.example/?mail=ana@example.mx&x=1",
    "https://shop.example/?mail=ana%40example.mx&x=1",
    "write to ana.lopez+news@mail.example.co.uk or call",
    "ñandú@exámple.mx",
  ])("no address is left in %j", (given) => {
    const sent = cleanText(given);
    expect(sent).toContain("removed");
    expect(sent).not.toMatch(/ana|example\.mx|exámple/i);
  });
  test("an address is found at any depth, in keys too", () => {
    expect(toJson(cleanProps({ a: [{ b: "x ana@example.mx", "ana@example.mx": 1 }] }))).not.toContain("@");
  });
  test("a text made of nothing but parts of addresses costs no more than its length", () => {
    const started = process.cpuUsage();
    cleanText("a@".repeat(4_096));
    cleanText(`${"a".repeat(4_000)}@${"b.".repeat(2_000)}`);
    expect(process.cpuUsage(started).user / 1_000).toBeLessThan(500);
  });
});

describe("what a page hands over", () => {
  test("is bounded, whatever it is", () => {
    const round: Record<string, unknown> = { deep: {} };
    round.self = round;
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, "x".repeat(20_000)]));
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`k${n}`, n]));
    expect(toJson(cleanProps(round)).length).toBeLessThan(5_000);
    expect(Object.keys(cleanProps(many))).toHaveLength(200);
    expect((cleanProps(wide).k0 as string).length).toBe(8_192);
    expect(toJson(cleanProps(wide)).length).toBeLessThan(80_000);
  });
  test("costs little although everything in it leads to everything else, as in a page's window", () => {
    const nodes = Array.from({ length: 150 }, () => ({}) as Record<string, unknown>);
    for (const node of nodes) for (const [n, other] of nodes.entries()) node[`to${n}`] = other;
    const started = process.cpuUsage();
    expect(toJson(cleanProps(nodes[0])).length).toBeLessThan(100_000);
    expect(process.cpuUsage(started).user / 1_000).toBeLessThan(500);
  });
  test("keeps dates and whole numbers, and leaves out functions and keys of the prototype", () => {
    const given = JSON.parse('{"__proto__": {"x": 1}, "constructor": 1, "kept": true}') as Record<string, unknown>;
    const props = { ...given, at: new Date(0), big: 12n, run: () => 1, day: new Date(Number.NaN) };
    expect(JSON.parse(toJson(cleanProps(props)))).toEqual({ kept: true, at: "1970-01-01T00:00:00.000Z", big: "12" });
  });
  test.each([undefined, null, 1, "text", ["list"]])("%j is no props", (given) => {
    expect(cleanProps(given)).toEqual({});
  });
});

describe("consent", () => {
  test.each([
    [0xff, 0, 0xff],
    [0, 0xff, 0],
    [true, 0, 0xff],
    [false, 0xff, 0],
    [{ analytics: true }, 0, 0x01],
    [{ analytics: false, dsp: false }, 0xff, 0xfa],
    [{ replay: true }, 0, 0x10],
    [{ cross_client: true, analytics: "yes" }, 0x02, 0x0a],
  ])("the choice %j over %i asks for %i", (choice, current, mask) => {
    expect(maskOf(choiceAfter(choice, undefined)!, current)).toBe(mask);
    expect(maskOf(choiceAfter(choice, fullChoice(current))!, 0)).toBe(mask);
  });
  test("a choice of names grants no bit that it does not name, whatever came before", () => {
    const name = fc.constantFrom("analytics", "personalization", "dsp", "cross_client", "email", "push", "nothing");
    const bits = { analytics: 1, personalization: 2, dsp: 4, cross_client: 8, email: 16, push: 32 } as const;
    fc.assert(
      fc.property(fc.array(fc.dictionary(name, fc.boolean()), { maxLength: 5 }), (choices) => {
        let choice: ReturnType<typeof choiceAfter>;
        const named: Record<string, boolean> = {};
        for (const one of choices) {
          choice = choiceAfter(one, choice) ?? choice;
          Object.assign(named, one);
        }
        const granted = (Object.keys(bits) as (keyof typeof bits)[])
          .filter((one) => named[one] === true)
          .reduce((sum, one) => sum | bits[one], 0);
        expect(choice === undefined ? 0 : maskOf(choice, 0)).toBe(granted);
      }),
    );
  });

  test.each([256, -1, 1.5, "255", null, undefined, {}, { unknown: true }, []])("%j is no choice", (choice) => {
    expect(choiceAfter(choice, fullChoice(0xff))).toBeUndefined();
  });
  test("Global Privacy Control and Do Not Track take away what the specification says, and no more", () => {
    expect(maskInForce(0xff, { gpc: true, dnt: false })).toBe(0xfa);
    expect(maskInForce(0xff, { gpc: false, dnt: true })).toBe(0xfb);
    expect(maskInForce(0x10, { gpc: true, dnt: true })).toBe(0x10);
  });
});
