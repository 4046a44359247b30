// The shipped driver against a source over real HTTP: pages, faults, and addresses that it must
// never request.
import { afterEach, describe, expect, test } from "vitest";
import { getOutbound, mayBeAsked } from "../../infra/outbound/outbound.ts";
import { pullSettings } from "../../modules/intake/pulls/drivers/drivers.ts";
import { mmp } from "../../modules/intake/pulls/drivers/mmp.ts";
import { type SourceServer, startSource } from "../support/source-server.ts";

const opened: SourceServer[] = [];
afterEach(() => Promise.all(opened.splice(0).map((source) => source.close())));
const source = async (): Promise<SourceServer> => {
  const started = await startSource();
  opened.push(started);
  return started;
};
const window = { from: Date.UTC(2026, 10, 1), to: Date.UTC(2026, 10, 2) };
const row = (hour: number) => ({ event_time: `2026-11-01T0${hour}:00:00Z`, order_id: `o-${hour}` });
const allowed = ["127.0.0.0/8"];
const ask = ({ url }: SourceServer, cursor: string | null = null) =>
  mmp.fetch({ url, secret: "the credential", allowed }, window, cursor);

test("a window comes page by page, under the credential, until there is no cursor any more", async () => {
  const from = await source();
  from.has(row(1), row(2), row(3));
  const first = await ask(from);
  expect(first).toEqual({ rows: [row(1), row(2)], nextCursor: "2" });
  expect(await ask(from, first.nextCursor)).toEqual({ rows: [row(3)], nextCursor: null });
  expect(from.asked).toEqual([
    {
      ...{ from: "2026-11-01T00:00:00.000Z", to: "2026-11-02T00:00:00.000Z" },
      ...{ cursor: null, authorization: "Bearer the credential" },
    },
    expect.objectContaining({ cursor: "2" }),
  ]);
});

describe("an answer that is no page", () => {
  test.each<[string, object, string, string]>([
    ["500", { status: 500 }, "transient", "the source answers 500"],
    ["429", { status: 429 }, "transient", "the source answers 429"],
    ["401", { status: 401 }, "fatal", "its credential"],
    ["a redirect", { status: 302, headers: { location: "https://elsewhere.example/" } }, "fatal", "answers 302"],
    ["no JSON", { status: 200, body: "<html>" }, "fatal", "is no JSON"],
    ["null", { status: 200, body: "null" }, "fatal", "no list `rows`"],
    ["rows that are no list", { status: 200, body: '{"rows": {}}' }, "fatal", "no list `rows`"],
    ["a cursor that is no text", { status: 200, body: '{"rows": [], "next_cursor": 7}' }, "fatal", "next_cursor"],
    ["too many rows", { status: 200, body: `{"rows": [${"0,".repeat(10_000)}0]}` }, "fatal", "10001 rows"],
    ["9 MiB", { status: 200, body: " ".repeat(9 * 1024 * 1024) }, "fatal", "larger than 8388608 bytes"],
  ])("%s is refused or asked for again", async (_, trouble, verdict, message) => {
    const from = await source();
    from.troubles(trouble as never);
    await expect(ask(from)).rejects.toMatchObject({ verdict, message: expect.stringContaining(message) });
  });

  test("a source that hangs up is asked again", async () => {
    const from = await source();
    from.troubles("hangs up");
    await expect(ask(from)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await ask(from)).toEqual({ rows: [], nextCursor: null });
  });

  test("the cursor that was asked for is no next one", async () => {
    const from = await source();
    from.troubles({ status: 200, body: '{"rows": [], "next_cursor": "2"}' });
    await expect(ask(from, "2")).rejects.toThrow("next_cursor is the cursor that was asked for");
  });

  test("the wait that a source asks for is taken from Retry-After", async () => {
    const from = await source();
    from.troubles({ status: 503, headers: { "retry-after": "7" } });
    await expect(ask(from)).rejects.toMatchObject({ retryAfterMs: 7_000 });
  });
});

test("a source that is too slow is given up in time", async () => {
  const { url, troubles } = await source();
  troubles({ slowMs: 2_000 });
  const began = performance.now();
  const limits = { headers: {}, timeoutMs: 200, maxBytes: 1_000, allowed };
  await expect(getOutbound({ url: new URL(url), ...limits })).rejects.toMatchObject({
    ...{ name: "OutboundTimeout", verdict: "transient" },
  });
  expect(performance.now() - began).toBeLessThan(1_900);
});

describe("an address", () => {
  test.each([
    ...["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "192.0.0.1"],
    ...["198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.1", "::1"],
    ...[
      "::",
      "fc00::1",
      "fe80::1",
      "ff02::1",
      "::ffff:127.0.0.1",
      "::ffff:8.8.8.8",
      "64:ff9b::7f00:1",
      "2002:7f00:1::",
      "::7f00:1",
      "::10.0.0.1",
    ],
    ...["2001:db8::1", "2001::1", "not an address"],
  ])("%s may not be asked", (address) => expect(mayBeAsked(address, [])).toBe(false));

  test.each(["8.8.8.8", "2606:4700:4700::1111"])("%s may be asked", (address) =>
    expect(mayBeAsked(address, [])).toBe(true),
  );

  test("of a network that an operator allowed may be asked, and of no other private one", () => {
    expect(mayBeAsked("10.20.0.9", ["10.20.0.0/16"])).toBe(true);
    expect(mayBeAsked("::ffff:10.20.0.9", ["10.20.0.0/16"])).toBe(true);
    expect(mayBeAsked("10.21.0.9", ["10.20.0.0/16", "fd00::/8"])).toBe(false);
  });

  test.each([
    ["an address of this machine", "127.0.0.1"],
    ["a name of this machine", "localhost"],
  ])("%s gets no request unless it is allowed", async (_, host) => {
    const from = await source();
    const url = new URL(from.url);
    url.hostname = host;
    const asked = { url, headers: {}, timeoutMs: 5_000, maxBytes: 1_000_000 };
    await expect(getOutbound({ ...asked, allowed: [] })).rejects.toThrow("is no public address");
    expect(from.asked).toEqual([]);
    const answer = await getOutbound({ ...asked, allowed: ["127.0.0.0/8", "::1/128"] });
    expect([answer.status, from.asked.length]).toEqual([200, 1]);
  });

  test.each([
    ["http://8.8.8.8/", "by https at port 443 or 8443 alone"],
    ["https://8.8.8.8:444/", "by https at port 443 or 8443 alone"],
    ["ftp://8.8.8.8/", "give https"],
    ["https://user:secret@8.8.8.8/", "holds no password"],
    ["https://[::1]/", "is no public address"],
    ["https://0x7f000001/", "is no public address"],
    ["https://2130706433/", "is no public address"],
  ])("%s is refused before anything is sent", async (address, message) => {
    const asked = getOutbound({ url: new URL(address), headers: {}, timeoutMs: 5_000, maxBytes: 1, allowed: [] });
    await expect(asked).rejects.toMatchObject({ name: "OutboundRefused", message: expect.stringContaining(message) });
  });
});

test("settings of pulls name a driver that there is, an address, and how far to look back", () => {
  const good = { driver: "mmp", url: "https://mmp.example/v1/events" };
  expect(pullSettings.parse(good)).toEqual({ ...good, look_back_days: 1 });
  for (const bad of [{ driver: "other" }, { url: "file:///etc/passwd" }, { look_back_days: 31 }, { more: 1 }])
    expect(pullSettings.safeParse({ ...good, ...bad }).success, JSON.stringify(bad)).toBe(false);
});
