// POST /postback/generic and /postback/external/:source over HTTP, in this process.

import { createHmac } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { sourceKinds } from "../../../domain/sources/source.ts";
import { inMemoryWire } from "../../../infra/avro/wire.ts";
import { readmitted } from "../../../modules/intake/path/refused-events.ts";
import type { TakenPayload } from "../../../modules/intake/sources/payloads.ts";
import { sourceFactsOf } from "../../../modules/intake/sources/source-facts.ts";
import { sourceSecrets } from "../../../modules/intake/sources/source-fields.ts";
import { letterHeaders } from "../../../stream/dead-letters.ts";
import { topics } from "../../../topics.ts";
import { clientId } from "../../support/builders.ts";
import { type EdgeHost, edgeKeyring, openEdgeHost } from "../../support/edge-host.ts";
import { type GivenSource, knownSources } from "../../support/known-sources.ts";
import { token as facts } from "../../support/shop.ts";

const mapping = {
  mapping: { event_name: "event", dedup_key: "id", value: "amount", partner_param: "sub" },
  constants: {},
  event_names: { sale: "purchase" },
};
const payload = { event: "sale", id: "T-1", amount: "12.50", sub: "ref-7" };
const secret = "whsec_c2VjcmV0IG9mIGEgc291cmNlLCAyNCBieXRlcw==";
const hosts: EdgeHost[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const host of hosts.splice(0)) await host.close();
});

const opened = async (given: readonly GivenSource[]) => {
  const kept: TakenPayload[] = [];
  const sources = knownSources(given);
  const host = await openEdgeHost(undefined, {
    sources,
    keepPayload: async (one) => void kept.push(one),
  });
  hosts.push(host);
  const send = async (path: string, body?: unknown, init: RequestInit = {}) => {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const sent = body === undefined ? {} : { method: "POST", body: text };
    const headers = { "Content-Type": "application/json", ...init.headers };
    const answer = await fetch(`http://127.0.0.1:${host.port}${path}`, { ...sent, ...init, headers });
    return { status: answer.status, body: (await answer.json().catch(() => null)) as any };
  };
  return { host, kept, sources, send };
};
const generic = `/postback/generic?client_id=${clientId}`;

