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
        file: "processors/settle/copies/merge-line.ts",
        find: "if (isRejected(first) !== isRejected(copy)) return COPY_REJECTED;",
        plant: "if (isRejected(first) && first === copy) return COPY_REJECTED;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 31",
    says: "nothing records that another order had the id when the second one came",
    laws: ["R15"],
    edits: [
      {
        file: "stream/fold.ts",
        find: "partition === event.position.partition) return;",
        plant: "partition >= 0) return;",
      },
    ],
    test: { files: ["tests/processors/taken-ids.test.ts"], named: "what had been written is written again" },
  },
  {
    number: "rule 6",
    says: "another partner claims another product of the order, and nothing is held",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/settle.ts",
        find: "return isClaimedByAnother(order, row) ? DISPUTED : null;",
        plant: "return order.lines.length > 100 && isClaimedByAnother(order, row) ? DISPUTED : null;",
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
        find: "if (copied.length === 1 && !isOfTotal) return",
        plant: "if (copied.length < 1_000 && !isOfTotal) return",
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
  {
    number: "rule 24",
    says: "a backfill that moves no money closes a conversion that earns",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/decisions/reprocess.ts",
        find: "  !line.earns_nothing &&",
        plant: "  line.earns_nothing &&",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 27",
    says: "a page's clock dates the money of an hour before its receipt",
    laws: ["M3"],
    edits: [
      {
        file: "domain/money-time.ts",
        find: "const CLIENT_CLOCK_MS = 10 * 60_000;",
        plant: "const CLIENT_CLOCK_MS = 61 * 60_000;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 28",
    says: "lines come to a total that is three minor units a line away",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/totals/worth.ts",
        find: "export const TOLERANCE_MINOR = 2n;",
        plant: "export const TOLERANCE_MINOR = 3n;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 30",
    says: "a copy under review after a clean one holds nothing",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/copies/merge-line.ts",
        find: 'if (copy.fraud.band === "review") return "fraud_review";',
        plant: 'if (copy.fraud.band === "review" && copy === first) return "fraud_review";',
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 32",
    says: "a sale that comes late and is the first one ends the months of none",
    laws: ["M3"],
    edits: [
      {
        file: "processors/commission/customer/first-sale.ts",
        find: "(one) => losesBy(one, since)",
        plant: '(one) => one.conversion_id === "" && losesBy(one, since)',
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 34",
    says: "a line that leaves its order takes the amounts of the order with it",
    laws: ["M3"],
    edits: [
      {
        file: "processors/commission/orders/order-move.ts",
        find: "of movedBy(before.lines, gone)) {",
        plant: "of movedBy(before.lines, gone).slice(100)) {",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 35",
    says: "an older amount of a server replaces a newer one",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/copies/merge-line.ts",
        find: "if (isUnnamed(copy) || (isOlder && !isMoneyOfPartner(line, first))) return false;",
        plant: "if (isUnnamed(copy)) return false;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 35: partner",
    says: "a partner's file amends the amount that a server of the client has sent",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/copies/segment.ts",
        find: 'by_partner ?? source === "upload";',
        plant: "by_partner === true;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 35: segment",
    says: "a partner names the segment of a sale that the client's own systems report",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/copies/segment.ts",
        find: 'const isVoid = by === "partner" && client_spoke;',
        plant: "const isVoid = false;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 35: late segment",
    says: "a partner keeps its contract where the client's own systems name the segment after 48 hours",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/copies/merge-line.ts",
        find: "const isOtherSegment = product_line !== first.event.product_line;",
        plant: "const isOtherSegment = false;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 37",
    says: "a line that was wholly given back still holds the claim of another partner",
    laws: ["M7"],
    edits: [
      {
        file: "processors/settle/order.ts",
        find: "if (value_minor === 0n || is_returned) return [];",
        plant: "if (value_minor === 0n) return [];",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
  {
    number: "rule 39",
    says: "two sources report refunds of one amount five days apart, and one is held",
    laws: ["M3"],
    edits: [
      {
        file: "processors/settle/refund.ts",
        find: "const TWINS_WITHIN_MS = 48 * 3_600_000;",
        plant: "const TWINS_WITHIN_MS = 120 * 3_600_000;",
      },
    ],
    test: { files: ["tests/processors/oracle/oracle.test.ts"], named: "the books agree with the accountant" },
  },
];
