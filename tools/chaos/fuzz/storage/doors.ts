// Every public door with the shapes that cost most to store: tiny events, noise that no store makes
// shorter, personal data that is hashed to longer texts, characters that grow in JSON, bodies that
// become dead letters, and requests that are refused.
import type { Random } from "../bodies.ts";
import { type Door, type HostileRequest, json, mails, noise, personal, type Shape, type World } from "./door.ts";

/** As many as a body of 64 KiB holds. */
const PIXEL_EVENTS = 100;
const AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";

const list = (count: number, one: (n: number) => object): readonly object[] =>
  Array.from({ length: count }, (_, n) => one(n));

const pixelPost = (what: string, body: (random: Random, n: number) => unknown): Shape => ({
  what,
  make: (random, n) => {
    const given = body(random, n);
    const text = typeof given === "string" ? given : JSON.stringify(given);
    return { method: "POST", path: "/e", headers: { "content-type": "text/plain" }, body: text };
  },
});

const pixelEvents = ({ clientId: cid, run }: World): Door => {
  const envelope = (n: number, events: readonly object[]) => ({ cid, did: `${run}${n}`, events });
  return {
    name: "pixel",
    app: "pixel",
    shapes: [
      pixelPost("a hundred tiny events", (_, n) =>
        envelope(
          n,
          list(PIXEL_EVENTS, (at) => ({ t: "x", ts: Date.now() - at })),
        ),
      ),
      pixelPost("short e-mails", (random, n) =>
        envelope(n, [{ t: "x", ts: Date.now(), props: { a: mails(random, 900) } }]),
      ),
      pixelPost("a tiny event of a new device each", (_, n) => ({
        cid,
        ...{ did: `${run}${n}`, t: "x", ts: Date.now() },
      })),
      pixelPost("noise", (random, n) => envelope(n, [{ t: "x", ts: Date.now(), props: { a: noise(random, 60_000) } }])),
      pixelPost("letters under personal keys", (random, n) =>
        envelope(n, [{ t: "x", ts: Date.now(), props: { a: personal(random, 900) } }]),
      ),
      pixelPost("many warnings", (_, n) =>
        envelope(
          n,
          list(PIXEL_EVENTS, (at) => ({
            ...{ t: "purchse", ts: Date.now() + 9_000 + at, props: { product_line: "?", quantity: -1, value: "?" } },
          })),
        ),
      ),
    ],
  };
};

/** What the pixel refuses, apart from what it takes: other limits hold for it. */
const pixelLetters = ({ clientId: cid, run }: World): Door => ({
  name: "pixel letters",
  app: "pixel",
  shapes: [
    pixelPost("forty events that are refused", (_, n) => ({
      ...{ cid, did: `${run}${n}`, events: list(40, () => ({ t: "click" })) },
    })),
    pixelPost("a body that is no JSON", () => "{"),
    pixelPost("noise that is no JSON", (random) => noise(random, 60_000)),
  ],
});

const pixelImage = ({ clientId: cid, run }: World): Door => {
  const image = (what: string, query: (random: Random) => string): Shape => ({
    what,
    make: (random, n) => ({ method: "GET", path: `/e?t=x&cid=${cid}&did=${run}${n}&${query(random)}` }),
  });
  return {
    name: "pixel image",
    app: "pixel",
    shapes: [
      image("a tiny event of a new device each", () => ""),
      image("short e-mails", (random) => `p.a=${mails(random, 600)}`),
      image("noise", (random) => `p.a=${noise(random, 8_000)}`),
      image("letters that are escaped in JSON", () => `p.a=${"%01".repeat(2_500)}`),
    ],
  };
};