describe("POST /postback/generic", () => {
  test("takes a payload, and answers its repetition as a duplicate of the same event", async () => {
    const { host, kept, send } = await opened([{ source_id: 1, mapping }]);
    const first = await send(generic, payload);
    expect(first).toMatchObject({ status: 200, body: { status: "accepted" } });
    expect(await send(generic, { ...payload, amount: 3 })).toEqual({
      status: 200,
      body: { status: "duplicate", event_id: first.body.event_id },
    });
    expect(host.events).toHaveLength(1);
    expect(host.events[0]).toMatchObject({ t: "purchase", partner_ref: "ref-7", dedup_key: "T-1", value_minor: 1250n });
    expect(kept.map(({ outcome }) => outcome)).toEqual(["accepted", "duplicate"]);
  });
  test("names the logical field, its path and what was found, and keeps a letter", async () => {
    const { host, kept, send } = await opened([{ source_id: 1, mapping }]);
    const { status, body } = await send(generic, { ...payload, amount: { gross: 1 } });
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: "validation_failed", field: "value", path: "amount" });
    expect(body.detail).toContain('value at "amount" found an object');
    expect(host.letters).toHaveLength(1);
    expect(host.letters[0]!.topic).toBe("s2s.dlq");
    expect(host.letters[0]!.value!.toString("latin1")).not.toContain("T-1");
    expect(kept).toMatchObject([{ outcome: "refused", code: "bad_field" }]);
  });
  test("a letter comes back when its mapping was corrected, under the id of its key", async () => {
    const { host, send } = await opened([{ source_id: 1, mapping }]);
    await send(generic, { ...payload, amount: { gross: 4 } });
    const [letter] = host.letters;
    const wire = inMemoryWire([topics.eventsRaw]);
    const corrected = { ...mapping, mapping: { ...mapping.mapping, value: "amount.gross" } };
    const again = async (of: typeof mapping, over: Partial<GivenSource> = {}) =>
      (await readmitted(
        {
          keyring: edgeKeyring,
          wire,
          facts: () => facts(),
          moreFacts: {
            generic: sourceFactsOf(knownSources([{ source_id: 1, mapping: of, ...over }]), { bearCredential: false }),
          },
          clock: Date.now,
        },
        { value: letter!.value!, headers: letter!.headers! },
        { root: "root", first: { topic: "s2s.dlq", partition: 0, offset: 1 } },
      ))!;
    expect((await again(mapping))[0]!.topic).toBe("s2s.dlq");
    expect((await again(corrected, { state: "paused" }))[0]!.headers![letterHeaders.code]).toBe("source_not_active");
    const [record] = await again(corrected);
    const { data } = wire.decode(topics.eventsRaw, record!.value, { topic: "events.raw", partition: 0, offset: 0 });
    expect(data).toMatchObject({ t: "purchase", value_minor: 400n, dedup_key: "T-1" });
    const taken = await send(generic, payload);
    expect(data.event_id).toBe(taken.body.event_id);
  });
  test.each([
    ["a list", "[]"],
    ["no JSON", "{"],
    ["a forbidden key", '{"__proto__":{"id":"1"}}'],
    ["an empty body", ""],
  ])("%s is refused with a letter, and pollutes no prototype", async (_, text) => {
    const { host, send } = await opened([{ source_id: 1, mapping }]);
    expect((await send(generic, text)).status).toBe(400);
    expect(host.letters).toHaveLength(1);
    expect(({} as { id?: unknown }).id).toBeUndefined();
  });
  test("which client and source are meant is said, and known", async () => {
    const two = [
      { source_id: 1, mapping },
      { source_id: 2, slug: "other", mapping },
      { source_id: 3, slug: "draft", state: "draft" as const, mapping },
    ];
    const { host, send } = await opened(two);
    const statusOf = async (query: string) => (await send(`/postback/generic${query}`, payload)).status;
    expect(await statusOf("")).toBe(400);
    expect(await statusOf(`?client_id=${clientId}&client_id=2`)).toBe(400);
    expect(await statusOf("?client_id=1e3")).toBe(400);
    expect(await statusOf("?client_id=999999")).toBe(404);
    expect(await statusOf(`?client_id=${clientId}`)).toBe(400);
    expect(await statusOf(`?client_id=${clientId}&source=draft`)).toBe(404);
    expect(await statusOf(`?client_id=${clientId}&source=other`)).toBe(200);
    expect(host.letters).toEqual([]);
    expect(host.events[0]!.source).toBe("generic:other");
  });
  test.each(sourceKinds.filter((kind) => kind !== "generic"))(
    "no stranger sends in the name of a source of kind %s, whose key this door does not ask for",
    async (kind) => {
      const keyed = { source_id: 3, kind, mapping, key: "trb_source_one" };
      const { host, send } = await opened([{ ...keyed }, { ...keyed, source_id: 4, slug: "sealed", secret }]);
      expect((await send(`${generic}&source=network`, payload)).status).toBe(404);
      expect((await send(`${generic}&source=network&key=trb_source_one`, payload)).status).toBe(404);
      expect((await send(`${generic}&source=sealed`, payload)).status).toBe(401);
      expect(host.events).toEqual([]);
      const text = JSON.stringify(payload);
      const own = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
        .update(text)
        .digest("hex");
      const signed = { headers: { "x-svc-signature": own } };
      expect((await send(`${generic}&source=sealed`, text, signed)).status).toBe(200);
    },
  );
});

