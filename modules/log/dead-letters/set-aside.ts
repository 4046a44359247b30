// Moves one record that stops its reader into the dead letters. This is the only operation that
// moves an offset forward, and it is audited (docs/design/laws.md L5).
import { hit } from "#failpoint";
import { placeOf } from "../../../infra/kafka/kafka.ts";
import { deadLetterOf } from "../../../stream/dead-letters.ts";
import type { AnyTopic, Position, Recorded } from "../../../stream/flow.ts";
import type { Memories } from "../../../stream/memory/memory.ts";
import type { InputMessage, Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { UnreadableRecord } from "../../../stream/wire.ts";
import { beginOperation, resumeOperation } from "../../base/operations/operations.ts";
import { openHolds } from "../groups/group-holds.ts";
import { untilEmpty } from "../rewind/group-offsets.ts";
import type { Hold, Holds } from "../rewind/hold.ts";
import { type FoundGroup, findGroup, RewindRefused, type RewindSources } from "../rewind/rewind-ports.ts";
import { SET_ASIDE } from "./letter.ts";

export interface AsidePorts extends RewindSources {
  /** Opened for the topics that the pipeline reads. */
  readonly wire: Wire;
  readonly produce: Produce;
  readonly memories: Memories;
  readonly onStep?: (text: string) => void;
}
export interface AsideRequest {
  readonly stage: string;
  readonly place: Position;
  readonly actor: string;
  readonly reason: string;
}
export interface SetAsideInput {
  readonly hosting: FoundGroup;
  readonly record: InputMessage;
  /** Undefined: the record cannot be decoded. */
  readonly event: Recorded<any> | undefined;
  readonly to: string;
}

export interface SetAside {
  readonly operation: string;
  readonly group: string;
  /** Null: an earlier run of the command had written the letter. */
  readonly to: string | null;
  readonly event: Recorded<any> | undefined;
}

/**
 * Returns the record that would be set aside. Throws RewindRefused for any record but the one at
 * which the group stands.
 */
export const planAside = async (
  ports: AsidePorts,
  { stage, place }: Pick<AsideRequest, "stage" | "place">,
): Promise<SetAsideInput> => {
  const { admin, kafka, topology, wire } = ports;
  const hosting = await findGroup(ports, stage);
  const { topic, partition, offset } = place;
  if (hosting.topic !== topic)
    throw new RewindRefused(`${stage} is hosted in ${hosting.group}, which reads ${hosting.topic} and not ${topic}`);
  const marks = (await admin.watermarks(topic)).find((mark) => mark.partition === partition);
  if (marks === undefined) throw new RewindRefused(`${topic} has no partition ${partition}`);
  const stands = (await admin.committed(hosting.group, topic)).get(partition) ?? marks.low;
  if (stands !== offset)
    throw new RewindRefused(
      `${hosting.group} stands at ${topic}/${partition}@${stands}, and only the record at which it ` +
        "stands can be set aside",
    );
  const record = (await kafka.pick([place])).get(placeOf(place));
  if (record === undefined)
    throw new RewindRefused(`the log holds no record at ${placeOf(place)}: the group waits for the next one`);
  const read = topology.nodes.find((node) => node.is !== "edge" && node.from.name === topic)!;
  const event = readable(wire, (read as { readonly from: AnyTopic }).from, record, place);
  return { hosting, record, event, to: topology.deadLetters(event) };
};

const readable = (wire: Wire, topic: AnyTopic, { value }: InputMessage, place: Position): Recorded<any> | undefined => {
  try {
    return wire.decode(topic, value, place);
  } catch (error) {
    if (error instanceof UnreadableRecord || (error as { schemaId?: number }).schemaId !== undefined) return undefined;
    throw error;
  }
};

/**
 * Sets the record aside. A crash after any step is repaired by running the same command again:
 * 1. Write the audit, then the hold. A crash leaves an operation without an end, and the group
 * stays left until the command runs again or the group is released.
 * 2. Once the group is empty, write the record to the dead letters. Written twice it is still one
 * letter, because the letter's id is made of the record.
 * 3. Advance the memory marks of the stages, which would otherwise take the gap for lost memory. A
 * mark ahead of its offset is also what a stage leaves that dies before it commits.
 * 4. Advance the offset by one, read it back and compare. The group then stands behind the record,
 * and the command has nothing more to set aside.
 * 5. End the hold, so that the workers join again.
 */
export const setAside = async (ports: AsidePorts, request: AsideRequest): Promise<SetAside> => {
  const { admin, pool, audit, onStep } = ports;
  const { place, actor, reason } = request;
  const holds = openHolds(pool);
  const hosting = await findGroup(ports, request.stage);
  const { group } = hosting;
  return holds.alone(group, async () => {
    const plan = { kind: "set_aside" as const, actor, target: `${group} ${placeOf(place)}`, reason };
    const held = await holds.of(group);
    if (held !== null) refuseOtherHold(held, place);
    // The command died after the offset had moved: only the hold is left to end.
    if (held !== null && (await admin.committed(group, place.topic)).get(place.partition) === place.offset + 1) {
      await resumeOperation(audit, held.operation, plan).end("succeeded", { group, ...place });
      await holds.end(held.operation);
      return { operation: held.operation, group, to: null, event: undefined };
    }
    const operation =
      held === null
        ? await beginOperation(audit, plan, { group, ...place })
        : resumeOperation(audit, held.operation, plan);
    if (held === null) await holds.take(holdOf(group, operation.id, request));
    try {
      onStep?.(`${group} is held; waiting until its workers have left it`);
      await untilEmpty(ports, group);
      // Plans again, now that the group is empty and nothing can move it.
      const aside = await planAside(ports, request);
      await moveBehind(ports, request, hosting, aside);
      await operation.end("succeeded", { group, ...place, letter_in: aside.to });
      await holds.end(operation.id);
      onStep?.("the workers join again");
      return { operation: operation.id, group, to: aside.to, event: aside.event };
    } catch (error) {
      const isRefused = error instanceof RewindRefused;
      await operation.end(isRefused ? "refused" : "failed", { problem: (error as Error).message });
      // A refusal has moved nothing. After any other error the group stays held, and the same
      // command continues.
      if (isRefused) await holds.end(operation.id);
      throw error;
    }
  });
};

/** Throws RewindRefused unless the hold belongs to an earlier run of the same command. */
const refuseOtherHold = ({ group, operation, kind, plan }: Hold, place: Position): void => {
  // A hold that an earlier release wrote does not name its record.
  const open = plan?.to ?? placeOf(place);
  if (kind === "set_aside" && open !== placeOf(place))
    throw new RewindRefused(
      `${group} is held by ${operation}, which sets ${open} aside; run that again, or: tributary ` +
        `groups release ${group}`,
    );
  if (kind !== "set_aside")
    throw new RewindRefused(
      `${group} is held by ${operation} (${kind}); end that first, or: tributary groups release ${group}`,
    );
};

const holdOf = (
  group: string,
  operation: string,
  { place, actor, reason }: AsideRequest,
): Parameters<Holds["take"]>[0] => ({
  group,
  operation,
  kind: "set_aside",
  actor,
  reason,
  plan: { topic: place.topic, to: placeOf(place), partitions: [] },
});

/** Steps 2 to 4: writes the letter, then moves the marks and the offset behind the record. */
const moveBehind = async (
  ports: AsidePorts,
  { place, reason }: Pick<AsideRequest, "place" | "reason">,
  { group, nodes }: FoundGroup,
  { to, record }: SetAsideInput,
): Promise<void> => {
  const { admin, produce } = ports;
  const { topic, partition, offset } = place;
  const { key, value, headers } = record;
  const letter = deadLetterOf(
    { to, stage: nodes[0]!, code: SET_ASIDE, message: reason, position: place, key, value, headers },
    Date.now(),
  );
  await produce([letter]);
  hit("aside-produced");
  await moveMarks(ports, nodes, place);
  await admin.setOffsets(group, topic, new Map([[partition, offset + 1]]));
  const now = (await admin.committed(group, topic)).get(partition);
  if (now !== offset + 1)
    throw new Error(
      `${topic}/${partition} of ${group} stands at ${now} and not at ${offset + 1}; run the same command again`,
    );
};

/**
 * Advances a mark only where memory reaches up to the record. A mark further back shows that memory
 * was lost, and must keep showing it.
 */
const moveMarks = async (
  { memories, topology }: AsidePorts,
  nodes: readonly string[],
  { topic, partition, offset }: Position,
): Promise<void> => {
  for (const node of topology.nodes) {
    if (node.is !== "stage" || node.memory === undefined || !nodes.includes(node.name)) continue;
    const memory = memories[node.memory.driver];
    const { mark } = await memory.load({ stage: node.name, keys: [], eventIds: [], topic, partition });
    if ((mark ?? 0) < offset) continue;
    await memory.remember([
      { stage: node.name, topic, partition, mark: offset + 1, changes: [], met: [], outcomes: [], forgets: [] },
    ]);
  }
};