const recordings = ({ clientId: cid, run, ticket }: World): Door => {
  const chunk = (what: string, events: (random: Random) => readonly object[], chunksOfVisit: number): Shape => ({
    what,
    make: (random, n) => ({
      ...{ method: "POST", path: "/replay", headers: { "content-type": "text/plain" } },
      body: JSON.stringify({
        ...{ cid, did: `${run}${Math.floor(n / chunksOfVisit)}`, consent: 255, seq: n % chunksOfVisit, ticket },
        ...{ sid: `${run}-visit-${Math.floor(n / chunksOfVisit)}`, page: "0123456789abcdef", events: events(random) },
      }),
    }),
  });
  const event = (data: object) => ({ type: 4, timestamp: Date.now(), data });
  return {
    name: "recordings",
    app: "pixel",
    shapes: [
      chunk("noise", (random) => [event({ a: noise(random, 100_000) })], 100),
      // Behind the other one, because it takes all visits that a network may begin in a day.
      chunk("a tiny chunk of a new visit each", () => [event({})], 1),
    ],
  };
};

const links = ({ code }: World): Door => {
  const visit = (what: string, query: (random: Random) => string, more: HeadersOf = () => ({})): Shape => ({
    what,
    make: (random) => ({
      ...{ method: "GET", path: `/c/${code}${query(random)}`, headers: { "user-agent": AGENT, ...more(random) } },
    }),
  });
  return {
    name: "links",
    app: "links",
    shapes: [
      visit("a plain visit", () => ""),
      visit("short e-mails in the query", (random) => `?a=${mails(random, 900)}`),
      visit("noise in the query", (random) => `?a=${noise(random, 8_000)}`),
      visit(
        "noise in the referrer",
        () => "",
        (random) => ({ referer: `https://a.b/${noise(random, 8_000)}` }),
      ),
    ],
  };
};
type HeadersOf = (random: Random) => Readonly<Record<string, string>>;

const payload = ({ clientId, source }: World) => {
  const path = `/postback/generic?client_id=${clientId}&source=${source}`;
  return (what: string, body: (random: Random, n: number) => unknown): Shape => ({
    what,
    make: (random, n) => {
      const given = body(random, n);
      return { method: "POST", path, headers: json, body: typeof given === "string" ? given : JSON.stringify(given) };
    },
  });
};

const generic = (world: World): Door => {
  const [post, { run }] = [payload(world), world];
  return {
    name: "generic",
    app: "ingest",
    shapes: [
      post("a tiny payload", (_, n) => ({ e: "x", id: `${run}${n}` })),
      post("a mapped address of short e-mails", (random, n) => ({
        ...{ e: "x", id: `${run}-m${n}`, url: `https://a.b/?${mails(random, 200)}` },
      })),
      post("a mapped address of noise", (random, n) => ({
        ...{ e: "x", id: `${run}-u${n}`, url: `https://a.b/${noise(random, 2_000)}` },
      })),
      post("noise that is not mapped", (random, n) => ({ e: "x", id: `${run}-n${n}`, a: noise(random, 60_000) })),
      post("the same payload again and again", () => ({ e: "x", id: run })),
    ],
  };
};

const genericLetters = (world: World): Door => {
  const post = payload(world);
  return {
    name: "generic letters",
    app: "ingest",
    shapes: [
      post("a tiny payload that is refused", (_, n) => ({ n })),
      post("noise that is refused", (random) => ({ a: noise(random, 60_000) })),
      post("noise that is no JSON", (random) => noise(random, 60_000)),
    ],
  };
};

