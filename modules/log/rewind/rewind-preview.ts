// Previews a rewind: its offsets and gaps, why it may be forbidden, and what is written again.
import type { Topology } from "../../../stream/flow.ts";
import { planRewind, type RewindPorts, type RewindRequest, refusal } from "./rewind.ts";

type RewindPlanned = Awaited<ReturnType<typeof planRewind>>;
export interface RewindPreview extends RewindPlanned {
  /** Why it is refused; null when it is allowed. */
  readonly problem: string | null;
  /** What the stages and sinks write again, one sentence each. */
  readonly rewrites: readonly string[];
}

export const previewRewind = async (
  ports: Pick<RewindPorts, "admin" | "appendedAt" | "forbidden">,
  topology: Topology,
  request: Omit<RewindRequest, "actor"> & { readonly nodes: readonly string[] },
): Promise<RewindPreview> => {
  const { plan, gaps } = await planRewind(ports, request);
  const problem = await refusal(ports, request, plan, gaps);
  return { plan, gaps, problem, rewrites: rewritesOf(topology, request.nodes) };
};

const rewritesOf = (topology: Topology, nodes: readonly string[]): readonly string[] =>
  nodes.flatMap((name) => {
    const node = topology.nodes.find((one) => one.name === name);
    if (node === undefined || node.is === "edge") return [];
    if (node.is === "sink")
      return [`${name} writes the same rows again into ${node.into.store} ${node.into.name}, which count once`];
    const inside = nodes
      .map((other) => topology.nodes.find((one) => one.name === other))
      .flatMap((one) => (one?.is === "stage" ? [one.from.name] : []));
    const out = Object.values(node.to).flatMap((topic) => (inside.slice(1).includes(topic.name) ? [] : [topic.name]));
    if (node.memory?.driver === "durable")
      return [
        `${name} answers each event with its recorded outcome, makes no new decision, and writes it ` +
          `again to ${out.join(", ")}`,
      ];
    return out.length === 0 ? [] : [`${name} writes the same events again to ${out.join(", ")}, under the same ids`];
  });
