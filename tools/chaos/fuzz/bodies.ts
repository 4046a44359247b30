// Bodies that are expensive for a parser, a walk or a hash. Each is valid JSON, or nearly.

/** Numbers from 0 to 1, the same for the same seed. */
export type Random = () => number;
export interface HurtingBody {
  /** The attack in a few words. */
  readonly kind: string;
  readonly body: Buffer;
}
interface BodyInput {
  readonly random: Random;
  readonly clientId: number;
  readonly now: number;
}

export const between = (random: Random, from: number, to: number): number =>
  from + Math.floor(random() * (to - from + 1));
export const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
const short = (n: number): string => n.toString(36);
const objectOf = (count: number, key: (n: number) => string, value: (n: number) => string | number): string =>
  `{${Array.from({ length: count }, (_, n) => `${JSON.stringify(key(n))}:${value(n)}`).join(",")}}`;

/** The n-th piece of JSON of a body; each piece is a value. */
type Kind = (about: BodyInput) => (n: number) => string;

const shuffled = (random: Random, count: number): readonly number[] => {
  const order = Array.from({ length: count }, (_, n) => n);
  for (let n = count - 1; n > 0; n -= 1) {
    const other = between(random, 0, n);
    [order[n], order[other]] = [order[other]!, order[n]!];
  }
  return order;
};
const ofKeys =
  (most: number): Kind =>
  ({ random }) => {
    const count = between(random, 1, most);
    return (n) =>
      objectOf(
        count,
        (key) => `k${short(n * count + key)}`,
        () => 1,
      );
  };