/** A credential is missing or wrong: nothing may be kept of the request. */
const refusing = ({ clientId, run }: World): readonly Door[] => {
  const door = (name: string, app: Door["app"], ask: (random: Random, n: number) => HostileRequest): Door => ({
    ...{ name, app, shapes: [{ what: "noise without a right", make: ask }] },
  });
  const bearer = (random: Random, kind: string) => ({ authorization: `Bearer trb_${kind}_${noise(random, 43)}` });
  const body = (random: Random) => JSON.stringify({ a: noise(random, 8_000) });
  return [
    door("external, wrong key", "ingest", (random) => ({
      ...{ method: "POST", path: `/postback/external/demo-network?key=${noise(random, 43)}`, headers: json },
      body: body(random),
    })),
    door("stripe, wrong signature", "ingest", (random) => ({
      ...{ method: "POST", path: `/postback/stripe?client_id=${clientId}` },
      headers: { ...json, "stripe-signature": `t=${Math.floor(Date.now() / 1_000)},v1=${noise(random, 64)}` },
      body: body(random),
    })),
    door("batch, wrong token", "ingest", (random) => ({
      ...{ method: "POST", path: "/ingest/batch", headers: { ...json, ...bearer(random, "ingest") } },
      body: body(random),
    })),
    door("upload, wrong token", "ingest", (random) => ({
      ...{ method: "PUT", path: `/upload/${clientId}/1/${noise(random, 40)}.csv`, headers: bearer(random, "upload") },
      body: body(random),
    })),
    door("parts, wrong token", "upload", (random) => ({
      ...{
        method: "PUT",
        path: "/parts/upl_00000000-0000-4000-8000-000000000000/1",
        headers: bearer(random, "upload"),
      },
      body: body(random),
    })),
    door("lead, wrong signature", "api", (random) => ({
      ...{ method: "POST", path: `/api/pixel/lead-submission?client_id=${clientId}` },
      headers: { ...json, "x-svc-signature": noise(random, 64) },
      body: body(random),
    })),
    door("invitations", "api", (random, n) =>
      n % 2 === 0
        ? { method: "GET", path: `/api/invitations/verify?token=${noise(random, 2_000)}` }
        : {
            ...{ method: "POST", path: "/api/client-invitations/accept", headers: json },
            body: JSON.stringify({ token: noise(random, 43), name: `${run} ${noise(random, 2_000)}` }),
          },
    ),
    door("alerts, wrong token", "api", (random) => ({
      ...{ method: "POST", path: "/api/admin/system-alert", headers: { ...json, ...bearer(random, "service") } },
      body: body(random),
    })),
  ];
};

const batch = ({ clientId: cid, token, run }: World): Door => {
  const post = (what: string, count: number, one: (random: Random, place: string) => object): Shape => ({
    what,
    make: (random, n) => ({
      ...{ method: "POST", path: "/ingest/batch", headers: { ...json, authorization: `Bearer ${token}` } },
      body: JSON.stringify({ events: list(count, (at) => ({ cid, ts: Date.now(), ...one(random, `${n}-${at}`) })) }),
    }),
  });
  return {
    name: "batch",
    app: "ingest",
    shapes: [
      post("tiny events of a new device each", 1_000, (_, place) => ({ t: "install", did: `${run}${place}` })),
      post("short e-mails", 10, (random, place) => ({
        ...{ t: "install", did: `${run}${place}`, props: { a: mails(random, 900) } },
      })),
      post("tiny events of one device", 1_000, (_, place) => ({ t: "install", did: run, event_id: place })),
      post("sales", 300, (_, place) => ({
        ...{ t: "purchase", did: `${run}${place}` },
        props: { order_id: `${run}${place}`, revenue: "1", product_id: "a", quantity: 1 },
      })),
      post("noise", 4, (random, place) => ({
        t: "install",
        did: `${run}${place}`,
        props: { a: noise(random, 60_000) },
      })),
      post("letters under personal keys", 4, (random, place) => ({
        ...{ t: "install", did: `${run}${place}`, props: { a: personal(random, 900) } },
      })),
      post("events that are refused", 1_000, () => ({ t: "install" })),
    ],
  };
};

/**
 * Dead letters are tried again a minute later, which would count for what is sent then: their doors
 * are the last.
 */
export const doorsOf = (world: World): readonly Door[] => [
  ...refusing(world),
  recordings(world),
  links(world),
  pixelEvents(world),
  pixelImage(world),
  generic(world),
  batch(world),
  genericLetters(world),
  pixelLetters(world),
];