describe("who may send in the name of a source", () => {
  const text = JSON.stringify(payload);
  const signedBy = (whsec: string) => {
    const mac = createHmac("sha256", Buffer.from(whsec.slice(6), "base64"))
      .update(text)
      .digest("hex");
    return { "x-svc-signature": mac };
  };
  const oldSecret = "whsec_YW5vdGhlciBzZWNyZXQsIDI0IGJ5dGVzIGFnbw==";
  const unsignedTaken = (kind: string) => (kind === "generic" ? 200 : 404);
  /** A way to send, and its status for a source with a secret, and for one of this kind without. */
  type Way = readonly [string, string, Record<string, string>, number, (kind: string) => number];
  const external = (key: string) => `/postback/external/network${key && `?key=${key}`}`;
  const at = `${generic}&source=network`;
  const ways: readonly Way[] = [
    ["/postback/generic, no credential", at, {}, 401, unsignedTaken],
    ["/postback/generic, the key", `${at}&key=key-now`, {}, 401, unsignedTaken],
    ["/postback/generic, a wrong signature", at, { "x-svc-signature": "0".repeat(64) }, 401, unsignedTaken],
    ["/postback/generic, a signature of the secret before", at, signedBy(oldSecret), 401, unsignedTaken],
    ["/postback/generic, the signature", at, signedBy(secret), 200, unsignedTaken],
    ["/postback/external, no credential", external(""), {}, 401, () => 401],
    ["/postback/external, a wrong key", external("key-not"), {}, 401, () => 401],
    ["/postback/external, the key before", external("key-old"), {}, 401, () => 401],
    ["/postback/external, the key", external("key-now"), {}, 401, () => 200],
    ["/postback/external, the key before and the signature", external("key-old"), signedBy(secret), 401, () => 401],
    ["/postback/external, the key and the signature before", external("key-now"), signedBy(oldSecret), 401, () => 200],
    ["/postback/external, the key and the signature", external("key-now"), signedBy(secret), 200, () => 200],
    ["/postback/external, the signature alone", external(""), signedBy(secret), 401, () => 401],
  ];
  const table = sourceKinds.flatMap((kind) => ways.map((way) => [kind, ...way] as const));
  test.each(table)("kind %s at %s", async (kind, _, path, headers, withSecret, withoutSecret) => {
    for (const isSigned of [true, false]) {
      const before = { source_id: 9, kind, mapping, key: "key-old", ...(isSigned && { secret: oldSecret }) };
      const given: GivenSource[] = [before];
      const { host, send } = await opened(given);
      given[0] = { ...before, key: "key-now", ...(isSigned && { secret }) };
      const status = isSigned ? withSecret : withoutSecret(kind);
      expect((await send(path, text, { headers })).status, `signed: ${isSigned}`).toBe(status);
      expect(host.events).toHaveLength(status === 200 ? 1 : 0);
    }
  });
  test.each(sourceKinds)("kind %s at GET, whose query bears no signature", async (kind) => {
    const keyed = { source_id: 9, kind, mapping, key: "key-now" };
    const query = "/postback/external/network?key=key-now&event=sale&id=T-9&amount=7";
    const { send } = await opened([keyed]);
    expect((await send(query)).status).toBe(200);
    const { host, send: toSigned } = await opened([{ ...keyed, secret }]);
    expect((await toSigned(query)).status).toBe(401);
    expect(host.events).toEqual([]);
  });
  test.each(ways)("an unsigned source whose payloads move no money, at %s", async (_, path, headers, ...statuses) => {
    for (const isSigned of [true, false]) {
      const source = { source_id: 9, kind: "generic" as const, mapping, key: "key-now", movesMoney: false };
      const { host, send } = await opened([{ ...source, ...(isSigned && { secret }) }]);
      const bears = isSigned ? statuses[0] === 200 : path === external("key-now");
      const open = isSigned ? statuses[0] : statuses[1]("generic");
      const { status, body } = await send(path, text, { headers });
      expect(status, `signed: ${isSigned}`).toBe(open === 200 && !bears ? 400 : open);
      if (bears) expect(host.events).toMatchObject([{ t: "purchase", value_minor: 1_250n, partner_ref: "ref-7" }]);
      else expect([host.events, body.errors?.[0].code]).toEqual([[], open === 200 ? "unsigned_money" : undefined]);
    }
  });
  test("a keyed payload that was refused comes back with its money, an unsigned one without", async () => {
    const unsigned = { source_id: 9, mapping, key: "key-now", movesMoney: false };
    const bad = { ...payload, amount: { gross: 4 } };
    const { host, send } = await opened([unsigned]);
    for (const path of [external("key-now"), at]) expect((await send(path, bad)).status).toBe(400);
    const wire = inMemoryWire([topics.eventsRaw]);
    const corrected = { ...mapping, mapping: { ...mapping.mapping, value: "amount.gross" } };
    const sources = knownSources([{ ...unsigned, mapping: corrected }]);
    const moreFacts = {
      generic: sourceFactsOf(sources, { bearCredential: false }),
      external: sourceFactsOf(sources, { bearCredential: true }),
    };
    const came = await Promise.all(
      host.letters.map(async ({ value, headers }) => {
        const [record] = (await readmitted(
          { keyring: edgeKeyring, wire, facts: () => facts(), moreFacts, clock: Date.now },
          { value: value!, headers: headers! },
          { root: "root", first: { topic: "s2s.dlq", partition: 0, offset: 1 } },
        ))!;
        const place = { topic: "events.raw", partition: 0, offset: 0 };
        return record!.topic === "s2s.dlq"
          ? record!.headers![letterHeaders.code]
          : wire.decode(topics.eventsRaw, record!.value, place).data.value_minor;
      }),
    );
    expect(came).toEqual([400n, "unsigned_money"]);
  });
  test("an unsigned sale waits until its source may move money", async () => {
    const { host, send } = await opened([{ source_id: 1, mapping, movesMoney: false }]);
    const { status, body } = await send(generic, payload);
    expect([status, body.errors[0].code, body.field]).toEqual([400, "unsigned_money", "event_name"]);
    expect([host.events.length, host.letters.length]).toEqual([0, 1]);
    expect((await send(generic, { ...payload, event: "ext_trial" })).status).toBe(200);
    expect(host.events[0]).toMatchObject({ t: "custom", custom_name: "ext_trial", partner_ref: null });
  });
  test("what came unsigned takes no key of a signed sale, and its mark is another one", async () => {
    const unsigned = { source_id: 1, mapping, movesMoney: false };
    const before = await opened([unsigned]);
    const first = await before.send(generic, { ...payload, event: "ext_trial" });
    const source = { ...unsigned, slug: "open", kind: "generic" as const, key: "key-now" };
    const { host, send } = await opened([source]);
    await send(`${generic}&source=open`, { ...payload, event: "ext_trial" });
    const sale = await send("/postback/external/open?key=key-now", payload);
    expect(sale).toMatchObject({ status: 200, body: { status: "accepted" } });
    expect(host.events.map(({ t, value_minor }) => [t, value_minor])).toEqual([
      ["custom", 1250n],
      ["purchase", 1250n],
    ]);
    expect(new Set([first.body.event_id, sale.body.event_id]).size).toBe(2);
  });
  test("an address sends 600 unsigned payloads of a source in a second, and signed ones without a limit", async () => {
    // The whole test is one second.
    vi.spyOn(performance, "now").mockReturnValue(5_000);
    const { host, send } = await opened([
      { source_id: 1, mapping },
      { source_id: 2, slug: "sealed", mapping, secret },
    ]);
    const statusesOf = async (path: string, headers = {}) => {
      const statuses: number[] = [];
      for (let n = 0; n < 610; n += 1) statuses.push((await send(path, text, { headers })).status);
      return statuses;
    };
    const unsigned = await statusesOf(`${generic}&source=network`);
    expect([unsigned.slice(0, 600), unsigned.slice(600)]).toEqual([Array(600).fill(200), Array(10).fill(429)]);
    expect(new Set(await statusesOf(`${generic}&source=sealed`, signedBy(secret)))).toEqual(new Set([200]));
    expect(host.letters).toEqual([]);
  });
});

