// Decides that an identifier does not belong to a device: shows the device's links first, and
// decides with --yes.
import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import type { Command } from "commander";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf, beginOperation } from "../../../../modules/base/operations/operations.ts";
import { type IdentityLink, linksOfDevice, recordUnlink } from "../../../../modules/privacy/persons/unlink.ts";
import { withAudit } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";

interface UnlinkOptions {
  readonly client: string;
  readonly device: string;
  readonly identifier?: string;
  readonly reason: string;
  readonly actor?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}
const HASH = /^[0-9a-f]{64}$/;
const time = (at: number | null): string => (at === null ? "" : new Date(at).toISOString());

const showEdges = (edges: readonly IdentityLink[]): void =>
  print(
    table(
      ["kind", "identifier", "method", "sure", "evidence", "last seen", "holds until", "unlinked", "other devices"],
      edges.map((edge) => [
        ...[edge.kind, edge.identifier, edge.method, `${edge.confidence} %`, edge.evidence_event_id],
        ...[time(edge.last_seen), time(edge.expires_at), time(edge.unlinked_at), edge.other_devices],
      ]),
    ),
  );

const edgeNamed = (edges: readonly IdentityLink[], { identifier }: UnlinkOptions): IdentityLink => {
  const edge = edges.find((one) => one.identifier === identifier);
  if (edge === undefined) throw new UsageError(`--identifier: ${identifier} is none that is linked to this device`);
  return edge;
};

const unlink = (options: UnlinkOptions) =>
  withPool(async (pool) => {
    const { device: did, identifier, reason } = options;
    for (const [flag, text] of [
      ["--device", did],
      ["--identifier", identifier ?? did],
    ] as const)
      if (!HASH.test(text)) throw new UsageError(`${flag}: give it as events show it, 64 hex digits`);
    const { client_id } = await clientOf(pool, options.client);
    const edges = await transaction(pool, [client_id], (tx) => linksOfDevice(tx, client_id, did), { isReadOnly: true });
    if (edges.length === 0) throw new CommandRefused(`nothing is linked to the device ${did} of ${options.client}`);
    if (!options.json) showEdges(edges);
    const edge = identifier === undefined ? undefined : edgeNamed(edges, options);
    const decision_id = randomUUID();
    if (edge === undefined || !options.yes) {
      if (options.json) printJson({ decision_id, status: "not decided", edges });
      const missing = edge === undefined ? "name one of them with --identifier" : "add --yes to decide it";
      return tell(`nothing was decided; ${missing}`);
    }
    const actor = actorOf(options.actor);
    const target = `unlink ${edge.kind} ${edge.identifier} of device ${did}, client ${client_id}`;
    await withAudit(async (audit) => {
      const operation = await beginOperation(audit, { kind: "decision", actor, target, reason }, { decision_id });
      const said = { decision_id, client_id, did, kind: edge.kind, identifier: edge.identifier, reason };
      const unlinked = { ...said, actor: `operator:${userInfo().username}`, at: Date.now() };
      await transaction(pool, [client_id], (tx) => recordUnlink(tx, unlinked, edge));
      await operation.end("succeeded", { decision_id });
    });
    if (options.json) printJson({ decision_id, status: "accepted" });
    else print(`accepted: decision ${decision_id}`);
    tell("sales keep the credit that they have: tributary decide take-back or reattribute changes it");
  });

export const unlinkCommand = (decisions: Command): void => {
  decisions
    .command("unlink")
    .description("takes an identifier from a device: they belong to different people")
    .requiredOption("--client <slug or id>", "whose visitor it is")
    .requiredOption("--device <hash>", "the device as events show it (did)")
    .option("--identifier <hash>", "what is taken from it; without it, what is linked is shown")
    .requiredOption("--reason <text>", "why, in words; kept with the decision")
    .option("--actor <e-mail>", "who decides, beside the account of this machine")
    .option("--yes", "decide it")
    .option("--json", "as JSON")
    .action(unlink);
};
