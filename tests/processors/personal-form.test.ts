// Two spellings of one person's data become one text before they are hashed, here and in a browser.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { personalForm, personalForms } from "../../domain/personal/personal-form.ts";

const phone = (text: string): string => personalForm("phone", text);
const kinds = ["email", "phone", "name", "address"];
const anyText = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string());
const national = fc.stringMatching(/^[2-9]\d{9}$/);
/** Characters that people write between digits. */
const spelled = (text: string): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom("", "", " ", "-", ".", "\u00a0", ")"), {
      minLength: text.length,
      maxLength: text.length,
    })
    .map((between) => [...text].map((sign, n) => `${sign}${n === text.length - 1 ? "" : between[n]}`).join(""));
const wide = (text: string): string =>
  [...text].map((sign) => (/[!-~]/.test(sign) ? String.fromCharCode(sign.charCodeAt(0) + 0xfe_e0) : sign)).join("");

test("a form that is formed again stays as it is, whatever the text and the kind", () => {
  fc.assert(
    fc.property(fc.constantFrom(...kinds), anyText, (kind, text) => {
      const once = personalForm(kind, text);
      expect(personalForm(kind, once)).toBe(once);
    }),
    { numRuns: 2_000 },
  );
  const signs = fc.constantFrom(..."<>\"'()[],;:?@%.4025a ", "mailto:", "%40", "%25", "\u200b", "b.cd", "%ef%bc%85");
  fc.assert(
    fc.property(fc.array(signs, { maxLength: 30 }), (parts) => {
      const form = personalForm("email", parts.join(""));
      expect(personalForm("email", form)).toBe(form);
    }),
    { numRuns: 5_000 },
  );
  fc.assert(
    fc.property(fc.stringMatching(/^[+0-9x#() .ext-]{0,20}$/), (text) => {
      expect(phone(phone(text))).toBe(phone(text));
    }),
    { numRuns: 2_000 },
  );
});

test("case, width, decomposition and white space make no other person", () => {
  fc.assert(
    fc.property(fc.constantFrom(...kinds), fc.stringMatching(/^[a-zA-ZñÑéÉ0-9 @.+_-]{1,40}$/), (kind, text) => {
      const spellings = [text.toUpperCase().toLowerCase(), text.normalize("NFD"), wide(text), ` \t${text}\n`];
      for (const other of spellings) expect(personalForm(kind, other)).toBe(personalForm(kind, text));
    }),
  );
});

test("a Mexican number is one number, with or without its country, as it was dialled before 2019 too", () => {
  const before = fc.constantFrom(
    "",
    "+52",
    "+521",
    "0052",
    "00521",
    "52",
    "521",
    "01",
    "044",
    "045",
    "+5201",
    "tel:+52",
  );
  fc.assert(
    fc.property(
      national.chain((number) => fc.tuple(fc.constant(number), before, spelled(number))),
      ([number, prefix, text]) => {
        for (const given of [`${prefix}${text}`, `${prefix} ${text}`, wide(`${prefix}${text}`)])
          expect(phone(given), given).toBe(`+52${number}`);
      },
    ),
  );
});

test("an international number is + and its digits, however it is written", () => {
  fc.assert(
    fc.property(
      fc
        .stringMatching(/^(1|33|44|49|54|57)\d{8,10}$/)
        .chain((number) => fc.tuple(fc.constant(number), spelled(number))),
      fc.constantFrom("+", "00", "+ ", "＋", "tel:+"),
      ([number, text], prefix) => {
        expect(phone(`${prefix}${text}`)).toBe(`+${number}`);
      },
    ),
  );
});

test("a number of another length that names no country is its digits alone, and never becomes Mexican", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[1-9]\d{0,8}$/), (text) => {
      expect(phone(text)).toBe(text);
    }),
  );
  expect(phone("1 415 555 2671")).toBe("14155552671");
});

test.each([
  ["55 1234 5678 ext. 12", "+525512345678"],
  ["55 1234 5678 x12", "+525512345678"],
  ["+44 (0)20 7946 0958", "+442079460958"],
  ["0044 (0)20 7946 0958", "+442079460958"],
  ["1-800-FLOWERS", "1-800-flowers"],
  ["unknown", "unknown"],
  ["-", "-"],
  ["+", "+"],
])("the phone %j is %j", (text, form) => expect(phone(text)).toBe(form));