const pieces: Readonly<Record<string, Kind>> = {
  "objects of a few keys, all different": ofKeys(5),
  "objects of many keys, all different": ofKeys(150),
  "objects at the limit of keys, all different": ofKeys(990),
  "one set of keys in every order": ({ random }) => {
    const count = between(random, 5, 200);
    return () => {
      const order = shuffled(random, count);
      return objectOf(
        count,
        (n) => `k${short(order[n]!)}`,
        () => 1,
      );
    };
  },
  "keys that are numbers":
    ({ random }) =>
    () =>
      objectOf(
        200,
        () => String(between(random, 0, 2 ** 32)),
        () => 1,
      ),
  "long keys with one beginning": () => (n) =>
    objectOf(
      20,
      (key) => `${"k".repeat(2_000)}${n}-${key}`,
      () => 1,
    ),
  "keys with escapes": () => (n) =>
    objectOf(
      60,
      (key) => `\u4e2d"${short(n * 60 + key)}`,
      () => 1,
    ),
  "short texts, all different": () => (n) => `["${short(n)}"]`,
  "texts of escapes alone": () => (n) => JSON.stringify(`\n\t"\\${n}`.repeat(100)),
  "unicode escapes": () => (n) => `"${"\\u4e2d".repeat(500)}${n}"`,
  "halves of surrogate pairs": () => (n) => `"${"\\ud83d".repeat(100)}${n}"`,
  "numbers of many digits":
    ({ random }) =>
    () =>
      `0.${"1234567890".repeat(between(random, 1, 2_000))}e-${between(random, 0, 999)}`,
  "numbers that need rounding":
    ({ random }) =>
    (n) =>
      `2.2250738585072011${n}e-308`.slice(0, between(random, 18, 30)),
  "deep lists":
    ({ random }) =>
    () => {
      const depth = between(random, 20, 5_000);
      return `${"[".repeat(depth)}${"]".repeat(depth)}`;
    },
  "deep objects":
    ({ random }) =>
    () => {
      const depth = between(random, 20, 900);
      return `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
    },
  "empty lists": () => () => "[]",
  "addresses of e-mail": () => (n) => JSON.stringify(`a${n}@example.com `.repeat(30)),
  "signs of e-mail alone": () => () => JSON.stringify("@%40".repeat(5_000)),
  "letters before a sign": () => (n) => JSON.stringify(`${"a".repeat(60_000)}@${n}`),
  "what is nearly a link": () => (n) => JSON.stringify(`https://${"a.".repeat(3_000)}/?${"a=%".repeat(3_000)}${n}`),
  "letters that grow when normalised": () => (n) => JSON.stringify(`${"\ufdfa".repeat(2_000)}${n}`),
  "accents to be put in order": () => (n) => JSON.stringify(`${n}${"\u0315".repeat(30_000)}${"\u0316".repeat(30_000)}`),
  "one key again and again": () => () => `{${'"a":1,'.repeat(500)}"a":2}`,
  nothing: () => () => "null",
};

/** Props with these names go through rules of their own. */
const NAMES = ["email", "phone", "name", "address", "order_id", "revenue", "currency", "svc_click_id", "url", "x"];

/** Values up to that size, separated by commas. */
const filled = (piece: (n: number) => string, bytes: number): string => {
  const all: string[] = [];
  for (let size = 0, n = 0; size < bytes; n += 1) {
    const next = piece(n);
    all.push(next);
    size += next.length + 1;
  }
  return all.join(",");
};
const eventOf = ({ clientId, now }: BodyInput, props: string, n = 0): string =>
  `{"t":"install","ts":${now - n},"cid":${clientId},"did":"d${n}","props":${props}}`;

/** The places for the pieces: a value that hurts in one place is refused in another. */
const places: Readonly<Record<string, (about: BodyInput, piece: (n: number) => string, bytes: number) => string>> = {
  "an event each": (about, piece, bytes) =>
    `{"events":[${filled((n) => eventOf(about, `{"x":${piece(n)}}`, n), bytes)}]}`,
  "the events themselves": (_about, piece, bytes) => `{"events":[${filled(piece, bytes)}]}`,
  "one event": (about, piece, bytes) => `{"events":[${eventOf(about, `{"x":[${filled(piece, bytes)}]}`)}]}`,
  "a name with a meaning": (about, piece, bytes) =>
    `{"events":[${eventOf(about, `{"${pick(about.random, NAMES)}":[${filled(piece, Math.min(bytes, 1_000_000))}]}`)}]}`,
  "a hundred events": (about, piece, bytes) =>
    `{"events":[${Array.from({ length: 100 }, (_, n) =>
      eventOf(about, `{"${pick(about.random, NAMES)}":${piece(n)},"x":[${filled(piece, bytes / 100)}]}`, n),
    ).join(",")}]}`,
  "beside the events": (about, piece, bytes) => `{"events":[${eventOf(about, "{}")}],"x":[${filled(piece, bytes)}]}`,
  "a list under another name": (_about, piece, bytes) => `{"event":[${filled(piece, bytes)}]}`,
  "a list of lists": (_about, piece, bytes) => `{"events":[[${filled(piece, bytes)}]]}`,
  "a second list of events": (about, piece, bytes) =>
    `{"events":[${filled(piece, bytes)}],"events":[${eventOf(about, "{}")}]}`,
};

/** The body unchanged, or with one error. */
const damages: readonly (readonly [string, (body: string, random: Random) => string])[] = [
  ["cut", (body, random) => body.slice(0, between(random, 0, body.length))],
  [
    "a byte changed",
    (body, random) => {
      const at = between(random, 0, body.length - 1);
      return (
        body.slice(0, at) + pick(random, ['"', "\\", "{", "}", "[", "]", ",", ":", "\0", "x"]) + body.slice(at + 1)
      );
    },
  ],
  ["spaces in front", (body, random) => `${" ".repeat(between(random, 1, 1_000_000))}${body}`],
  ["garbage behind", (body) => `${body}]}]}]}`],
];

/** At most about `bytes` long; every draw uses `random`. */
export const hurtingBody = (random: Random, bytes: number, clientId = 1, now = Date.now()): HurtingBody => {
  const about = { random, clientId, now };
  const [kind, piece] = pick(random, Object.entries(pieces));
  const [place, put] = pick(random, Object.entries(places));
  const whole = put(about, piece(about), bytes);
  const damage = random() < 0.15 ? pick(random, damages) : undefined;
  const body = damage === undefined ? whole : damage[1](whole, random);
  return { kind: `${kind} as ${place}${damage === undefined ? "" : `, ${damage[0]}`}`, body: Buffer.from(body) };
};
