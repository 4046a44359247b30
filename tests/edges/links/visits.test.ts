// GET /c/<code>: the target of a visitor, its parameters, and the stored visit.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { clickIdKey, mint, verify } from "../../../domain/click-id.ts";
import type { ReferenceRows } from "../../../domain/reference/reference.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import {
  campaign,
  client,
  clientId,
  dayMs,
  hourMs,
  link,
  linkId,
  noon,
  partner,
  partnerId,
  referenceWith,
} from "../../support/builders.ts";
import { browser, deviceOf, formerSecret, type LinkHost, linkKeys, openLinkHost } from "../../support/link-host.ts";

let now = noon;
let rows: Partial<ReferenceRows> | null = {};
let failure: Error | undefined;
let host: LinkHost;
beforeAll(async () => {
  host = await openLinkHost({
    reference: () => (rows === null ? undefined : referenceWith(rows)),
    clock: () => now,
    store: async () => {
      if (failure !== undefined) throw failure;
    },
    expectRoom: () => {
      if (failure !== undefined) throw failure;
    },
    trustedProxies: ["loopback"],
  });
});
afterAll(() => host.close());
beforeEach(() => {
  [now, rows, failure] = [noon, {}, undefined];
});

interface Answer {
  readonly status: number;
  readonly to: URL | null;
  readonly cookie: string | null;
  readonly headers: Headers;
}
/** Sends a request as a browser at shop.example's tracking host, unless headers say otherwise. */
const visit = async (path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Answer> => {
  const all = { "user-agent": browser, "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9", ...headers };
  const response = await fetch(`${host.url}${path}`, { method, headers: all, redirect: "manual" });
  const location = response.headers.get("location");
  const to = location === null ? null : new URL(location);
  return { status: response.status, to, cookie: response.headers.get("set-cookie"), headers: response.headers };
};
const clickIn = (to: URL | null): string => to?.searchParams.get("svc_click_id") ?? "";
const last = () => host.stored.at(-1)!;
/** The records stored while `act` runs. */
const storedBy = async (act: () => Promise<unknown>) => {
  const before = host.stored.length;
  await act();
  return host.stored.slice(before);
};

describe("a visit to a link in use", () => {
  test("is redirected with a click id that proves itself, and asks no one to keep or list it", async () => {
    const { status, to, headers } = await visit("/c/promo");
    expect([status, to?.origin, to?.pathname]).toEqual([302, "https://shop.example", "/"]);
    expect(verify(clickIn(to), linkKeys)).toEqual({ link_id: linkId, clicked_at: noon });
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-robots-tag")).toBe("noindex");
    expect(headers.get("referrer-policy")).toBeNull();
  });

  test("is stored as a click with the address, browser and page that it came from", async () => {
    const answer = await visit("/c/promo?utm_source=radio", { referer: "https://radio.example/show" });
    expect(last()).toMatchObject({
      client_id: clientId,
      source: "link",
      t: "click",
      custom_name: null,
      ts: noon,
      click_id: clickIn(answer.to),
      ip: "203.0.113.9",
      ua: browser,
      ref: "https://radio.example/show",
      client_side: true,
      consent: 0xff,
      sender_event_id: null,
      url: `https://127.0.0.1:${host.port}/c/promo?utm_source=radio`,
    });
    expect(JSON.parse(last().props)).toEqual({ code: "promo", link_id: linkId, campaign_id: campaign().campaign_id });
  });

  test("is of the shop's device when the visitor brings its id, else of one that the visit makes up", async () => {
    await visit("/c/promo", { cookie: "_svc_did=phone-1" });
    expect(last().did).toBe(deviceOf("phone-1"));
    const { to } = await visit("/c/promo");
    expect(last().did).toBe(deviceOf(clickIn(to)));
  });

  test("two visits are two events, also within a millisecond", async () => {
    const seen = await storedBy(() => Promise.all([visit("/c/promo"), visit("/c/promo")]));
    expect(new Set(seen.map(({ event_id }) => event_id)).size).toBe(2);
  });

  test("keeps the page's own query as it is, and adds the visitor's parameters behind it", async () => {
    rows = { campaigns: [campaign({ destination_url: "https://shop.example/a?b=%20c&d#top" })] };
    const { to } = await visit("/c/promo?utm_source=x&b=mine&sub=1&svc_click_id=fake&_svc_cid=fake&SVC_x=1");
    expect(to?.href).toBe(`https://shop.example/a?b=%20c&d&utm_source=x&sub=1&svc_click_id=${clickIn(to)}#top`);
    expect(verify(clickIn(to), linkKeys)).toBeDefined();
  });

  test("a page whose stored query holds a click id gets the visitor's instead", async () => {
    rows = { campaigns: [campaign({ destination_url: "https://shop.example/?svc_click_id=old&x=1" })] };
    const { to } = await visit("/c/promo");
    expect(to?.searchParams.getAll("svc_click_id")).toHaveLength(1);
    expect(to?.searchParams.get("x")).toBe("1");
  });

  test("Global Privacy Control and Do Not Track travel with the click", async () => {
    await visit("/c/promo", { "sec-gpc": "1", dnt: "1" });
    expect(JSON.parse(last().props)).toMatchObject({ gpc: true, dnt: true });
  });

  test("an e-mail address in the link is hashed before it is stored", async () => {
    await visit("/c/promo?contact=ana%40correo.example", { referer: "https://x.example/?to=ana@correo.example" });
    expect(last().url).not.toContain("correo");
    expect(last().ref).not.toContain("correo");
    expect(last().warnings).toContain("pii_hashed");
  });

  test("a click is counted under its edge, with its answer", async () => {
    await visit("/c/promo");
    await expect.poll(() => host.counted.at(-1)).toMatchObject({ edge: "link", status: 302, accepted: 1 });
  });
});

describe("the cookie of the click", () => {
  test("lives as long as the client's click window, and only over https when it came by https", async () => {
    rows = { clients: [client({ click_window_days: 2 })] };
    const { cookie, to } = await visit("/c/promo");
    expect(cookie).toBe(`_svc_cid=${clickIn(to)}; Max-Age=${2 * 86_400}; Path=/; SameSite=Lax; Secure`);
    const plain = await visit("/c/promo", { "x-forwarded-proto": "http" });
    expect(plain.cookie).not.toContain("Secure");
  });

  test("a visit within the hour keeps its click id, and is an event of its own", async () => {
    const first = await visit("/c/promo");
    now = noon + hourMs - 1;
    const [again] = await storedBy(async () => {
      const second = await visit("/c/promo", { cookie: `a=b; _svc_cid=${clickIn(first.to)}` });
      expect(clickIn(second.to)).toBe(clickIn(first.to));
      expect(second.cookie).toContain(`Max-Age=${30 * 86_400 - 3_600};`);
    });
    expect(again).toMatchObject({ t: "click", click_id: clickIn(first.to), ts: now });
  });

  test("an hour later the visit is a click with an id of its own", async () => {
    const first = await visit("/c/promo");
    now = noon + hourMs;
    const second = await visit("/c/promo", { cookie: `_svc_cid=${clickIn(first.to)}` });
    expect(verify(clickIn(second.to), linkKeys)?.clicked_at).toBe(now);
  });

  test.each([
    ["of another link", mint(linkId + 1, noon, new Uint8Array(8), linkKeys[0])],
    ["of the future", mint(linkId, noon + 1, new Uint8Array(8), linkKeys[0])],
    ["with one bit changed", `${mint(linkId, noon, new Uint8Array(8), linkKeys[0]).slice(0, -1)}_`],
    ["under an unknown key", mint(linkId, noon, new Uint8Array(8), clickIdKey("q".repeat(32), 1))],
    ["that is none", "x".repeat(44)],
  ])("a click id %s is not kept", async (_, given) => {
    const { to } = await visit("/c/promo", { cookie: `_svc_cid=${given}` });
    expect(clickIn(to)).not.toBe(given);
    expect(verify(clickIn(to), linkKeys)).toEqual({ link_id: linkId, clicked_at: noon });
  });

  test("a click id under a former secret is kept, and new ones are under the newest", async () => {
    const former = mint(linkId, noon - 1, new Uint8Array(8), clickIdKey(formerSecret, 1));
    const { to } = await visit("/c/promo", { cookie: `_svc_cid=broken; _svc_cid=${former}` });
    expect(clickIn(to)).toBe(former);
    const fresh = await visit("/c/promo");
    expect(verify(clickIn(fresh.to), [linkKeys[0]])).toBeDefined();
    expect(verify(clickIn(fresh.to), [linkKeys[1]!])).toBeUndefined();
  });

  test("is not set where nothing is allowed before the visitor agrees; the click id travels all the same", async () => {
    rows = { clients: [client({ jurisdiction: "EU" })] };
    const { cookie, to } = await visit("/c/promo");
    expect([cookie, verify(clickIn(to), linkKeys)?.link_id]).toEqual([null, linkId]);
    expect(last().consent).toBe(0);
  });
});

describe("a visit that is no click", () => {
  test("HEAD is redirected as GET, and stored as filtered", async () => {
    const { status, to } = await visit("/c/promo", {}, "HEAD");
    expect([status, clickIn(to).length]).toEqual([302, 44]);
    expect(last()).toMatchObject({ t: "custom", custom_name: "click_filtered", click_id: clickIn(to) });
    expect(JSON.parse(last().props)).toMatchObject({ filtered: "head" });
  });

  test.each([
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.5.0",
    "facebookexternalhit/1.1",
  ])("%s is redirected, and stored as filtered", async (agent) => {
    expect((await visit("/c/promo", { "user-agent": agent })).status).toBe(302);
    expect([last().custom_name, JSON.parse(last().props).filtered]).toEqual(["click_filtered", "crawler"]);
  });
});

describe("a link that is not in use", () => {
  const fallback = "https://shop.example/over";
  test.each([
    [
      "the campaign is paused",
      { campaigns: [campaign({ status: "paused" as const, fallback_url: fallback })] },
      "campaign_inactive",
    ],
    [
      "the campaign has not begun",
      { campaigns: [campaign({ starts_at: noon + 1, fallback_url: fallback })] },
      "campaign_inactive",
    ],
    ["the campaign is over", { campaigns: [campaign({ ends_at: noon, fallback_url: fallback })] }, "campaign_inactive"],
    [
      "the link is off",
      { links: [link({ status: "archived" as const })], campaigns: [campaign({ fallback_url: fallback })] },
      "campaign_inactive",
    ],
    [
      "the partner is paused",
      { partners: [partner({ status: "paused" as const })], campaigns: [campaign({ fallback_url: fallback })] },
      "partner_inactive",
    ],
    [
      "the partner works for others now",
      {
        partners: [partner({ partner_id: partnerId, client_ids: [8] })],
        campaigns: [campaign({ fallback_url: fallback })],
      },
      "partner_inactive",
    ],
  ])("leads to the campaign's fallback without a click id when %s", async (_, given, reason) => {
    rows = { clients: [client({ fallback_url: "https://shop.example/client" })], ...given };
    const { status, to, cookie } = await visit("/c/promo?sub=1");
    expect([status, to?.href, cookie]).toEqual([302, `${fallback}?sub=1`, null]);
    expect(last()).toMatchObject({ custom_name: "click_filtered", click_id: null });
    expect(JSON.parse(last().props)).toMatchObject({ filtered: reason });
  });

  test("leads to the client's fallback when the campaign has none", async () => {
    const paused = [campaign({ status: "paused" })];
    rows = { clients: [client({ fallback_url: "https://shop.example/client" })], campaigns: paused };
    expect((await visit("/c/promo")).to?.href).toBe("https://shop.example/client");
  });

  test("is 404 when neither has one, and nothing is stored", async () => {
    rows = { campaigns: [campaign({ status: "paused" })] };
    const seen = await storedBy(async () => expect((await visit("/c/promo")).status).toBe(404));
    expect(seen).toEqual([]);
  });

  test("of a client that is archived leads to its fallback, and nothing is stored", async () => {
    rows = { clients: [client({ status: "archived", fallback_url: fallback })] };
    const seen = await storedBy(async () => expect((await visit("/c/promo")).to?.href).toBe(fallback));
    expect(seen).toEqual([]);
  });

  test("changes with the next picture of the reference data", async () => {
    expect((await visit("/c/promo")).to?.pathname).toBe("/");
    rows = { campaigns: [campaign({ destination_url: "https://shop.example/moved" })] };
    expect((await visit("/c/promo")).to?.pathname).toBe("/moved");
    rows = { links: [link({ recorded_at: noon + dayMs })] };
    expect((await visit("/c/promo")).status).toBe(404);
  });
});

describe("what cannot be answered yet", () => {
  test("is 503 with Retry-After while no place takes the click: no visitor is sent on unstored", async () => {
    failure = new Unavailable("no room", 2);
    const { status, headers, to } = await visit("/c/promo");
    expect([status, headers.get("retry-after"), to]).toEqual([503, "2", null]);
  });

  test("is 503 before the links are known", async () => {
    rows = null;
    expect((await visit("/c/promo")).status).toBe(503);
  });
});
