// TRIBUTARY_SECRET as a list: which secret signs, which ones verify, and which one stays the
// pepper.
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Keyring, keyringOf } from "../../infra/runtime/keyring.ts";
import { fingerprintOf } from "../../modules/access/secrets/installation-secrets.ts";
import { type RotationFacts, rotationOf } from "../../modules/access/secrets/rotation.ts";
import { seal, sealedUnder, unseal } from "../../modules/access/secrets/seal.ts";

const secret = () => randomBytes(32).toString("base64");
const [first, second, third] = [secret(), secret(), secret()] as const;

describe("the list", () => {
  test.each<[string, Keyring]>([
    [first, { newest: first, accepted: [first], pepper: first }],
    [`${second},${first}`, { newest: second, accepted: [second, first], pepper: first }],
    [`${second} ,\n ${first}`, { newest: second, accepted: [second, first], pepper: first }],
    [`${second},pepper:${first}`, { newest: second, accepted: [second], pepper: first }],
    [`${third},${second},pepper:${first}`, { newest: third, accepted: [third, second], pepper: first }],
    [`${first}%2Cx`, { newest: `${first},x`, accepted: [`${first},x`], pepper: `${first},x` }],
  ])("is read from the newest to the pepper (%#)", (text, keyring) => expect(keyringOf(text)).toEqual(keyring));

  test("keeps the line feed that a secret read from a file ends in: it was hashed with it before", () => {
    expect(keyringOf(`${first}\n`).pepper).toBe(`${first}\n`);
    expect(keyringOf(`${second},${first}\n`)).toMatchObject({ newest: second, pepper: `${first}\n` });
    expect(keyringOf(`${second}\n,pepper:${first}\n`)).toMatchObject({ newest: second, pepper: `${first}\n` });
  });

  test.each([
    ["", "must have at least 32 characters"],
    [`${second},short`, "secret 2 of 2 must have at least 32 characters (a comma separates two)"],
    [`${"s".repeat(64)},${first}`, "secret 1 of 2 can be guessed"],
    [`${first},${first}`, "names one secret twice"],
    [`pepper:${second},${first}`, "pepper: belongs in front of the last secret"],
    [`pepper:${first}`, "nothing signs"],
    [`${second},`, "secret 2 of 2 must have"],
  ])("that is wrong is refused in one sentence, without a value (%#)", (text, why) => {
    const refusal = (): string => {
      try {
        return String(keyringOf(text));
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(refusal()).toContain(why);
    for (const value of [first, second]) expect(refusal()).not.toContain(value);
  });
});

describe("a sealed value", () => {
  const [old, both, alone] = [first, `${second},${first}`, `${second},pepper:${first}`].map(keyringOf) as [
    Keyring,
    Keyring,
    Keyring,
  ];

  test("is read by every list that has its secret, and names the secret that a list lacks", () => {
    const sealed = seal("the hmac secret of a client", "client_secrets/7", old);
    expect(sealed).not.toContain("hmac");
    for (const keyring of [old, both]) expect(unseal(sealed, "client_secrets/7", keyring)).toMatch(/^the hmac secret/);
    expect(() => unseal(sealed, "client_secrets/7", alone)).toThrow(`under the secret ${fingerprintOf(first)}`);
    expect(sealedUnder(seal("x", "p", both))).toBe(fingerprintOf(second));
  });

  test("is good in its own row alone, and unchanged", () => {
    const sealed = seal("the hmac secret of a client", "client_secrets/7", old);
    expect(() => unseal(sealed, "client_secrets/8", old)).toThrow("it was changed, or moved from another row");
    const changed = sealed.replace(/.(?=.{9}$)/, (one) => (one === "A" ? "B" : "A"));
    expect(() => unseal(changed, "client_secrets/7", old)).toThrow("it was changed");
    expect(() => unseal(`${sealed.slice(0, 30)}AAAA`, "client_secrets/7", old)).toThrow("it was changed");
  });

  test("of a release before sealing is its own text", () => {
    expect([unseal("ab".repeat(32), "p", old), sealedUnder("ab".repeat(32))]).toEqual(["ab".repeat(32), null]);
  });
});

describe("the next step of a rotation", () => {
  const day = 86_400_000;
  const now = Date.UTC(2026, 5, 1);
  const [f1, f2] = [fingerprintOf(first), fingerprintOf(second)];
  const known = (fingerprint: string, is_pepper = false) => ({ fingerprint, is_pepper, first_used_at: 0 });
  const holder = (instance: string, newest: string, started_at = now - day) => ({
    instance,
    newest,
    accepted: [newest],
    started_at,
    seen_at: now,
    ruled_out_at: null as number | null,
  });
  const step = (list: string, facts: Partial<RotationFacts>) =>
    rotationOf({
      keyring: keyringOf(list),
      secrets: [known(f1, true)],
      holders: [holder("ingest", f1)],
      sealed: new Map([[f1, 3]]),
      longestWindowDays: 60,
      now,
      ...facts,
    });

  test("is to begin while there is one secret", () => {
    expect(step(first, {})).toMatchObject({
      step: "begin",
      secrets: [{ fingerprint: f1, does: "signs, seals, pepper", sealed: 3, signs_in: ["ingest"] }],
    });
  });

  test("is to seal what an earlier release left in plain text", () =>
    expect(step(first, { sealed: new Map([[null, 2]]) })).toMatchObject({ step: "reseal" }));

  test("names the processes that have not got the new list", () => {
    const { step: is, next } = step(`${second},${first}`, { holders: [holder("ingest", f1), holder("worker", f2)] });
    expect([is, next.endsWith("still without it: ingest")]).toEqual(["restart", true]);
  });

  test("is to seal again, then to wait for the longest window since the last restart, then to retire the old", () => {
    const moved = { holders: [holder("ingest", f2, now - 10 * day), holder("worker", f2, now - 20 * day)] };
    const list = `${second},${first}`;
    expect(step(list, moved)).toMatchObject({ step: "reseal" });
    const sealed = new Map([[f2, 3]]);
    expect(step(list, { ...moved, sealed })).toMatchObject({ step: "wait" });
    expect(step(list, { ...moved, sealed }).next).toContain("until 2026-07-21");
    expect(step(list, { ...moved, sealed, now: now + 51 * day })).toMatchObject({ step: "retire" });
    expect(step(`${second},pepper:${first}`, { ...moved, sealed })).toMatchObject({
      step: "begin",
      secrets: [
        { fingerprint: f2, does: "signs, seals" },
        { fingerprint: f1, does: "pepper" },
      ],
    });
  });

  test("names a process that has not reported for ten minutes, and waits for it until it is ruled out", () => {
    const sealed = new Map([[f2, 3]]);
    const gone = { ...holder("edge-7", f1, now - 90 * day), seen_at: now - day };
    const moved = holder("worker", f2, now - 20 * day);
    const list = `${second},${first}`;
    const stands = step(list, { sealed, holders: [moved, gone, holder("edge-8", f1)] });
    expect(stands.step).toBe("restart");
    expect(stands.next).toContain("still without it: edge-7, edge-8. Not heard of for ten minutes: edge-7; when you");
    expect(stands.secrets.map(({ silent }) => silent)).toEqual([[], ["edge-7"]]);
    expect(step(list, { sealed, holders: [moved, { ...gone, seen_at: now - 9 * 60_000 }] }).next).not.toContain(
      "heard",
    );

    const after = step(list, { sealed, holders: [moved, { ...gone, ruled_out_at: now }] });
    expect(after.step).toBe("wait");
    expect(after.secrets.map(({ signs_in }) => signs_in)).toEqual([["worker"], []]);
    // It was last seen a day ago, and may have signed with the old secret until then.
    expect(after.next).toContain("until 2026-07-30");
  });

  test("is to put back a secret that stored values still need", () =>
    expect(step(`${second},pepper:${first}`, {})).toMatchObject({ step: "put_back" }));
});
