// The edges that this host serves: each file of edges/ is the HTTP of one edge of the topology, and
// has its name.
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
import type { AskClientFacts, EdgeFacts } from "../../modules/intake/path/facts.ts";
import type { HostPorts } from "../../modules/intake/path/host-edge.ts";
import type { Path } from "../../modules/intake/path/path.ts";
import type { LookUp } from "../../modules/intake/payment-notices/look-up.ts";
import type { Marks } from "../../modules/intake/payment-notices/marks.ts";
import type { Providers } from "../../modules/intake/payment-notices/provider-settings.ts";
import type { KeepPayload } from "../../modules/intake/sources/payloads.ts";
import type { OpenSources } from "../../modules/intake/sources/source-picture.ts";
import type { AnyEdge } from "../../stream/flow.ts";
import { edgesOf } from "../../stream/topology.ts";

export interface UploadPorts {
  readonly authenticate: EdgeParts["authenticate"];
  readonly pool: Pool;
  readonly objects: Pick<Objects, "put">;
  readonly reference: () => Reference | undefined;
}

export interface EdgeParts extends HostPorts {
  readonly authenticate: (request: IncomingMessage, address: string) => Token;
  /** Of uploads: what a partner sends, and where its files are kept. */
  readonly uploads: UploadPorts;
  /** Of a key that may send `requestsAMinute`. */
  readonly limit: (key: string, requestsAMinute: number) => Promise<Verdict>;
  readonly facts: EdgeFacts;
  /** What batch ids are proven with. */
  readonly batchIdKey: Buffer;
  /** Of a client by its id, for what names it in its address. */
  readonly clientFacts: AskClientFacts;
  readonly processors: Providers;
  /** What a payment is by now, at the API of its processor. */
  readonly lookUp: LookUp;
  readonly sources: OpenSources;
  readonly keepPayload: KeepPayload;
  /** Of notices that were taken already. */
  readonly marks: Marks;
  /** What dead letters are sealed under. */
  readonly keyring: Keyring;
  readonly path: Pick<Path, "store" | "expectRoom">;
  readonly count: (counts: RequestCounts) => void;
}
type Answer = (request: Request, response: Response) => Promise<void>;
/** What a file of edges/ exports as `open`. */
export type OpenEdge = (parts: EdgeParts) => Answer;
type DirectAnswer = (visit: Visit) => Promise<void>;
/** What it exports as `openDirect` instead, where Express would be most of a request's cost. */
export type OpenDirect = (parts: EdgeParts) => DirectAnswer;
interface EdgeFile {
  readonly open?: OpenEdge;
  readonly openDirect?: OpenDirect;
}
/** It has one of the two. */
export interface EdgeRoute extends Pick<AnyEdge, "name" | "on"> {
  readonly answer: Answer | undefined;
  readonly direct: DirectAnswer | undefined;
}

/** `.ts` where the sources run, `.js` where they are compiled. */
const EXTENSION = extname(fileURLToPath(import.meta.url));
const folder = new URL("./edges/", import.meta.url);

/** Throws when a file has the name of no edge of the topology. */
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
