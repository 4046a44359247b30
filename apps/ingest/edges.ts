// The edges that this host serves. Each file of edges/ has the name of one edge of the topology and
// handles its HTTP.
import { readdirSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { basename, extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Request, Response } from "express";
import type { Pool } from "pg";
import type { Reference } from "../../domain/reference/reference.ts";
import { edges } from "../../edges.ts";
import type { Visit } from "../../infra/http/direct/direct-host.ts";
import type { Verdict } from "../../infra/http/rate-limit.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import type { Token } from "../../modules/access/tokens/tokens.ts";
import type { AskClientFacts, AwaitInForce, EdgeFacts } from "../../modules/intake/path/facts.ts";
import type { HostPorts } from "../../modules/intake/path/host-edge.ts";
import type { Path } from "../../modules/intake/path/path.ts";
import type { LookUp } from "../../modules/intake/payment-notices/look-up.ts";
import type { Marks } from "../../modules/intake/payment-notices/marks.ts";
import type { Providers } from "../../modules/intake/payment-notices/provider-settings.ts";
import type { Quotas } from "../../modules/intake/quotas/quotas.ts";
import type { KeepPayload } from "../../modules/intake/sources/payloads.ts";
import type { OpenSources } from "../../modules/intake/sources/source-picture.ts";
import type { AnyEdge } from "../../stream/flow.ts";
import { edgesOf } from "../../stream/topology.ts";

export interface UploadPorts {
  readonly authenticate: EdgeParts["authenticate"];
  readonly pool: Pool;
  readonly objects: Pick<Objects, "put">;
  readonly reference: () => Reference | undefined;
  readonly inForce: AwaitInForce;
}

export interface EdgeParts extends HostPorts {
  readonly authenticate: (request: IncomingMessage, address: string) => Promise<Token>;
  /** The ports of partners' uploads. */
  readonly uploads: UploadPorts;
  /** Takes a place of a key that may send `requestsAMinute`. */
  readonly limit: (key: string, requestsAMinute: number) => Promise<Verdict>;
  readonly facts: EdgeFacts;
  /** The key that signs batch ids. */
  readonly batchIdKey: Buffer;
  /** Looks a client up by its id, for edges whose address names the client. */
  readonly clientFacts: AskClientFacts;
  readonly inForce: AwaitInForce;
  readonly processors: Providers;
  /** Reads the current state of a payment at the API of its provider. */
  readonly lookUp: LookUp;
  readonly sources: OpenSources;
  readonly keepPayload: KeepPayload;
  readonly quotas: Pick<Quotas, "spend">;
  /** Marks of notices that were taken before. */
  readonly marks: Marks;
  /** Seals dead letters. */
  readonly keyring: Keyring;
  readonly path: Pick<Path, "store" | "expectRoom">;
  readonly count: (counts: RequestCounts) => void;
}
type Answer = (request: Request, response: Response) => Promise<void>;
/** The type of `open` in a file of edges/. */
export type OpenEdge = (parts: EdgeParts) => Answer;
type DirectAnswer = (visit: Visit) => Promise<void>;
/** The type of `openDirect`, for an edge where Express would be most of the cost of a request. */
export type OpenDirect = (parts: EdgeParts) => DirectAnswer;
interface EdgeFile {
  readonly open?: OpenEdge;
  readonly openDirect?: OpenDirect;
}
/** Exactly one of `answer` and `direct` is given. */
export interface EdgeRoute extends Pick<AnyEdge, "name" | "on"> {
  readonly answer: Answer | undefined;
  readonly direct: DirectAnswer | undefined;
}

/** `.ts` when the sources run, `.js` when they are compiled. */
const EXTENSION = extname(fileURLToPath(import.meta.url));
const folder = new URL("./edges/", import.meta.url);

/** Throws for a file whose name is that of no edge. */
export const openEdges = async (parts: EdgeParts): Promise<readonly EdgeRoute[]> => {
  const names = readdirSync(folder)
    .filter((file) => extname(file) === EXTENSION)
    .map((file) => basename(file, EXTENSION));
  return Promise.all(
    names.map(async (name) => {
      const edge = edgesOf(edges).find((one) => one.name === name);
      if (edge === undefined) throw new Error(`apps/ingest/edges/${name}: ${edges.name} has no edge of this name`);
      const file = (await import(new URL(`${name}${EXTENSION}`, folder).href)) as EdgeFile;
      return { name, on: edge.on, answer: file.open?.(parts), direct: file.openDirect?.(parts) };
    }),
  );
};