describe("a source with a secret", () => {
  const text = JSON.stringify(payload);
  const key = Buffer.from(secret.slice(6), "base64");
  const own = createHmac("sha256", key).update(text).digest("hex");
  const trio = (at: number) => ({
    "webhook-id": "msg_1",
    "webhook-timestamp": String(at),
    "webhook-signature": `v1,AAAA v1,${createHmac("sha256", key).update(`msg_1.${at}.${text}`).digest("base64")}`,
  });
  const now = Math.floor(Date.now() / 1_000);
  test.each<[string, Record<string, string>, number]>([
    ["X-Svc-Signature", { "x-svc-signature": own }, 200],
    ["the three of Standard Webhooks", trio(now), 200],
    ["three of an hour ago", trio(now - 3_600), 401],
    ["none", {}, 401],
    ["one with another digit", { "x-svc-signature": own.replace(/^./, (one) => (one === "0" ? "1" : "0")) }, 401],
    ["one of 63 digits", { "x-svc-signature": own.slice(1) }, 401],
  ])("%s", async (_, headers, status) => {
    const { host, send } = await opened([{ source_id: 1, mapping, secret }]);
    expect((await send(generic, text, { headers })).status).toBe(status);
    expect(host.letters).toEqual([]);
  });
  test("keeps a letter of each body that is no JSON; of an unsigned source a sample stands for them", async () => {
    // The whole test is one minute.
    vi.spyOn(performance, "now").mockReturnValue(5_000);
    const { host, send } = await opened([
      { source_id: 1, mapping },
      { source_id: 2, slug: "sealed", mapping, secret },
    ]);
    const lettersOf = async (source: string) => {
      const before = host.letters.length;
      for (let n = 0; n < 12; n += 1) {
        const body = `{{{ ${n}`;
        const signature = createHmac("sha256", key).update(body).digest("hex");
        expect(
          (await send(`${generic}&source=${source}`, body, { headers: { "x-svc-signature": signature } })).status,
        ).toBe(400);
      }
      return host.letters.slice(before).map(({ headers }) => headers![letterHeaders.stranger]);
    };
    expect(await lettersOf("network")).toEqual(Array(5).fill("1"));
    expect(await lettersOf("sealed")).toEqual(Array(12).fill(undefined));
  });
  test.each([
    ["whsec_!!!!!!!!!!!!", "is no base64"],
    ["whsec_c2hvcnQga2V5", "stands for 9 bytes"],
    ["fifteen letters", "is too short"],
  ])("is refused when it is saved: %s %s, and others could make the signature", (text) => {
    expect(sourceSecrets.secret.safeParse(text).success).toBe(false);
    expect(sourceSecrets.secret.safeParse(secret).success).toBe(true);
  });
  test("and a list of addresses takes no other one", async () => {
    const { send } = await opened([{ source_id: 1, mapping, allow_ips: ["203.0.113.0/24"] }]);
    expect(await send(generic, payload)).toMatchObject({ status: 403, body: { code: "address_not_allowed" } });
    const { send: near } = await opened([{ source_id: 1, mapping, allow_ips: ["127.0.0.0/8", "::1"] }]);
    expect((await near(generic, payload)).status).toBe(200);
  });
});

