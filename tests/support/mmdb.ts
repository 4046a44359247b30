// A MaxMind database with a handful of IPv4 networks, made in memory in place of the operator's
// file.

type Value = string | number | { readonly [key: string]: Value } | readonly Value[];

const typed = (type: number, size: number): Buffer =>
  type <= 7
    ? size < 29
      ? Buffer.from([(type << 5) | size])
      : Buffer.from([(type << 5) | 29, size - 29])
    : Buffer.from([size, type - 7]);
const unsigned = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
/** The data types of the format that these tests need: texts, 32-bit numbers, maps and lists. */
const encode = (value: Value): Buffer => {
  if (typeof value === "string") return Buffer.concat([typed(2, Buffer.byteLength(value)), Buffer.from(value)]);
  if (typeof value === "number") return Buffer.concat([typed(6, 4), unsigned(value)]);
  if (Array.isArray(value)) return Buffer.concat([typed(11, value.length), ...value.map(encode)]);
  const entries = Object.entries(value as Readonly<Record<string, Value>>);
  return Buffer.concat([typed(7, entries.length), ...entries.flatMap(([key, held]) => [encode(key), encode(held)])]);
};

const marker = Buffer.concat([Buffer.from([0xab, 0xcd, 0xef]), Buffer.from("MaxMind.com")]);

/**
 * A database in which these networks (`"8.8.8.0/24"`) have these records. Its default build date is
 * 2026-06-01.
 */
export const mmdb = (networks: Readonly<Record<string, Value>>, built = "2026-06-01"): Buffer => {
  type Node = [Node | number | null, Node | number | null];
  const root: Node = [null, null];
  const records: Buffer[] = [];
  let offset = 0;
  for (const [range, record] of Object.entries(networks)) {
    const [address, length] = range.split("/");
    const bits = address!
      .split(".")
      .map((octet) => Number(octet).toString(2).padStart(8, "0"))
      .join("");
    let node = root;
    for (let n = 0; n < Number(length) - 1; n += 1) {
      const side = Number(bits[n]);
      node[side] ??= [null, null];
      node = node[side] as Node;
    }
    node[Number(bits[Number(length) - 1])] = offset;
    records.push(encode(record));
    offset += records.at(-1)!.length;
  }
  const nodes: Node[] = [root];
  for (const node of nodes) for (const side of node) if (Array.isArray(side)) nodes.push(side);
  const tree = Buffer.alloc(nodes.length * 6);
  const pointer = (side: Node | number | null): number =>
    side === null ? nodes.length : typeof side === "number" ? nodes.length + 16 + side : nodes.indexOf(side);
  for (const [n, [left, right]] of nodes.entries()) {
    tree.writeUIntBE(pointer(left), n * 6, 3);
    tree.writeUIntBE(pointer(right), n * 6 + 3, 3);
  }
  const metadata = encode({
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: Date.parse(built) / 1_000,
    database_type: "Test",
    description: { en: "made by a test" },
    ip_version: 4,
    languages: ["en"],
    node_count: nodes.length,
    record_size: 24,
  });
  return Buffer.concat([tree, Buffer.alloc(16), ...records, marker, metadata]);
};