test.each([
  [" Ana@Example.COM ", "ana@example.com"],
  ["ＡＮＡ＠example.com", "ana@example.com"],
  ["a.n.a+tag@example.com", "a.n.a+tag@example.com"],
])("the e-mail %j is %j", (text, form) => expect(personalForm("email", text)).toBe(form));

const address = fc
  .tuple(fc.stringMatching(/^[a-z0-9][a-z0-9.+_'-]{0,20}[a-z0-9]$/), fc.stringMatching(/^[a-z0-9-]{1,9}\.[a-z]{2,5}$/))
  .map(([local, domain]) => `${local}@${domain}`);

test("an e-mail is its address, whatever it is written in, and how often it is escaped", () => {
  const writings: readonly ((text: string) => string)[] = [
    (text) => `mailto:${text}`,
    (text) => `MAILTO:${text}?subject=Hi%20there&cc=b@shop.example`,
    (text) => `<${text}>`,
    (text) => `Ana M. <${text}>`,
    (text) => `"ana@shop.example" <mailto:${text}>`,
    (text) => `${text} (Ana)`,
    (text) => `"${text}"`,
    (text) => `${text},`,
    (text) => `${text}\u200b`,
    (text) => `\u2060${text.replace("@", "\u00ad@\u200d")}\ufeff`,
    (text) => encodeURIComponent(text),
    (text) => encodeURIComponent(encodeURIComponent(`Ana <${text}>`)),
    (text) => text.replace("@", "%40").toUpperCase(),
  ];
  fc.assert(
    fc.property(address, fc.constantFrom(...writings), (text, written) => {
      expect(personalForm("email", written(text)), written(text)).toBe(text);
    }),
  );
});

test.each([
  ["a@x.example, b@y.example", "a@x.example"],
  ["o'brien@example.com", "o'brien@example.com"],
  // It may be an address with a space in it, and then another person's.
  ["juan perez@example.com", "juan perez@example.com"],
  ["ana@localhost", "ana@localhost"],
  ["Ana <ana>", "ana <ana>"],
  ["100%", "100%"],
  ["%zz@example.com", "%zz@example.com"],
  ["not an address", "not an address"],
])("the e-mail %j is %j", (text, form) => expect(personalForm("email", text)).toBe(form));

test("only an e-mail is looked for an address: a name stays a text", () => {
  expect(personalForm("name", "Ana <ana@example.com>")).toBe("ana <ana@example.com>");
});

test("the forms of before are found too, once where they are the same", () => {
  expect(personalForms("phone", "+52 1 55 1234 5678")).toEqual(["+525512345678", "+5215512345678"]);
  expect(personalForms("email", "Ana <Ana@example.com>").slice(0, 2)).toEqual([
    "ana@example.com",
    "ana <ana@example.com>",
  ]);
});

test("an address is found under the common ones of its spellings from before form 3", () => {
  const found = personalForms("email", "Ana@example.com");
  expect(found[0]).toBe("ana@example.com");
  expect(found).toEqual(expect.arrayContaining(["mailto:ana@example.com", "ana%40example.com", "<ana@example.com>"]));
  expect(personalForms("email", "mailto:ana@example.com")).toEqual(expect.arrayContaining([...found]));
});

test("the file can be carried into a browser: it imports nothing and names nothing of Node", () => {
  const source = readFileSync("domain/personal/personal-form.ts", "utf8");
  expect(source).not.toMatch(/^import /m);
  expect(source).not.toMatch(/\b(Buffer|process|require)\b/);
});

test("a text is formed in time that grows with its length, whatever is in it", () => {
  const accents = (count: number): string => "\u0315".repeat(count / 2) + "\u0316".repeat(count / 2);
  for (const text of [accents(65_536), "\ufdfa".repeat(65_536), `${accents(1_000)} `.repeat(65)])
    for (const kind of kinds) {
      const began = process.cpuUsage();
      const form = personalForm(kind, text);
      expect(process.cpuUsage(began).user / 1_000, kind).toBeLessThan(500);
      expect(personalForm(kind, form)).toBe(form);
    }
});