describe("/postback/external/:source?key=", () => {
  const keyed = { source_id: 9, kind: "postback_network" as const, mapping, key: "trb_source_one" };
  test("GET reads the query as the payload, without its key", async () => {
    const { host, kept, send } = await opened([keyed]);
    const query = "key=trb_source_one&event=sale&id=T-9&amount=7&sub=ref-7";
    expect(await send(`/postback/external/network?${query}`)).toMatchObject({
      status: 200,
      body: { status: "accepted" },
    });
    expect((await send(`/postback/external/src_9?${query}`)).body.status).toBe("duplicate");
    expect(host.events[0]).toMatchObject({ dedup_key: "T-9", value_minor: 700n });
    expect(Buffer.from(kept[0]!.bytes).toString()).not.toContain("trb_source");
  });
  test("POST takes a body; a key that was replaced, or is another source's, opens nothing", async () => {
    const given: GivenSource[] = [keyed, { ...keyed, source_id: 10, slug: "second", key: "trb_source_two" }];
    const { host, send } = await opened(given);
    expect((await send("/postback/external/network?key=trb_source_one", payload)).status).toBe(200);
    expect((await send("/postback/external/second?key=trb_source_one", payload)).status).toBe(401);
    expect((await send("/postback/external/network", payload)).status).toBe(401);
    given[0] = { ...keyed, key: "trb_source_new" };
    expect((await send("/postback/external/network?key=trb_source_one", payload)).status).toBe(401);
    expect((await send("/postback/external/network?key=trb_source_new", { ...payload, id: "T-2" })).status).toBe(200);
    expect(host.events).toHaveLength(2);
  });
  test("POST takes a form too, as many networks send it; its signature is over its bytes", async () => {
    const form = (body: string, more: Record<string, string> = {}) => ({
      body,
      headers: { "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8", ...more },
    });
    const { host, kept, send } = await opened([keyed, { ...keyed, source_id: 11, slug: "sealed", key: "k2", secret }]);
    const path = "/postback/external/network?key=trb_source_one";
    const given = form("event=sale&id=F-1&amount=12.50&sub=ref+7&id=F-2&key=trb_source_one&__proto=1");
    expect(await send(path, given.body, given)).toMatchObject({ status: 200, body: { status: "accepted" } });
    expect(host.events[0]).toMatchObject({ dedup_key: "F-1", value_minor: 1_250n, partner_ref: "ref 7" });
    expect(Buffer.from(kept[0]!.bytes).toString()).not.toContain("trb_source");
    const forbidden = form("event=sale&id=F-3&__proto__=1");
    expect((await send(path, forbidden.body, forbidden)).body.errors[0].code).toBe("bad_key");
    const missing = form("event=sale&amount=1");
    expect((await send(path, missing.body, missing)).body).toMatchObject({ field: "dedup_key", path: "id" });
    const parts = { headers: { "Content-Type": "multipart/form-data" } };
    expect((await send(path, "x", parts)).status).toBe(415);
    // Where the specification only takes JSON, other types are refused.
    expect((await send(`${generic}&source=sealed`, given.body, given)).status).toBe(415);

    const text = "event=sale&id=F-4&amount=1";
    const own = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
      .update(text)
      .digest("hex");
    const signed = form(text, { "x-svc-signature": own });
    expect((await send("/postback/external/sealed?key=k2", text, signed)).status).toBe(200);
    const other = { ...signed, body: `${text}0` };
    expect((await send("/postback/external/sealed?key=k2", other.body, other)).status).toBe(401);
  });
  test("HEAD brings no event", async () => {
    const { host, send } = await opened([keyed]);
    const path = "/postback/external/network?key=trb_source_one&event=sale&id=1&amount=1";
    expect((await send(path, undefined, { method: "HEAD" })).status).toBe(405);
    expect(host.events).toEqual([]);
  });
});
