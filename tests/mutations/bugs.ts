// Bugs that were planted on purpose, and the law that must catch each (docs/planted-bugs.md). A
// place that is gone fails the run: the bug must follow the code.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: texts of code, in which templates stand

/** The named tests must fail because of the bug: they pass without it. */
export interface ByTest {
  readonly files: readonly string[];
  /** A test with this text in its name must be among the failing ones. */
  readonly named: string;
}
/** Cycles on real servers; the law must be broken in one of them. */
export interface ByCycles {
  readonly faults: string;
  readonly cycles: number;
}
export interface Bug {
  readonly number: string;
  readonly says: string;
  readonly laws: readonly string[];
  /** A missing part of the product, without which there is no place for the bug. */
  readonly waitsFor?: string;
  readonly edits?: readonly { readonly file: string; readonly find: string; readonly plant: string }[];
  readonly test?: ByTest;
  readonly cycles?: ByCycles;
}

export const bugs: readonly Bug[] = [
  {
    number: "1",
    says: "offset committed before the sink has written",
    laws: ["C3", "C2"],
    edits: [
      {
        file: "stream/sink/sink-runner.ts",
        find: '  hit("before-write");',
        plant: '  await commit(turn, parts);\n  hit("before-write");',
      },
    ],
    cycles: { faults: "a sink dies", cycles: 6 },
  },
  {
    number: "2",
    says: "isCurrent not asked between steps",
    laws: ["I6"],
    edits: [
      {
        file: "stream/runner.ts",
        find: "if (!control.isCurrent()) return",
        plant: "if (control === undefined) return",
      },
    ],
    test: { files: ["tests/guarantees/order.test.ts"], named: "an owner that lost its partition" },
  },
  {
    number: "3",
    says: 'a "seen" set drops events before the sink',
    laws: ["R2"],
    edits: [
      {
        file: "sinks/stores/clickhouse.ts",
        find: "    if (rows.length === 0) return;\n    const block = kept.pop() ?? new Block();",
        plant:
          "    rows = rows.filter((row) => {\n      const { values } = row as unknown as PositionalRow;\n      " +
          "const id = `${values[1]} ${values[3]}`;\n      if (seenBefore.has(id)) return false;\n      " +
          "seenBefore.add(id);\n      return true;\n    });\n    if (rows.length === 0) return;\n    const " +
          "block = kept.pop() ?? new Block();",
      },
      {
        file: "sinks/stores/clickhouse.ts",
        find: "export const clickhouseStore =",
        plant: "const seenBefore = new Set<string>();\nexport const clickhouseStore =",
      },
    ],
    // A replay runs in a process of its own, which has seen nothing before the first one.
    cycles: { faults: "all tables emptied", cycles: 3 },
  },
  {
    number: "4",
    says: "version taken from the clock",
    laws: ["R9", "R3"],
    edits: [
      {
        file: "processors/attribute/attribute.ts",
        find: "version: 1,",
        plant: "version: Math.floor(Date.now() / 1000),",
      },
    ],
    test: { files: ["tests/topology/imports.test.ts"], named: "processors import nothing that reads a clock" },
  },
  {
    number: "5",
    says: "rewind target without min(committed)",
    laws: ["R10"],
    edits: [
      {
        file: "modules/log/rewind/rewind-plan.ts",
        find: "Math.min(found.committed, Math.max(wantedOf(to, found), found.low))",
        plant: "Math.max(wantedOf(to, found), found.low)",
      },
    ],
    test: { files: ["tests/stream/rewind-plan.test.ts"], named: "is never above what the group has committed" },
  },
  { number: "6", says: "payment and lines in two transactions", laws: ["M2", "M4"], waitsFor: "payments" },
  {
    number: "7",
    says: "one query forgets its client scope",
    laws: ["T5"],
    edits: [
      {
        file: "infra/clickhouse/query.ts",
        find: "`where (${query.from}.client_id in {scope:Array(UInt32)})`",
        plant: "`where (1 or ${query.from}.client_id in {scope:Array(UInt32)})`",
      },
    ],
    test: { files: ["tests/sinks/query.test.ts"], named: "the scope comes first" },
  },
  {
    number: "8",
    says: "commission in floating point",
    laws: ["M11"],
    edits: [
      {
        file: "domain/money.ts",
        find: "  const quotient = over / under;\n",
        plant:
          "  if (under > 0n) return BigInt(Math.round(Number(over) / Number(under)));\n  const quotient = " +
          "over / under;\n",
      },
    ],
    test: { files: ["tests/processors/money.test.ts"], named: "a half goes to the even one" },
    cycles: { faults: "one hot device", cycles: 3 },
  },
  {
    number: "9",
    says: "months cut in UTC",
    laws: ["M12"],
    edits: [
      {
        file: "domain/calendar.ts",
        find: 'const TIME_ZONE = "America/Mexico_City";',
        plant: 'const TIME_ZONE = "UTC";',
      },
    ],
    test: { files: ["tests/processors/calendar.test.ts"], named: "a month begins at 06:00Z on the 1st" },
  },
  {
    number: "10",
    says: "signature verified over re-serialised JSON",
    laws: ["signature"],
    edits: [
      {
        file: "domain/hmac.ts",
        find: ".update(bytes)",
        plant: ".update(JSON.stringify(JSON.parse(bytes.toString())))",
      },
    ],
    test: {
      files: ["tests/processors/signature.test.ts"],
      named: "the signature of the same JSON, written otherwise",
    },
  },
  {
    number: "11",
    says: "error while producing a dead letter swallowed",
    laws: ["C3"],
    edits: [
      {
        file: "stream/sink/sink-runner.ts",
        find: 'await ports.retry("produce", () => ports.produce(letters), heartbeat);',
        plant: 'await ports.retry("produce", () => ports.produce(letters), heartbeat).catch(() => undefined);',
      },
    ],
    test: {
      files: ["tests/stream/sink-runner.test.ts"],
      named: "a dead letter that cannot be written holds every offset",
    },
  },
  {
    number: "12",
    says: "an edge buffers without a cap",
    laws: ["L3"],
    edits: [
      {
        file: "infra/spool/spool.ts",
        find: "if (held.messages + messages.length > maxMessages || held.bytes + frame.length > maxBytes)",
        plant: "if (held.messages < 0)",
      },
    ],
    test: { files: ["tests/stream/spool.test.ts"], named: "beyond the bounds of messages or bytes is refused" },
  },
  {
    number: "13",
    says: "a retry makes a new event id",
    laws: ["I2", "C3"],
    edits: [
      {
        file: "processors/admit/event.ts",
        find: ": sentEventId(clientId, senderEventId)",
        plant: ": sentEventId(clientId, `${senderEventId} at ${terms.receivedAt}`)",
      },
    ],
    cycles: { faults: "kill the edge after", cycles: 3 },
  },
  {
    number: "14",
    says: "a dashboard reads an additive materialised view",
    laws: ["C7", "R1"],
    waitsFor: "dashboards",
  },
  {
    number: "14, of today",
    says: "rollups add up every stored row instead of reading the deduplicated ones",
    laws: ["C7"],
    edits: [{ file: "modules/figures/rollups/rollups.ts", find: "  from events_current\n", plant: "  from events\n" }],
    cycles: { faults: "a replay", cycles: 3 },
  },
  {
    number: "15",
    says: "a click id is believed without its MAC",
    laws: ["click id", "M11"],
    edits: [
      {
        file: "domain/click-id.ts",
        find: "key.format === bytes[0] && timingSafeEqual(macOf(head, key), mac)",
        plant: "key.format === bytes[0] && macOf(head, key).length + mac.length > timingSafeEqual.length",
      },
    ],
    test: { files: ["tests/processors/click-id.test.ts"], named: "a click id with any one bit changed is refused" },
    cycles: { faults: "one hot device", cycles: 3 },
  },
  {
    number: "next: origin",
    says: "state read without the event's own place in the log",
    laws: ["R13"],
    edits: [
      {
        file: "stream/memory/recall.ts",
        find:
          "const found = kept.versions.findLast(({ offset, eventId }) => offset < position.offset && " +
          "eventId !== id);",
        plant: "const found = kept.versions.findLast(({ eventId }) => eventId !== id);",
      },
    ],
    test: { files: ["tests/stream/fold.test.ts"], named: "an event meets the newest version older than itself" },
  },
  {
    number: "next: token",
    says: "the inserts of a replay bear tokens that an earlier replay has used",
    laws: ["R2"],
    edits: [
      {
        file: "modules/log/replays/replay-sinks.ts",
        find: "run: `${replay.replay_id}/${replay.attempts}`,",
        plant: 'run: "replay",',
      },
    ],
    test: { files: ["tests/keeper/replay-writes.test.ts"], named: "R2: rows that were lost come back" },
  },
  {
    number: "next: facts",
    says: "facts are read as they are now, not as they were known",
    laws: ["R11", "R1"],
    edits: [
      {
        file: "domain/reference/snapshot.ts",
        find: "if (row.recorded_at <= knownAt && row.valid_from <= validAt) return row;",
        plant: "if (knownAt > 0 && row.valid_from <= validAt) return row;",
      },
    ],
    test: {
      files: ["tests/processors/reference.test.ts"],
      named: "what was recorded after an event was received is unknown to it",
    },
  },
  {
    number: "rule 2",
    says: "an app's sale reads contracts of its own",
    laws: ["M7", "M10"],
    edits: [
      {
        file: "domain/reference/reference.ts",
        find: '(eventType === "ext_purchase" ? "purchase" : eventType)',
        plant: '(eventType === "" ? "purchase" : eventType)',
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 3",
    says: "a clean copy of a rejected sale is paid without a person",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/merge-line.ts",
        find: "if (isRejected(first) !== isRejected(copy)) return COPY_REJECTED;",
        plant: "if (isRejected(first) && first === copy) return COPY_REJECTED;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 6",
    says: "another partner claims another product of the order, and nothing is held",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/settle.ts",
        find: ": isClaimedByAnother(order, row)",
        plant: ": order.lines.length > 100 && isClaimedByAnother(order, row)",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 9",
    says: "what a refund exceeds its lines by eats lines that come weeks later",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/spread.ts",
        find: "all.filter(({ line }) => line.received_at <= closes),",
        plant: "all.filter(({ line }) => line.received_at > 0),",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 16",
    says: "what tiers earn by a sale under review is payable at once",
    laws: ["M3"],
    edits: [
      {
        file: "processors/commission/volume.ts",
        find: "const isHeld = sale.review !== null;",
        plant: 'const isHeld = sale.review === "";',
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 5",
    says: "tiers fill a cap though sales of other contracts have used it",
    laws: ["M3"],
    edits: [
      {
        file: "processors/commission/shares.ts",
        find: "larger(cap.amount_minor - othersIn(period),",
        plant: "larger(cap.amount_minor,",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 11",
    says: "an amount without a currency keeps its cents in a currency that has none",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/spread.ts",
        find: "divideHalfEven(minor * 10n ** BigInt(digits(currency)), 10n ** BigInt(digits(DEFAULT_CURRENCY)))",
        plant: "(digits(currency) === 9 ? 0n : minor)",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 12",
    says: "a refund that is moved to its line counts as received when it was moved",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/refund.ts",
        find: "received_at: data.moved?.received_at ?? receivedAt,",
        plant: "received_at: receivedAt,",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 14",
    says: "a copy of the whole order brings its amount to each line",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/settle.ts",
        find: "copied.length > 1 ? withoutGoods(copy) : copy",
        plant: "copied.length > 1_000 ? withoutGoods(copy) : copy",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 15",
    says: "one refund, reported for the order and for its lines, is taken twice",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/spread.ts",
        find: "return askedIn(asked) - before;",
        plant: "return before < 0n ? before : amount;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
];
