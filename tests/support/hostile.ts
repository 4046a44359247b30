// Requests that a contract must refuse, made from the contract: bodies, queries and paths of every
// kind that has broken a server before.
import type { ServedRoute } from "../../apps/api/route.ts";
import { bodyFor, type Hints, namesIn, queryTextFor } from "./from-contract.ts";

export interface Hostile {
  /** A description for the person who reads the failure. */
  readonly what: string;
  readonly path: string;
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** The statuses that are allowed; with "any", every answer is fine as long as nothing breaks. */
  readonly expected: readonly number[] | "any";
  /** The place that one of the reported errors must name. */
  readonly pointer?: string;
}

/** Fields that would give rights or ownership if a body could set them. */
const rights = [
  ...["role", "client_id", "partner_id", "user_id", "id", "client_ids", "is_admin", "permissions"],
  ...["status", "created_at", "audit", "amount_minor"],
];
/** Values of types that no field expects, or at the limit of what a field takes. */
const values: readonly (readonly [name: string, value: unknown])[] = [
  ["an object", { x: [] }],
  ["a list in a list", [[]]],
  ["a negative fraction", -1.5],
  ["more than a double holds exactly", 2 ** 53],
  ["true", true],
  ["a formula of SQL", "' or 1=1; --"],
  ["a text of 70,000 characters", "x".repeat(70_000)],
];
/** JSON texts that no store can hold. */
const unstorable: readonly (readonly [name: string, json: string])[] = [
  ["NUL", String.raw`"a\u0000b"`],
  ["half a character", String.raw`"a\ud800b"`],
];
const wholeBodies: readonly (readonly [name: string, body: string | Uint8Array, statuses: readonly number[]])[] = [
  ["half of a JSON", '{"name":', [400]],
  ["no UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), [400]],
  ["a list", "[]", [400]],
  ["a number", "1", [400]],
  ["a text", '"text"', [400]],
  ["null", "null", [400]],
  ["__proto__", '{"__proto__":{"role":"admin"}}', [400]],
  ["constructor", '{"constructor":{"prototype":{"role":"admin"}}}', [400]],
  ["ten thousand levels", "[".repeat(10_000) + "]".repeat(10_000), [400]],
  ["ten thousand objects in another", '{"a":'.repeat(10_000) + "1" + "}".repeat(10_000), [400]],
  ["a hundred thousand elements", `{"no_such_field":[${"1,".repeat(99_999)}1]}`, [400]],
  ["a million elements", `{"no_such_field":[${"1,".repeat(999_999)}1]}`, [400, 413]],
];
const ids = [
  ...["0", "-1", "01", "1e3", "1.5", "2147483648", "99999999999999999999", "%00", "%ff", "%2e%2e%2f1", "__proto__"],
  ...["%F0%9D%9F%99", "%D9%A3", "a'b", "1%20or%201=1", "x".repeat(2_500)],
];
const filters = ["%00", "%ff", "%27%20or%201=1", "-1", "9".repeat(30), "__proto__", "x".repeat(5_000), "%ED%A0%80", ""];
const cursors = ["x", "e30", "..", "AAAAAAAAAAAAAAAAAAAAAFsiMSIsIjEiXQ", "x".repeat(1_999), "%00"];

/** `pathTo` is a path of the route to a row that does not exist. */
export const hostileAt = (route: ServedRoute, pathTo: string, hints: Hints): readonly Hostile[] => {
  const query = queryTextFor(route.contract.query, hints) ?? "";
  const path = query === "" ? pathTo : `${pathTo}?${query}`;
  return [
    ...(route.method === "GET" ? [] : hostileBodies(route, path, hints)),
    ...hostileQueries(route, pathTo, query),
    ...hostilePaths(route),
  ];
};

const hostileBodies = ({ contract }: ServedRoute, path: string, hints: Hints): readonly Hostile[] => {
  const good = (bodyFor(contract.body, hints) ?? {}) as Readonly<Record<string, unknown>>;
  const names = namesIn(contract.body);
  const json = { "content-type": "application/json" };
  const inside = JSON.stringify(good).slice(1, -1);
  const more = inside === "" ? "" : `,${inside}`;
  const faulty = (name: string, text: string): Omit<Hostile, "what"> => ({
    ...{ path, expected: [400], pointer: `/${name}`, body: text },
  });
  return [
    ...wholeBodies.map(([what, body, expected]) => ({ what, path, body, expected })),
    { what: "a key twice", ...faulty("qz", `{"qz":1,"qz":1${more}}`) },
    ...rights
      .filter((name) => !names.includes(name))
      .map((name) => ({ what: `${name} of no contract`, ...faulty(name, JSON.stringify({ ...good, [name]: 1 })) })),
    ...names.flatMap((name) => [
      ...values
        .filter(([, value]) => !contract.body.safeParse({ ...good, [name]: value }).success)
        .map(([what, value]) => ({
          ...{ what: `${name}: ${what}`, ...faulty(name, JSON.stringify({ ...good, [name]: value })) },
        })),
      ...unstorable.map(([what, value]) => {
        const { [name]: _, ...rest } = good;
        const others = JSON.stringify(rest).slice(1, -1);
        return { what: `${name}: ${what}`, ...faulty(name, `{"${name}":${value}${others && `,${others}`}}`) };
      }),
    ]),
    { what: "no JSON by its type", path, body: "{}", headers: { "content-type": "text/plain" }, expected: [415] },
    { what: "a version of nothing", path, body: "{}", headers: { ...json, "if-match": '"x"' }, expected: [400] },
    ...(contract.isIdempotent
      ? [
          {
            ...{ what: "a key of a request that is too long", path, body: JSON.stringify(good) },
            ...{ headers: { ...json, "idempotency-key": "k".repeat(129) }, expected: [400, 404] },
          },
        ]
      : []),
  ];
};

const hostileQueries = ({ contract }: ServedRoute, path: string, query: string): readonly Hostile[] => {
  const names = namesIn(contract.query);
  const base = query === "" ? "" : `&${query}`;
  const refused = (what: string, text: string, name: string): Hostile => ({
    ...{ what, path: `${path}?${text}`, expected: [400], pointer: `/${name}` },
  });
  return [
    refused("a parameter of no contract", `no_such=1${base}`, "no_such"),
    refused("__proto__ in the query", `__proto__=1${base}`, "__proto__"),
    ...names.map((name) => refused(`${name} twice`, `${name}=1&${name}=1`, name)),
    ...names.flatMap((name) =>
      filters.map(
        (value): Hostile => ({ what: `${name} ${value}`, path: `${path}?${name}=${value}`, expected: "any" }),
      ),
    ),
    ...(contract.list === undefined
      ? []
      : [
          ...["0", "101", "1e1", "-1", "abc", "%D9%A3"].map((limit) => refused("a limit", `limit=${limit}`, "limit")),
          refused("an order of nothing", "sort=nothing", "sort"),
          refused("an order by a statement", "sort=id%3Bdrop%20table%20clients", "sort"),
          ...cursors.map((cursor) => refused("a forged cursor", `cursor=${cursor}`, "cursor")),
        ]),
  ];
};

const hostilePaths = ({ path }: ServedRoute): readonly Hostile[] =>
  path.includes("/:")
    ? ids.map((id) => ({ what: `the id ${id}`, path: path.replace(/:\w+/g, id), expected: [400, 404] }))
    : [];
